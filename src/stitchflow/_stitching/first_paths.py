"""How a fit starts: the paths on which particles are led through the snapshots, and beta."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Entropy
from stitchflow._measure.drift import Drift, shared_drift
from stitchflow._measure.matched_paths import straight_lines
from stitchflow._parts import Part
from stitchflow._types import check_number


@dataclass(frozen=True)
class Start(Part):
    """A rule for the first curve and the first energy of a fit."""

    @abstractmethod
    def drift(self, clouds: list[np.ndarray], observed: np.ndarray) -> Drift:
        """The linear flow along which clouds are matched.

        Arguments:
            clouds: the individuals of each time, in internal units.
            observed: the observed times.

        Returns:
            The flow, which may be none.
        """

    @abstractmethod
    def paths(
        self, drift: Drift, matched: np.ndarray, observed: np.ndarray, when: np.ndarray
    ) -> np.ndarray:
        """Paths through matched clouds.

        Arguments:
            drift: the flow along which they were matched.
            matched: the clouds (t, n, d).
            observed: the observed times.
            when: the times at which positions are wanted.

        Returns:
            Positions (k, n, d).
        """

    @abstractmethod
    def sized(self, energy: Energy, speed: float) -> Energy:
        """The first energy.

        Arguments:
            energy: the energy with random parameters.
            speed: the root mean squared speed of the first curve.

        Returns:
            The same energy, of the size with which the fit starts.
        """


@dataclass(frozen=True)
class SmoothStart(Start):
    """Smooth paths through individuals that are matched along a drift they share. The default.

    >>> sf.Stitching().init
    SmoothStart()
    """

    def drift(self, clouds: list[np.ndarray], observed: np.ndarray) -> Drift:
        return shared_drift(clouds, observed)

    def paths(
        self, drift: Drift, matched: np.ndarray, observed: np.ndarray, when: np.ndarray
    ) -> np.ndarray:
        return drift.paths(matched, observed, when)

    def sized(self, energy: Energy, speed: float) -> Energy:
        return energy.sized_for(speed)


@dataclass(frozen=True)
class StraightStart(Start):
    """Exact assignment of consecutive snapshots, and straight lines: the paper's choice.

    Arguments:
        beta: the first coefficient of the entropy in internal units, where the energy does not say
            it; the default is the authors'.

    >>> sf.Stitching(init=StraightStart()).init.beta
    0.03
    """

    beta: float = 0.03

    def __post_init__(self) -> None:
        check_number(self.beta, "beta", 0.0, open_low=True)

    def drift(self, clouds: list[np.ndarray], observed: np.ndarray) -> Drift:
        return Drift.none(clouds[0].shape[1])

    def paths(
        self, drift: Drift, matched: np.ndarray, observed: np.ndarray, when: np.ndarray
    ) -> np.ndarray:
        return straight_lines(matched, observed, when)

    def sized(self, energy: Energy, speed: float) -> Energy:
        given = lambda term: not isinstance(term, Entropy) or term.start is not None
        terms = (t if given(t) else t.with_diffusion(self.beta) for t in energy.terms)
        return Energy(tuple(terms), energy.units)
