"""Names as text: what people and file systems call things is data, and never markup."""

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a text starts that a spreadsheet would compute instead of show."""


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


def as_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
