"""Scores against a known energy (the `energy` protocol), named as in `PROTOCOLS.md`.

Every score is a function of a `Recovery`: the learned and the true energy, and the individuals that
determine where they are compared. A score that is undefined (a flat potential, a missing term) is
left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from scipy.spatial import KDTree

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._judging.protocols import Protocol
from stitchflow._judging.scores import Row
from stitchflow._method.contract import Fit
from stitchflow._status import NotAvailable
from stitchflow._types import near_times
from stitchflow.metrics import bd2_uvp, pair_band, pattern_r2, raw_r2

GRID = 100
NEAR = 0.05  # of the bounding box's diagonal
BOX_POINTS = 500
BOX_MARGIN = 0.5
PAIRS = 20_000
LONG = 1.5  # distances beyond the core of the chiral kernel


@dataclass(frozen=True)
class Recovery:
    """The learned and the true energy, and where the two are compared.

    Arguments:
        learned: the energy of a fit.
        truth: the energy that made the data.
        train: the training individuals.
        test: the held-out individuals.
    """

    learned: Energy
    truth: Energy
    train: Snapshots
    test: Snapshots

    @cached_property
    def support(self) -> np.ndarray:
        """Grid points of the training individuals' bounding box that lie near one of them."""
        low, high = self.train.x.min(axis=0), self.train.x.max(axis=0)
        axes = [np.linspace(a, b, GRID) for a, b in zip(low, high, strict=True)]
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, self.train.dim)
        distance, _ = KDTree(self.train.x).query(grid)
        return grid[distance <= NEAR * np.linalg.norm(high - low)]

    @cached_property
    def box(self) -> np.ndarray:
        """Uniform points in the bounding box and a margin around it."""
        low = self.train.x.min(axis=0) - BOX_MARGIN
        high = self.train.x.max(axis=0) + BOX_MARGIN
        return np.random.default_rng(0).uniform(low, high, (BOX_POINTS, self.train.dim))

    def potentials(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Learned and true potential at points."""
        learned, true = self.learned.potential(x), self.truth.potential(x)
        return np.asarray(learned, np.float64), np.asarray(true, np.float64)

    def gradient_gap(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Learned minus true force, and the true force."""
        true = np.asarray(self.truth.force(x), np.float64)
        return np.asarray(self.learned.force(x), np.float64) - true, true

    @cached_property
    def band(self) -> tuple[float, float]:
        """The distances at which W is compared: those of pairs in the middle snapshot."""
        return pair_band(self.test.cloud(len(self.test) // 2))

    def further(self) -> dict[str, float | None]:
        """Scores that only some tasks have, by name; None where one is undefined."""
        return {}

    @cached_property
    def displacements(self) -> np.ndarray:
        """Differences of random pairs of held-out individuals, as many from each time."""
        rng, share = np.random.default_rng(0), -(-PAIRS // len(self.test))
        pairs = []
        for cloud in self.test.clouds:
            i, j = rng.integers(0, len(cloud), (2, share))
            pairs.append((cloud[i] - cloud[j])[i != j])
        return np.concatenate(pairs).astype(np.float64)


class Band(Recovery):
    """The wavy valley, compared within one unit of its floor, over the range of the data.

    Arguments:
        learned: as in `Recovery`.
        truth: as in `Recovery`.
        train: as in `Recovery`.
        test: as in `Recovery`.
    """

    @cached_property
    def support(self) -> np.ndarray:
        first = np.linspace(self.train.x[:, 0].min(), self.train.x[:, 0].max(), GRID)
        grid = np.stack(np.meshgrid(first, np.linspace(-2.0, 2.0, GRID)), -1).reshape(-1, 2)
        return grid[np.abs(grid[:, 1] - np.sin(0.5 * np.pi * grid[:, 0])) <= 1.0]


def grad_error(r: Recovery) -> float | None:
    r"""$100\,E|\nabla\hat V-\nabla V|^2 / \mathrm{tr\,Cov}(\nabla V)$ at held-out individuals."""
    gap, true = r.gradient_gap(r.test.x)
    variance = true.var(axis=0).sum()
    return None if variance < 1e-12 else float(100.0 * (gap**2).sum(1).mean() / variance)


def grad_variance(r: Recovery) -> float:
    """tr Cov of the true gradient at held-out individuals: the scale of `grad_error`."""
    return float(r.gradient_gap(r.test.x)[1].var(axis=0).sum())


def l2_uvp(r: Recovery) -> float:
    r"""$100\,\tau^2 E_{t_{k+1}}|\nabla\hat V-\nabla V|^2 / \mathrm{tr\,Cov}(x_{t_k})$, mean over k.

    It is computed on training individuals, as the published figures of stitching are.
    """
    values = []
    for k, step in enumerate(np.diff(r.train.times)):
        gap, _ = r.gradient_gap(r.train.cloud(k + 1))
        spread = r.train.cloud(k).astype(np.float64).var(axis=0).sum()
        values.append(100.0 * step**2 * (gap**2).sum(1).mean() / spread)
    return float(np.mean(values))


def _of_potential(score: Callable, where: str) -> Callable[[Recovery], float | None]:
    def value(r: Recovery) -> float | None:
        learned, true = r.potentials(getattr(r, where))
        if true.std() < 1e-9 or learned.std() < 1e-12:
            return None
        return score(learned, true)

    return value


def grad_pattern_r2(r: Recovery) -> float | None:
    """Squared correlation of the two gradient fields at held-out individuals."""
    gap, true = r.gradient_gap(r.test.x)
    return None if true.std() < 1e-9 else pattern_r2(gap + true, true)


def _of_interaction(score: Callable) -> Callable[[Recovery], float | None]:
    """A score of W over the band of pair distances; W is determined up to a constant."""

    def value(r: Recovery) -> float | None:
        distances = np.linspace(*r.band, 200)
        both = (np.asarray(e.interaction(distances), np.float64) for e in (r.learned, r.truth))
        return score(*both)

    return value


def _kernel_r2(r: Recovery, beyond: float) -> float:
    z = r.displacements
    z = z[np.linalg.norm(z, axis=1) > beyond]
    learned, true = np.asarray(r.learned.kernel(z)), np.asarray(r.truth.kernel(z))
    return float(1.0 - ((learned - true) ** 2).sum() / (true**2).sum())


def kernel_r2(r: Recovery) -> float:
    """Explained share of the vector kernel, over the displacements in the data."""
    return _kernel_r2(r, 0.0)


def kernel_r2_long(r: Recovery) -> float:
    """Explained share of the vector kernel beyond the short distances where it is steepest."""
    return _kernel_r2(r, LONG)


def curl(energy: Energy, z: np.ndarray) -> np.ndarray:
    r"""$\partial_1 K_2 - \partial_2 K_1$ of a kernel in the plane, by central differences.

    Arguments:
        energy: an energy with a vector kernel.
        z: displacements of shape (m, 2).
    """
    step = 1e-3 * float(np.abs(z).max())
    slope = lambda axis: (
        (
            np.asarray(energy.kernel(z + step * np.eye(2)[axis]), np.float64)
            - np.asarray(energy.kernel(z - step * np.eye(2)[axis]), np.float64)
        )
        / (2.0 * step)
    )
    return slope(0)[:, 1] - slope(1)[:, 0]


def curl_r2(r: Recovery) -> float:
    """Explained share of the kernel's curl, over the displacements in the data."""
    return raw_r2(curl(r.learned, r.displacements), curl(r.truth, r.displacements))


POTENTIAL_SCORES: dict[str, Callable[[Recovery], float | None]] = {
    "grad_error": grad_error,
    "l2_uvp": l2_uvp,
    "pattern_r2": _of_potential(pattern_r2, "support"),
    "raw_r2": _of_potential(raw_r2, "support"),
    "pattern_r2_box": _of_potential(pattern_r2, "box"),
    "raw_r2_box": _of_potential(raw_r2, "box"),
    "grad_pattern_r2": grad_pattern_r2,
    "grad_variance": grad_variance,
}
INTERACTION_SCORES = {
    "w_pattern_r2": _of_interaction(pattern_r2),
    "w_raw_r2": _of_interaction(raw_r2),
}
KERNEL_SCORES = {"kernel_r2": kernel_r2, "kernel_r2_long": kernel_r2_long, "curl_r2": curl_r2}
ERRORS = ("grad_error", "l2_uvp", "nmae", "v_slope_error", "w_slope_error")
PERFECT = {"grad_variance": None, **dict.fromkeys(ERRORS, 0.0)}  # 1 for all other scores
# Standard deviations on either side of the mean that hold 90 % of a normal distribution.
NINETY = 1.645


def compare_energies(recovery: Recovery) -> Iterable[Row]:
    """Rows of the `energy` protocol for the terms that both energies of a `recovery` have."""
    learned, truth = recovery.learned, recovery.truth
    scores: dict[str, Callable[[Recovery], float | None]] = {}
    if _both(learned, truth, Potential) and not learned.time_varying:
        scores |= POTENTIAL_SCORES
    if _both(learned, truth, Interaction):
        scores |= INTERACTION_SCORES
    if _both(learned, truth, VectorKernel):
        scores |= KERNEL_SCORES
    values = {name: score(recovery) for name, score in scores.items()}
    if scores and not learned.time_varying:
        values |= recovery.further()
    for name, value in values.items():
        if value is not None and np.isfinite(value):
            yield Row(str(Protocol.ENERGY), name, None, float(value), PERFECT.get(name, 1.0))
    if truth.beta > 0 and any(term.learn for term in learned.only(Entropy)):
        yield Row(str(Protocol.ENERGY), "beta", None, learned.beta, truth.beta)


def compare_beta(fit: Fit, truth: Energy) -> Iterable[Row]:
    """The ends of the 90 % interval of beta, each beside the `truth`, where a `fit` has one."""
    try:
        spread = getattr(getattr(fit, "uncertainty", None), "beta", None)
    except NotAvailable:
        return
    if spread is None or truth.beta <= 0:
        return
    mean, sd = float(spread.mean), float(spread.sd)
    if np.isfinite([mean, sd]).all():
        low, high = max(mean - NINETY * sd, 0.0), mean + NINETY * sd
        yield Row(str(Protocol.ENERGY), "beta_low", None, low, truth.beta)
        yield Row(str(Protocol.ENERGY), "beta_high", None, high, truth.beta)


def _both(a: Energy, b: Energy, kind: type) -> bool:
    return bool(a.only(kind)) and bool(b.only(kind))


def compare_moments(fit: Fit, test: Snapshots) -> Iterable[Row]:
    """`bd2_uvp` of the weighted particles of a `fit` at every trained time of `test`."""
    curve, units = fit.flow.fitted_curve, None if fit.energy is None else fit.energy.units
    if curve is None or units is None:
        return
    values = []
    for k in np.flatnonzero(near_times(test.times, fit.times).any(axis=1)).tolist():
        t = test.times[k]
        inside = jnp.asarray(units.time_in(float(t)), float)
        rho = curve.at(inside)
        centres = np.asarray(units.space_out(rho.centres), np.float64)
        weights = np.asarray(rho.weights, np.float64)
        seen = test.cloud(k).astype(np.float64)
        value = bd2_uvp(centres, seen, weights, test.uneven_weights(k))
        yield Row(str(Protocol.MARGINAL), "bd2_uvp", float(t), value, None)
        if t > fit.times[0]:
            values.append(value)
    if values:
        yield Row(str(Protocol.MARGINAL), "bd2_uvp", None, float(np.mean(values)), None)
