"""Imports go downward only."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "stitchflow"

LAYERS = [
    {"_types", "_status"},
    {
        "_units",
        "_snapshots",
        "_kde",
        "_networks",
        "_coupling",
        "_observations",
        "_sinkhorn",
        "_regression",
        "metrics",
    },
    {"_terms", "_pair_terms", "_vector_field", "_feature_terms", "_energy", "_curve"},
    {"_residual", "_divergence", "_simulate"},
    {"_optimise", "_consistency", "_growth", "_flow", "_packing", "_choices"},
    {"_method", "_driven", "_jko", "_stitching", "rivals"},
    {"_methods", "_evaluate", "_crossval", "_ensemble", "_diagnose", "_io", "_tables"},
    {"datasets", "pl", "tl", "_runs", "_demo", "bench"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Modules of this package imported when the file is (functions may look up)."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stitchflow"):
            parts = node.module.split(".")[1:]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
    return found


def test_every_module_has_a_layer():
    modules = {module_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert modules == set(LEVEL)


def test_imports_go_downward():
    for path in SOURCE.rglob("*.py"):
        if path.parent == SOURCE and path.stem == "__init__":
            continue
        here = module_of(path)
        for other in imports_of(path) - {here}:
            assert LEVEL[other] <= LEVEL[here], f"{path.name} imports {other} from a higher layer"


def test_rivals_import_neither_each_other_nor_stitching():
    for path in (SOURCE / "rivals").glob("_[a-z]*.py"):
        assert "_stitching" not in imports_of(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("stitchflow.rivals")
