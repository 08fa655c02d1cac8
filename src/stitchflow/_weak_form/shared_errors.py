"""Errors that averages over carried individuals share with their derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from stitchflow._weak_form.carry import Carried
from stitchflow._weak_form.drift_parts import PairPart
from stitchflow._weak_form.growing import grown
from stitchflow._weak_form.moments import Gap, Moments
from stitchflow._weak_form.neighbours import Geometry


def at_ends(
    moments: Moments, gap: Gap, carried: Carried
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The test functions at carried individuals (n, tests), their slopes, and what `design` needs.

    Where individuals multiply, each counts as often as it has, in values and slopes.
    """
    tests, shares = moments.tests, gap.here.weights
    slopes = np.stack([tests.slopes(y) for y in carried.x])
    values, apart = np.stack([tests.values(y) for y in carried.x]), None
    if carried.gain is not None:
        values, apart, factors = grown(values, carried.gain.factors(shares), shares)
        slopes = slopes * factors[:, :, None, None]
    return values.mean(axis=0), slopes, apart


class SharedErrors(ABC):
    """Errors that the residual and the design of a gap have in common."""

    @abstractmethod
    def of_residual(self, inverse: np.ndarray, cross: np.ndarray | None) -> np.ndarray:
        """What the product of design and residual is expected to be, (f + 1,).

        Arguments:
            inverse: the block of the inverse covariance that belongs to this gap, (tests, tests).
            cross: the block of this gap and the one before, (tests, tests); None where the two are
                independent.
        """

    @abstractmethod
    def of_design(self, inverse: np.ndarray) -> np.ndarray:
        """What errors add to the product of the design with itself, (f + 1, f + 1)."""


@dataclass(frozen=True)
class ErrorsOfDraws(SharedErrors):
    r"""Errors of snapshots that are draws: the same draw makes residual and design.

    Where snapshot k is a draw, the residual r and the design D of its gap are averages over the
    same individuals. Their errors are correlated, and so the products $D^\top\Omega^{-1}r$ and
    $D^\top\Omega^{-1}D$ of least squares have expectations that pull beta and V towards zero and
    make them look better known than they are. With $g_i$ and $\psi_i$ what individual i contributes
    to D and to r, these expectations are

    $$\sum_i w_i^2\, g_i^\top\Omega^{-1}\psi_i, \qquad
      \sum_i w_i^2\, g_i^\top\Omega^{-1}g_i,$$

    and they are subtracted, as a jackknife of instrumental variables does.

    Arguments:
        moments: the data.
        gap: the gap.
        carried: its individuals.
    """

    moments: Moments
    gap: Gap
    carried: Carried

    def of_residual(self, inverse: np.ndarray, cross: np.ndarray | None) -> np.ndarray:
        here = self.gap.here
        values, slopes, apart = at_ends(self.moments, self.gap, self.carried)
        pulled = -(values - here.weights @ values) @ inverse
        if cross is not None:
            seen = self.moments.seen(here)
            pulled += (seen - here.weights @ seen) @ cross.T
        along = np.einsum("kndp,np->knd", slopes, pulled)[..., None]
        if apart is not None:
            apart = np.einsum("knp,np->kn", apart, pulled)[..., None]
        return self.carried.design(along, here.weights**2, np.arange(len(here.x)), apart)[0]

    def of_design(self, inverse: np.ndarray) -> np.ndarray:
        # A design with random signs: its square has the expectation of the second sum.
        here, rng = self.gap.here, np.random.default_rng((1, *self.gap.seed))
        signs = rng.choice([-1.0, 1.0], len(here.x))
        _, slopes, apart = at_ends(self.moments, self.gap, self.carried)
        shares = here.weights * (signs - here.weights @ signs)
        rough = self.carried.design(slopes, shares, np.arange(len(here.x)), apart)
        return rough.T @ inverse @ rough


@dataclass(frozen=True)
class ErrorsOfUnseen(SharedErrors):
    r"""Errors of pair terms where n of N interacting individuals were seen.

    The push on individual i is a mean over those who were seen. With $h_j$ what j contributes to
    the design D as one who pushes, the error of D is the mean of h over the n minus that over the
    N. It is correlated with D itself, to which j contributes $d_j$ as one who is pushed. A draw
    without replacement has the share $s = 1 - n/N$ of the covariance of independent draws, so that

    $$E[D^\top\Omega^{-1}r] = -s\sum_j (h_j + d_j)^\top\Omega^{-1} h_j c, \qquad
      s\sum_j \bigl((h_j + d_j)^\top\Omega^{-1}(h_j + d_j) - d_j^\top\Omega^{-1}d_j\bigr)$$

    is what D's product with itself has too much, with h and d centred over j. Both are subtracted.

    Arguments:
        moments: the data.
        gap: the gap.
        carried: its individuals.
        c: the coefficients.
    """

    moments: Moments
    gap: Gap
    carried: Carried
    c: np.ndarray

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray | None]:
        _, slopes, apart = at_ends(self.moments, self.gap, self.carried)
        return slopes, apart

    @cached_property
    def _covectors(self) -> np.ndarray:
        """The derivative of averages by the push on each individual, (n, d, tests)."""
        here = self.gap.here
        return -self.gap.duration * here.weights[:, None, None] * self._ends[0].mean(axis=0)

    @cached_property
    def _place(self) -> Geometry:
        here = self.gap.here
        assert here.near is not None
        return Geometry.at(here.near, here.x)

    @cached_property
    def done(self) -> np.ndarray:
        """What each individual does to the averages by pushing others, centred, (n, tests)."""
        near, pairs = self._place.pairs, self.moments.drift.only(PairPart)
        force = sum(part.force(self._place, self.c[own]) for part, own in pairs)
        return near.centred(near.by_source(np.asarray(force), self._covectors))

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance of averages because only some of those who push were seen."""
        return self.done.T @ (self._place.pairs.unseen[:, None] * self.done)

    def of_residual(self, inverse: np.ndarray, cross: np.ndarray | None) -> np.ndarray:
        near, rows = self._place.pairs, np.arange(self._place.n)
        pulled = (near.unseen[:, None] * self.done) @ inverse
        slopes, apart = self._ends
        along = np.einsum("kndp,np->knd", slopes, pulled)[..., None]
        if apart is not None:
            apart = np.einsum("knp,np->kn", apart, pulled)[..., None]
        out = -self.carried.design(along, self.gap.here.weights, rows, apart)[0]
        on_first, on_second = near.between(pulled, self._covectors)
        covectors = near.on_first[:, None] * on_first - near.on_second[:, None] * on_second
        for part, own in self.moments.drift.only(PairPart):
            out[own] -= part.over_pairs(self._place, covectors)
        return out

    def of_design(self, inverse: np.ndarray) -> np.ndarray:
        # Random signs, as for draws: of those who push, of those who are pushed, and of both.
        here, rng = self.gap.here, np.random.default_rng((2, *self.gap.seed))
        near, n = self._place.pairs, self._place.n
        signs = near.centred(rng.choice([-1.0, 1.0], (n, 1)))[:, 0] * np.sqrt(near.unseen)
        slopes, apart = self._ends
        pushed = self.carried.design(slopes, here.weights * signs, np.arange(n), apart)
        both = pushed.copy()
        signed = replace(
            near,
            on_first=near.on_first * signs[near.second],
            on_second=near.on_second * signs[near.first],
        )
        place = replace(self._place, pairs=signed)
        for part, own in self.moments.drift.only(PairPart):
            both[:, own] += np.einsum("ndp,ndf->pf", self._covectors, part.each_push(place))
        return both.T @ inverse @ both - pushed.T @ inverse @ pushed
