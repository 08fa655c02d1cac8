"""Data terms: how far a marginal is from the individuals observed at its time.

They are the likelihood and two forms of score matching (paper, app. B), and two distances between
clouds that are not in the paper.
"""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.observations import Minibatch, some_of
from stitchflow._measure.kde import KDE
from stitchflow._measure.sinkhorn import entropic_cost, half_squares
from stitchflow._parts import LATER, Part
from stitchflow._status import BadInput
from stitchflow._types import Scalar, check_count, check_number


class Divergence(eqx.Module, Part):
    """D(rho, q) between a kernel density and weighted individuals; subclasses define `__call__`.

    A divergence is called with a `KDE`, individuals (m, d), their weights, which sum to one, and a
    random key, all in the units of the scaled data, and returns a scalar that JAX can
    differentiate.
    """

    @abstractmethod
    def __call__(
        self, rho: KDE, points: Float[Array, "m d"], weights: Float[Array, " m"], key: Array
    ) -> Scalar: ...

    def over_times(self, each: Float[Array, " s"], batch: Minibatch) -> Scalar:
        """The data term of all times: the sum of the divergences.

        Arguments:
            each: the divergences at the times of a minibatch.
            batch: the minibatch.

        Returns:
            An unbiased estimate of the data term.
        """
        return batch.scale * each.sum()


class KL(Divergence):
    r"""$D_{KL}(\rho, q) = -E_q[\log\rho]$, the mean negative log likelihood.

    It is the Kullback-Leibler divergence up to the entropy of the data, which does not depend on
    the model. It is the default data term.

    Arguments:
        pooled: whether the data term is one mean over the individuals of all times, as in the
            authors' code, in place of the sum over times of one mean each.

    >>> import jax.numpy as jnp
    >>> rho = sf.KDE.uniform(jnp.zeros((1, 1)), bandwidth=1.0)
    >>> round(float(KL()(rho, jnp.zeros((1, 1)), jnp.ones(1), key=None)), 4)
    0.9189
    """

    pooled: bool = eqx.field(static=True, default=False, metadata=LATER)

    def __call__(self, rho: KDE, points: Array, weights: Array, key: Array) -> Scalar:
        return -(weights * rho.log_density(points)).sum()

    def over_times(self, each: Array, batch: Minibatch) -> Scalar:
        if not self.pooled:
            return super().over_times(each, batch)
        shares = batch.counts.astype(each.dtype) / batch.total.astype(each.dtype)
        return batch.scale * (shares * each).sum()


class ScoreMatching(Divergence):
    r"""$D_{SM}(\rho, q) = E_q[\,|\nabla\log\rho|^2 + 2\,\Delta\log\rho\,]$ (eq:SM).

    It compares the scores of model and data (Hyvarinen, 2005) and needs no normalised density.

    >>> import jax.numpy as jnp
    >>> rho = sf.KDE.uniform(jnp.zeros((1, 1)), bandwidth=1.0)
    >>> round(float(ScoreMatching()(rho, jnp.zeros((1, 1)), jnp.ones(1), key=None)), 4)
    -2.0
    """

    def __call__(self, rho: KDE, points: Array, weights: Array, key: Array) -> Scalar:
        return (weights * ((rho.score(points) ** 2).sum(1) + 2.0 * rho.laplacian(points))).sum()


class DenoisingScoreMatching(Divergence):
    r"""$D_{DSM}(\rho, q) = E_q E_{z\sim N(x,\sigma^2)}|\nabla\log\rho(z) + (z - x)/\sigma^2|^2$.

    It fits the distribution of the data smoothed by Gaussian noise (Vincent, 2011).

    Arguments:
        sigma: the standard deviation of the noise, in the units of the scaled data (whose spread
            is 1). Structure finer than this is lost.

    >>> DenoisingScoreMatching(sigma=0.1).sigma
    0.1
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

    The kernels are $k_\ell(x, y) = e^{-|x-y|^2/2\ell^2}$ (Gretton et al., 2012). The mean of a
    kernel over the density is the density smoothed once more, so that all terms but the first are
    exact.

    Arguments:
        lengths: the $\ell$ of the kernels, in the units of the scaled data.
        weight: a factor against the residual; with 50 a mode of width 0.3 is fitted about as
            closely as by the likelihood.
        draws: the first term is estimated with one draw from each of so many random kernels.

    >>> MMD(lengths=(0.5, 1.0)).weight
    50.0
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

    The cost is $\tfrac12|x - y|^2$ (Feydy et al., 2019).

    Arguments:
        blur: the square root of the weight of the entropy, a length in the units of the scaled
            data.
        weight: a factor against the residual; with 10 a mode of width 0.3 is fitted about as
            closely as by the likelihood.
        draws: the density is represented by one draw from each of so many random kernels.
        iterations: the number of Sinkhorn iterations, which is fixed.

    >>> SinkhornDivergence(blur=0.1).iterations
    30
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
    """One draw from each of at most `draws` random kernels of `rho`, and their weights.

    The weights sum to one; `key` is the random key.
    """
    n, d = rho.centres.shape
    kick, choose = jax.random.split(key)
    some = some_of(n, draws, choose)
    noise = jax.random.normal(kick, (len(some), d), rho.centres.dtype)
    widths = jnp.broadcast_to(rho.bandwidth, (n, d))[some]
    return rho.centres[some] + widths * noise, jax.nn.softmax(rho.log_weights[some])
