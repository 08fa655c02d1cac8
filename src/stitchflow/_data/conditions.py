"""Conditions, such as control and treated: checks of their labels, and their replicates."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._status import BadInput


def names_of(conditions: np.ndarray) -> tuple[str, ...]:
    """The names of all conditions as text, in the order of the texts, which runs store."""
    return tuple(sorted(map(str, np.unique(conditions).tolist())))


def check_within_groups(conditions: np.ndarray | None, groups: np.ndarray | None) -> None:
    """Refuse a group whose individuals are under two conditions."""
    if conditions is None or groups is None:
        return
    names, group = np.unique(groups, return_inverse=True)
    kinds, condition = np.unique(conditions, return_inverse=True)
    first = condition[np.unique(group, return_index=True)[1]]
    apart = np.flatnonzero(first[group] != condition)
    if apart.size:
        row = apart[0]
        one, other = kinds[first[group[row]]], kinds[condition[row]]
        raise BadInput(
            f"conditions must be constant within a group: group {names[group[row]]} is under "
            f"{one} and {other}; give dishes, donors or animals of their own names as groups"
        )


def check_several_times(conditions: np.ndarray | None, index: np.ndarray) -> None:
    """Refuse a condition that was seen at one time only: nothing is seen to move there."""
    if conditions is None:
        return
    names, condition = np.unique(conditions, return_inverse=True)
    for k, name in enumerate(names):
        seen = np.unique(index[condition == k])
        if len(seen) < 2:
            raise BadInput(
                f"condition {name} was seen at one time only, which shows no motion: leave it out, "
                "or give the individuals of its other times their condition as well"
            )


def place_of(condition: Any, known: tuple[str, ...]) -> int:
    """The number of a condition among the `known` ones; an error lists them."""
    if str(condition) not in known:
        listed = ", ".join(known) or "none: the data has no conditions"
        raise BadInput(f"condition {condition!r} is unknown; conditions are {listed}")
    return known.index(str(condition))


def replicates(conditions: np.ndarray, groups: np.ndarray | None) -> dict[str, int]:
    """How many groups each condition has; without groups a condition is one population."""
    found = {}
    for name in np.unique(conditions):
        own = conditions == name
        found[str(name)] = 1 if groups is None else len(np.unique(groups[own]))
    return found
