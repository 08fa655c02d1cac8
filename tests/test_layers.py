"""Imports go downward only, from folder to folder."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "stitchflow"

# From the ground up; those of one line do not import each other.
LAYERS = [
    {"_status", "_html"},
    {"_types", "_parts"},
    {"metrics", "tracking", "_files"},
    {"_measure"},
    {"_data"},
    {"_energy", "_reading"},
    {"_training"},
    {"_objective"},
    {"_method"},
    {"_weak_form"},
    {"_stitching", "rivals"},
    {"_storage"},
    {"_judging", "datasets"},
    {"pl", "report", "bench"},
    {"tl", "_command"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


# A list of numbers that imports nothing: any module may read it.
DEFAULTS = "stitchflow._stitching.defaults"


def place_of(path: Path) -> str:
    """The folder of a module, or the module itself at the top."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    """Places of this package imported when the file is (functions may look up)."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stitchflow"):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            if DEFAULTS in (node.module, *names):
                continue
            parts = node.module.split(".")[1:]
            found |= {parts[0]} if parts else {alias.name for alias in node.names}
    return found


def test_every_place_has_a_layer():
    places = {place_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert places == set(LEVEL)


def test_few_modules_lie_beside_the_folders():
    assert len(list(SOURCE.glob("*.py"))) <= 8


def test_imports_go_downward():
    for path in SOURCE.rglob("*.py"):
        if path.parent == SOURCE and path.stem == "__init__":
            continue
        here = place_of(path)
        for other in imports_of(path) - {here}:
            assert LEVEL[other] < LEVEL[here], f"{path} imports {other}, which is not below it"


def test_no_two_modules_share_a_name():
    stems = [path.stem.lstrip("_") for path in SOURCE.rglob("*.py") if path.stem != "__init__"]
    assert sorted(stems) == sorted(set(stems))


def test_the_file_of_defaults_imports_nothing():
    tree = ast.parse((SOURCE / "_stitching" / "defaults.py").read_text())
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
