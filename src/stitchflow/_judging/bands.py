"""V along a line and W over distance, with bands where their standard errors are known."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.identifiability import NINETY
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput, NotAvailable
from stitchflow._stitching.ensemble import Ensemble
from stitchflow.metrics import pair_band

BEYOND = 0.15  # of the range where individuals were, which is drawn on each side of it


class Band(NamedTuple):
    """A function of one number, with its 90 % band.

    Arguments:
        at: the places (m,).
        value: the function there.
        low: the lower end of the band; equal to `value` where no standard error is known.
        high: its upper end.
        seen: between which places 90 % of the individuals or pairs were (98 % for V): the rest is
            assumed.
    """

    at: np.ndarray
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seen: tuple[float, float]

    @property
    def known(self) -> bool:
        """Whether there are standard errors."""
        return bool((self.high > self.low).any())


def longest_line(
    data: Snapshots, points: int, beyond: float = 0.0
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Points along the first principal axis of all individuals.

    Arguments:
        data: the individuals.
        points: how many points.
        beyond: how far the line goes on, as a share of the range of 98 % of the individuals.

    Returns:
        Points (m, d); their coordinate along the axis (m,), which in one dimension is x itself and
        else is zero at the mean; and the range of 98 % of the individuals.
    """
    x = np.asarray(data.x, np.float64)
    if x.shape[1] == 1:
        centre, axis = np.zeros(1), np.ones(1)
    else:
        centre = x.mean(axis=0)
        axis = np.linalg.svd(np.cov(x.T))[0][:, 0]
        axis = axis * np.sign(axis[np.abs(axis).argmax()])
    low, high = (float(end) for end in np.percentile((x - centre) @ axis, [1.0, 99.0]))
    more = beyond * (high - low)
    s = np.linspace(low - more, high + more, points)
    return centre + s[:, None] * axis, s, (low, high)


def potential_band(
    fit: Fit | Ensemble, data: Snapshots, t: float | None = None, points: int = 120
) -> Band:
    """V along the longest axis of the data, with mean zero over the individuals.

    Arguments:
        fit: a fit or an ensemble, with an energy that has a potential.
        data: the individuals that determine the line.
        t: the time of a potential that varies in time; None means the middle observed time.
        points: how many points of the line.
    """
    energy = (fit.members[0] if isinstance(fit, Ensemble) else fit).energy
    if energy is None:
        raise BadInput("there is no energy to draw")
    line, s, seen = longest_line(data, points, BEYOND)
    if energy.time_varying:
        t = float(data.times[len(data) // 2]) if t is None else t
    known = standard_errors(fit)
    if known is None:
        everybody = np.asarray(energy.potential(data.x, t), np.float64)
        value = np.asarray(energy.potential(line, t), np.float64) - everybody.mean()
        return Band(s, value, value, value, seen)
    value, sd = (np.asarray(part, np.float64) for part in known.potential(line, t))
    return Band(s, value, value - NINETY * sd, value + NINETY * sd, seen)


def interaction_band(fit: Fit, data: Snapshots, points: int = 200) -> Band:
    """A radial W over distance, which goes to zero far away.

    Arguments:
        fit: a fit whose energy has a radial interaction.
        data: the individuals whose pair distances, at the middle time, are `seen`.
        points: how many distances.
    """
    if fit.energy is None:
        raise BadInput(f"{fit.method.name} has no energy to draw")
    seen = _pair_distances(data)
    r = np.linspace(0.0, 1.3 * seen[1], points)
    known = standard_errors(fit)
    if known is None:
        value = np.asarray(fit.energy.interaction(r), np.float64)
        value = value - value[-1]
        return Band(r, value, value, value, seen)
    value, sd = (np.asarray(part, np.float64) for part in known.interaction(r))
    return Band(r, value, value - NINETY * sd, value + NINETY * sd, seen)


def standard_errors(fit: Fit | Ensemble) -> Any:
    """What a fit or an ensemble knows of its standard errors; None where it has none."""
    if isinstance(fit, Ensemble):
        return fit
    try:
        return fit.uncertainty
    except NotAvailable:
        return None


def _pair_distances(data: Snapshots) -> tuple[float, float]:
    """The range of nine tenths of the distances within populations, at the middle time."""
    k = len(data) // 2
    cloud = data.cloud(k)
    if data.within is None:
        return pair_band(cloud)
    groups = np.asarray(data.within)[data.slice(k)]
    names = np.unique(groups)[:500]
    parts = [cloud[groups == name][:500] for name in names]
    found = np.concatenate([pdist(part) for part in parts if len(part) > 1] or [pdist(cloud)])
    low, high = np.percentile(found, [5.0, 95.0])
    return float(low), float(high)
