"""How many unreadable images of a set are borne."""

import math

from pellucid.data.source import DataError, some


def allowed_bad(share: float, total: int) -> int:
    """How many unreadable images a share of a set is."""
    return int(share * total + 1e-6)  # 0.29 * 100 is a little less than 29


def refuse_bad(skipped: list[tuple[str, str]], most_bad: int, total: int) -> None:
    """Give up when too many images are unreadable.

    Raises:
        DataError: more than `most_bad` are; it names the first ones.
    """
    if len(skipped) > most_bad:
        listed = some([f"{name} ({reason})" for name, reason in skipped])
        enough = math.ceil(1000 * len(skipped) / total) / 1000
        raise DataError(
            f"{len(skipped)} of {total} images cannot be read, and at most {most_bad} may be: "
            f"{listed}. Mend or remove them, or allow more: a bad_share of {enough}"
        )
