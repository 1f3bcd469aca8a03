"""The table of a run's scores."""

from typing import Any, Literal, NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pellucid.evaluate.score import Score
from pellucid.text import for_terminal, one_line

ROOM_FOR_WORDS = 120
"""Columns of a console from which on the meanings fit beside the numbers."""
Better = Literal["higher", "lower", "neither"]
ARROWS: dict[Better, str] = {"higher": "↑", "lower": "↓", "neither": ""}


class Meaning(NamedTuple):
    """How to read a score."""

    label: str
    better: Better
    words: str


MEANINGS = {
    "semantic_consistency": Meaning(
        "semantic consistency", "higher", "share of a dimension's largest class"
    ),
    "semantic_consistency_published": Meaning(
        "  as published", "higher", "rare dimensions count alike, classes do not"
    ),
    "semantic_entropy_mass": Meaning(
        "semantic entropy", "lower", "a dimension's spread over classes, nats"
    ),
    "semantic_entropy_mass_published": Meaning("  as published", "lower", "a dead model has 0"),
    "semantic_entropy_normalised": Meaning("  over ln C", "lower", "1 is an even spread"),
    "activation_rate": Meaning("activation rate", "neither", "share of dimensions ever active"),
    "density": Meaning("density", "neither", "share of entries that are active"),
    "effective_rank": Meaning("effective rank", "higher", "directions in use, of K"),
    "orthogonality": Meaning("column overlap", "lower", "mean |cos| of different columns"),
    "monosemanticity": Meaning(
        "monosemanticity", "higher", "likeness in h of a dimension's images; no labels needed"
    ),
    "retrieval_at_1": Meaning("retrieval P@1", "higher", "nearest by z has the same class"),
    "retrieval_at_3": Meaning("retrieval P@3", "higher", "share of the nearest 3"),
    "retrieval_at_5": Meaning("retrieval P@5", "higher", "share of the nearest 5"),
    "retrieval_at_10": Meaning("retrieval P@10", "higher", "share of the nearest 10"),
    "retrieval_at_1_of_32": Meaning("  P@1, 32 dims", "higher", "the strongest in training"),
    "retrieval_at_1_of_64": Meaning("  P@1, 64 dims", "higher", "the strongest in training"),
    "retrieval_at_1_of_128": Meaning("  P@1, 128 dims", "higher", "the strongest in training"),
    "retrieval_at_1_of_256": Meaning("  P@1, 256 dims", "higher", "the strongest in training"),
    "knn": Meaning("kNN on h", "higher", "accuracy, held-out images"),
    "linear_probe_top1": Meaning("linear probe on h @1", "higher", "accuracy, held-out images"),
    "linear_probe_top5": Meaning("linear probe on h @5", "higher", "class among the first five"),
}
"""The rows of the table, by the names of scores.json."""


def print_scores(scores: dict[str, Any], console: Console) -> None:
    """One table of what `evaluate` returned, with what each number rests on.

    Args:
        scores: the content of scores.json.
        console: to print on.
    """
    settings = scores["settings"]
    title = (
        f"{scores['run']}: {scores['method']} on {settings['data']}, "
        f"{settings['scored_images']:,} {settings['scored_split']} images, step {scores['step']}"
    )
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title=Text(one_line(title), style="table.title"),  # a run may be called "[red]"
        caption="interval: 95 % over images; dims: scored of "
        f"{settings['dimensions']} of z or {settings['features']} of h; support: fewest active "
        "images of a scored dimension, or images; untrained: the same branch before step 1",
        title_justify="left",
        caption_justify="left",
    )
    for header in ("score", "trained", "interval", "chance", "untrained", "dims", "support"):
        justify: Literal["left", "right"] = "left" if header == "score" else "right"
        table.add_column(header, justify=justify, no_wrap=True)
    explains = console.width >= ROOM_FOR_WORDS
    if explains:
        table.add_column("meaning")
    reasons: dict[str, list[str]] = {}
    for name, meaning in MEANINGS.items():
        trained: Score | None = scores["trained"].get(name)
        if trained is None:
            continue
        untrained: Score = scores["untrained"].get(name, trained | {"value": None})
        if trained["reason"] is not None:
            reasons.setdefault(trained["reason"], []).append(meaning.label.strip())
        table.add_row(
            f"{meaning.label} {ARROWS[meaning.better]}",
            number(trained["value"]),
            "" if trained["low"] is None else f"{number(trained['low'])}–{number(trained['high'])}",
            number(trained["chance"], missing=""),
            number(untrained["value"]),
            number(trained["dimensions"], missing=""),
            number(trained["support"], missing=""),
            *([meaning.words] if explains else []),
        )
    console.print(table)
    for reason, names in reasons.items():
        console.print(f"no {', '.join(names)}: {reason}", markup=False, highlight=False)
    for note in (
        *_truth_lines(scores),
        *_view_lines(scores),
        *_cost_lines(scores),
        *scores["notes"],
    ):
        console.print(for_terminal(note), markup=False, highlight=False)


