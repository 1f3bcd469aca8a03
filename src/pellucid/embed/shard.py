"""A shard: some images' features in a parquet file, whole or absent."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from pellucid.evaluate.extract import Features
from pellucid.representation.feature_columns import FACTS, INDEX, VALUE, facts_of, open_parquet
from pellucid.representation.feature_folder import FILE, LABEL
from pellucid.run import RunError
from pellucid.train.whole import whole_file


class Layout(NamedTuple):
    """What is written of each image, and how."""

    stages: tuple[str, ...]
    """Of `feature_manifest.STAGES`."""
    sparse: bool
    """Of z, only what is not zero."""
    text: bool
    """Names are text; else, since one of them is no valid Unicode, all are bytes."""


def write_shard(
    path: Path, features: Features, names: Sequence[str], layout: Layout, facts: dict[str, Any]
) -> None:
    """Write features under a temporary name, then rename: the file is whole or not there.

    Columns: `file`, text or bytes; `label`, int64, -1 for none, if the set has labels; each stage
    as a fixed-size list of fp32, or z as two lists, `z_index` (int32) and `z_value` (fp32).

    Args:
        path: the file.
        features: of some images.
        names: of the same images.
        layout: what to write.
        facts: what the columns do not say, kept in the file's metadata as JSON.
    """
    columns: dict[str, Any] = {FILE: _names(names, text=layout.text)}
    if features.labels is not None:
        columns[LABEL] = pa.array(features.labels.numpy())
    for stage in layout.stages:
        values: Tensor = getattr(features, stage)
        if stage == "z" and layout.sparse:
            columns |= _sparse(values.numpy())
        else:
            flat = pa.array(values.contiguous().numpy().reshape(-1))
            columns[stage] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    table = pa.table(columns, metadata={FACTS: json.dumps(facts, sort_keys=True).encode()})
    with whole_file(path) as temporary, temporary.open("wb") as file:
        # Zeros of a dense z cost next to nothing so: 8 % of its size for a z that is 6 % full.
        pq.write_table(table, file, compression="zstd", use_dictionary=[LABEL])


def shard_facts(path: Path) -> dict[str, Any] | None:
    """What `write_shard` kept in a shard's metadata; None where there is no whole shard."""
    if not path.is_file():
        return None
    try:
        opened = open_parquet(path)
    except RunError:
        return None
    return facts_of(opened) | {"rows": opened.metadata.num_rows}


def _names(names: Sequence[str], *, text: bool) -> Any:
    if text:
        return pa.array(names, pa.string())
    return pa.array([name.encode("utf-8", "surrogateescape") for name in names], pa.binary())


def _sparse(z: np.ndarray) -> dict[str, Any]:
    rows, dimensions = np.nonzero(z)
    ends = np.cumsum(np.bincount(rows, minlength=len(z)))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    return {
        INDEX: pa.ListArray.from_arrays(offsets, pa.array(dimensions.astype(np.int32))),
        VALUE: pa.ListArray.from_arrays(offsets, pa.array(z[rows, dimensions])),
    }
