"""Words as Markdown and spreadsheets take them: as data, whatever is in them."""

import re
from collections.abc import Sequence

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text starts that a spreadsheet would compute instead of show."""


def table_row(cells: Sequence[str]) -> str:
    """A line of a Markdown table, of cells that are escaped already."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """A text that Markdown shows as it is."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def as_data(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