def number(value: float | int | None, missing: str = "–") -> str:
    """Counts as they are, other numbers to three or four figures; a dash where there is none."""
    if value is None:
        return missing
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _truth_lines(scores: dict[str, Any]) -> list[str]:
    """What is known where backgrounds are planted, and the conflict that gates are meant to end."""
    lines = []
    if (planted := scores.get("planted")) is not None:
        kinds, by = planted["dimensions"], planted["consistency"]
        lines.append(
            f"dimensions that answer to an object {kinds['object']}, to a background "
            f"{kinds['background']}, to neither {kinds['neither']}; consistency (chance) by object "
            f"{number(by['object']['value'])} ({number(by['object']['chance'])}), by background "
            f"{number(by['background']['value'])} ({number(by['background']['chance'])})"
        )
        if (gate := planted["gate"]) is not None:
            rate, theory = gate["open_rate_active"], gate["theory"]
            lines.append(
                f"gates open on {number(rate['mean'])} of active images, rank correlation with "
                f"pi {number(rate['spearman_pi'])}; price of opening {theory['price']:.2g} nats, "
                f"mean gain pi(1 - pi) {number(theory['gain']['mean'])}"
            )
    conflict = scores.get("gradient_conflict") or {"reason": "not measured"}
    if conflict["reason"] is None:
        ratio = conflict["gradient"]["ratio"]
        lines.append(
            "gradient conflict, |mean| / std of dL/dz over views (low means conflict): median "
            f"{number(ratio['median'])}, quartiles {number(ratio['lower_quartile'])} and "
            f"{number(ratio['upper_quartile'])} over {conflict['dimensions']} dimensions"
        )
    return lines


def _view_lines(scores: dict[str, Any]) -> list[str]:
    """What the query transform does, and what the encoder keeps of an image's neighbourhood."""
    lines = []
    if (view := scores.get("query_view")) is not None:
        lines.append(
            f"entropy of projections, nats: query {number(view['query_entropy'])}, "
            f"anchor {number(view['anchor_entropy'])}"
        )
        if (kept := view["drift"]) is not None:
            lines.append(
                f"query transform: entropy gain {number(view['entropy_gain'])} nats an image, "
                f"{number(view['entropy_gain_scale_free'])} of it not by scale; nearest anchor is "
                f"the own image for {number(kept['same_image'])} (chance "
                f"{number(kept['chance'])}), of the own class for {number(kept['same_class'])}"
            )
    if (volume := scores.get("encoder_volume")) is not None:
        now, before = volume["trained"], volume["untrained"]
        lines.append(
            f"encoder dh/dx: rank {number(now['rank'])}, log-volume {number(now['log_volume'])} "
            f"nats; untrained {number(before['rank'])}, {number(before['log_volume'])}"
        )
    return lines


def _cost_lines(scores: dict[str, Any]) -> list[str]:
    sizes, flops = scores["cost"]["parameters"], scores["cost"]["flops"]
    parts = ("encoder", "projector", "head")
    lines = [
        "parameters (MFLOPs an image): "
        + ", ".join(f"{name} {sizes[name]:,} ({flops[name] / 1e6:,.1f})" for name in parts)
    ]
    timing = scores["timing"]
    if timing["seconds"] is not None:
        lines.append(
            f"training: {timing['seconds']:,.0f} s, {timing['seconds_a_step'] * 1e3:,.0f} ms a step"
        )
    return lines
