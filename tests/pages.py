"""Pages of the documentation, run as programs, and the names they have to explain."""

import ast
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def blocks(page: str, fence: str) -> list[str]:
    return re.findall(fence + r"\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def run_page(page: str, fence: str = "```python", first: int | None = None) -> dict:
    """What the (first few) blocks of a page leave behind, run top to bottom."""
    names: dict = {"__name__": page}
    for block in blocks(page, fence)[:first]:
        exec(compile(block, page, "exec"), names)
    return names


def commands(page: str) -> list[list[str]]:
    """The arguments of every call of the command line on a page."""
    lines = "".join(blocks(page, "```sh")).splitlines()
    return [shlex.split(line)[1:] for line in lines]


def public_names(module: ModuleType) -> set[str]:
    """The names a package offers: those that its `__init__` imports `as` themselves.

    This is how type checkers know them too. A package may also list them in `__all__`.
    """
    if hasattr(module, "__all__"):
        return set(module.__all__)
    names = set()
    for node in ast.parse(Path(module.__file__).read_text()).body:
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if alias.name == "*":
                names |= public_names(sys.modules[node.module])
            elif alias.asname == alias.name:
                names.add(alias.name)
    return names
