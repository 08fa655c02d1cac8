"""Pages of the documentation, run as programs."""

import re
import shlex
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


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
