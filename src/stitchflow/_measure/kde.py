"""Gaussian kernel densities: log density, score, kernel-averaged velocity, sampling.

Every quantity is a few matrix products over one array of query-centre pairs; that array is cut
into blocks of queries when it would not fit comfortably in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from stitchflow._status import BadInput
from stitchflow._stitching import defaults
from stitchflow._types import Scalar

# Pairs held at once: 2^24 float32 is 64 MiB, and a derivative keeps a handful of such arrays.
PAIR_BUDGET = 2**24


def in_blocks(function: Callable, queries: Any, n: int) -> Any:
    """`function(queries)` row by row of an (m, n) pair array, in blocks when it is too large.

    `queries` is an array of m rows, or a tree of them. Blocks are recomputed in the backward pass,
    so memory stays bounded under differentiation.
    """
    m = jax.tree.leaves(queries)[0].shape[0]
    if m * n <= PAIR_BUDGET:
        return function(queries)
    rows = max(1, PAIR_BUDGET // n)
    alone = lambda query: jax.tree.map(lambda a: a[None], query)
    one = jax.checkpoint(lambda query: jax.tree.map(lambda a: a[0], function(alone(query))))
    return jax.lax.map(one, queries, batch_size=rows)


class Field(eqx.Module):
    """What one pass over the pairs yields at the query points, of one marginal or of several.

    A field contains the parts that were computed. Reading another part raises an error with the
    reason `why` it is missing, so that an unknown density is never replaced by a default.

    Arguments:
        why: the end of the message of that error.
        parts: arrays by name, among `log_density`, `score`, `velocity`, `laplacian` and `rate`.
    """

    parts: dict[str, Array]
    why: str = eqx.field(static=True)

    def __init__(self, why: str = "it was not computed", /, **parts: Array):
        self.parts, self.why = parts, why

    def having(self, **parts: Array) -> Field:
        """This field with some parts added or replaced.

        Arguments:
            parts: arrays by name.

        Returns:
            A new field.
        """
        return Field(self.why, **self.parts | parts)

    def _part(self, name: str) -> Array:
        if name not in self.parts:
            raise BadInput(f"the {name} of the density is not known here: {self.why}")
        return self.parts[name]

    @property
    def log_density(self) -> Float[Array, "*s m"]:
        r"""$\log\rho$."""
        return self._part("log_density")

    @property
    def score(self) -> Float[Array, "*s m d"]:
        r"""$\nabla\log\rho$."""
        return self._part("score")

    @property
    def velocity(self) -> Float[Array, "*s m d"]:
        """The kernel-averaged velocity of the centres."""
        return self._part("velocity")

    @property
    def laplacian(self) -> Float[Array, "*s m"]:
        r"""$\Delta\log\rho$."""
        return self._part("laplacian")

    @property
    def rate(self) -> Float[Array, "*s m"]:
        r"""$\partial_t\log\rho$ by transport."""
        return self._part("rate")


class Cloud(NamedTuple):
    """The empirical measures that stand in for several marginals (eq:kde_approx).

    `own` is the index of the centre around which each query point was drawn. A pair term leaves
    that pair out, like the sum over j != i in the SDE, because the draw represents that particle.
    """

    centres: Float[Array, "s n d"]
    weights: Float[Array, "s n"]
    own: Int[Array, " m"] | None = None

    def mean(self, values: Float[Array, "s n"]) -> Float[Array, " s"]:
        """The weighted mean of each marginal."""
        return (self.weights * values).sum(axis=1)


def over_stations(function: Callable, m: int, n: int, *stacked: Array) -> Any:
    """`function` at every entry of stacked arrays, each costing m x n pairs.

    All entries are computed at once, or a few at a time when the pairs of all would not fit in
    memory; these are then recomputed in the backward pass.
    """
    s = stacked[0].shape[0]
    if s * m * n <= PAIR_BUDGET:
        return jax.vmap(function)(*stacked)
    one = jax.checkpoint(lambda entries: function(*entries))
    return jax.lax.map(one, stacked, batch_size=max(1, PAIR_BUDGET // (m * n)))


class KDE(eqx.Module):
    r"""A Gaussian kernel density, $\rho(x) = \sum_k w_k\,\phi_{h_k}(x - x_k)$ (eq:particle_param).

    All methods can be differentiated with JAX. Pairs of points and centres are computed in blocks
    where they would not fit in memory.

    Arguments:
        centres: the places of the kernels, (n, dim).
        bandwidth: their standard deviations: () for one width, (dim,) for one per dimension, (n,
            dim) for one per kernel and dimension.
        log_weights: logarithms of the kernels' weights, (n,), which need not be normalised.

    Examples:
        >>> import jax.numpy as jnp
        >>> rho = sf.KDE.uniform(jnp.array([[-1.0], [1.0]]), bandwidth=1.0)
        >>> round(float(rho.log_density(jnp.zeros((1, 1)))[0]), 3)
        -1.419
    """

    centres: Float[Array, "n d"]
    bandwidth: Float[Array, ""] | Float[Array, " d"] | Float[Array, "n d"]
    log_weights: Float[Array, " n"]

    @staticmethod
    def uniform(centres: Array, bandwidth: Array | float | None = None) -> KDE:
        """A density with kernels of equal weights.

        Arguments:
            centres: the places of the kernels, (n, dim).
            bandwidth: the kernels' width as in `KDE`; None uses Silverman's rule.

        Returns:
            The density.
        """
        if bandwidth is None:
            bandwidth = silverman(centres)
        return KDE(centres, jnp.asarray(bandwidth, centres.dtype), jnp.zeros(centres.shape[0]))

    @property
    def weights(self) -> Float[Array, " n"]:
        """The kernels' weights, which sum to one."""
        return jax.nn.softmax(self.log_weights)

    @property
    def _precision(self) -> Float[Array, "n d"]:
        n, d = self.centres.shape
        h = self.bandwidth
        h = h if h.ndim == 2 else jnp.broadcast_to(h.reshape(1, -1), (n, d))
        return 1.0 / h**2

    def _log_kernels(self, x: Float[Array, "m d"]) -> Float[Array, "m n"]:
        r"""$\log w_k\phi_{h_k}(x - x_k)$ for all pairs, by matrix products."""
        d = x.shape[1]
        log_weights = jax.nn.log_softmax(self.log_weights)
        if self.bandwidth.ndim < 2:  # one metric for all particles: whiten both sides once
            h = jnp.broadcast_to(self.bandwidth.reshape(1, -1), (1, d))
            # Distances are small differences of large squares; centring keeps them in float32.
            origin = jax.lax.stop_gradient(self.centres.mean(axis=0, keepdims=True))
            a, b = (x - origin) / h, (self.centres - origin) / h
            squares = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2.0 * a @ b.T
            log_norm = jnp.log(h).sum()[None]
        else:
            precision = self._precision
            origin = jax.lax.stop_gradient(self.centres.mean(axis=0, keepdims=True))
            a, b = x - origin, self.centres - origin
            squares = (
                a**2 @ precision.T
                - 2.0 * a @ (b * precision).T
                + (b**2 * precision).sum(1)[None, :]
            )
            log_norm = -0.5 * jnp.log(precision).sum(1)
        constant = log_weights - log_norm - 0.5 * d * jnp.log(2.0 * jnp.pi)
        return constant[None, :] - 0.5 * jnp.maximum(squares, 0.0)

    def _field(self, x: Array, velocities: Array | None, without_self: bool) -> Field:
        logits = self._log_kernels(x)
        if without_self:
            logits = jnp.where(jnp.eye(x.shape[0], dtype=bool), -jnp.inf, logits)
        top = jax.lax.stop_gradient(logits.max(axis=1, keepdims=True))
        kernels = jnp.exp(logits - top)
        total = kernels.sum(axis=1, keepdims=True)
        # One matrix product computes all kernel averages of a query.
        precision = self._precision
        wanted = [precision, self.centres * precision]
        if velocities is not None:
            wanted.append(velocities)
        averages = jnp.split(kernels @ jnp.concatenate(wanted, 1) / total, len(wanted), axis=1)
        score = averages[1] - x * averages[0]
        moving = {} if velocities is None else {"velocity": averages[2]}
        return Field(log_density=(top + jnp.log(total))[:, 0], score=score, **moving)

    def field(self, x: Float[Array, "m d"], velocities: Float[Array, "n d"] | None = None) -> Field:
        r"""Log density, score and kernel-averaged velocity at any points, in one pass.

        $\nabla\log\rho(x) = \sum_k w_k\nabla\phi(x-x_k)\,/\,\sum_l w_l\phi(x-x_l)$ (eq:kde_score),
        $v(x) = \sum_k w_k\phi(x-x_k)\,\dot x_k\,/\,\sum_l w_l\phi(x-x_l)$ (eq:kde_vel).

        Arguments:
            x: the query points, (m, dim).
            velocities: the velocities $\dot x_k$ of the centres, (n, dim); None leaves $v$ out.

        Returns:
            A field of `log_density` (m,), `score` (m, dim) and `velocity` (m, dim).
        """
        n = self.centres.shape[0]
        return in_blocks(lambda q: self._field(q, velocities, False), x, n)

    def field_without_self(self, velocities: Float[Array, "n d"] | None = None) -> Field:
        """The same at the centres, where particle j is left out of its own sums (eq:kde_score_loo).

        With a single particle no other is left: the score is zero, and the log density includes the
        particle itself.

        Arguments:
            velocities: the velocities of the centres, (n, dim); None leaves the velocity out.

        Returns:
            A field with one entry for each centre.
        """
        n = self.centres.shape[0]
        if n == 1:
            field = self._field(self.centres, velocities, False)
            return field.having(score=jnp.zeros_like(self.centres))
        if n * n > PAIR_BUDGET:
            return self._field_without_self_blocked(velocities)
        field = self._field(self.centres, velocities, True)
        return field.having(log_density=field.log_density - jnp.log1p(-self.weights))

    def moving_field(
        self, x: Float[Array, "m d"], velocities: Float[Array, "n d"], without_self: bool = False
    ) -> Field:
        r"""The same with $\Delta\log\rho$ and $\partial_t\log\rho$ of moving centres.

        $\partial_t\log\rho(x) = \sum_k r_k\,\dot x_k\cdot(x - x_k)/h_k^2$

        $r_k$ are the responsibilities of the kernels.

        Arguments:
            x: the query points, (m, dim).
            velocities: the velocities $\dot x_k$ of the centres, (n, dim).
            without_self: leave each centre out of its own sums; `x` must then be the centres. A
                single centre is never left out.

        Returns:
            A field that also contains `laplacian` and `rate`, (m,) each.
        """
        c, p, n = self.centres, self._precision, self.centres.shape[0]
        alone = without_self and n > 1
        flux = (velocities * c * p).sum(1, keepdims=True)
        columns = (p, c * p, p**2, c * p**2, c**2 * p**2, velocities, velocities * p, flux)
        edges = np.cumsum([part.shape[1] for part in columns])[:-1]

        def block(q: Array) -> Field:
            logits = self._log_kernels(q)
            if alone:
                logits = jnp.where(jnp.eye(n, dtype=bool), -jnp.inf, logits)
            r = jax.nn.softmax(logits, axis=1)
            a, b, aa, ab, bb, v, va, vb = jnp.split(r @ jnp.concatenate(columns, 1), edges, axis=1)
            score = b - q * a
            steepness = (q**2 * aa - 2.0 * q * ab + bb).sum(1) - a.sum(1)
            log_density = jax.nn.logsumexp(logits, axis=1)
            if alone:
                log_density -= jnp.log1p(-self.weights)
            rate = (q * va).sum(1) - vb[:, 0]
            laplacian = steepness - (score**2).sum(1)
            known = {"log_density": log_density, "score": score, "laplacian": laplacian}
            return Field(velocity=v, rate=rate, **known)

        return block(x) if alone else in_blocks(block, x, n)

    def _field_without_self_blocked(self, velocities: Array | None) -> Field:
        def one(j: Array) -> Field:
            rest = KDE(self.centres, self.bandwidth, self.log_weights.at[j].set(-jnp.inf))
            field = rest._field(self.centres[j][None, :], velocities, False)
            return jax.tree.map(lambda a: a[0], field)

        n = self.centres.shape[0]
        return jax.lax.map(jax.checkpoint(one), jnp.arange(n), batch_size=max(1, PAIR_BUDGET // n))

    def log_density(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        r"""The logarithm of the density, $\log\rho(x)$.

        Arguments:
            x: the query points, (m, dim).

        Returns:
            One number for each point, (m,).
        """
        n = self.centres.shape[0]
        return in_blocks(lambda q: jax.nn.logsumexp(self._log_kernels(q), axis=1), x, n)

    def score(self, x: Float[Array, "m d"]) -> Float[Array, "m d"]:
        r"""The gradient of the log density, $\nabla\log\rho(x)$ (eq:kde_score).

        Arguments:
            x: the query points, (m, dim).

        Returns:
            One vector for each point, (m, dim).
        """
        return self.field(x).score

    def laplacian(self, x: Float[Array, "m d"]) -> Float[Array, " m"]:
        r"""The Laplacian of the log density, $\Delta\log\rho(x)$.

        $\Delta\log\rho = \sum_k r_k\,[\,|s_k|^2 + \Delta\log\phi_k\,] - |\sum_k r_k s_k|^2$

        Here $r_k$ are the responsibilities and $s_k = \nabla\log\phi(x - x_k)$.

        Arguments:
            x: the query points, (m, dim).

        Returns:
            One number for each point, (m,).
        """

        def block(q: Array) -> Array:
            r = jax.nn.softmax(self._log_kernels(q), axis=1)
            p = self._precision
            a, b, c = r @ p**2, r @ (self.centres * p**2), r @ (self.centres**2 * p**2)
            kernel_scores = (q**2 * a - 2.0 * q * b + c).sum(1)
            score = r @ (self.centres * p) - q * (r @ p)
            return kernel_scores - r @ p.sum(1) - (score**2).sum(1)

        return in_blocks(block, x, self.centres.shape[0])

    def sample(self, n: int, key: Array) -> Float[Array, "m d"]:
        """Draw points with this density, by systematic sampling.

        A kernel of weight w is chosen n w times, rounded up or down, which makes the draws more
        even than independent ones.

        Arguments:
            n: the number of draws.
            key: a JAX key.

        Returns:
            The draws in random order, (n, dim).
        """
        start, shuffle, noise = jax.random.split(key, 3)
        places = (jnp.arange(n) + jax.random.uniform(start)) / n
        k = jnp.searchsorted(jnp.cumsum(self.weights), places)
        k = jax.random.permutation(shuffle, jnp.minimum(k, self.centres.shape[0] - 1))
        h = jnp.broadcast_to(jnp.sqrt(1.0 / self._precision), self.centres.shape)
        return self.centres[k] + h[k] * jax.random.normal(noise, (n, self.centres.shape[1]))

    def mean(self, values: Float[Array, " n"]) -> Scalar:
        """The weighted mean of values at the centres (eq:kde_approx).

        Arguments:
            values: one number for each centre, (n,).

        Returns:
            The mean.
        """
        return (self.weights * values).sum()


def silverman(x: Array | np.ndarray, weights: Array | None = None) -> Float[Array, " d"]:
    r"""Silverman's rule for the width of a Gaussian kernel, one width per dimension.

    $h_i = \sigma_i\,(4/(d+2))^{1/(d+4)}\,n^{-1/(d+4)}$ with the standard deviation $\sigma_i$ along
    dimension $i$. A dimension without spread gets a small share of the largest spread, so that the
    kernel never degenerates.

    Arguments:
        x: the points, (n, dim).
        weights: how much each point counts, (n,), in any unit; $n$ is then the effective number of
            points, $1/\sum w^2$ of the normalised weights. None counts all alike.

    Returns:
        The widths in the unit of `x`, (dim,).

    Examples:
        >>> x = np.array([[-1.0, -3.0], [1.0, 3.0]])
        >>> [round(float(h), 3) for h in sf.silverman(x)]
        [0.891, 2.673]
    """
    x = jnp.asarray(x)
    n, d = x.shape
    w = jnp.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    mean = w[None, :] @ x
    spread = jnp.sqrt((w[:, None] * (x - mean) ** 2).sum(0))
    spread = jnp.maximum(spread, 1e-3 * jnp.maximum(spread.max(), 1e-6))
    effective = 1.0 / (w**2).sum()
    return spread * (4.0 / (d + 2)) ** (1.0 / (d + 4)) * effective ** (-1.0 / (d + 4))


def leave_one_out_bandwidth(
    clouds: list[np.ndarray], rng: np.random.Generator, most: int = defaults.WIDTH_INDIVIDUALS
) -> Float[np.ndarray, " d"]:
    """The multiple of Silverman's width that predicts left-out individuals best, over all clouds.

    Estimated on at most `most` individuals of a cloud and rescaled to its size by the rate
    n^(-1/(d+4)). A narrower kernel describes the sample rather than the population.
    """
    d = clouds[0].shape[1]
    powers = np.arange(defaults.NARROWEST_TRIED, defaults.WIDEST_TRIED + 1)
    multiples = 2.0 ** (0.5 * powers)
    totals, widths = np.zeros(len(multiples)), []
    for cloud in clouds:
        n = len(cloud)
        sample = np.asarray(cloud, np.float64)[rng.permutation(n)[:most]]
        width = np.asarray(silverman(sample), np.float64)
        widths.append(width * (len(sample) / n) ** (1.0 / (d + 4)))
        if len(sample) < 3:
            continue
        squares = cdist(sample / width, sample / width, "sqeuclidean")
        np.fill_diagonal(squares, np.inf)
        for i, multiple in enumerate(multiples):
            logs = logsumexp(-0.5 * squares / multiple**2, axis=1) - d * np.log(multiple)
            totals[i] += logs.mean()
    best = multiples[totals.argmax()] if totals.any() else 1.0
    return best * np.mean(widths, axis=0)
