#!/bin/sh
# Every benchmark of docs/speed.md, one after the other: an hour on two idle cores.
#
#     sh benchmarks/all.sh [NAME ...]      some of them by name; all by default
#
# Each writes benchmarks/results/NAME.json when it ends; the tables of docs/speed.md are then made of
# what is there. Other work on the machine falls on the contestants of a ratio alike, but not evenly.
# PHOTOGRAPHS=FOLDER and CIFAR10=FOLDER measure reading and start-up on real images. PEER is a Python
# that has stable-pretraining beside what this package needs; without it that peer is left out.

cd "$(dirname "$0")/.." || exit 2
PYTHON=${PYTHON:-python3}
PEER=${PEER:-$PYTHON}
FAILED=

bench() {  # NAME SCRIPT [OPTIONS]
    name=$1 script=$2
    shift 2
    [ -z "$ASKED" ] || case " $ASKED " in *" $name "*) ;; *) return ;; esac
    echo "== $name  ($(date +%H:%M:%S))"
    "$PYTHON" "benchmarks/$script.py" "$@" --out "benchmarks/results/$name.json" >/dev/null ||
        FAILED="$FAILED $name"
}

ASKED=$*
bench training training --encoder resnet18 --peer --methods simclr ncl bayesncl ie-simclr \
    --steps 3 --rounds 7
bench training-thin training --encoder resnet18-thin --peer --steps 5 --rounds 11 \
    --methods simclr ncl bayesncl moco byol ie-simclr ie-moco ie-byol ie-bayesncl
if PYTHONPATH=src "$PEER" -c "import stable_pretraining" 2>/dev/null; then
    OURS=$PYTHON PYTHON=$PEER PYTHONPATH=src
    export PYTHONPATH
    bench peer training_peer --encoder resnet18 --steps 3 --rounds 5
    bench peer-thin training_peer --encoder resnet18-thin --steps 5 --rounds 9
    PYTHON=$OURS
fi
for batch in 32 64 256 512; do
    bench "growth-batch-$batch" training --encoder resnet18-thin --batch $batch --rounds 7 \
        --steps $((640 / batch + 1))
done
bench growth-side-64 training --encoder resnet18-thin --side 64 --steps 2 --rounds 7
bench growth-side-224 training --encoder resnet18-thin --side 224 --batch 32 --steps 2 --rounds 7
bench methods methods --batch 64 --rounds 9
bench tried tried --encoder resnet18-thin --rounds 21
bench tried-resnet18 tried --encoder resnet18 --batch 64 --rounds 5
bench views views
bench reading reading
[ -z "$PHOTOGRAPHS" ] || bench reading-photographs reading --images "$PHOTOGRAPHS"
bench listing listing
bench startup startup ${CIFAR10:+--root "$CIFAR10"}
bench evaluation evaluation
"$PYTHON" benchmarks/tables.py docs/speed.md || FAILED="$FAILED tables"
[ -z "$FAILED" ] || { echo "failed:$FAILED"; exit 1; }
