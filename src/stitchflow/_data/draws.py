"""Individuals chosen at random: for parts of a table, and for bootstraps of it."""

from __future__ import annotations

import numpy as np

from stitchflow._data.individuals import Individuals
from stitchflow._status import BadInput
from stitchflow._types import KeyLike, as_rng, check_number


def divided(
    data: Individuals, fraction: float, key: KeyLike, kept_together: np.ndarray | None
) -> np.ndarray:
    """A mask of the individuals of the first of two random parts.

    Arguments:
        data: all individuals.
        fraction: the share of the first part.
        key: an integer seed or a JAX key.
        kept_together: rows with the same label are in the same part, (n,); None divides the
            individuals of each time.
    """
    check_number(fraction, "fraction", 0.0, 1.0, open_low=True)
    rng = as_rng(key)
    if kept_together is not None:
        names, label = np.unique(kept_together, return_inverse=True)
        first = rng.permutation(len(names))[: max(1, round(fraction * len(names)))]
        chosen = np.isin(label, first)
    else:
        chosen = np.zeros(len(data.x), bool)
        for k in range(len(data)):
            rows = np.arange(len(data.x))[data.slice(k)]
            chosen[rng.permutation(rows)[: max(1, round(fraction * len(rows)))]] = True
    if chosen.all():
        raise BadInput(f"fraction={fraction:g} leaves nobody for the second part of {data!r}")
    return chosen


def some_of_each_time(data: Individuals, n: int, key: KeyLike) -> np.ndarray:
    """The rows of at most `n` individuals of each time, drawn without replacement."""
    rng = as_rng(key)
    rows = [rng.permutation(np.arange(len(data.x))[data.slice(k)])[:n] for k in range(len(data))]
    return np.concatenate(rows)


def bootstrap_weights(data: Individuals, key: KeyLike) -> np.ndarray:
    """Weights that follow from draws with replacement, of individuals or of their ids, (n,)."""
    rng, weights = as_rng(key), np.empty(len(data.x))
    if data.ids is not None:
        names, label = np.unique(data.ids, return_inverse=True)
        counts = rng.multinomial(len(names), np.full(len(names), 1.0 / len(names)))[label]
        weights = counts * data.weights
    else:
        for k, n in enumerate(data.counts):
            share = data.cloud_weights(k) / n
            weights[data.slice(k)] = rng.multinomial(n, share / share.sum())
    empty = [k for k in range(len(data)) if not weights[data.slice(k)].any()]
    for k in empty:  # all of a few individuals may be left out by chance
        weights[data.slice(k)] = data.cloud_weights(k)
    totals = np.bincount(data.index, weights=weights)
    return weights * (data.counts / totals)[data.index]
