#!/bin/sh
# What only a GPU can show, within minutes: speed, precision, the price of methods, and a training.
#
#     sh benchmarks/gpu.sh DATA OUT       DATA: CIFAR-10's files; OUT: new or empty, for the figures
#
# DEVICE=cuda|cpu      where to run (cuda)
# SECONDS_IN_ALL=360   the time there is; pretraining gets what the other parts leave
# WHEELS=FOLDER        of wheels to install missing packages from; nothing is fetched
# RUNS=FOLDER          of the run directories, made new (OUT/runs)
# PYTHON=python3       the interpreter; the package is read from src, and need not be installed
# TINY=1               everything at a size that a CPU does in a few minutes: tries the script
#
# A part that fails or is skipped stops no other; the end lists them, and the status says if any did.

cd "$(dirname "$0")/.." || exit 2
[ $# -eq 2 ] || { sed -n '2,14s/^# \{0,1\}//p' benchmarks/gpu.sh; exit 2; }
mkdir -p "$2" || exit 2
DATA=$(cd "$1" && pwd) || exit 2
OUT=$(cd "$2" && pwd)
DEVICE=${DEVICE:-cuda}
SECONDS_IN_ALL=${SECONDS_IN_ALL:-360}
RUNS=${RUNS:-$OUT/runs}
PYTHON=${PYTHON:-python3}
GOAL=600  # seconds for 200 epochs
START=$(date +%s)
DONE=
FAILED=
export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
# Older figures would pass for new ones, and an older training would only be gone on with.
[ -z "$(ls -A "$OUT")" ] || { echo "$OUT is not empty"; exit 2; }
mkdir "$RUNS" || exit 2

if [ -n "$TINY" ]; then
    SMALL=resnet18-thin BATCH=32 LARGE=64 DEEP=resnet18-thin DEEP_SIDE=32 DEEP_BATCH=16
    SIDE=16 STEPS=2 ROUNDS=2
    KEYS="encoder.name=resnet18-thin encoder.stem_stride=2 train.batch=64 train.log_every=2"
    KEYS="$KEYS data.limit=512 evaluation.train_limit=1000"
    KEEP=130 RESERVE=60
    export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"  # more than there are idle cores cost a lot
else
    SMALL=resnet18 BATCH=256 LARGE=1024 DEEP=resnet50 DEEP_SIDE=224 DEEP_BATCH=256
    SIDE=32 STEPS=15 ROUNDS=5
    KEYS="encoder.stem_padding=1"
    KEEP=150 RESERVE=100
fi

left() { echo $((SECONDS_IN_ALL - $(date +%s) + START)); }

# part NAME SECONDS MODULES COMMAND...: one that may fail; MODULES are imported first, to say what
# is missing in one line
part() {
    name=$1 limit=$2 modules=$3
    shift 3
    echo
    echo "== $name: at most $limit of $(left) s left"
    if [ "$limit" -lt 5 ]; then
        echo "$name: skipped, no time left"
        FAILED="$FAILED $name(no-time)"
        return 1
    fi
    if ! why=$("$PYTHON" -c "import $modules" 2>&1); then
        echo "$name: skipped: $(echo "$why" | tail -n 1)"
        FAILED="$FAILED $name(skipped)"
        return 1
    fi
    began=$(date +%s)
    timeout "$limit" "$@" >"$OUT/$name.log" 2>&1
    status=$?
    tail -n 30 "$OUT/$name.log"
    if [ $status -ne 0 ]; then
        FAILED="$FAILED $name($status)"
        echo "$name: FAILED with status $status (124: out of time)"
        return 1
    fi
    DONE="$DONE $name"
    echo "$name: passed in $(($(date +%s) - began)) s"
}

# within SECONDS: so many, or what there is beside the KEEP seconds of the training
within() {
    spare=$(($(left) - KEEP))
    if [ "$spare" -lt "$1" ]; then echo "$spare"; else echo "$1"; fi
}

# --- what is here -------------------------------------------------------------------------------
"$PYTHON" - <<'PYTHON' >"$RUNS/missing"
import importlib.metadata as found, re, sys, tomllib
for line in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]:
    name = re.match(r"[\w-]+", line)[0]
    try:
        print(f"{line}: {found.version(name)}", file=sys.stderr)
    except found.PackageNotFoundError:
        print(f"{line}: MISSING", file=sys.stderr)
        print(line)
PYTHON
if [ -s "$RUNS/missing" ] && [ -n "$WHEELS" ]; then
    while read -r wanted; do
        PIP_BREAK_SYSTEM_PACKAGES=1 "$PYTHON" -m pip install --quiet --no-index \
            --find-links "$WHEELS" "$wanted" && echo "installed $wanted" ||
            echo "MISSING, and not in $WHEELS: $wanted"
    done <"$RUNS/missing"
elif [ -s "$RUNS/missing" ]; then
    echo "parts that need a missing package are skipped; WHEELS=FOLDER would install them"
fi
[ "$DEVICE" = cpu ] || nvidia-smi || true

