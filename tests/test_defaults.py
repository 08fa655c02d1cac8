"""Every number of the default method is explained: in its file, and on the page of decisions."""

import re
from pathlib import Path

import constants

ROOT = Path(__file__).parents[1]


def test_the_page_of_decisions_lists_every_number():
    assert constants.is_up_to_date(), "run `python benchmarks/constants.py`"


def test_every_section_that_the_numbers_name_exists():
    headings = re.findall(r"^## (.*)$", constants.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert {section for _, _, section in constants.constants()} <= anchors


def test_every_number_has_a_reason_and_is_used():
    lines = constants.SOURCE.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[A-Z_]+.* = ", line):
            above = lines[number - 1]
            assert re.match(r"# (?!----)", above), f"{line}: why?"
    used = set()
    for path in (ROOT / "src").rglob("*.py"):
        if path != constants.SOURCE:
            used |= set(re.findall(r"\b[A-Z][A-Z_]+\b", path.read_text(encoding="utf-8")))
    assert {name for name, _, _ in constants.constants()} <= used
