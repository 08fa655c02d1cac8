"""Times that are written as labels: "E8.5", "day 12", "36h"."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stitchflow._status import BadInput, DataWarning

# A hyphen after a letter or digit joins words: "day-2" is day 2, and "-2" is minus two.
NUMBER = re.compile(r"(?:(?<![^\W_])[-+])?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# Seconds of each unit, and how it is written. Months and years vary in length, and "m" may be a
# month or a minute, so they cannot be converted.
UNITS: dict[str, tuple[float, str]] = {
    "milliseconds": (1e-3, "ms msec millisecond milliseconds"),
    "seconds": (1.0, "s sec secs second seconds"),
    "minutes": (60.0, "min mins minute minutes"),
    "hours": (3600.0, "h hr hrs hour hours"),
    "days": (86400.0, "d day days"),
    "weeks": (604800.0, "w wk wks week weeks"),
}
WRITTEN = {word: unit for unit, (_, words) in UNITS.items() for word in words.split()}


def durations(labels: Sequence[Any]) -> np.ndarray | None:
    """The times of labels that are each a number with a unit of time; None if one of them is not.

    Several units are converted to the smallest of them, with a warning.

    >>> durations(["0h", "36h"]).tolist()
    [0.0, 36.0]
    """
    parts = [_parted(label) for label in labels]
    if not all(part is not None and (part[1] in WRITTEN or _is_zero(part)) for part in parts):
        return None
    return _in_one_unit(labels, [part for part in parts if part is not None])


def order_of(labels: Sequence[Any]) -> np.ndarray:
    """The times of ordered labels: the number in each if the numbers increase, else 0, 1, 2, ...

    >>> order_of(["E8.5", "E9.0"]).tolist()
    [8.5, 9.0]
    """
    parts = [_parted(label) for label in labels]
    if all(part is not None for part in parts):
        values = _in_one_unit(labels, [part for part in parts if part is not None])
        if (np.diff(values) > 0).all():
            return values
    if any(NUMBER.search(str(label)) for label in labels):
        words = f"the labels {_listed(labels)} are not each named with one number"
        advice = "their places 0, 1, 2, ... are the times; give numbers for other times"
        warnings.warn(f"{words} that rises: {advice}", DataWarning, stacklevel=3)
    return np.arange(len(labels), dtype=np.float64)


def labels_of(column: Any, t: np.ndarray) -> dict[str, float]:
    """The label of each time in a column that does not hold numbers; empty where it does.

    Arguments:
        column: the times as they are written, an array or a column of a data frame.
        t: the times as numbers.
    """
    if getattr(column.dtype, "kind", "O") in "biuf":
        return {}
    known = np.flatnonzero(np.isfinite(t))
    first = known[np.unique(t[known], return_index=True)[1]]
    place = column.iloc if hasattr(column, "iloc") else column
    written = {str(place[row]).strip(): float(t[row]) for row in first}
    return {} if all(map(_is_number, written)) else written


def time_named(text: str, known: Mapping[str, float]) -> float:
    """The time that a number or a label means, among data whose `known` labels have these times.

    A label that does not occur counts as those that do: with "day 0" and "day 2", "day 5" is 5.

    >>> time_named("day 5", {"day 0": 0.0, "day 2": 2.0})
    5.0
    """
    text = text.strip()
    if _is_number(text):
        return float(text)
    if text in known:
        return known[text]
    part, units = _parted(text), _unit_sizes(known)
    if part is not None and part[1] in units:
        return part[0] * units[part[1]]
    listed = _listed(list(known))
    there = f"a label of a time ({listed})" if known else "a label, of which the data have none"
    raise BadInput(f"{text!r} is neither a finite number nor {there}")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _unit_sizes(known: Mapping[str, float]) -> dict[str, float]:
    """How long the unit of each word is, as far as all labels agree about it."""
    sizes: dict[str, set[float]] = {}
    for label, time in known.items():
        part = _parted(label)
        if part is not None and part[0] != 0.0:
            sizes.setdefault(part[1], set()).add(round(time / part[0], 12))
    found = {word: min(values) for word, values in sizes.items() if len(values) == 1}
    for word in [word for word in found if word in WRITTEN]:
        second = found[word] / UNITS[WRITTEN[word]][0]
        found = {other: second * UNITS[unit][0] for other, unit in WRITTEN.items()} | found
    return found


def _parted(label: Any) -> tuple[float, str] | None:
    """The only number of a label, and the words around it, which give the unit; None otherwise."""
    found = NUMBER.findall(str(label))
    if len(found) != 1:
        return None
    around = re.sub(r"[\s_-]+", " ", NUMBER.sub(" ", str(label), count=1).lower()).strip()
    return float(found[0]), around


def _is_zero(part: tuple[float, str]) -> bool:
    """Zero without a unit is the same time in every unit."""
    return part == (0.0, "")


def _in_one_unit(labels: Sequence[Any], parts: list[tuple[float, str]]) -> np.ndarray:
    values = np.array([number for number, _ in parts])
    words = [WRITTEN.get(word, word) for word in (part[1] for part in parts)]
    used = {word for word, part in zip(words, parts, strict=True) if not _is_zero(part)}
    if len(used) <= 1:
        return values
    if not used <= set(UNITS):
        raise BadInput(
            f"the labels {_listed(labels)} count in several units that cannot be converted into "
            "one another; give numbers for the times"
        )
    unit = min(used, key=lambda word: UNITS[word][0])
    warnings.warn(
        f"the labels {_listed(labels)} are of several units: their times are counted in {unit}",
        DataWarning,
        stacklevel=4,
    )
    scale = [UNITS.get(word, UNITS[unit])[0] / UNITS[unit][0] for word in words]
    return values * np.array(scale)


def _listed(labels: Sequence[Any]) -> str:
    return ", ".join(map(str, labels[:5])) + (", ..." if len(labels) > 5 else "")
