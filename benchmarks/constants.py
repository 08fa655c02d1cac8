"""The table of `docs/decisions.md` that lists every number of the defaults file.

`python benchmarks/constants.py` writes it; a test asks that it is up to date.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from marked_pages import ROOT, fill, put

SOURCE = ROOT / "src" / "stitchflow" / "_stitching" / "defaults.py"
PAGE, MARK = ROOT / "docs" / "decisions.md", "table: benchmarks/constants.py"


def constants() -> Iterator[tuple[str, str, str]]:
    """Name, value and section of every number, in the order of the file."""
    source = SOURCE.read_text(encoding="utf-8")
    sections = {
        number: found[1]
        for number, line in enumerate(source.splitlines(), 1)
        if (found := re.match(r"# ---- docs/decisions\.md#(.*)", line))
    }
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign):
            continue
        section = sections[max(line for line in sections if line < node.lineno)]
        target, value = node.targets[0], node.value
        several = isinstance(target, ast.Tuple)
        names = target.elts if several else [target]
        values = value.elts if several and isinstance(value, ast.Tuple) else [value]
        for name, one in zip(names, values, strict=True):
            yield ast.unparse(name), ast.unparse(one), section


def table() -> str:
    rows = [f"| `{n}` | {v} | [{s.replace('-', ' ')}](#{s}) |" for n, v, s in constants()]
    return "\n".join(["| name | value | section |", "|---|---|---|", *rows])


def is_up_to_date() -> bool:
    return put(PAGE, MARK, table()) == PAGE.read_text(encoding="utf-8")


if __name__ == "__main__":
    fill(PAGE, MARK, table())
