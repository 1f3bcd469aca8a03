import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pellucid.text import valid


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
