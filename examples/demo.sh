#!/bin/sh
# The main job on built-in data: pretrain three methods, evaluate them, compare them.
# Run it by `make demo`; a run that is already there is taken up, not trained again.
set -eu
PELLUCID=${PELLUCID:-pellucid}
RUNS=${RUNS:-runs/demo}
for method in simclr ncl bayesncl; do
    "$PELLUCID" pretrain "$method" scenes --out "$RUNS/$method"
    "$PELLUCID" evaluate "$RUNS/$method"
done
"$PELLUCID" compare "$RUNS/simclr" "$RUNS/ncl" "$RUNS/bayesncl" --out "$RUNS/comparison"
"$PELLUCID" explore "$RUNS/bayesncl"
