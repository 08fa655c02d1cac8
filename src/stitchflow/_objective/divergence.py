"""Data terms: how far a marginal is from the individuals observed at its time.

Likelihood and scores (paper, app. B), and two distances between clouds beyond it.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.observations import some_of
from stitchflow._measure.kde import KDE
from stitchflow._measure.sinkhorn import entropic_cost, half_squares
from stitchflow._parts import Part
from stitchflow._status import BadInput
from stitchflow._types import Scalar, check_count, check_number


class Divergence(eqx.Module, Part):
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


class MMD(Divergence):
    r"""Squared maximum mean discrepancy, $E_\rho k - 2E_{\rho,q}k + E_q k$, averaged over kernels.

    $k_\ell(x, y) = e^{-|x-y|^2/2\ell^2}$ of each of `lengths`, in the units of the scaled data. A
    kernel averaged over the density is the density smoothed once more, so that all but the
    first term is exact; that one takes a draw from each of `draws` random kernels. `weight`
    stands against the residual: 50 bends a mode of width 0.3 about as likelihood does.
    """

    lengths: tuple[float, ...] = eqx.field(static=True, default=(0.25, 0.5, 1.0, 2.0))
    weight: float = eqx.field(static=True, default=50.0)
    draws: int = eqx.field(static=True, default=100)

    def __check_init__(self) -> None:
        if not self.lengths:
            raise BadInput("lengths must hold one length or more, got none")
        for length in self.lengths:
            check_number(length, "lengths", 0.0, open_low=True)
        check_number(self.weight, "weight", 0.0, open_low=True)
        check_count(self.draws, "draws")

    def __call__(self, rho: KDE, points: Array, weights: Array, key: Array) -> Scalar:
        drawn, shares = one_each(rho, self.draws, key)
        squares = 2.0 * half_squares(points, points)
        total = jnp.zeros((), points.dtype)
        for length in self.lengths:
            smooth = KDE(rho.centres, jnp.sqrt(rho.bandwidth**2 + length**2), rho.log_weights)
            unit = 0.5 * points.shape[1] * np.log(2.0 * np.pi * length**2)
            near = lambda x, s=smooth, u=unit: jnp.exp(s.log_density(x) + u)
            among = weights @ jnp.exp(-0.5 * squares / length**2) @ weights
            total += shares @ near(drawn) - 2.0 * weights @ near(points) + among
        return self.weight * total / len(self.lengths)


class SinkhornDivergence(Divergence):
    r"""$S(\rho, q) = OT(\rho, q) - \tfrac12 OT(\rho, \rho) - \tfrac12 OT(q, q)$, entropic.

    The cost is $\tfrac12|x - y|^2$ and its entropy weighs `blur` squared, a length in the units
    of the scaled data; `iterations` is fixed. The density is a draw from each of `draws` random
    kernels, with the kernels' weights. `weight` stands against the residual: 10 bends a mode of
    width 0.3 about as likelihood does.
    """

    blur: float = eqx.field(static=True, default=0.2)
    weight: float = eqx.field(static=True, default=10.0)
    draws: int = eqx.field(static=True, default=100)
    iterations: int = eqx.field(static=True, default=30)

    def __check_init__(self) -> None:
        check_number(self.blur, "blur", 0.0, open_low=True)
        check_number(self.weight, "weight", 0.0, open_low=True)
        check_count(self.draws, "draws")
        check_count(self.iterations, "iterations")

    def __call__(self, rho: KDE, points: Array, weights: Array, key: Array) -> Scalar:
        drawn, shares = one_each(rho, self.draws, key)
        cost = lambda x, a, y, b: entropic_cost(x, a, y, b, self.blur**2, self.iterations)
        own = cost(drawn, shares, drawn, shares) + cost(points, weights, points, weights)
        return self.weight * (cost(drawn, shares, points, weights) - 0.5 * own)


def one_each(rho: KDE, draws: int, key: Array) -> tuple[Float[Array, "m d"], Float[Array, " m"]]:
    """A draw from each of at most `draws` random kernels, and their weights, which sum to one."""
    n, d = rho.centres.shape
    kick, choose = jax.random.split(key)
    some = some_of(n, draws, choose)
    noise = jax.random.normal(kick, (len(some), d), rho.centres.dtype)
    widths = jnp.broadcast_to(rho.bandwidth, (n, d))[some]
    return rho.centres[some] + widths * noise, jax.nn.softmax(rho.log_weights[some])
