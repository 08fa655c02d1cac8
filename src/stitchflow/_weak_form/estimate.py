"""What a fit has found, how far it is known, and whether the data bear it out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from stitchflow._weak_form import constants
from stitchflow._weak_form.evidence import Posterior


@dataclass(frozen=True)
class Estimate:
    """Coefficients and noise, and what is known about them.

    Arguments:
        c: the coefficients, (f,).
        beta: the noise.
        posterior: the solution of the last round; None before the first.
        span: which spare blocks were used, and the range of pair terms that was chosen.
        rounds: how many rounds were made.
        converged: whether the last round moved the estimate by less than its error.
        misfit: the mean square of the whitened residuals, which is one where the model holds.
        rows: the number of these residuals.
        same: whether the same individuals were seen at every time.
        others: the probability of the chosen range, and what other ranges add to the covariance;
            None before the first round.
        heat: by how much the posterior takes the variance of averages to be raised.
        move: how far the last round wanted to move coefficients and log beta, (f + 1,).
        relaxed: whether it rests on the last snapshot being at equilibrium.
    """

    c: np.ndarray
    beta: float
    posterior: Posterior | None = None
    span: tuple[int, float] = (0, 0.0)
    rounds: int = 0
    converged: bool = False
    misfit: float = np.nan
    rows: int = 0
    same: bool = False
    others: tuple[float, np.ndarray] | None = None
    heat: float = 1.0
    move: np.ndarray | None = None
    relaxed: bool = False

    @property
    def root(self) -> np.ndarray:
        """A factor of the covariance of coefficients and log beta, over all ranges.

        It is raised by `excess`. Rounds that have not settled may be as far from where they would
        end as the last of them wanted to go, and this is added. Where the residuals refute the fit,
        all sizes are known to orders of magnitude only.
        """
        assert self.posterior is not None
        assert self.others is not None
        share, more = self.others
        root = np.concatenate([np.sqrt(share) * self.posterior.root, more], axis=1)
        root = root * np.sqrt(self.excess)
        if not self.converged and self.move is not None:
            root = np.column_stack([root, self.move])
        if self.unexplained or self.implausibly_quiet:
            root = np.column_stack([root, constants.UNKNOWN_FACTOR * np.append(self.c, 1.0)])
        return root

    @property
    def evidence(self) -> float:
        """The logarithm of the probability of the data; none before the first round."""
        return -np.inf if self.posterior is None else self.posterior.evidence

    @property
    def _spare(self) -> float:
        """How many residuals are left beside the numbers that the data determine, at least."""
        known = 0.0 if self.posterior is None else self.posterior.known
        return max(self.rows - known, constants.LEAST_FREE * self.rows, 1.0)

    @property
    def quiet(self) -> float:
        """The mean square of the whitened residuals for each number the data do not determine."""
        known = 0.0 if self.posterior is None else self.posterior.known
        return self.misfit * self.rows / max(self.rows - known, 1.0)

    @property
    def excess(self) -> float:
        """By how much residuals are larger than the posterior knows: the factor of its variance."""
        return max(1.0, self.misfit * self.rows / self._spare / self.heat)

    @property
    def unexplained(self) -> bool:
        """Whether residuals are larger than noise explains."""
        return not (self.misfit < constants.UNEXPLAINED and self.excess < constants.MISFIT)

    @property
    def implausibly_quiet(self) -> bool:
        """Whether residuals are smaller than the noise that they are said to have allows."""
        size = self.misfit * self.rows
        return self.quiet * constants.MISFIT < 1.0 and bool(
            chi2.cdf(size, self._spare) < constants.REST_CHANCE
        )

    @property
    def concerns(self) -> list[str]:
        """Why this is no answer, in words; none where the data bear it out."""
        found = []
        if not np.isfinite(self.c).all() or self.posterior is None:
            found.append("no estimate was found")
        if not self.converged:
            found.append("the last round still moved the estimate, by as much as errors include")
        if self.unexplained:
            size = np.sqrt(max(self.misfit, self.excess))
            found.append(f"residuals are {size:.1f} times what noise explains")
        if self.implausibly_quiet:
            times = f"{np.sqrt(1.0 / max(self.quiet, 1e-9)):.1f} times smaller"
            found.append(f"residuals are {times} than this noise would leave them")
        return found
