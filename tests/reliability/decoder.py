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

import torch

from pellucid.data.decode import UnreadableImageError, decode, to_square
from pellucid.data.pixels import crops_of_image
from pellucid.data.source import Source
from pellucid.data.view_parameters import ViewSettings, draw_uniform
from pellucid.randomness import seeded

UNIFORM = draw_uniform(2, seeded(0))
"""Draws of both crops, the same for every image."""
LIMIT = 16 * 2**30
"""Of the address space, so that a fault cannot take the machine with it."""


def memory(name):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(name)


def cropped(data):
    """The crops of both views, as when a stream is read for training."""
    source = Source(["folder/some name.jpg"], None, None, lambda _: data, "", [])
    return crops_of_image(source, 0, UNIFORM, ViewSettings(size=32))


def tried(data, size):
    """What becomes of an encoded image, as when it is read for training at this size."""
    try:
        if size == "crops":
            crops = cropped(data)
            if crops.shape != (2, 32, 32, 3) or crops.dtype != torch.uint8:
                return "wrong", f"{crops.shape} {crops.dtype}"
            return "image", "two crops"
        smaller = None if size is None else lambda width, height: min(width, height) // (2 * size)
        image = decode(data, "folder/some name.jpg", smaller=smaller)
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
        size = (32, None, "crops")[len(data) % 3]
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
