"""docs/speed.md shows what the benchmarks wrote, and nothing else in its tables."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "speed.md").read_text("utf-8")


@pytest.fixture
def tables():
    spec = importlib.util.spec_from_file_location("tables", ROOT / "benchmarks" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_table_is_that_of_the_results(tables):
    names = [found[2] for found in tables.MARKED.finditer(PAGE)]
    assert sorted(names) == sorted(tables.TABLES)
    assert tables.filled(PAGE) == PAGE


def test_another_result_is_another_page(tables, tmp_path, monkeypatch):
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        changed = re.sub(r'"median": [0-9.e+-]+', '"median": 123456.0', path.read_text("utf-8"))
        (tmp_path / path.name).write_text(changed)
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.filled(PAGE) != PAGE
    assert tables.filled(PAGE).count("123,456") > 50


def test_every_result_says_on_what_it_was_measured():
    results = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
    assert len(results) >= 10
    facts = {path.name: json.loads(path.read_text("utf-8")) for path in results}
    assert len({json.dumps(found["hardware"]) for found in facts.values()}) == 1
    for name, found in facts.items():
        assert found["versions"]["torchvision"], name
        assert found["hardware"]["threads"] >= 1
