"""`pellucid embed`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pellucid.cli.verb import add_data_flags, add_verb, say

if TYPE_CHECKING:
    from pellucid.cli.verb import Verbs


def add(verbs: "Verbs") -> None:
    """Give the verb its place and its options."""
    parser = add_verb(
        verbs,
        "embed",
        run,
        "write a run's features of any images to disk; goes on where it was cut off",
        "pellucid embed runs/try --data photos --out features/photos",
        "pellucid embed runs/b --data cifar10 --root PATH --split train --out features/cifar10",
    )
    parser.add_argument("run", type=Path, help="a run directory of `pellucid pretrain`")
    parser.add_argument(
        "--data",
        required=True,
        help="a folder of images or of parquet files, or a known set (`pellucid list data`)",
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument("--root", help="where a known set's files are (default: as the run's)")
    parser.add_argument(
        "--split",
        choices=("train", "test"),
        help="which images of a set that has both (default: test; a set with one split is "
        "embedded whole, also if the run held back a part of it)",
    )
    parser.add_argument(
        "--format",
        choices=("parquet", "npy"),
        default="parquet",
        help="parquet (default): shards with a row an image; npy: an array each of z, h, ...",
    )
    layout = parser.add_mutually_exclusive_group()
    layout.add_argument(
        "--dense",
        dest="sparse",
        action="store_false",
        help="z as lists of K numbers, in which zeros cost next to nothing (default)",
    )
    layout.add_argument(
        "--sparse",
        action="store_true",
        help="of z, only what is not zero: lists z_index and z_value (parquet only)",
    )
    parser.set_defaults(sparse=False)
    parser.add_argument(
        "--only",
        metavar="z,h,...",
        help="what to write of z, h, gate and ungated (z before the gate); default all but ungated",
    )
    parser.add_argument("--batch", type=int, help="images at a time (default: 512)")
    parser.add_argument("--image-column", help="of parquet files, where it is not clear")
    parser.add_argument("--label-column", help="of parquet files, where it is not the usual one")
    parser.add_argument(
        "--bad-share",
        type=float,
        help="the share of unreadable images that is left out and listed (default: the run's); "
        "more is an error",
    )
    add_data_flags(parser)


def run(options: argparse.Namespace) -> None:
    """Embed."""
    from pellucid.embed import Wanted, embed
    from pellucid.evaluate.extract import BATCH
    from pellucid.run import open_run

    wanted = Wanted(
        data=options.data,
        root=options.root,
        split=options.split,
        image_column=options.image_column,
        label_column=options.label_column,
        bad_share=options.bad_share,
        download=options.download,
        strict=options.strict,
    )
    embed(
        open_run(options.run),
        wanted,
        options.out,
        files=options.format,
        sparse=options.sparse,
        stages=None if options.only is None else options.only.replace(" ", "").split(","),
        batch=BATCH if options.batch is None else options.batch,
        device=options.device,
        say=say,
    )
