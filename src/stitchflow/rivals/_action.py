r"""The action-matching objective: the velocity residual of a curve from samples without velocities.

$$\tfrac12\int E_{q_t}|v_t + \nabla V + \beta\nabla\log q_t|^2\,dt = \text{const} +
  E_{q_1}V_1 - E_{q_0}V_0
  + \int E_{q_t}\bigl[\tfrac12|\nabla V|^2 - \partial_t V - \beta\Delta V\bigr]dt .$$
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array, Float

from stitchflow._types import Scalar
from stitchflow.rivals._pairs import Lines

Potentials = Callable[[Array, Array], Array]  # V at points (m, d), each with its time (m,)


def ends(potential: Potentials, lines: Lines) -> Scalar:
    """$E_{q_1}V_1 - E_{q_0}V_0$ as the sum of its differences over the gaps.

    The snapshots between cancel in the mean. Keeping them also cancels most of the noise, since the
    ends of a line and the point on it vary together.

    Arguments:
        potential: V at points, each with its time.
        lines: pairs of individuals at the ends of gaps.
    """
    change = potential(lines.end, lines.end_time) - potential(lines.start, lines.start_time)
    return (change / lines.duration).mean()


def between(
    potential: Potentials,
    x: Float[Array, "m d"],
    t: Float[Array, " m"],
    beta: float,
    key: Array,
) -> Scalar:
    r"""$E[\tfrac12|\nabla V|^2 - \partial_t V - \beta\Delta V]$ at points and times of the curve.

    The Laplacian is Hutchinson's estimate with one random sign per coordinate, which is exact in
    one dimension.

    Arguments:
        potential: V at points, each with its time.
        x: the points.
        t: their times.
        beta: the diffusion in internal units; 0 leaves out the Laplacian.
        key: the random key of the signs.
    """
    slopes = jax.grad(lambda y, s: potential(y, s).sum(), (0, 1))
    if beta == 0.0:
        force, change = slopes(x, t)
        return (0.5 * (force**2).sum(-1) - change).mean()
    signs = jax.random.rademacher(key, x.shape, x.dtype)
    (force, change), (bend, _) = jax.jvp(lambda y: slopes(y, t), (x,), (signs,))
    laplacian = (bend * signs).sum(-1)
    return (0.5 * (force**2).sum(-1) - change - beta * laplacian).mean()
