r"""What each condition adds to the landscape that all conditions share.

The deviations $V_c$ sum to zero over conditions. They are $V_c = \sum_j H_{cj} U_j$ with columns of
$H$ that are orthonormal and sum to zero, so that the $U_j$ are free and all conditions have the
same prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import helmert

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.per_condition import PerCondition
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.drift_parts import Drift, Landscape, Part, Place, Ranged

PREFIX = "deviation, "  # of the names of its blocks


@dataclass(frozen=True)
class Deviation(Part):
    """The part of the drift that differs between conditions.

    Arguments:
        part: the functions of a deviation.
        labels: the names of the conditions.
        which: the number of the condition whose individuals are moved; None for what all share.
    """

    part: Landscape
    labels: tuple[str, ...]
    which: int | None = None

    def under(self, condition: int) -> Deviation:
        return replace(self, which=condition)

    @property
    def shares(self) -> np.ndarray:
        """How much of each free deviation the condition has, (conditions - 1,)."""
        return np.zeros(len(self.labels) - 1) if self.which is None else self.contrasts[self.which]

    @property
    def contrasts(self) -> np.ndarray:
        """The shares of all conditions, (conditions, conditions - 1)."""
        return helmert(len(self.labels)).T

    @property
    def count(self) -> int:
        return self.part.count * (len(self.labels) - 1)

    def own(self, c: np.ndarray) -> np.ndarray:
        """The coefficients of the condition's deviation, (part's count,)."""
        return self.shares @ c.reshape(len(self.labels) - 1, -1)

    def slope(self, place: Place, c: np.ndarray) -> np.ndarray:
        return self.part.slope(place, self.own(c))

    def bend(self, place: Place, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.part.bend(place, self.own(c))

    def features(self, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        one = self.part.features(x, t, pushes)
        return np.concatenate([share * one for share in self.shares], axis=2)

    def gather(self, a: np.ndarray, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        one = self.part.gather(a, x, t, pushes)
        return np.concatenate([share * one for share in self.shares], axis=1)

    def blocks(self, widths: tuple[float, ...], ranges: tuple[float, ...]) -> Ranged:
        """A size for the powers and for the bumps of each width, used if the evidence asks."""
        every, found = np.eye(len(self.labels) - 1), []
        for block in self.part.blocks(widths, ranges)[0.0]:
            name, factor = PREFIX + block.name, np.kron(every, block.factor)
            found.append(Block(name, factor, spare=1, first=True))
        return {0.0: found}

    def within(self, landscape: Landscape) -> np.ndarray:
        """The functions of a deviation among those of the shared V, (landscape, part) of 0 and 1.

        They are the powers and the widest bumps, times the first polynomials of time.
        """
        here, there = self.part.bumps, landscape.bumps
        kept = np.flatnonzero(there.widths >= here.widths.min(initial=np.inf))
        functions = np.concatenate([np.arange(here.powers), here.powers + kept])
        out = np.zeros((landscape.count, self.part.count))
        for wave in range(self.part.powers):
            rows = wave * there.count + functions
            out[rows, wave * here.count + np.arange(here.count)] = 1.0
        return out


def deviation_parts(
    energy: Energy, tests: Bumps, powers: int, data: Snapshots
) -> tuple[Deviation, ...]:
    """The parts of an energy's `PerCondition`.

    Arguments:
        energy: the terms.
        tests: the functions of V.
        powers: the number of polynomials of time of V.
        data: the snapshots, which name the conditions.
    """
    terms = energy.only(PerCondition)
    if not terms:
        return ()
    functions = tests.wider(constants.DEVIATION_FINEST)
    part = Landscape(functions, powers if terms[0].time_varying else 1)
    return (Deviation(part, data.condition_names),)


def deviating(drift: Drift) -> tuple[Deviation, slice] | None:
    """The part that differs between conditions and the place of its coefficients; None without."""
    return next(iter(drift.only(Deviation)), None)


def shared_drift(drift: Drift) -> Drift:
    """The drift without what differs between conditions."""
    kept = tuple(part for part in drift.parts if not isinstance(part, Deviation))
    return Drift(kept, drift.growth)


def to_shared(drift: Drift, shares: np.ndarray, shared: float = 1.0) -> np.ndarray:
    """The map from all coefficients to those of a drift without deviations, (f', f).

    Arguments:
        drift: the drift with a `Deviation`.
        shares: how much of each free deviation counts, (conditions - 1,).
        shared: how much of what all conditions share counts: one for the energy of a condition,
            zero for the difference of two.
    """
    found, plain = deviating(drift), shared_drift(drift)
    assert found is not None
    deviation, own = found
    landscape, place = plain.only(Landscape)[0]
    others = np.delete(np.arange(drift.count), own)
    out = np.zeros((plain.count, drift.count))
    out[np.arange(plain.count), others] = shared
    out[place, own] = np.kron(shares, deviation.within(landscape))
    return out
