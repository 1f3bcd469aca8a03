"""The rules that hold the package's shape, read off its source."""

import ast
from pathlib import Path

import pytest

import pellucid

PACKAGE = Path(pellucid.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

ORDER = [
    *(
        "settings",
        "text",
        "types",
        "locks",
        "randomness",
        "transfer",
        "distributed",
        "losses",
        "metrics",
        "data",
    ),
    *("nets", "heads", "query_transforms", "regularisers", "branch", "frameworks", "learner"),
    *(
        "train",
        "sections",
        "recipe",
        "build",
        "run",
        "evaluate",
        "representation",
        "compare",
        "embed",
    ),
    *("answer", "explore", "pretraining", "preview", "listing", "cli"),
]
"""A part imports only parts to its left, and itself."""

PLAIN_NUMBERS = {
    ("train.batches", "ViewSettings"),
    ("train.loop", "Plan"),
    ("train.finite", "Plan"),
}
"""Below `build`, the only places that take a dataclass of settings: of plain numbers alone."""


def module_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imported(source, modules):
    """Modules of this package that a source imports, at its top or anywhere inside."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names if a.name.split(".")[0] == "pellucid"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            if node.module and node.module.split(".")[0] == "pellucid":
                names = {f"{node.module}.{a.name}" for a in node.names}
                inside = {n for n in names if n.removeprefix("pellucid.") in modules}
                found |= inside | ({node.module} if len(inside) < len(names) else set())
    return {name.partition(".")[2] for name in found}


@pytest.fixture(scope="module")
def imports():
    modules = {module_of(path) for path in FILES}
    return {module_of(path): imported(path.read_text("utf-8"), modules) for path in FILES}


def test_what_counts_as_an_import():
    source = "import torch\nfrom pellucid import a\ndef f():\n    from pellucid.b import c, D"
    assert imported(source, {"a", "b", "b.c"}) == {"a", "b.c", "b"}
    assert imported("import pellucid.b.c", {"b.c"}) == {"b.c"}


def test_every_part_has_its_place(imports):
    parts = {module.split(".")[0] for module in imports} - {""}
    assert parts <= set(ORDER), f"give {parts - set(ORDER)} a place in ORDER"


def test_imports_run_one_way(imports):
    wrong = []
    for module, names in imports.items():
        own = ORDER.index(module.split(".")[0]) if module else len(ORDER)
        wrong += [
            f"{module} imports {name}"
            for name in names
            if not name or ORDER.index(name.split(".")[0]) > own
        ]
    assert not wrong


def test_no_module_imports_itself_over_others(imports):
    left = dict(imports)
    while left:
        free = [module for module, names in left.items() if not (names - {module}) & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        left = {module: names for module, names in left.items() if module not in free}


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_no_file_is_longer_than_300_lines(path):
    assert len(path.read_text("utf-8").splitlines()) <= 300


def test_no_drawers():
    names = {part for path in FILES for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert not names & {"utils", "util", "helpers", "common", "misc", "tools"}


def test_no_config_object_below_build(imports):
    below = ORDER[: ORDER.index("recipe")]
    taking = set()
    for path in FILES:
        module = module_of(path)
        if module.split(".")[0] not in below or module == "settings":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.FunctionDef):
                continue
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            names = {
                n.id
                for a in arguments
                if a.annotation
                for n in ast.walk(a.annotation)
                if isinstance(n, ast.Name)
            }
            configs = {n for n in names if n.endswith(("Settings", "Recipe", "Plan", "Choice"))}
            taking |= {(module, name) for name in configs}
    own = {(m, n) for m, n in taking if m.startswith("data.") and n == "ViewSettings"}
    assert taking - own == PLAIN_NUMBERS


def test_nothing_pickles():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            packages = {name.split(".")[0] for name in names}
            assert not packages & {"pickle", "cloudpickle", "dill", "joblib", "shelve"}, path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {("torch", "load"), ("torch", "save")}
            if isinstance(node, ast.keyword):
                assert node.arg != "allow_pickle", path
