# Every target sets up what it needs. PYTHON chooses the interpreter of the virtual environment.
PYTHON ?= python3
BIN := .venv/bin
# One thread a worker: on few cores more threads than cores cost more than they bring.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --jaxtyping-packages=pellucid,beartype.beartype

SOAK := build/soak.jsonl

.PHONY: help demo test soak lint check format bench clean
.DEFAULT_GOAL := help

help:    ## this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

demo: .venv/ready   ## pretrain simclr, ncl and bayesncl on the built-in scenes, and compare them
	PELLUCID=$(BIN)/pellucid sh examples/demo.sh

test: .venv/ready   ## all tests
	$(PYTEST)

soak: .venv/ready   ## reliability at length: interruptions, failing processes, fuzzing (ten minutes)
	mkdir -p build && rm -f $(SOAK)
	PELLUCID_SOAK=$(CURDIR)/$(SOAK) $(PYTEST) tests/reliability tests/test_several_processes.py
	$(BIN)/python tests/reliability/summary.py $(SOAK)

lint: .venv/ready   ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test    ## what a change must pass

format: .venv/ready ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/ready  ## every figure of docs/speed.md (an hour on two idle cores)
	PYTHON=$(CURDIR)/$(BIN)/python sh benchmarks/all.sh

clean:   ## remove the virtual environment, caches and demo runs
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache runs/demo
