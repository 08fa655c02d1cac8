"""The parts of the documentation that the strict build of the site does not look at."""

import re
from collections import Counter

import pytest

from pages import DOCS, ROOT

PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: str) -> str:
    """A page without its code, where brackets mean something else."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page, flags=re.DOTALL)


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=str)
def test_what_is_linked_or_shown_is_there(path):
    """Zensical checks links to pages and anchors, but no pictures and nothing outside docs/."""
    targets = [t.split("#")[0] for t in LINK.findall(prose(path.read_text())) if "://" not in t]
    assert [t for t in targets if t and not (path.parent / t).exists()] == []


def test_every_page_is_listed_once():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = Counter(re.findall(r": (\S+\.md)$", nav, re.MULTILINE))
    assert listed == Counter(str(path.relative_to(DOCS)) for path in PAGES)
