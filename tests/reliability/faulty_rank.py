"""`pellucid` on one of several processes, one of which fails: RANK STEP KIND ARGUMENTS...

Run by torchrun. KIND is kill (by the system), raise (an error of this process), term (a cluster
ends one process), nan (its images go wrong), or none.
"""

import os
import signal
import sys

from pellucid.cli import main
from pellucid.data.source import DataError
from pellucid.train.batches import TwoViews

rank, at, kind, *arguments = sys.argv[1:]
make_views = TwoViews.__call__


def faulty(self, images, step, rows):
    if step == int(at) and os.environ["RANK"] == rank:
        if kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "raise":
            raise DataError("photograph.jpg is gone")
        if kind == "term":
            os.kill(os.getpid(), signal.SIGTERM)
    query, key = make_views(self, images, step, rows)
    spoils = kind == "nan" and step == int(at) and os.environ["RANK"] == rank
    return (query * float("nan") if spoils else query), key


TwoViews.__call__ = faulty
sys.exit(main(arguments))
