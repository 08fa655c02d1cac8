"""How far averages fluctuate: three noise models, and the whitening that each implies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf  # pyright: ignore

from stitchflow._weak_form import constants
from stitchflow._weak_form.carry import Carried
from stitchflow._weak_form.drift_parts import PairPart
from stitchflow._weak_form.growing import grown
from stitchflow._weak_form.moments import Gap, Moments
from stitchflow._weak_form.pair_push import Geometry


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
        shared: the errors that the residual and its design have in common; None where the design
            has no error.
    """

    residual: np.ndarray
    design: np.ndarray
    covariance: np.ndarray
    before: np.ndarray | None = None
    unseen: np.ndarray | None = None
    lasting: float = 1.0
    shared: SharedErrors | None = None

    @property
    def whole(self) -> np.ndarray:
        """The covariance with that of unseen pushes."""
        return self.covariance if self.unseen is None else self.covariance + self.unseen


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


class Noise(ABC):
    """A noise model: which residuals of a gap are compared, and how they fluctuate."""

    beta_is_noise: bool  # whether the covariance is proportional to beta, but for unseen pushes
    shares_errors: bool = False  # whether residuals and design have errors in common

    @abstractmethod
    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        """The residuals of a gap whose individuals were carried by the estimate `c`, `beta`."""


def _averages(moments: Moments, gap: Gap, carried: Carried) -> tuple[np.ndarray, ...]:
    """Residual and design of averages, and the tests and their slopes at carried individuals."""
    values, slopes, apart = at_ends(moments, gap, carried)
    weights = gap.here.weights
    design = carried.design(slopes, weights, np.arange(len(weights)), apart)
    residual = gap.there.weights @ moments.seen(gap.there) - weights @ values
    return residual, design, values, slopes.mean(axis=0)


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


def unseen_pushes(
    moments: Moments, gap: Gap, slopes: np.ndarray, c: np.ndarray
) -> np.ndarray | None:
    """The covariance of averages because only a part of those who push was seen.

    A draw of n out of N who push has (1 - n / N) of the variance of independent draws.
    """
    here, drift = gap.here, moments.drift
    if here.near is None or here.unseen <= 0.0:
        return None
    place = Geometry.at(here.near, here.x)
    weighted = (slopes * here.weights[:, None, None]).reshape(-1, slopes.shape[2])
    done = sum(push.sources(place, c[own]) @ weighted for push, own in drift.only(PairPart))
    centred = gap.duration * (done - np.mean(done, axis=0))
    # Who is not seen now was not seen before either, so that gaps share this error.
    return lasting(gap) * here.unseen * centred.T @ centred


def lasting(gap: Gap) -> float:
    """The number of gaps over which unseen individuals push alike."""
    return max(constants.LASTING / gap.duration, 1.0)


class SameIndividuals(Noise):
    r"""The same individuals at both ends of a gap: averages fluctuate by their diffusion alone.

    $$\mathrm{Cov} = 2\beta\,\tfrac1n\int\langle J\nabla\eta\cdot J\nabla\eta'\rangle\,dt,$$

    where J carries gradients to the end of the gap.
    """

    beta_is_noise = True

    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        residual, design, _, slopes = _averages(moments, gap, carried)
        roots = np.linalg.cholesky(carried.spread).transpose(0, 2, 1)
        moved = (roots @ slopes) * gap.here.weights[:, None, None]
        moved = moved.reshape(-1, slopes.shape[2])
        own = beta * moved.T @ moved
        unseen = unseen_pushes(moments, gap, slopes, c)
        return Observation(residual, design, own, None, unseen, lasting(gap))


class OtherIndividuals(Noise):
    r"""Other individuals at every time: averages fluctuate as those of random draws.

    $$\mathrm{Cov} = \tfrac1n(\mathrm{Cov}_k + \mathrm{Cov}_{k+1}),$$

    and neighbouring gaps share the draws of the snapshot between them.
    """

    beta_is_noise = False
    shares_errors = True

    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        residual, design, values, slopes = _averages(moments, gap, carried)
        here, there = gap.here, gap.there
        after = moments.seen(there)
        # Those who were carried are draws of the same distribution as those who were seen. Some of
        # their covariance is added, because a place where nobody happened to be has none.
        copies = [moments.tests.values(y) for y in carried.x]
        rare = constants.RARE * 0.5 * here.effective / there.effective
        covariance = here.covariance(values, values) + there.covariance(after, after)
        covariance += rare * sum(here.covariance(copy, copy) for copy in copies)
        before = -here.covariance(values, moments.seen(here)) if gap.follows else None
        unseen = unseen_pushes(moments, gap, slopes, c)
        shared = SharedErrors(moments, gap, carried)
        return Observation(residual, design, covariance, before, unseen, lasting(gap), shared)


class FollowedIndividuals(Noise):
    """Individuals known by their ids: every one of them is a residual of its own."""

    beta_is_noise = True

    def observe(
        self, moments: Moments, gap: Gap, carried: Carried, c: np.ndarray, beta: float
    ) -> Observation:
        _, i, j = np.intersect1d(gap.here.ids, gap.there.ids, return_indices=True)  # pyright: ignore
        roots = np.linalg.cholesky(beta * carried.spread[i])
        residual = gap.there.x[j] - 0.5 * (carried.x[0, i] + carried.x[1, i])
        design = carried.tangents(i)
        # Individuals are independent, so that they are whitened one by one and not as a matrix.
        residual = np.linalg.solve(roots, residual[:, :, None])[:, :, 0].ravel()
        design = np.linalg.solve(roots, design).reshape(len(residual), -1)
        return Observation(residual, design, 2.0 * np.log(np.diagonal(roots, 0, 1, 2)).sum())


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
