"""Decodes what it is given, in a process of its own: it may crash, hang or take all memory.

A script that reads, again and again, a length (8 bytes) and that many bytes of an image, and
answers with a JSON line: the outcome, its reason, the seconds of processor time, and the most
bytes that it took on top of what it had.
"""

import ctypes
import json
import resource
import struct
import sys
import time
from pathlib import Path

from pellucid.data.decode import UnreadableImageError, decode, to_square

LIMIT = 16 * 2**30
"""Of the address space, so that a fault cannot take the machine with it."""


def memory(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def tried(data, size):
    """What becomes of an encoded image, as when it is read for training at this size."""
    try:
        times = None if size is None else lambda width, height: min(width, height) // (2 * size)
        image = decode(data, "folder/some name.jpg", times=times)
        if image.mode != "RGB":
            return "wrong", image.mode
        pixels = to_square(image, size)
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != "uint8":
            return "wrong", f"{pixels.shape} {pixels.dtype}"
    except UnreadableImageError as error:
        named = str(error).startswith("folder/some name.jpg: ") and len(error.reason) > 3
        return ("refused" if named else "wrong"), error.reason
    except BaseException as error:
        return "wrong", repr(error)
    return "image", f"{image.size[0]} x {image.size[1]}"


def main():
    trim = ctypes.CDLL(None).malloc_trim
    tried(b"warm up", None)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
    while header := sys.stdin.buffer.read(8):
        data = sys.stdin.buffer.read(struct.unpack("<q", header)[0])
        size = 32 if len(data) % 2 else None
        trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before, began = memory("VmHWM"), time.process_time()
        outcome, reason = tried(data, size)
        answer = {
            "outcome": outcome,
            "reason": reason,
            "seconds": time.process_time() - began,
            "bytes": memory("VmHWM") - before,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
