"""Columns of a table as they are given, checked and put in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stitchflow._status import BadInput
from stitchflow._types import as_cloud, as_labels, as_numbers, rows_named


def as_clouds(clouds: Sequence[Any], times: np.ndarray) -> list[np.ndarray]:
    """One array (n, dim) for each time, none of them empty and all of one dimension."""
    if len(clouds) != len(times):
        raise BadInput(f"times must have one entry per cloud ({len(clouds)}), got {len(times)}")
    found = [as_cloud(cloud, f"cloud {i}") for i, cloud in enumerate(clouds)]
    for i, cloud in enumerate(found):
        if cloud.shape[1] != found[0].shape[1]:
            raise BadInput(
                f"cloud {i} has {cloud.shape[1]} dimensions, cloud 0 has {found[0].shape[1]}"
            )
        if len(cloud) == 0:
            raise BadInput(f"cloud {i} (time {times[i]:g}) is empty")
    if len(np.unique(times)) != len(times):
        raise BadInput(f"times must differ from each other, got {times.tolist()}")
    return found


def joined_labels(lists: Sequence[Any] | None, sizes: list[int], name: str) -> np.ndarray | None:
    """The labels of all clouds in a row, from one list for each cloud; None where there are none.

    Arguments:
        lists: the lists.
        sizes: how long they have to be.
        name: how error messages call them.
    """
    if lists is None:
        return None
    return _joined([np.asarray(as_labels(part, name)) for part in lists], sizes, name)


def joined_weights(lists: Any, sizes: list[int]) -> np.ndarray | None:
    """The weights of all clouds in a row, from one list for each cloud; None without weights."""
    if lists is None:
        return None
    parts = lists if np.iterable(lists) else [lists]
    return _joined([as_numbers(part, "weights") for part in parts], sizes, "weights")


def _joined(parts: list[np.ndarray], sizes: list[int], name: str) -> np.ndarray:
    if [part.shape for part in parts] != [(n,) for n in sizes]:
        shapes = [part.shape for part in parts]
        raise BadInput(f"{name} must be lists of the clouds' sizes {sizes}, got {shapes}")
    return np.concatenate(parts)


def normalised(
    weights: np.ndarray | None, index: np.ndarray, n: int, rows: np.ndarray
) -> np.ndarray:
    """Weights whose mean is one within each time.

    Arguments:
        weights: as they are given; None counts all alike.
        index: the number of each row's time.
        n: the number of rows.
        rows: the numbers by which error messages call the rows.
    """
    if weights is None:
        return np.ones(n)
    values = np.asarray(as_numbers(weights, "weights"), np.float64)
    bad = np.flatnonzero(~np.isfinite(values) | (values < 0))
    if bad.size:
        named = rows_named(np.sort(rows[bad]))
        raise BadInput(f"weights must be finite and not negative, got otherwise in {named}")
    largest = np.zeros(index.max(initial=-1) + 1)
    np.maximum.at(largest, index, values)
    if (largest <= 0).any():
        raise BadInput("weights must not be all zero within a time")
    odd = (largest <= 1e-100) | (largest >= 1e100)  # their sums would be zero or infinite
    values = values / np.where(odd, largest, 1.0)[index]
    totals = np.bincount(index, weights=values)
    return values * (np.bincount(index) / totals)[index]
