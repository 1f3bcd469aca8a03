"""Text that others wrote: names are data and never markup, and JSON is plain values."""

import json
import math
from pathlib import Path
from typing import Any

FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""How a text starts that a spreadsheet would compute instead of show; some take wide ones too."""
BEFORE_FORMULA = " \t\r\n\v\f\u00a0\"'"
"""What a spreadsheet may drop before it looks whether a text is a formula."""
LARGEST = 2**63 - 1
"""The largest integer that is read: larger ones fit into no tensor, and no float."""


def valid(name: str) -> str:
    """The name with bytes that are no valid UTF-8 as escapes, which every reader can hold."""
    # Listed file names carry such bytes as lone surrogates, which no file can be written with.
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return name.encode("utf-8", "backslashreplace").decode("utf-8")


def one_line(text: str) -> str:
    """A name as one line of a terminal: no line break and no escape sequence survives."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def for_terminal(message: str) -> str:
    """A message for people, which may quote what others called things: only its lines are left.

    Escape sequences, carriage returns and letters that turn the direction of writing could show
    something else than what is there; they are shown as escapes.
    """
    return "\n".join(one_line(line) for line in message.split("\n"))


def as_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    computed = text.lstrip(BEFORE_FORMULA).startswith(FORMULA) or text.startswith(("\t", "\r"))
    # Read with quoting where none was written, a lone quote begins a cell with what separates it.
    lone = '"' in text and not text.lstrip(BEFORE_FORMULA)
    return f"'{text}" if computed or lone else text


def read_json(path: Path, *, undefined: bool = False) -> Any:
    """The tree of a JSON file, of numbers that are finite and of 64 bits.

    Args:
        path: the file.
        undefined: whether a number that is not finite is read as None, and not refused.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is no file, no UTF-8, no JSON, nested beyond reason, or holds other numbers.
    """
    if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
        raise ValueError("it is no file")
    try:
        return json.loads(
            path.read_text("utf-8"),
            parse_int=_integer,
            parse_float=_defined if undefined else _finite,
            parse_constant=_defined if undefined else _finite,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _integer(digits: str) -> int:
    value = int(digits) if len(digits) < 30 else LARGEST + 1
    if abs(value) > LARGEST:
        raise ValueError(f"it holds an integer of more than 64 bits, {digits[:20]}…")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"it holds {digits[:20]}, which is no finite number")
    return value


def _defined(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None
