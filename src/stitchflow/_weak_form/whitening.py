"""Residuals of all gaps as independent rows of unit variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf  # pyright: ignore

from stitchflow._weak_form import constants
from stitchflow._weak_form.shared_errors import SharedErrors


@dataclass(frozen=True)
class Whitening:
    """Independent combinations of unit variance of some averages.

    Arguments:
        root: the Cholesky factor of the scaled covariance of the chosen averages, (k, k).
        chosen: which averages, (k,).
        sizes: what each of them is divided by, (k,).
    """

    root: np.ndarray
    chosen: np.ndarray
    sizes: np.ndarray

    @staticmethod
    def of(covariance: np.ndarray, sizes: np.ndarray, before: Whitening | None = None) -> Whitening:
        """Choose the averages that fluctuate by themselves, the most uncertain one first.

        An average that others determine, or that hardly fluctuates compared with its `sizes`, has a
        covariance that the linearisation does not resolve; it is left out.

        Arguments:
            covariance: of all averages.
            sizes: the usual size of each.
            before: a whitening whose choice is kept, if it still can be; None chooses anew.
        """
        scaled = covariance / np.outer(sizes, sizes)
        if before is not None:
            kept = scaled[np.ix_(before.chosen, before.chosen)]
            try:
                return Whitening(np.linalg.cholesky(kept), before.chosen, sizes[before.chosen])
            except np.linalg.LinAlgError:
                pass
        root, order, rank, _ = dpstrf(scaled, tol=constants.INDEPENDENT, lower=1)
        chosen = order[:rank] - 1
        return Whitening(np.tril(root[:rank, :rank]), chosen, sizes[chosen])

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Averages (tests,) or (tests, m) as independent rows of unit variance."""
        sizes = self.sizes if values.ndim == 1 else self.sizes[:, None]
        return solve_triangular(self.root, values[self.chosen] / sizes, lower=True)

    def transposed(self, values: np.ndarray, tests: int) -> np.ndarray:
        """The transposed map, from rows (k, m) to averages (tests, m)."""
        out = np.zeros((tests, values.shape[1]))
        solved = solve_triangular(self.root, values, lower=True, trans=1)
        out[self.chosen] = solved / self.sizes[:, None]
        return out

    @property
    def log_volume(self) -> float:
        """The logarithm of the determinant of the covariance."""
        return 2.0 * float(np.log(np.diag(self.root)).sum() + np.log(self.sizes).sum())


@dataclass(frozen=True)
class Observation:
    """The residuals of one gap, how they depend on the estimate, and how they fluctuate.

    Arguments:
        residual: what was seen minus what is predicted, (r,).
        design: the derivative of the prediction by the coefficients and log beta, (r, f + 1).
        covariance: of the residual, (r, r).
        before: the covariance with the residual of the gap before, (r, r); None where they are
            independent.
        unseen: the covariance that individuals add who pushed others but were not seen, (r, r);
            None where everybody was seen.
        lasting: how many gaps share this error; `unseen` is as many times that of one gap.
        shared: the errors that the residual and its design have in common.
        shapes: finds how the covariance of each individual depends on the coefficients, relative to
            itself, (individuals, d, d, f); None where averages are compared.
    """

    residual: np.ndarray
    design: np.ndarray
    covariance: np.ndarray
    before: np.ndarray | None = None
    unseen: np.ndarray | None = None
    lasting: float = 1.0
    shared: tuple[SharedErrors, ...] = ()
    shapes: Callable[[], np.ndarray] | None = None

    @property
    def whole(self) -> np.ndarray:
        """The covariance with that of unseen pushes."""
        return self.covariance if self.unseen is None else self.covariance + self.unseen


class Whitened:
    """Observations of all gaps as independent rows of unit variance, gap after gap.

    Arguments:
        observed: the observations.
        like: a whitening whose choice of averages is kept; None chooses anew.
    """

    def __init__(self, observed: list[Observation], like: Whitened | None = None):
        self.steps: list[tuple[Whitening | None, np.ndarray | None]] = []
        # The share of each row's variance that is not of unseen pushes, and its expected square.
        self.shares: list[np.ndarray] = []
        self.sizes: list[np.ndarray] = []
        self.log_volume, last = 0.0, None
        matrices = [o.whole for o in observed if np.ndim(o.covariance) == 2]
        # The usual size of each average over all gaps: one that nearly vanishes in some gap, as a
        # bump where nobody is, is left out there.
        sizes = np.sqrt(np.mean([np.diag(m) for m in matrices], axis=0) + 1e-300) if matrices else 0
        for k, o in enumerate(observed):
            if np.ndim(o.covariance) != 2:
                self.steps.append((None, None))
                self.log_volume += float(o.covariance)
                self.shares.append(np.ones(len(o.residual)))
                self.sizes.append(self.shares[-1])
                continue
            covariance, carry_over = o.whole, None
            if o.before is not None and last is not None:
                cross = (o.before[:, last.chosen] / last.sizes).T
                carry_over = solve_triangular(last.root, cross, lower=True).T
                covariance = covariance - carry_over @ carry_over.T
            chosen = None if like is None else like.steps[k][0]
            last = Whitening.of(covariance, np.asarray(sizes), chosen)
            self.steps.append((last, carry_over))
            self.log_volume += last.log_volume
            self.shares.append(np.ones(len(last.chosen)))
            if o.unseen is not None:
                some = o.unseen[np.ix_(last.chosen, last.chosen)] / np.outer(last.sizes, last.sizes)
                half = solve_triangular(last.root, some, lower=True).T
                full = solve_triangular(last.root, half, lower=True)
                self.shares[-1] = 1.0 - np.clip(np.diag(full), 0.0, 1.0)
            # What unseen pushes add to one gap is less than what they add to all gaps together.
            self.sizes.append(self.shares[-1] + (1.0 - self.shares[-1]) / o.lasting)

    def __call__(self, values: list[np.ndarray]) -> list[np.ndarray]:
        """Residuals or designs of all gaps, one array of rows for each."""
        out: list[np.ndarray] = []
        for (white, carry_over), value in zip(self.steps, values, strict=True):
            if carry_over is not None:
                value = value - carry_over @ out[-1]
            out.append(value if white is None else white(value))
        return out

    def inverse_blocks(self, tests: int) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """The blocks of the inverse covariance: of every gap, and of it and the one before.

        Arguments:
            tests: the number of averages of a gap.
        """
        found: list[tuple[np.ndarray, np.ndarray | None]] = []
        later = None  # the carry-over into the next gap, weighted by that gap's inverse
        for white, carry_over in reversed(self.steps):
            assert white is not None
            middle = np.eye(len(white.chosen))
            middle = middle if later is None else middle + later[0].T @ later[1]
            half = white.transposed(middle, tests)
            inverse = white.transposed(half.T, tests)
            if found and later is not None:  # this gap's share of the cross block of the next one
                cross = -white.transposed(later[1].T, tests).T
                found[-1] = (found[-1][0], cross)
            later = None if carry_over is None else (carry_over, inverse @ carry_over)
            found.append((inverse, None))
        return found[::-1]
