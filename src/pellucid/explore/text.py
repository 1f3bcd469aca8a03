"""Names as text: what people and file systems call things is data, and need not be Unicode."""


def shown(name: str) -> str:
    """The name with bytes that are no valid UTF-8 as escapes, which every reader can hold."""
    # Listed file names carry such bytes as lone surrogates, which no file can be written with.
    try:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return name.encode("utf-8", "backslashreplace").decode("utf-8")
