"""Prints what `make soak` counted: one line for each property, with its numbers summed."""

import json
import sys
from pathlib import Path


def summed(lines):
    """Numbers of lines of one `what` together; of `slowest` and `largest`, the largest."""
    found = {}
    for line in lines:
        numbers = found.setdefault(line.pop("what"), {"tests": 0})
        numbers["tests"] += 1
        for name, value in line.items():
            if isinstance(value, str):
                continue
            if name.startswith(("slowest", "largest")):
                numbers[name] = max(numbers.get(name, value), value)
            else:
                numbers[name] = numbers.get(name, 0) + int(value)
    return found


if __name__ == "__main__":
    texts = Path(sys.argv[1]).read_text("utf-8").splitlines()
    for what, numbers in sorted(summed(map(json.loads, texts)).items()):
        print(f"{what}: " + ", ".join(f"{name} {value:,}" for name, value in numbers.items()))
