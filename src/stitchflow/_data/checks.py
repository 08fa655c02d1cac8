"""Checks of the data that every method needs, made before any computation."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._data.advice import from_middle
from stitchflow._data.conditions import check_several_times
from stitchflow._data.snapshots import Snapshots
from stitchflow._measure.curve import CLOSEST
from stitchflow._status import BadInput, BadInputType
from stitchflow._types import rows_named

SMALLEST = 1e-15  # unit of length or time: squares and their quotients must not leave float32


def check_data(data: Any) -> Snapshots:
    """The data itself, or an error with the reason why no method can be fitted to it."""
    if not isinstance(data, Snapshots):
        raise BadInputType(f"data must be Snapshots, got {type(data).__name__}")
    if len(data) < 2:
        raise BadInput(f"a fit needs two times or more, got {len(data)}: {data.times.tolist()}")
    if float(np.ptp(data.x, axis=0).max()) == 0.0:
        raise BadInput("all individuals are at the same point: there is nothing to fit")
    _check_outliers(data)
    units = data.units
    sizes = {"space": units.length, "time": units.duration, "energy": units.energy**0.5}
    for name, size in sizes.items():
        if not SMALLEST < size < 1.0 / SMALLEST:
            raise BadInput(
                f"the data's unit of {name} would be {size:.3g}, outside the range of float32: "
                "measure x and t in other units"
            )
    gaps = np.diff(data.times) / units.duration
    if gaps.min() < CLOSEST:
        k = int(gaps.argmin())
        raise BadInput(
            f"the times {data.times[k]:.12g} and {data.times[k + 1]:.12g} are less than a "
            "millionth of the whole range apart: give them one time"
        )
    _check_spread(data)
    check_several_times(data.conditions, data.index)
    return data


def _check_outliers(data: Snapshots) -> None:
    """Refuse individuals so far away that float32 cannot distinguish the others.

    One such individual would determine the unit of length, in which all others are at one place.
    The usual distance is a median, which outliers do not affect, over the individuals that are not
    exactly in the middle: half of the individuals or more may be copies of each other.
    """
    away = from_middle(data)
    usual = float(np.median(away[away > 0.0]))
    far = np.flatnonzero(CLOSEST * away > usual)
    if far.size:
        rows = np.sort(far if data.rows is None else data.rows[far])
        raise BadInput(
            f"x has outliers in {rows_named(rows)}, {away.max():.2g} from the middle of the data "
            f"where others are usually {usual:.2g} from it: at more than a million times that "
            "distance float32 cannot resolve the others, so correct those rows or leave them out"
        )


def _check_spread(data: Snapshots) -> None:
    """Refuse data without populations: one individual a time, or all of a time at one place."""
    present = (data.cloud(k)[data.cloud_weights(k) > 0] for k in range(len(data)))
    widest = max(float(cloud.std(axis=0, dtype=np.float64).max()) for cloud in present)
    if widest < CLOSEST * data.units.length:
        raise BadInput(
            "no time shows two individuals at different places (less than a millionth of the "
            "data's whole spread apart is one place): a fit needs populations, so give "
            "neighbouring times one time until each shows several individuals"
        )
