"""Where the units of a fit come from: from the data, or as the user has them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._parts import Part


@dataclass(frozen=True)
class Scaling(Part):
    """A rule by which a fit chooses its internal units; subclasses define `units`."""

    @abstractmethod
    def units(self, data: Snapshots) -> Units:
        """The units of a fit to `data`.

        Arguments:
            data: the snapshots that are fitted.

        Returns:
            The units.
        """


@dataclass(frozen=True)
class Standardised(Scaling):
    """Space is centred and divided by one length, and time lasts from 0 to 1. The default.

    Learning rates and the weight of the residual then mean the same for all data.

    >>> sf.Stitching().scaling
    Standardised()
    """

    def units(self, data: Snapshots) -> Units:
        return data.units


@dataclass(frozen=True)
class UnitTime(Scaling):
    """Places as they are given, and time from 0 to 1: what the paper does with cells.

    >>> data = sf.Snapshots.from_arrays([np.ones((3, 2)), np.zeros((3, 2))], times=[2.0, 6.0])
    >>> UnitTime().units(data)
    Units(centre=(0.0, 0.0), length=1.0, start=2.0, duration=4.0)
    """

    def units(self, data: Snapshots) -> Units:
        first, last = float(data.times[0]), float(data.times[-1])
        return Units((0.0,) * data.dim, start=first, duration=last - first)


@dataclass(frozen=True)
class Unscaled(Scaling):
    """Places and durations as they are given, with time from 0: the paper's choice.

    >>> data = sf.Snapshots.from_arrays([np.ones((3, 2)), np.zeros((3, 2))], times=[2.0, 6.0])
    >>> Unscaled().units(data).duration
    1.0
    """

    def units(self, data: Snapshots) -> Units:
        return Units((0.0,) * data.dim, start=float(data.times[0]))
