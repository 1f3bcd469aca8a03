"""The tables of docs/speed.md, made of what the benchmarks wrote.

    python benchmarks/tables.py docs/speed.md

What stands between `<!-- table NAME -->` and `<!-- end -->` is replaced by the table of that name.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
MARKED = re.compile(r"(<!-- table ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Rows = list[list[str]]


def read(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def cell(values: dict[str, float], unit: str = "") -> str:
    """Median, and the least and the most of the rounds."""
    median, least, most = (number(values[key]) for key in ("median", "least", "most"))
    return f"{median}{unit} ({least} to {most})"


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(head: Sequence[str], rows: Rows) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def training(name: str) -> str:
    rows = []
    for method, found in read(name)["methods"].items():
        speeds = found["images_per_second"]
        lightly = ["", ""]
        if "lightly" in speeds:
            lightly = [cell(speeds["lightly"]), cell(found["over_lightly"])]
        own = [cell(speeds[who]) for who in ("ours", "bare")]
        rows.append([f"`{method}`", *own, cell(found["over_bare"]), *lightly])
    head = ["method", "ours, images/s", "bare step", "ours / bare", "lightly", "ours / lightly"]
    return table(head, rows)


def peer() -> str:
    rows = []
    for encoder, name, own in (
        ("ResNet-18", "peer", "training"),
        ("thin ResNet-18", "peer-thin", "training-thin"),
    ):
        found = read(name)
        speeds = [cell(found["images_per_second"][who]) for who in ("stable-pretraining", "bare")]
        ours = read(own)["methods"]["simclr"]["over_bare"]["median"]
        over = ours / found["over_bare"]["median"]
        rows.append([encoder, *speeds, cell(found["over_bare"]), number(over)])
    head = [
        "SimCLR",
        "stable-pretraining, images/s",
        "bare step",
        "it / bare",
        "ours / it, by both",
    ]
    return table(head, rows)


def growth() -> str:
    rows = []
    names = [f"growth-batch-{batch}" for batch in (32, 64, 256, 512)]
    names = [*names[:2], "training-thin", *names[2:], "growth-side-64", "growth-side-224"]
    for name in names:
        found = read(name)
        simclr = found["methods"]["simclr"]
        rows.append(
            [
                f"{found['side']} px",
                str(found["batch"]),
                *(cell(simclr["images_per_second"][who]) for who in ("ours", "bare")),
                cell(simclr["over_bare"]),
            ]
        )
    return table(["side", "batch", "ours, images/s", "bare step", "ours / bare"], rows)


def methods() -> str:
    rows = []
    for method, found in read("methods")["pairs"].items():
        base = found["base"]
        entropies = found.get("entropies", {}).get("share_of_training")
        rows.append(
            [
                f"`{method}` / `{base}`",
                cell(found["seconds_a_step"][base], " s"),
                cell(found["ratio"]),
                f"{found['ratio_of_fastest']:.3f}",
                f"{found['goal']}" if "goal" in found else "",
                "" if entropies is None else f"{entropies:.2%}",
            ]
        )
    head = ["pair", "step of the base", "ratio", "of the fastest steps", "goal", "entropies"]
    return table(head, rows)


def variants() -> str:
    thin, wide = read("tried"), read("tried-resnet18")
    rows = [
        [name, *(cell(one["times_kept"][name]) for one in (thin, wide))]
        for name in thin["times_kept"]
        if name != "kept"
    ]
    return table(["variant", "thin, time / kept", "ResNet-18, time / kept"], rows)


def updates() -> str:
    thin, wide = read("tried"), read("tried-resnet18")
    rows = []
    for name in thin["updates"]:
        row = [name]
        for one in (thin, wide):
            found = one["updates"][name]
            row += [cell(found["milliseconds"], " ms"), f"{found['share_of_a_step']:.2%}"]
        rows.append(row)
    return table(["update", "thin", "of a step", "ResNet-18", "of a step"], rows)


def views() -> str:
    rows = []
    for side, makers in read("views")["sides"].items():
        for name, found in makers.items():
            if isinstance(found, dict):
                over = found.get("ours_over_it")
                rows.append(
                    [
                        f"{side} px, {name}",
                        cell(found["views_per_second"]),
                        number(found["views_per_processor_second"]["median"]),
                        cell(over) if over else "",
                    ]
                )
    head = ["views by", "views/s", "a second of processor time", "ours / it, by processor time"]
    return table(head, rows)


def reading() -> str:
    several = [read("reading"), read("reading-photographs")]
    rows = [
        [name, *(cell(found["images_per_second"][name]) for found in several)]
        for name in several[0]["images_per_second"]
    ]
    for name, words in (
        ("crops_over_torchvision", "ours / torchvision, crops"),
        ("views_over_torchvision", "ours / torchvision, views"),
        ("crops_against_views", "our crops / torchvision's views"),
    ):
        rows.append([words, *(cell(found[name]) for found in several)])
    return table(["two views of each JPEG, images/s", "500 x 375, made", "Imagenette"], rows)


def listing() -> str:
    found = read("listing")
    rows = [[kind, cell(seconds, " s")] for kind, seconds in found["seconds"].items()]
    return table([f"{found['files']:,} files", "seconds"], rows)


def startup() -> str:
    found = read("startup")
    rows = [
        [start, cell(parts["imports"], " s"), cell(parts["to_first_step"], " s")]
        for start, parts in found["seconds"].items()
    ]
    return table([f"{found['images']:,} images", "imports", "from there to the first step"], rows)


def memory() -> str:
    rows = [[what, f"{peak:,.0f} MB"] for what, peak in read("startup")["peak_mb"].items()]
    return table(["training", "peak"], rows)


def published() -> str:
    found = read("evaluation")["published"]
    rows = [[who.replace("_", " "), cell(s, " s")] for who, s in found["seconds"].items()]
    rows += [
        ["the authors' loop / ours", cell(found["authors_loop_over_ours"])],
        ["a plain loop / ours", cell(found["plain_loop_over_ours"])],
    ]
    return table(["consistency as published, 2,000 x 2,048", "seconds"], rows)


def metrics() -> str:
    found = read("evaluation")["metrics"]
    sizes = list(found)
    rows = []
    for metric in found[sizes[0]]:
        costs = [found[size][metric] for size in sizes]
        rows.append(
            [
                metric,
                *(f"{number(c['seconds']['median'])} s, {number(c['peak_mb'])} MB" for c in costs),
            ]
        )
    return table(["metric", *sizes], rows)


def probe() -> str:
    rows = []
    for classes, found in read("evaluation")["probe"].items():
        peer = found["beside_scikit_learn"]
        fits = [number(peer[f"{whose}seconds_of_one_fit"]) for whose in ("", "peer_")]
        rows.append(
            [
                classes,
                cell(found["seconds"], " s"),
                f"{found['top1']:.2%}",
                f"{peer['images']:,}",
                f"{peer['top1']:.2%} / {peer['peer_top1']:.2%}",
                f"{fits[0]} s / {fits[1]} s",
            ]
        )
    head = ["50,000 x 512", "all in all", "top-1", "beside scikit-learn on"]
    return table([*head, "top-1, ours / its", "one fit, ours / its"], rows)


def neighbours() -> str:
    found = read("evaluation")["neighbours"]
    rows = []
    for size, costs in found.items():
        if size.startswith("n="):
            for name, cost in costs.items():
                seconds, peak = number(cost["seconds"]["median"]), number(cost["peak_mb"])
                rows.append([f"{name}, {size}", f"{seconds} s", f"{peak} MB"])
    return table(["512 features", "seconds", "memory beyond the features"], rows)


def extraction() -> str:
    rows = []
    for precision, found in read("evaluation")["extraction"].items():
        speeds = [cell(found["images_per_second"][who]) for who in ("ours", "bare")]
        rows.append([precision, *speeds, cell(found["over_bare"])])
    return table(["precision", "ours, images/s", "bare forward", "ours / bare"], rows)


def machine() -> str:
    found = read("training")
    rows = [[name, str(value)] for name, value in found["hardware"].items()]
    rows += [[name, version] for name, version in found["versions"].items()]
    return table(["of every table here", ""], rows)


TABLES: dict[str, Callable[[], str]] = {
    "machine": machine,
    "training": lambda: training("training"),
    "training-thin": lambda: training("training-thin"),
    "peer": peer,
    "growth": growth,
    "methods": methods,
    "variants": variants,
    "updates": updates,
    "views": views,
    "reading": reading,
    "listing": listing,
    "startup": startup,
    "memory": memory,
    "published": published,
    "metrics": metrics,
    "probe": probe,
    "neighbours": neighbours,
    "extraction": extraction,
}


def filled(text: str) -> str:
    """The page with every table as the results have it."""
    return MARKED.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)


def main() -> None:
    page = Path(sys.argv[1])
    page.write_text(filled(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
