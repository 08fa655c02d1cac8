"""Imports go downward only."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "stitchflow"

LAYERS = [
    {"_extras", "_h5_probe", "_files", "_html", "_parts", "_progress", "_status", "_types"},
    {
        "_archive",
        "_change",
        "_checkpoint",
        "_declared",
        "_cluster",
        "_content",
        "_coupling",
        "_kde",
        "_motion",
        "_networks",
        "_numerals",
        "_observations",
        "_parquet",
        "_pairs",
        "_regression",
        "_run_state",
        "_sharding",
        "_sinkhorn",
        "_snapshots",
        "_time_labels",
        "_units",
        "metrics",
    },
    {
        "_curve",
        "_drift",
        "_energy",
        "_feature_terms",
        "_flow_curve",
        "_pair_terms",
        "_spline",
        "_terms",
        "_vector_field",
    },
    {
        "_action",
        "_density_residual",
        "_dissipation",
        "_divergence",
        "_intervals",
        "_residual",
        "_simulate",
    },
    {
        "_advice",
        "_choices",
        "_consistency",
        "_flow",
        "_growth",
        "_optimise",
        "_packing",
        "_stages",
        "_start",
        "tracking",
    },
    {"_driven", "_jko", "_method", "_stitching", "rivals"},
    {
        "_cells",
        "_crossval",
        "_diagnose",
        "_diagnosis",
        "_ensemble",
        "_evaluate",
        "_frames",
        "_h5ad",
        "_io",
        "_judge",
        "_methods",
        "_scores",
        "_tables",
    },
    {"_demo", "_run_folder", "_runs", "_settings", "bench", "datasets", "pl", "report", "tl"},
    {"_options", "cli"},
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