# --- speed: each method's loop against the bare step ------------------------------------------
speed() {  # NAME ENCODER SIDE BATCH STEPS SECONDS METHODS...
    name=$1 encoder=$2 side=$3 batch=$4 steps=$5 seconds=$6
    shift 6
    part "$name" "$(within "$seconds")" "pellucid.build, pellucid.train.loop" \
        "$PYTHON" benchmarks/training.py --encoder "$encoder" --side "$side" --batch "$batch" \
        --steps "$steps" --rounds "$ROUNDS" --methods "$@" --device "$DEVICE" --out "$OUT/$name.json"
}
speed speed-small "$SMALL" "$SIDE" "$BATCH" "$STEPS" 60 simclr ncl bayesncl
speed speed-large "$SMALL" "$SIDE" "$LARGE" "$STEPS" 60 ncl
speed speed-deep "$DEEP" "$DEEP_SIDE" "$DEEP_BATCH" 3 70 ncl

# --- precision and the price of methods -------------------------------------------------------
part precision "$(within 50)" "pellucid.build, pellucid.train.loop" \
    "$PYTHON" benchmarks/precision.py --encoder "$SMALL" --side "$SIDE" --batch "$BATCH" \
    --device "$DEVICE" --out "$OUT/precision.json"
part methods "$(within 60)" "pellucid.build, pellucid.train.loop" \
    "$PYTHON" benchmarks/methods.py --encoder "$SMALL" --side "$SIDE" --batch "$BATCH" \
    --rounds "$((4 * ROUNDS))" --device "$DEVICE" --out "$OUT/methods.json"

# --- a training from its data to its comparison -----------------------------------------------
pretrain() {  # NAME METHOD EPOCHS SECONDS
    # The warm-up keeps its published share: 10 of 200 epochs.
    warm=$("$PYTHON" -c "print($3 / 20)")
    # shellcheck disable=SC2086  # the keys are words
    part "$1" "$4" "pellucid.cli, pellucid.pretraining" "$PYTHON" -m pellucid.cli pretrain "$2" \
        cifar10 $KEYS "data.root=$DATA" "train.epochs=$3" "train.warmup_epochs=$warm" \
        --device "$DEVICE" --out "$RUNS/$1"
}

# pace NAME SECONDS: of a run that took so long, and what it says of 200 epochs
pace() {
    "$PYTHON" - "$RUNS/$1" "$2" "$(left)" "$RESERVE" "$GOAL" "$OUT/pace-$1.json" <<'PYTHON'
import json, sys
from pathlib import Path

run, whole, left, reserve, goal = Path(sys.argv[1]), *map(float, sys.argv[2:6])
lines = [json.loads(line) for line in (run / "timing.jsonl").read_text().splitlines()]
lines = lines[1:] or lines  # the first window holds the choice of kernels
seconds = sum(line["seconds"] for line in lines)
pace = sum(line["images_per_second"] * line["seconds"] for line in lines) / seconds
images = json.loads((run / "environment.json").read_text())["data"]["images"]
epochs = json.loads((run / "recipe.json").read_text())["train"]["epochs"]
epoch = images / pace  # with the checkpoint between two epochs
around = max(whole - epochs * epoch, 0.0)  # imports, reading, kernels, the last checkpoint
facts = {
    "epochs": epochs,
    "images_per_second": pace,
    "seconds_of_an_epoch": epoch,
    "seconds_around_the_epochs": around,
    "minutes_of_200_epochs": (200 * epoch + around) / 60,
    "goal_minutes": goal / 60,
    "met": 200 * epoch + around <= goal,
    "epochs_for_each_of_two_in_the_time_left": min(
        200, max(1, int(((left - reserve) / 2 - around) / epoch))
    ),
}
text = json.dumps(facts, indent=1)
Path(sys.argv[6]).write_text(text + "\n")
print(text)
PYTHON
}

began=$(date +%s)
if pretrain epoch ncl 2 "$(left)" && pace epoch $(($(date +%s) - began)); then
    EPOCHS=$("$PYTHON" -c "import json
print(json.load(open('$OUT/pace-epoch.json'))['epochs_for_each_of_two_in_the_time_left'])")
    [ -z "$TINY" ] || EPOCHS=2
    limit=$(($(left) * 6 / 10))
    for method in ncl bayesncl; do
        began=$(date +%s)
        pretrain "$method" "$method" "$EPOCHS" "$limit" && pace "$method" $(($(date +%s) - began))
        limit=$(left)
    done
else
    FAILED="$FAILED ncl(no-pace) bayesncl(no-pace)"
fi
for method in ncl bayesncl; do
    [ -f "$RUNS/$method/recipe.json" ] || continue
    if part "evaluate-$method" "$(left)" pellucid.evaluate.evaluation \
        "$PYTHON" -m pellucid.cli evaluate "$RUNS/$method" --device "$DEVICE"; then
        cp "$RUNS/$method/scores.json" "$OUT/scores-$method.json"
        cp "$RUNS/$method/timing.jsonl" "$OUT/timing-$method.jsonl"
    fi
done
if [ -f "$OUT/scores-ncl.json" ] && [ -f "$OUT/scores-bayesncl.json" ]; then
    part compare "$(left)" pellucid.compare.compare \
        "$PYTHON" -m pellucid.cli compare "$RUNS/ncl" "$RUNS/bayesncl" --out "$OUT/comparison"
else
    FAILED="$FAILED compare(nothing-to-compare)"
fi

echo
echo "passed:${DONE:- none}"
echo "failed:${FAILED:- none}"
echo "in $(($(date +%s) - START)) s; figures in $OUT"
[ -z "$FAILED" ]
