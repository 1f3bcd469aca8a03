"""For `python -m pellucid.cli`, as `torchrun` starts it."""

import sys

from pellucid.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
