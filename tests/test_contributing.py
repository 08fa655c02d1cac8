"""The guide for contributors agrees with the code: its files, its layers, its public names."""

import ast
import re
import sys
from itertools import chain
from pathlib import Path

import pytest

import stitchflow as sf
from pages import ROOT, public_names
from test_layers import LAYERS, SOURCE

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
PATH = re.compile(r"[\w.-]*(/[\w.-]*|\.(py|md|toml))+")


def paths(page: str) -> list[str]:
    """What a page names in backticks that looks like a file or a folder of this repository."""
    named = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    elsewhere = (".", "/", "run/")  # `run` is what the user calls a run
    return [name for name in named if PATH.fullmatch(name) and not name.startswith(elsewhere)]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "docs/extend.md"])
def test_every_path_exists(page):
    found = paths((ROOT / page).read_text())
    assert found
    missing = [p for p in found if not ((ROOT / p).exists() or (SOURCE / p).exists())]
    assert missing == []


def test_the_map_has_the_layers_of_the_code():
    table = GUIDE.split("| where |")[1].split("\n\n")[0]
    first = [row.split("|")[1] for row in table.splitlines()[2:]]
    places = [{re.sub(r"/$|\.py$", "", name) for name in re.findall(r"`(.*?)`", c)} for c in first]
    assert places == LAYERS


def test_every_change_names_its_file_and_its_test():
    table = GUIDE.split("| change |")[1].split("\n\n")[0]
    rows = [row.split("|")[1:4] for row in table.splitlines()[2:]]
    assert len(rows) > 15
    for change, edit, test in rows:
        assert paths(edit), change
        assert paths(test) or "the same" in test, change


def test_every_rival_is_imported_in_its_folder():
    """Writing a file is not enough: only what is imported is in `METHODS`."""
    folder = SOURCE / "rivals"
    trees = chain(*(ast.parse(path.read_text()).body for path in folder.glob("_[a-z]*.py")))
    named = {
        node.name
        for node in trees
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(line).startswith("name = ") for line in node.body)
    }
    assert named == public_names(sys.modules["stitchflow.rivals"])
    assert named <= {type(make()).__name__ for make in sf.METHODS.values()}


@pytest.mark.parametrize("module", [sf, sf.tl, sf.pl, sf.report, sf.datasets])
def test_a_package_imports_public_names_and_nothing_else(module):
    """A name that is imported without being imported as itself is not public to type checkers."""
    nodes = ast.parse(Path(module.__file__).read_text()).body
    own = [n for n in nodes if isinstance(n, ast.ImportFrom) and n.module.startswith("stitchflow")]
    assert all(a.name in ("*", a.asname) for node in own for a in node.names)
    assert public_names(module) <= set(vars(module))
