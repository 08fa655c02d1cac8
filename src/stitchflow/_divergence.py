"""Data terms: how far a marginal is from the individuals observed at its time (paper, app. B)."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
from jaxtyping import Array, Float

from stitchflow._kde import KDE
from stitchflow._types import Scalar, check_number


class Divergence(eqx.Module):
    """D(rho, q) of a density against weighted individuals; weights sum to one."""

    @abstractmethod
    def __call__(
        self, rho: KDE, points: Float[Array, "m d"], weights: Float[Array, " m"], key: Array
    ) -> Scalar: ...


class KL(Divergence):
    r"""$D_{KL}(\rho, q) = -E_q[\log\rho]$, the mean negative log likelihood."""

    def __call__(self, rho: KDE, points: Array, weights: Array, key: Array) -> Scalar:
        return -(weights * rho.log_density(points)).sum()


class ScoreMatching(Divergence):
    r"""$D_{SM}(\rho, q) = E_q[\,|\nabla\log\rho|^2 + 2\,\Delta\log\rho\,]$ (eq:SM)."""

    def __call__(self, rho: KDE, points: Array, weights: Array, key: Array) -> Scalar:
        return (weights * ((rho.score(points) ** 2).sum(1) + 2.0 * rho.laplacian(points))).sum()


class DenoisingScoreMatching(Divergence):
    r"""$D_{DSM}(\rho, q) = E_q E_{z\sim N(x,\sigma^2)}|\nabla\log\rho(z) + (z - x)/\sigma^2|^2$.

    Fits q smoothed by `sigma`, a length in the units of the scaled data (whose spread is 1).
    """

    sigma: float = eqx.field(static=True, default=0.2)

    def __check_init__(self) -> None:
        check_number(self.sigma, "sigma", 0.0, open_low=True)

    def __call__(self, rho: KDE, points: Array, weights: Array, key: Array) -> Scalar:
        noise = jax.random.normal(key, points.shape, points.dtype)
        gap = rho.score(points + self.sigma * noise) + noise / self.sigma
        return (weights * (gap**2).sum(1)).sum()
