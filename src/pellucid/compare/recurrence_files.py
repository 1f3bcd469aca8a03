"""Recurring dimensions written down: a section in Markdown and a line for each dimension."""

import csv
import io
from collections.abc import Sequence

from pellucid.compare.markup import escaped, table_row
from pellucid.compare.recurrence import RULE, Recurrence, shown
from pellucid.text import as_cell, one_line

HEADS = (
    *("dimensions of", "in all", "dimensions", "live", "recur"),
    *("by permuted images", "on rotated axes", "median cosine", "its chance"),
    *("median agreement", "permuted", "rotated"),
)
OF_EACH = ("partner", "sign", "cosine", "chance", "agreement", "highest_by_luck", "recurs")
"""Fields of a `Matching` in dimensions.csv."""


def recurrence_markdown(found: Sequence[Recurrence]) -> str:
    """A section with a sentence and a line of a table for each group."""
    lines = ["## Dimensions that recur", ""]
    for one in found:
        lines += [f"**{escaped(one.sentence())}**", ""]
    lines += [table_row(HEADS), table_row(["---", "---", *["---:"] * (len(HEADS) - 2)])]
    lines += [table_row([escaped(cell) for cell in _cells(one)]) for one in found]
    return "\n".join([*lines, "", escaped(RULE), ""])


def recurrence_csv(found: Sequence[Recurrence]) -> str:
    """A line for each dimension of the first of each group, with its match in each other one.

    Dimensions count from 0, as columns of z. `other_1` names the first other one and
    `partner_1` to `recurs_1` are of the match there: see `Matching`. Cells are empty where there
    is no partner.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    others = range(1, 1 + max((len(one.matchings) for one in found), default=0))
    each = [f"{name}_{number}" for number in others for name in ("other", *OF_EACH)]
    heads = ["run", "dimension", "name", "support", "frequency", "recurs", *each]
    writer.writerow(heads)
    for one in found:
        columns = [
            (as_cell(label), [getattr(matching, name).tolist() for name in OF_EACH])
            for label, matching in one.matchings.items()
        ]
        recurs = one.recurs.tolist()
        for dimension, support in enumerate(one.support.tolist()):
            name = as_cell(one_line(one.names.get(dimension, "")))
            line = [as_cell(one.first), dimension, name, support, support / one.images]
            line.append(recurs[dimension])
            for label, values in columns:
                partner, *rest = (value[dimension] for value in values)
                line += [label, *([""] * len(OF_EACH) if partner < 0 else [partner, *rest])]
            writer.writerow([*line, *[""] * (len(heads) - len(line))])
    return file.getvalue()


def _cells(one: Recurrence) -> list[str]:
    medians = (
        one.median(lambda matching: matching.cosine),
        one.median(lambda matching: matching.chance),
        one.median(lambda matching: matching.agreement),
        one.median(lambda matching: matching.permuted),
        one.median(lambda matching: matching.rotated),
    )
    return [
        one.first,
        f"{len(one.matchings) + 1} {one.among}",
        *(str(n) for n in (len(one.support), one.live, int(one.recurs.sum()))),
        *(shown(count) for count in (one.by_permuted, one.by_rotated)),
        *("–" if value is None else f"{value:.3f}" for value in medians),
    ]
