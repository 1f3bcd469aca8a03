import csv
import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.text import as_cell, for_terminal, one_line, valid


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/猫 ü.png", "a/猫 ü.png"),
        ("", ""),
        ("</script>\u2028\u202e", "</script>\u2028\u202e"),
        (os.fsdecode(b"a/\xff\xfe.png"), r"a/\xff\xfe.png"),
        (os.fsdecode("é".encode("latin-1")), r"\xe9"),
        ("\udcc3\udca9", "é"),  # bytes that are valid together
        ("\ud800x", r"\ud800x"),
        ("\ud800\udcff猫", r"\ud800\udcff猫"),
        (r"\xff", r"\xff"),
    ],
)
def test_names(name, expected):
    assert valid(name) == expected


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_valid_names_stay(name):
    assert valid(name) == name


@given(st.binary())
def test_any_bytes_of_a_file_system_can_be_written(data):
    text = valid(data.decode("utf-8", "surrogateescape"))
    assert text.encode("utf-8").decode("utf-8") == text
    assert text == data.decode("utf-8", "backslashreplace")


@given(st.text())
def test_whatever_it_is_called_it_can_be_written(name):
    valid(name).encode("utf-8")


ANY = st.text() | st.text("=+-@＝\t\r\n '\"\x1b\x9b\u202e\u2066ab;,", max_size=8)


@given(ANY)
def test_a_message_is_lines_of_printable_letters(text):
    shown = for_terminal(text)
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    assert shown.split("\n") == [one_line(line) for line in text.split("\n")]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a/猫 ü – × ±0.1 │█\nsecond", "a/猫 ü – × ±0.1 │█\nsecond"),
        ("\x1b]8;;http:x\x1b\\a", r"\x1b]8;;http:x\x1b\a"),
        ("a\rb\x9b31m\x7f\t", r"a\rb\x9b31m\x7f\t"),
        ("\u202egnp\u2066\u200b\u2028", r"\u202egnp\u2066\u200b\u2028"),
        ("\udcff[red]", r"\udcff[red]"),
    ],
)
def test_what_a_terminal_is_told(text, shown):
    assert for_terminal(text) == shown


@given(ANY, st.sampled_from(["\t", ","]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_NONE]))
def test_no_cell_starts_as_a_formula_however_it_is_read(text, separator, reading):
    cell = as_cell(one_line(text))
    assert cell.removeprefix("'") == one_line(text) or cell == one_line(text)
    table = io.StringIO()
    csv.writer(table, delimiter=separator).writerow([cell, "x"])
    for line in (table.getvalue(), f"{cell}{separator}x\r\n"):  # quoted, and as it is
        found = list(
            csv.reader(io.StringIO(line, newline=""), delimiter=separator, quoting=reading)
        )
        first = found[0][0].lstrip('"')
        assert not first.lstrip(' \xa0"').startswith(("=", "+", "-", "@", "＝", "\t", "\r")), line


@pytest.mark.parametrize("text", ["a-b", "a=1", "", " ", "1", "'a", "猫", '"a"', "0.5 -1"])
def test_other_cells_stay(text):
    assert as_cell(text) == text


def test_a_tab_or_carriage_return_is_no_start():
    assert as_cell("\tab") == "'\tab"
    assert as_cell("\rab") == "'\rab"


@pytest.mark.parametrize("text", ['"', ' "', '""', "\"'"])
def test_a_lone_quote_is_no_start_either(text):
    """It would begin a cell with the separator after it."""
    assert as_cell(text) == f"'{text}"
