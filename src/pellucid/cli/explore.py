"""`pellucid explore`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.cli.representation import add_representation, representation_of
from pellucid.cli.verb import add_verb, say

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(
        verbs,
        "explore",
        run,
        "one HTML file that shows what each dimension means, and opens without a network",
        "pellucid explore runs/bayesncl",
        "pellucid explore runs/bayesncl --with runs/bayesncl-1     the same images, another seed",
        "pellucid explore codes.npy --labels classes.txt --images photos/",
    )
    add_representation(parser)
    parser.add_argument("--out", type=Path, help="the file to write (default: RUN/explore.html)")
    parser.add_argument(
        "--with",
        dest="other",
        type=Path,
        metavar="RUN2",
        help="match its dimensions with those of a second one, on the same images",
    )
    parser.add_argument(
        "--names", type=Path, help="a names.json that the page wrote, to be kept with the run"
    )
    parser.add_argument("--budget", type=float, default=15.0, help="MB of the file (default: 15)")
    parser.add_argument(
        "--max-images",
        type=int,
        help="embed at most so many images; statistics stay those of all (default: all that fit)",
    )
    parser.add_argument("--no-images", action="store_true", help="leave the thumbnails out")
    parser.add_argument(
        "--no-names", action="store_true", help="leave the file names out; class names stay"
    )


def run(options: argparse.Namespace) -> None:
    """Write the page."""
    from pellucid.explore.page import explore
    from pellucid.representation.representation import open_representation
    from pellucid.text import one_line, valid

    representation = representation_of(options)
    if options.names is not None:
        kept = representation.keep_names(options.names)
        say(f"{len(kept)} names kept in {representation.names_file()}")
    other = None if options.other is None else open_representation(options.other)
    written = explore(
        representation,
        options.out,
        other=other,
        budget=options.budget,
        most=options.max_images,
        pictures=not options.no_images,
        file_names=not options.no_names,
        say=say,
    )
    path = valid(str(written.path))
    print(one_line(path) if sys.stdout.isatty() else path)  # a script takes it as it is
