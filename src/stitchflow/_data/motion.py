"""How far a population moves, estimated from all its snapshots.

A snapshot of ten individuals contains little information, but a hundred of them at nearly the same
time contain as much as one of a thousand. Everything here therefore works on *windows*, which are
neighbouring snapshots pooled.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from stitchflow._measure.coupling import assignment, chain
from stitchflow._stitching import defaults


class Motion(NamedTuple):
    """How far a population moves, in units of its spread.

    `distance`: the root mean squared displacement from the first window to the farthest one.
    `noise`: the part of the squared displacement that independent samples of a population at rest
    would also show, divided by the remaining part.
    """

    distance: float
    noise: float


class Windows(NamedTuple):
    """Neighbouring snapshots pooled: their mean times and all their individuals."""

    times: np.ndarray
    clouds: list[np.ndarray]

    @staticmethod
    def of(times: np.ndarray, clouds: list[np.ndarray]) -> Windows:
        """The narrowest windows between which motion can be distinguished from sampling noise.

        Times that are further apart than a twentieth of the duration are never pooled.
        """
        rng = np.random.default_rng(0)
        chosen = _grouped(times, defaults.POOLED_SHARES[0])
        for share in defaults.POOLED_SHARES[1:]:
            finer = _grouped(times, share)
            if not _told_apart(chosen, finer, clouds, rng):
                break
            chosen = finer
        counts = np.array([len(cloud) for cloud in clouds])
        parts = [slice(first, end) for first, end in chosen]
        middles = [np.average(times[part], weights=counts[part]) for part in parts]
        return Windows(np.array(middles), [np.concatenate(clouds[part]) for part in parts])


def _grouped(times: np.ndarray, share: float) -> list[tuple[int, int]]:
    """Ranges (first, end) of snapshots that span less than a share of the duration.

    Ranges are split at a wide gap near the middle, so that nearly equal times stay together, and
    the ranges of a smaller share lie within those of a larger one.
    """
    limit = share * (times[-1] - times[0]) * (1.0 - 1e-9)
    todo, done = [(0, len(times))], []
    while todo:
        first, end = todo.pop()
        inside = times[first:end]
        if len(inside) == 1 or inside[-1] - inside[0] < limit:
            done.append((first, end))
            continue
        middles = 0.5 * (inside[1:] + inside[:-1])
        balance = (middles - inside[0]) * (inside[-1] - middles)
        cut = first + 1 + int(np.argmax(np.diff(inside) * balance))
        todo += [(first, cut), (cut, end)]
    return sorted(done)


def _told_apart(
    wide: list[tuple[int, int]],
    narrow: list[tuple[int, int]],
    clouds: list[np.ndarray],
    rng: np.random.Generator,
) -> bool:
    """Whether neighbouring narrow windows within wide ones differ by more than sampling noise.

    The noise is estimated by assigning the same individuals to the two windows at random; motion
    exceeds it where the squared displacement is more than twice as large.
    """
    ends = {end for _, end in wide}
    pairs = [(a, b) for a, b in pairwise(narrow) if a[1] not in ends]
    some = np.unique(
        np.linspace(0, len(pairs) - 1, min(defaults.WINDOWS_COMPARED, len(pairs)))
        .round()
        .astype(int)
    )
    seen, chance, most = 0.0, 0.0, defaults.WINDOW_INDIVIDUALS
    for first, second in (pairs[k] for k in some):
        x, y = (np.concatenate(clouds[slice(*window)]) for window in (first, second))
        mixed = rng.permutation(np.concatenate([x, y]))
        apart = lambda a, b: float((_way(a, b, most, rng) ** 2).sum(axis=1).mean())
        seen += apart(x, y)
        chance += apart(mixed[: len(x)], mixed[len(x) :])
    return not pairs or seen > defaults.MOTION_RATIO * chance


def _way(x: np.ndarray, y: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Displacements between two clouds by optimal transport, on at most `most` individuals each."""
    n = min(len(x), len(y), most)
    a, b = (np.asarray(z, np.float64)[rng.permutation(len(z))[:n]] for z in (x, y))
    return b[assignment(a, b, rng)] - a


def motion(
    clouds: list[np.ndarray], matched: bool, most: int = defaults.MOTION_INDIVIDUALS
) -> Motion:
    """The motion of at most `most` individuals between the first window and some later ones.

    The squared difference of the means of two samples of n individuals at rest is the population's
    variance times 2 / n; the squared distance of optimal transport is about three times that.
    """
    if len(clouds) < 2:
        return Motion(1.0, 0.0)
    rng = np.random.default_rng(0)
    start = clouds[0]
    later = np.unique(
        np.linspace(1, len(clouds) - 1, defaults.WINDOWS_COMPARED).round().astype(int)
    )
    variance = float(np.mean([cloud.var(axis=0, dtype=np.float64).sum() for cloud in clouds]))
    spread = max(float(np.concatenate(clouds).var(axis=0, dtype=np.float64).sum()), 1e-300)
    squared, few, many, noise = 0.0, 0.0, 0.0, defaults.TRANSPORT_NOISE * variance
    for k in later:
        end = clouds[k]
        way = np.asarray(end, np.float64) - start if matched else _way(start, end, most, rng)
        mean = float((way**2).sum(axis=1).mean())
        if mean > squared:
            squared = mean
            few = 0.0 if matched else noise * 2.0 / len(way)
            many = 0.0 if matched else noise * (1.0 / len(start) + 1.0 / len(end))
    signal = max(squared - few, many / defaults.MOST_RIDGE, 1e-12 * spread)
    return Motion(float(np.sqrt((signal + many) / spread)), many / signal)


def actions(
    clouds: list[np.ndarray], matched: bool, most: int = defaults.ACTION_INDIVIDUALS
) -> np.ndarray:
    """Mean squared displacement over each gap, of at most `most` individuals, with a fixed seed."""
    if not matched:
        rng = np.random.default_rng(0)
        n = min(most, *(len(cloud) for cloud in clouds))
        clouds = list(chain(clouds, [np.ones(len(cloud)) for cloud in clouds], n, rng))
    return (np.diff(np.stack(clouds), axis=0) ** 2).sum(-1).mean(-1)
