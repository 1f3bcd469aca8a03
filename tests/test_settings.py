"""Settings from text: types, keys and what an error says."""

from dataclasses import dataclass
from typing import Literal

import pytest

from pellucid.settings import Choice, RecipeError, checked, coerce, fields_of, parse_value, unknown


@dataclass(frozen=True)
class Piece:
    count: int = 3
    share: float = 0.5
    mode: Literal["fast", "exact"] = "fast"
    span: tuple[float, float] = (0.1, 1.0)
    limit: int | None = None
    root: str | None = None
    on: bool = False


def build_piece(features, *, width: int = 4, kind: Literal["a", "b"] = "a"):
    return features, width, kind


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-5", 3e-5),
        ("12", 12),
        ("true", True),
        ("[0.3, 1.0]", [0.3, 1.0]),
        ('"12"', "12"),
        ("resnet18-thin", "resnet18-thin"),
        ("/data/cifar 10", "/data/cifar 10"),
        ("", ""),
    ],
)
def test_values_are_read_as_toml_and_words_as_they_are(text, value):
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("key", "given", "kept"),
    [
        ("share", 1, 1.0),
        ("span", [0, 1], (0.0, 1.0)),
        ("limit", "none", None),
        ("limit", 7, 7),
        ("root", 10, "10"),
        ("mode", "exact", "exact"),
    ],
)
def test_values_become_their_annotated_type(key, given, kept):
    value = checked({key: given}, Piece, "piece")[key]
    assert value == kept
    assert type(value) is type(kept)


@pytest.mark.parametrize(
    ("key", "given", "words"),
    [
        ("count", 1.5, r"piece\.count takes a whole number, got 1\.5"),
        ("count", True, r"piece\.count takes a whole number, got True"),
        ("share", "half", r"piece\.share takes a number, got 'half'"),
        ("share", False, r"piece\.share takes a number"),
        ("on", 1, r"piece\.on takes true or false, got 1"),
        ("root", True, r"piece\.root takes text, got True"),
        ("span", [0.1], r"piece\.span takes 2 values like \[0\.1, 2\.0\], got \[0\.1\]"),
        ("span", 0.1, r"piece\.span takes 2 values"),
        ("mode", "fest", r"unknown value of piece\.mode 'fest'\. Did you mean fast\?.*fast, exact"),
        ("limit", "many", r"piece\.limit takes a whole number, got 'many'"),
        (
            "cuont",
            1,
            r"unknown key 'piece\.cuont'\. Did you mean piece\.count.*Valid: .*piece\.share",
        ),
    ],
)
def test_a_wrong_value_or_key_is_named_with_what_would_be_right(key, given, words):
    with pytest.raises(RecipeError, match=words):
        checked({key: given}, Piece, "piece")


def test_an_unlike_name_is_answered_with_the_valid_ones_alone():
    assert str(unknown("size", "xyz", ["small", "paper"])) == (
        "unknown size 'xyz'. Valid: small, paper."
    )
    assert "Valid: none." in str(unknown("key", "a", []))


def test_defaults_are_filled_in():
    assert checked({}, Piece, "piece") == {
        "count": 3, "share": 0.5, "mode": "fast", "span": (0.1, 1.0),
        "limit": None, "root": None, "on": False,
    }  # fmt: skip


def test_only_the_keywords_of_a_builder_are_settings():
    assert fields_of(build_piece) == {"width": (int, 4), "kind": (Literal["a", "b"], "a")}


def test_a_choice_is_built_with_all_its_settings():
    table = {"piece": build_piece}
    choice = Choice.of({"name": "piece", "width": 9}, table, "head")
    assert choice == Choice("piece", {"width": 9, "kind": "a"})
    assert choice.build(table, 5) == (5, 9, "a")


@pytest.mark.parametrize("values", [{"name": "pice"}, {}])
def test_a_choice_of_nothing_in_the_table_is_refused(values):
    with pytest.raises(RecipeError, match=r"unknown head\.name .*Valid: piece"):
        Choice.of(values, {"piece": build_piece}, "head")


def test_coerce_is_idempotent():
    once = checked({"span": [0.2, 0.4], "limit": 3}, Piece, "piece")
    assert checked(once, Piece, "piece") == once
    assert coerce(None, int | None, "limit") is None


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**30])
def test_a_whole_number_that_no_reader_of_the_recipe_takes_is_refused(value):
    with pytest.raises(RecipeError, match=r"train\.seed takes a whole number of 64 bits"):
        coerce(value, int, "train.seed")
    with pytest.raises(RecipeError, match=r"train\.seed takes a whole number of 64 bits"):
        coerce(value, int | None, "train.seed")
    assert coerce(2**63 - 1, int, "train.seed") == 2**63 - 1
