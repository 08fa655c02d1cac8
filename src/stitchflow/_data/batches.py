"""Advice on batches and replicates: differences that are there before anything has moved."""

from __future__ import annotations

import numpy as np

from stitchflow._data.conditions import replicates
from stitchflow._data.snapshots import Snapshots

# A snapshot this many spreads away from the line between its neighbours may be another batch.
APART = 3.0

# Groups at their first time: those that are compared have this many individuals or more, and there
# are no more groups than this. A difference is said where fewer than CHANCE of so many deals of
# the individuals among the groups differ as much, and the means vary by SHIFT of a spread or more.
LEAST_GROUP, MOST_GROUPS = 20, 50
DEALS, DEALT, CHANCE, SHIFT = 400, 1000, 0.01, 0.1


def listed(values: np.ndarray, most: int = 5) -> str:
    """Some of the values, for a sentence."""
    words = ", ".join(f"{value:g}" for value in values[:most])
    return words + (", ..." if len(values) > most else "")


def batches(data: Snapshots) -> list[str]:
    """Sentences on snapshots and groups that are apart, and on conditions without replicates."""
    apart = _groups(data) or _at_the_start(data)  # one sentence on groups is enough
    return [*_odd_times(data), *apart, *_alone(data)]


def _odd_times(data: Snapshots) -> list[str]:
    """Snapshots far away from their neighbours in time, which are near each other."""
    if len(data) < 3:
        return []
    means = np.array([cloud.mean(axis=0, dtype=np.float64) for cloud in data.clouds])
    spreads = np.array([cloud.std(axis=0, dtype=np.float64).max() for cloud in data.clouds])
    size = lambda steps: np.linalg.norm(steps, axis=1)
    there, back = size(means[1:-1] - means[:-2]), size(means[2:] - means[1:-1])
    past = size(means[2:] - means[:-2])
    usual = np.median(spreads)
    odd = (np.minimum(there, back) > APART * usual) & (2 * past < np.minimum(there, back))
    if not odd.any():
        return []
    return [
        f"everybody at t = {listed(data.times[1:-1][odd])} is away from where the times "
        "before and after are: if that is a batch effect, correct it first"
    ]


def _groups(data: Snapshots) -> list[str]:
    """Groups that do not overlap."""
    if data.groups is None:
        return []
    apart = [k for k in range(len(data)) if _groups_apart(data, k)]
    if not apart:
        return []
    return [
        f"the groups at t = {listed(data.times[apart])} do not overlap: if they are "
        "batches, correct for them first"
    ]


def _groups_apart(data: Snapshots, k: int) -> bool:
    """Whether two groups of one time are further apart than `APART` of their spreads."""
    assert data.groups is not None
    x, labels = data.cloud(k), data.groups[data.slice(k)]
    parts = [x[labels == name] for name in np.unique(labels)[:50]]
    parts = [part for part in parts if len(part) > 2]
    if len(parts) < 2:
        return False
    means = np.array([part.mean(axis=0, dtype=np.float64) for part in parts])
    spread = np.median([part.std(axis=0, dtype=np.float64).max() for part in parts])
    return bool(np.ptp(means, axis=0).max() > 2 * APART * spread)


def _at_the_start(data: Snapshots) -> list[str]:
    """Groups of one condition that differ at its first time, where nothing has moved them yet."""
    if data.groups is None:
        return []
    parts = [(f" of condition {name}", data.of(name)) for name in data.condition_names]
    sentences = []
    for name, part in parts or [("", data)]:
        assert part.groups is not None
        shift = start_shift(part.cloud(0), part.groups[part.slice(0)], CHANCE / max(1, len(parts)))
        if shift > SHIFT:
            sentences.append(
                f"the groups{name} differ at t = {part.times[0]:g} already, their means by "
                f"{shift:.2g} of the spread: if that is technical, correct it first, because a "
                "shift that is there from the start is no force"
            )
    return sentences


def start_shift(x: np.ndarray, groups: np.ndarray, chance: float) -> float:
    """How far the means of groups vary beyond chance, in spreads; zero where chance explains it.

    The individuals are dealt out among the groups again and again. The means of small groups vary
    by chance as well, which is taken off.

    Arguments:
        x: individuals of one time, (n, d).
        groups: the group of each, (n,).
        chance: the share of deals that may differ as much.
    """
    names, label, counts = np.unique(groups, return_inverse=True, return_counts=True)
    if not 2 <= (counts >= LEAST_GROUP).sum() <= MOST_GROUPS or len(names) > MOST_GROUPS:
        return 0.0
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.flatnonzero((counts >= LEAST_GROUP)[label]))[:DEALT]
    rows = rows[np.argsort(label[rows], kind="stable")]
    x, label = x[rows].astype(np.float64), label[rows]
    x = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    starts = np.flatnonzero(np.diff(label, prepend=-1))
    sizes = np.diff(np.append(starts, len(label)))[:, None]
    between = lambda order: float((np.add.reduceat(x[order], starts) ** 2 / sizes).sum())
    seen = between(np.arange(len(x)))
    dealt = np.array([between(rng.permutation(len(x))) for _ in range(DEALS)])
    if np.mean(dealt >= seen) >= chance:
        return 0.0
    return float(np.sqrt(max(seen - dealt.mean(), 0.0) / x.size))


def _alone(data: Snapshots) -> list[str]:
    """Conditions of one group, whose difference from others may be that of any two groups."""
    if data.conditions is None or len(data.condition_names) < 2:
        return []
    alone = [name for name, n in replicates(data.conditions, data.groups).items() if n < 2]
    if not alone:
        return []
    named = ", ".join(alone[:5]) + (", ..." if len(alone) > 5 else "")
    return [
        f"no replicates under {named}: what differs there may be what differs between any two "
        "dishes or donors; name several of them as groups where there are"
    ]
