"""The debiased entropic transport cost between weighted clouds, differentiable in the first."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._types import Scalar

ROUNDS = 10  # from a blur as wide as the clouds down to the one asked for


def sinkhorn_divergence(
    x: Float[Array, "n d"],
    a: Float[Array, " n"],
    y: Float[Array, "m d"],
    b: Float[Array, " m"],
    blur: float,
) -> Scalar:
    r"""$OT_\epsilon(a, b) - \tfrac12 OT_\epsilon(a, a) - \tfrac12 OT_\epsilon(b, b)$.

    The cost is $\tfrac12|x-y|^2$, and `blur` is $\sqrt\epsilon$ in units of the second cloud's
    spread. Weights sum to one. Derivatives go to x alone, through the last of a few annealed
    iterations: at the optimum the potentials themselves do not count.
    """
    still = jax.lax.stop_gradient
    xy, xx, yy = _costs(x, still(y)), _costs(x, still(x)), still(_costs(y, y))
    wide = jnp.maximum(still(xy).max(), yy.max())
    epsilon = blur**2 * jnp.maximum(b @ yy @ b, 1e-12)
    levels = wide * (epsilon / wide) ** jnp.linspace(0.0, 1.0, ROUNDS)
    log_a, log_b = jnp.log(a), jnp.log(b)

    def potentials(cost: Array, p: Array, q: Array) -> tuple[Array, Array]:
        def sharpen(state: tuple[Array, Array], level: Array) -> tuple[tuple[Array, Array], None]:
            f, g = state
            new = _softmin(cost, g, q, level), _softmin(cost.T, f, p, level)
            return (0.5 * (f + new[0]), 0.5 * (g + new[1])), None

        return jax.lax.scan(sharpen, (jnp.zeros_like(p), jnp.zeros_like(q)), levels)[0]

    f, g = potentials(still(xy), log_a, log_b)
    alone, other = potentials(still(xx), log_a, log_a)[0], potentials(yy, log_b, log_b)[0]
    here = _softmin(xy, g, log_b, epsilon) - _softmin(xx, alone, log_a, epsilon)
    there = _softmin(still(xy).T, f, log_a, epsilon) - _softmin(yy, other, log_b, epsilon)
    return a @ here + b @ there


def _costs(x: Float[Array, "n d"], y: Float[Array, "m d"]) -> Float[Array, "n m"]:
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None, :]
    return jnp.maximum(0.5 * squares - x @ y.T, 0.0)


def _softmin(
    cost: Float[Array, "n m"], g: Float[Array, " m"], log_b: Float[Array, " m"], epsilon: Array
) -> Float[Array, " n"]:
    return -epsilon * jax.nn.logsumexp((log_b + g / epsilon)[None, :] - cost / epsilon, axis=1)
