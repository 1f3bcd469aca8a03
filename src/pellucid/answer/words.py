"""Words that answers share. Names of files, classes and dimensions are data, never markup."""

from pellucid.representation.representation import Representation

NOTHING_SHARED = "These images share no active dimension."


def undefined(closed: bool) -> str:
    """Why a zero row has no similarity.

    Args:
        closed: the gates took all that there was.
    """
    reason = "All gates are closed" if closed else "No dimension is active"
    return f"{reason} on this image; its similarity is not defined."


def shortened(text: str, longest: int) -> str:
    """A name in at most so many letters; the middle goes, since the end tells files apart."""
    if len(text) <= longest:
        return text
    front = (longest - 1) // 2
    return f"{text[:front]}…{text[len(text) - (longest - 1 - front) :]}"


def cut(text: str, longest: int) -> str:
    """A name in at most so many letters; the end goes."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def class_of(representation: Representation, index: int) -> str | None:
    """The class of an image; None where it has none."""
    if representation.labels is None or representation.labels[index] < 0:
        return None
    label = int(representation.labels[index])
    classes = representation.classes
    return f"class {label}" if classes is None else classes[label]


def count(number: int, what: str) -> str:
    """A number of things: `1 image`, `2 images`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
