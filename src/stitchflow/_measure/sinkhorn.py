"""Entropic transport between weighted clouds.

Losses share one differentiable iteration in the log domain. At the optimum the derivative with
respect to the potentials is zero (envelope theorem), so that no iteration is differentiated.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import ot
from jaxtyping import Array, Float
from scipy.spatial.distance import cdist

from stitchflow._types import Scalar

ROUNDS = 10  # of `sinkhorn_divergence`, from a blur as wide as the clouds down to the given one


def entropic_cost(
    x: Float[Array, "m d"],
    a: Float[Array, " m"],
    y: Float[Array, "n d"],
    b: Float[Array, " n"],
    epsilon: float,
    iterations: int,
) -> Scalar:
    r"""$\min_\pi\langle\pi, C\rangle + \epsilon KL(\pi\,|\,a\otimes b)$ by its dual.

    $\langle a, f\rangle + \langle b, g\rangle - \epsilon\langle a\otimes b,
    e^{(f\oplus g - C)/\epsilon} - 1\rangle$. The entropy falls from 1, the spread of the data, to
    `epsilon` over the first half of the iterations.
    """
    cost, log_a, log_b = half_squares(x, y), jnp.log(a), jnp.log(b)
    still, start, falling = jax.lax.stop_gradient(cost), max(1.0, epsilon), iterations // 2
    levels = start * (epsilon / start) ** jnp.linspace(0.0, 1.0, max(falling, 1))[:falling]
    levels = jnp.concatenate([levels, jnp.full(iterations - falling, epsilon)])
    _, g = _potentials(still, log_a, log_b, levels)
    f = softmin(still, g, log_b, levels[-1])
    f, g = jax.lax.stop_gradient((f, g))
    ratio = jnp.exp((f[:, None] + g[None, :] - cost) / epsilon)
    return a @ f + b @ g - epsilon * (a @ ratio @ b - a.sum() * b.sum())


def sinkhorn_divergence(
    x: Float[Array, "n d"],
    a: Float[Array, " n"],
    y: Float[Array, "m d"],
    b: Float[Array, " m"],
    blur: float,
) -> Scalar:
    r"""$OT_\epsilon(a, b) - \tfrac12 OT_\epsilon(a, a) - \tfrac12 OT_\epsilon(b, b)$, roughly.

    It takes `ROUNDS` iterations. The cost is $\tfrac12|x-y|^2$, and `blur` is $\sqrt\epsilon$ in
    units of the second cloud's spread. Weights sum to one. Only x is differentiated.
    """
    still = jax.lax.stop_gradient
    xy, xx, yy = half_squares(x, still(y)), half_squares(x, still(x)), still(half_squares(y, y))
    wide = jnp.maximum(still(xy).max(), yy.max())
    epsilon = blur**2 * jnp.maximum(b @ yy @ b, 1e-12)
    levels = wide * (epsilon / wide) ** jnp.linspace(0.0, 1.0, ROUNDS)
    log_a, log_b = jnp.log(a), jnp.log(b)
    f, g = _potentials(still(xy), log_a, log_b, levels)
    alone = _potentials(still(xx), log_a, log_a, levels)[0]
    other = _potentials(yy, log_b, log_b, levels)[0]
    here = softmin(xy, g, log_b, epsilon) - softmin(xx, alone, log_a, epsilon)
    there = softmin(still(xy).T, f, log_a, epsilon) - softmin(yy, other, log_b, epsilon)
    return a @ here + b @ there


def _potentials(
    cost: Float[Array, "n m"], log_a: Array, log_b: Array, levels: Array
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """Sinkhorn's iterations at decreasing entropies, each averaged with the one before it."""

    def sharpen(state: tuple[Array, Array], level: Array) -> tuple[tuple[Array, Array], None]:
        f, g = state
        new = softmin(cost, g, log_b, level), softmin(cost.T, f, log_a, level)
        return (0.5 * (f + new[0]), 0.5 * (g + new[1])), None

    start = jnp.zeros_like(log_a), jnp.zeros_like(log_b)
    return jax.lax.scan(sharpen, start, levels.astype(cost.dtype))[0]


def half_squares(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
    r"""$\tfrac12|x_i - y_j|^2$ of all pairs."""
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None, :]
    return jnp.maximum(0.5 * squares - x @ y.T, 0.0)


def softmin(
    cost: Float[Array, "n m"], g: Float[Array, " m"], log_b: Float[Array, " m"], epsilon: Scalar
) -> Float[Array, " n"]:
    r"""$-\epsilon\log\sum_j b_j e^{(g_j - C_{ij})/\epsilon}$."""
    return -epsilon * jax.nn.logsumexp((log_b + g / epsilon)[None, :] - cost / epsilon, axis=1)


def entropic_plan(
    x: np.ndarray, y: np.ndarray, a: np.ndarray, b: np.ndarray, epsilon: float, most: int = 1000
) -> np.ndarray:
    r"""The plan $\pi$ that minimises $E_\pi|x-y|^2 + \epsilon\,KL(\pi\,|\,a\otimes b)$.

    Sinkhorn's iterations, at most `most`, until the marginals are right: pairs are drawn from the
    plan, for which the fixed number of iterations of the losses above is too few. Started from the
    exact plan's duals no entry of the kernel exceeds one and each row and column holds a one, so
    that nothing is lost to rounding however small epsilon is. Weights must be positive.
    """
    a, b, cost = a / a.sum(), b / b.sum(), cdist(x, y, "sqeuclidean")
    duals = ot.emd(a, b, cost, numItermax=10_000_000, log=True)[1]
    kernel = np.exp((duals["u"][:, None] + duals["v"][None, :] - cost) / epsilon)
    rows, columns = np.ones(len(a)), np.ones(len(b))
    for _ in range(most):
        reached = rows @ kernel
        if np.abs(reached * columns - b).sum() < 1e-4:
            break
        columns = b / reached
        rows = a / (kernel @ columns)
    return rows[:, None] * kernel * columns[None, :]
