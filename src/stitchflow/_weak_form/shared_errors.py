"""Averages over carried individuals, and the errors that they share with their derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stitchflow._weak_form.carry import Carried
from stitchflow._weak_form.growing import grown
from stitchflow._weak_form.moments import Gap, Moments


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


@dataclass(frozen=True)
class SharedErrors:
    r"""The errors that residuals and design share because the same draw makes both.

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
        """What the product of design and residual is expected to be, (f + 1,).

        Arguments:
            inverse: the block of the inverse covariance that belongs to this gap, (tests, tests).
            cross: the block of this gap and the one before, (tests, tests); None where the two are
                independent.
        """
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

    def of_design(self) -> np.ndarray:
        """A design with random signs: its square has the expectation of the second sum."""
        here, rng = self.gap.here, np.random.default_rng((1, *self.gap.seed))
        signs = rng.choice([-1.0, 1.0], len(here.x))
        _, slopes, apart = at_ends(self.moments, self.gap, self.carried)
        shares = here.weights * (signs - here.weights @ signs)
        return self.carried.design(slopes, shares, np.arange(len(here.x)), apart)
