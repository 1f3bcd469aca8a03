"""Words as Markdown takes them: as data, whatever is in them."""

import re
from collections.abc import Sequence

from pellucid.text import one_line


def table_row(cells: Sequence[str]) -> str:
    """A line of a Markdown table, of cells that are escaped already."""
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", one_line(text))
