"""The end of an embedding: all shards are there."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from pellucid.embed.arrays import join_shards
from pellucid.embed.manifest import write_manifest
from pellucid.embed.shard import shard_facts
from pellucid.embed.work import PARTS, Work
from pellucid.representation.feature_manifest import MANIFEST
from pellucid.run import RunError


def finish(work: Work, paths: Sequence[Path]) -> None:
    """Join arrays if they are asked for, and mark the folder complete."""
    found = [shard_facts(path) for path in paths]
    facts = [fact for fact in found if fact is not None]
    if len(facts) < len(paths):
        raise RunError(
            f"{work.folder} lacks {len(paths) - len(facts)} of {len(paths)} shards that other "
            "processes wrote: --out must be a folder that all of them share"
        )
    images, place = work.subject.images, work.subject.place
    rows, dimensions = sum(fact["rows"] for fact in facts), facts[0]["dimensions"]
    skipped = [pair for fact in facts for pair in fact["skipped"]]
    if images.pixels is not None:  # a held set dropped them before there were shards
        skipped = [(name, reason.replace(place, "")) for name, reason in images.skipped]
    arrays: list[str] = []
    if work.settings["files"] == "npy":
        widths = {
            stage: facts[0]["features"] if stage == "h" else dimensions
            for stage in work.layout.stages
        }
        labelled = images.labels is not None
        arrays = join_shards(paths, work.folder, widths, rows=rows, labelled=labelled)
    shards = (
        []
        if arrays
        else [
            {"file": path.name, "rows": fact["rows"]}
            for path, fact in zip(paths, facts, strict=True)
        ]
    )
    write_manifest(
        work.folder,
        work.settings,
        rows=rows,
        dimensions=dimensions,
        features=facts[0]["features"],
        shards=shards,
        arrays=arrays,
        skipped=[{"file": name, "reason": reason} for name, reason in skipped],
    )
    shutil.rmtree(work.folder / PARTS, ignore_errors=True)
    left_out = f", {len(skipped)} unreadable ones left out: see {MANIFEST}" if skipped else ""
    work.say(f"{rows:,} images in {dimensions} dimensions{left_out}")
