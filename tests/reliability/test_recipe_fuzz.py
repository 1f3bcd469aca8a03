"""Any combination of settings either trains two steps or is refused by a message that names it."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from pellucid.data.source import DataError
from pellucid.pretraining import pretrain
from pellucid.recipe import SECTIONS, TABLES, compose, names
from pellucid.regularisers import REGULARISERS
from pellucid.run import RunError
from pellucid.settings import RecipeError, fields_of
from pellucid.train import checkpoint
from pellucid.train.finite import TrainingError

EXAMPLES = 80 if os.environ.get("PELLUCID_SOAK") else 4
SHARDS = 8
"""Tests, so that several workers share them; each tries that many examples of its own seed."""

SMALL = [
    *("data.limit=16", "data.stored_size=8", "views.size=8", "train.batch=8", "train.epochs=1"),
    *("train.warmup_epochs=0", "train.precision=fp32", "projector.hidden=8"),
    *("projector.dimensions=6", "train.log_every=1", "train.measure_every=1"),
]
"""Two steps of a run that takes a moment; drawn settings come after these and win."""
CHEAP = {"hidden": 8, "k": 3, "predictor_hidden": 8, "queue": 9, "patch": 4}
"""Of heads, frameworks and transforms, where a default would take long or not fit."""
FITTING = {name: compose(name, "scenes", "small").as_tree() for name in names("methods")}
"""The settings of every method."""
LEFT_OUT = ("source", "root", "limit", "image_column", "label_column")
"""Names of what is on a disk, and how much of it; tried elsewhere."""
ENCODERS = ("resnet18-thin", "test_resnet", "test_vit", "test_efficientnet", "resnet_of_none")
EXTREME = 1e6
"""A number beyond this, or its inverse, may make numbers go wrong; that too must be told."""

floats = st.sampled_from([0.3, 0.5, 0.9, 1.0, 0.01, 2.0, 0.0])
odd_floats = st.sampled_from([-1.0, 1e-30, 1e30, 1e300, float("nan"), float("inf"), -0.5])
integers = st.sampled_from([1, 2, 3, 4, 8])
odd_integers = st.sampled_from([-3, -1, 0, 5, 7, 9, 12])
words = st.sampled_from(["words", "true", "[1, 2]", "[]", "{}", '""', "2024-01-01", "none"])


def values_of(kind):
    """Texts of values for a setting of this type: mostly possible, sometimes odd or senseless."""
    if get_origin(kind) is Literal:
        usual, odd = st.sampled_from(get_args(kind)), st.just("other")
    elif get_origin(kind) is tuple:
        count = len(get_args(kind))
        usual = st.lists(floats, min_size=count, max_size=count).map(lambda v: str(sorted(v)))
        odd = st.lists(odd_floats, min_size=0, max_size=4).map(str)
    else:
        inner = next(iter([a for a in get_args(kind) if a is not type(None)] or [kind]))
        usual, odd = {
            bool: (st.sampled_from(["true", "false"]), integers),
            int: (integers.map(str), odd_integers.map(str)),
            float: (floats.map(repr), odd_floats.map(repr)),
            str: (st.sampled_from(ENCODERS), words),
        }[inner]
    return st.integers(0, 39).flatmap(lambda n: words if n == 11 else odd if 5 < n < 9 else usual)


@st.composite
def settings_of(draw, prefix, piece, most):
    """Some settings of one section or builder."""
    fields = {name: kind for name, (kind, _) in fields_of(piece).items() if name not in LEFT_OUT}
    if not fields:
        return []
    chosen = draw(st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True))
    return [(f"{prefix}.{name}", draw(values_of(fields[name]))) for name in chosen]


@st.composite
def recipes(draw):
    """A method, and settings on top of it; sometimes one of them is a key of nothing."""
    method, drawn = draw(st.sampled_from(sorted(FITTING))), []
    fitting = FITTING[method]
    for section, table in TABLES.items():
        name = fitting[section]["name"]
        if draw(st.integers(0, 3)) == 0:
            name = draw(st.sampled_from(sorted(table)))
            drawn.append((f"{section}.name", name))
        cheap = [key for key in CHEAP if key in fields_of(table[name])]
        drawn += [(f"{section}.{key}", str(CHEAP[key])) for key in cheap]
        drawn += draw(settings_of(section, table[name], 1))
        if name == "bayes-gate" and "gate_kl" not in fitting["weights"]:
            drawn.append(("weights.gate_kl", "0.1"))
        if section == "head" and name != "bayes-gate" and "gate_kl" in fitting["weights"]:
            drawn += [("weights.gate_kl", "none"), ("lr_of.framework.online.head.gate", "none")]
        if name == "unchanged" and "transform_decay" in fitting["weights"]:
            drawn.append(("weights.transform_decay", "none"))
    for name, builder in REGULARISERS.items():
        if draw(st.integers(0, 5)) == 0:
            drawn.append((f"weights.{name}", draw(values_of(float))))
            drawn += draw(settings_of(f"regularisers.{name}", builder, 1))
    for section, piece in SECTIONS.items():
        if draw(st.integers(0, 2)) == 0:
            drawn += draw(settings_of(section, piece, 1))
    if draw(st.integers(0, 5)) == 0:
        drawn.append((draw(st.sampled_from(ODD_KEYS)), draw(values_of(float))))
    return method, drawn


ODD_KEYS = (
    *(
        "lr",
        "weight_decay",
        "weights.contrast",
        "weights.other",
        "lr_of.framework",
        "lr_of.nothing",
    ),
    *("lr_of.query_transform", "head.other", "other.key", "train", "weights", "train.batch.size"),
)


def numbers_in(text):
    for word in text.strip("[]").split(","):
        try:
            yield abs(float(word))
        except ValueError:
            continue


def is_extreme(text):
    return any(number > EXTREME or 0 < number < 1 / EXTREME for number in numbers_in(text))


def parts_of(key):
    """What must stand in a message about a key: a part of it below its section."""
    section, *below = key.split(".")
    return below or [section]


def outcome(method, drawn):
    """What became of a recipe, and the words for it."""
    folder = Path(tempfile.mkdtemp())
    try:
        given = [f"{key}={value}" for key, value in drawn]
        recipe = compose(method, "scenes", "small", [*SMALL, *given])
        pretrain(recipe, folder / "run", device="cpu", say=lambda _: None)
        assert checkpoint.newest(folder / "run")[0] >= 1
    except (RecipeError, RunError, DataError) as error:
        return "refused", str(error)
    except TrainingError as error:
        return "numbers went wrong", str(error)
    finally:
        shutil.rmtree(folder)
    return "trained", ""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_settings_train_or_are_refused_by_name(shard, figure):
    seen = {"trained": 0, "refused": 0, "numbers went wrong": 0}

    @seed(shard)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # a case is small enough to read as it is
    )
    @given(recipes())
    def trial(recipe):
        method, drawn = recipe
        became, told = outcome(method, drawn)
        seen[became] += 1
        if became == "refused":
            named = [key for key, _ in drawn if any(part in told for part in parts_of(key))]
            assert named, f"{method} {drawn} refused without a name: {told}"
        if became == "numbers went wrong":
            assert any(is_extreme(value) for _, value in drawn), f"{method} {drawn}: {told}"
            assert "at step" in told

    trial()
    assert sum(seen.values()) >= EXAMPLES / 2
    figure("recipes", **seen)
