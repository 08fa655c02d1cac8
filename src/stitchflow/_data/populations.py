"""Populations: the individuals of one group at one time, among whom pair terms act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stitchflow._status import BadInput
from stitchflow._types import as_numbers


def population_codes(index: np.ndarray, groups: np.ndarray | None) -> np.ndarray:
    """The number of each row's population, counted by time and then by group, (n,).

    Arguments:
        index: the number of each row's time.
        groups: the group of each row; None makes one population of each time.
    """
    if groups is None:
        return index
    names, label = np.unique(groups, return_inverse=True)
    return np.unique(index * len(names) + label, return_inverse=True)[1]


def population_sizes(population: np.ndarray) -> np.ndarray:
    """How many rows the population of each row has, by its number from `population_codes`."""
    return np.bincount(population)[population]


def of_same_population(here: np.ndarray, totals: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of some other individuals belong to the populations of those who are here.

    They have the same group, and there is room for all of them: otherwise two tables use one name
    for two populations.

    Arguments:
        here: the groups of some individuals of one time, (n,).
        totals: how many their populations have in all, (n,).
        others: the groups of the other individuals of that time, (m,).

    Returns:
        One truth value for each of the others.
    """
    names, own = np.unique(here, return_inverse=True)
    room = np.zeros(len(names))
    room[own] = totals
    room -= np.bincount(own)
    place = np.minimum(np.searchsorted(names, others), len(names) - 1)
    same = names[place] == others
    arriving = np.bincount(place[same], minlength=len(names))
    return same & (arriving <= room)[place]


def as_total(total: Any, groups: np.ndarray | None, population: np.ndarray) -> np.ndarray | None:
    """How many interacting individuals each row's population had, (n,); None where not told.

    Arguments:
        total: one number, or one for each group: a mapping from groups to numbers, or numbers in
            the order of the sorted groups.
        groups: the group of each row, or None.
        population: the number of each row's population.
    """
    if total is None:
        return None
    n = len(population)
    if np.ndim(total) == 0 and not isinstance(total, Mapping):
        told = np.broadcast_to(as_numbers(total, "total").astype(np.float64), (n,))
    else:
        told = _of_groups(total, groups)
    if not np.isfinite(told).all():
        raise BadInput("total must be finite")
    seen = population_sizes(population)
    if (told < seen).any():
        worst = int((seen - told).argmax())
        raise BadInput(
            f"total must count everybody who was there, got {told[worst]:g} where one population "
            f"shows {seen[worst]} individuals"
        )
    return told


def _of_groups(total: Any, groups: np.ndarray | None) -> np.ndarray:
    if groups is None:
        raise BadInput("total must be one number where there are no groups")
    names, label = np.unique(groups, return_inverse=True)
    if isinstance(total, Mapping):
        wanted, given = set(names.tolist()), set(total)
        if wanted != given:
            odd = sorted(map(repr, wanted ^ given))[:5]
            raise BadInput(f"total must name every group once, and no other; see {', '.join(odd)}")
        total = [total[name] for name in names.tolist()]
    each = as_numbers(total, "total").astype(np.float64)
    if each.shape != (len(names),):
        raise BadInput(
            f"total must be one number, or one for each of the {len(names)} groups, got shape "
            f"{each.shape}"
        )
    return each[label]
