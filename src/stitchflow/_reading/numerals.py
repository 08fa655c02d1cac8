"""Numbers that are written as text: with decimal commas, grouped thousands or percent signs."""

from __future__ import annotations

import re
from collections.abc import Sequence

EXPONENT = r"(?:[eE][-+]?\d+)?"
PLAIN = re.compile(rf"[-+]?(?:\d+\.?\d*|\.\d+){EXPONENT}")
# Decimal point, and thousands that may be grouped by commas; the other convention swaps the two.
GROUPED = re.compile(rf"[-+]?(?:\d*|[1-9]\d{{0,2}}(?:,\d{{3}})+)(?:\.\d*)?{EXPONENT}")
# Digits with the separators that are in use.
NUMERAL = re.compile(rf"[-+]?[.,]?\d[\d.,' \u00a0\u202f\u2019]*{EXPONENT} ?%?")
SWAPPED = str.maketrans(".,", ",.")
MINUS = str.maketrans("\u2212", "-")  # the minus sign of typesetting


def is_numeral(text: str) -> bool:
    """Whether a text looks like one number in some convention, even if it is ambiguous which."""
    return NUMERAL.fullmatch(_bare(text)) is not None


def is_plain(text: str) -> bool:
    """Whether a text is a number as programs write it."""
    return PLAIN.fullmatch(_bare(text)) is not None


def read_numerals(texts: Sequence[str]) -> list[float] | None:
    """The numbers of a column of texts, or None unless exactly one convention is possible.

    "2,5" cannot be a group of thousands, "1,200,000" and "1,200.5" cannot be anything else, and
    "1,200" may be either. A percentage is divided by a hundred: "2.5%" is 0.025.

    >>> read_numerals(["2,5", "1,200"])
    [2.5, 1.2]
    """
    bare = [_bare(text) for text in texts]
    percent = [text.endswith("%") for text in bare]
    if any(percent) and not all(percent):
        return None
    bare = [text.removesuffix("%").rstrip() for text in bare]
    whole = 100.0 if any(percent) else 1.0
    if all(PLAIN.fullmatch(text) for text in bare):
        return [float(text) / whole for text in bare]
    swapped = [text.translate(SWAPPED) for text in bare]
    readings = [found for found in map(_grouped, (bare, swapped)) if found is not None]
    if not readings or any(other != readings[0] for other in readings) or _two_habits(bare):
        return None
    return [number / whole for number in readings[0]]


def _bare(text: str) -> str:
    return text.strip().translate(MINUS)


def _grouped(texts: list[str]) -> list[float] | None:
    """The numbers with decimal points and groups of thousands; None if one is otherwise."""
    if not all(GROUPED.fullmatch(text) and re.search(r"\d", text) for text in texts):
        return None
    return [float(text.replace(",", "")) for text in texts]


def _two_habits(texts: list[str]) -> bool:
    """Whether some texts have points and others commas, and none shows which is the decimal one."""
    used = {mark for text in texts for mark in ".," if mark in text}
    shown = any(len(re.findall(r"[.,]", text)) > 1 for text in texts)
    return len(used) == 2 and not shown
