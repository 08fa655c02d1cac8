"""Warnings about data before a fit, each with what to do about it."""

from __future__ import annotations

import numpy as np

from stitchflow._data.batches import batches, listed
from stitchflow._data.snapshots import Snapshots
from stitchflow._measure.spacing import node_times
from stitchflow._types import rows_named

# A snapshot of fewer than this share of the usual number of individuals is small.
SMALL = 0.1

# float32, the precision of results, distinguishes numbers down to this share of their size.
DIGITS = 1e-5

# Where this small share of the individuals has this large share of the variance, the unit of length
# is set by a few individuals.
FEW, DOMINANT = 0.01, 0.9

MOST = 2000  # individuals that are compared to find copies


def advice(data: Snapshots, nodes: int | None = None) -> list[str]:
    """Sentences on what a fit cannot correct; `nodes` where a curve with nodes is fitted."""
    sentences = [*_sizes(data), *_dimensions(data), *_outliers(data)]
    sentences += [*_repeats(data), *batches(data)]
    return [*sentences, *(_gaps(data, nodes) if nodes else ())]


def _sizes(data: Snapshots) -> list[str]:
    sentences, usual = [], float(np.median(data.counts))
    if usual < 2 * data.dim:
        sentences.append(
            f"{usual:g} individuals a time are few for {data.dim} dimensions: reduce the "
            "dimensions, for example to the first principal components"
        )
    small = data.times[data.counts < max(2.0, SMALL * usual)]
    if small.size:
        sentences.append(
            f"the snapshots at t = {listed(small)} are far smaller than the others (usually "
            f"{usual:g} individuals): leave them out, or do not rely on results at these times"
        )
    return sentences


def _dimensions(data: Snapshots) -> list[str]:
    sentences, spread = [], data.x.std(axis=0, dtype=np.float64)
    seen = data.x[:MOST]
    constant = np.flatnonzero(np.ptp(data.x, axis=0) == 0)
    if constant.size:
        sentences.append(f"dimensions {listed(constant)} are constant: leave them out")
    first: dict[bytes, int] = {}
    twins = [(first.setdefault(seen[:, j].tobytes(), j), j) for j in range(data.dim)]
    copies = [j for i, j in twins if i != j and np.array_equal(data.x[:, i], data.x[:, j])]
    copies = np.setdiff1d(copies, constant)
    if copies.size:
        sentences.append(f"dimensions {listed(copies)} repeat earlier ones: leave them out")
    moving = spread[spread > 0]
    if moving.min() < 1e-6 * moving.max():
        sentences.append(
            f"the spreads of the dimensions differ by a factor of {moving.max() / moving.min():.1g}"
            ": the smallest have no effect beside the largest; measure them in like units"
        )
    units = data.units
    if DIGITS * np.abs(units.centre).max() > units.length:
        sentences.append(
            f"individuals are {np.abs(units.centre).max():.2g} from zero and spread over "
            f"{units.length:.2g}: float32 does not resolve the differences; subtract the mean first"
        )
    return sentences


def from_middle(data: Snapshots) -> np.ndarray:
    """How far each individual is from the middle of the data, the median of each coordinate."""
    away = np.zeros(len(data.x))
    for column in data.x.T:  # hypot neither overflows nor underflows, whatever the data's unit
        np.hypot(away, column.astype(np.float64) - np.median(column), out=away)
    return away


def _outliers(data: Snapshots) -> list[str]:
    """The individuals that account for most of the variance, where they are very few."""
    away = from_middle(data)
    squares = (away / away.max()) ** 2
    order = np.argsort(squares)[::-1]
    held = np.cumsum(squares[order]) / squares.sum()
    few = int(np.searchsorted(held, DOMINANT)) + 1
    if few > max(1.0, FEW * len(order)):
        return []
    rows = np.sort(order[:few] if data.rows is None else data.rows[order[:few]])
    return [
        f"{held[few - 1]:.0%} of the variance of all individuals comes from {rows_named(rows)}, so "
        "that the others hardly matter: leave out individuals that are errors"
    ]


def _repeats(data: Snapshots) -> list[str]:
    def share(k: int) -> float:
        cloud = np.ascontiguousarray(data.cloud(k)[:MOST])
        return len({row.tobytes() for row in cloud}) / len(cloud)

    many = [k for k in range(len(data)) if data.counts[k] > 1 and share(k) < 0.5]
    if not many:
        return []
    return [
        f"more than half of the individuals at t = {listed(data.times[many])} are copies of "
        "others: count each once, or give it a weight"
    ]


def _gaps(data: Snapshots, nodes: int) -> list[str]:
    observed = data.units.time_in(data.times)
    places = node_times(observed, nodes, data.actions)
    # A gap is missed where no node lies in it, so that its two times share one interval.
    inside = np.searchsorted(places, observed[1:] + 1e-9, side="right")
    missed = np.flatnonzero(inside == np.searchsorted(places, observed[:-1] - 1e-9, side="right"))
    # With more times than nodes some times share an interval even if they are evenly spaced.
    if not missed.size or len(data) > nodes:
        return []
    worst = data.times[missed]
    return [
        f"times are so uneven that no node of the curve falls into {len(missed)} of "
        f"{len(data) - 1} gaps (the first after t = {worst[0]:g}): raise nodes above {nodes}, or "
        "merge times that are close"
    ]
