"""The page on reliability names tests that exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "reliability.md"
ROWS = re.findall(r"^\| .+ \| .+ \| `(\w+\.py)::(\w+)` \|$", PAGE.read_text(), re.MULTILINE)


def test_every_row_names_a_test():
    lines = [line for line in PAGE.read_text().splitlines() if "`test_" in line]
    assert len(lines) == len(ROWS) >= 60
    for file, name in ROWS:
        body = ast.parse((TESTS / file).read_text()).body
        assert name in {node.name for node in body if isinstance(node, ast.FunctionDef)}, name
