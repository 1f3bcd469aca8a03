"""Files that are whole or absent, whatever happens while they are written."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside the given one to write to, which takes its place when all is well.

    Raises:
        OSError: the disk is full or cannot be written; it names the file, which is as it was.
    """
    temporary = path.with_name(f".{path.name}.writing")
    try:
        temporary.unlink(missing_ok=True)  # a link under this name would be written through
        yield temporary
        sync(temporary)
        temporary.replace(path)
    except SafetensorError as error:  # its errors of the disk are no OSErrors
        raise OSError(errno.EIO, str(error), str(path)) from error
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # a full disk is reported without a name
        raise
    finally:
        with contextlib.suppress(OSError):  # what went wrong is said already
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Wait until a file is on the disk, so that losing power cannot lose it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
