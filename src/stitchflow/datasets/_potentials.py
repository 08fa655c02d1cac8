"""The fifteen two-dimensional potentials of the synthetic benchmark, and the wavy valley."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float

from stitchflow._types import Scalar

Point = Float[Array, " d"]


def flowers(v: Point) -> Scalar:
    return (v + 2.0 * jnp.sin(jnp.abs(v) ** 1.2)).sum()


def styblinski_tang(v: Point) -> Scalar:
    return 0.5 * (v**4 - 16.0 * v**2 + 5.0 * v).sum()


def holder_table(v: Point) -> Scalar:
    radius = jnp.sqrt((v**2).sum() + 1e-12)
    wave = jnp.sin(v[0]) * jnp.cos(v[1]) * jnp.exp(jnp.abs(1.0 - radius / jnp.pi))
    return 10.0 * jnp.abs(wave)


def zigzag_ridge(v: Point) -> Scalar:
    return (v[0] - v[1]) ** 2 + jnp.cos(v[0]) * (v[0] + v[1]) + v[0] ** 2 * v[1]


def oakley_ohagan(v: Point) -> Scalar:
    return 5.0 * (jnp.sin(v) + jnp.cos(v) + v**2 + v).sum()


def watershed(v: Point) -> Scalar:
    return (v[0] + v[0] ** 2 * (v[1] + 4.0)) / 10.0


def ishigami(v: Point) -> Scalar:
    middle = 0.5 * (v[0] + v[1])
    return jnp.sin(v[0]) + 7.0 * jnp.sin(v[1]) ** 2 + 0.1 * middle**4 * jnp.sin(v[0])


def friedman(v: Point) -> Scalar:
    a, b = 2.0 * (v[0] - 7.0), v[1] - 7.0
    terms = (
        10.0 * jnp.sin(jnp.pi * a * b)
        + 20.0 * (a * jnp.sin(b) - 0.5) ** 2
        + 10.0 * (a * jnp.cos(b) - 1.0) ** 2
        + 0.1 * b * jnp.sin(a)
    )
    return terms / 100.0


def sphere(v: Point) -> Scalar:
    return -10.0 * (v**2).sum()


def bohachevsky(v: Point) -> Scalar:
    waves = 0.3 * jnp.cos(3.0 * jnp.pi * v[0]) + 0.4 * jnp.cos(4.0 * jnp.pi * v[1])
    return 10.0 * (v[0] ** 2 + 2.0 * v[1] ** 2 - waves)


def wavy_plateau(v: Point) -> Scalar:
    return (jnp.cos(jnp.pi * v) + 0.5 * v**4 - 3.0 * v**2 + 1.0).sum()


def double_exp(v: Point) -> Scalar:
    bump = lambda c: jnp.exp(-((v - c) ** 2).sum() / 20.0)
    return 200.0 * (bump(3.0) + bump(-3.0))


def relu(v: Point) -> Scalar:
    return -50.0 * jnp.maximum(v, 0.0).sum()


def rotational(v: Point) -> Scalar:
    return -500.0 * jnp.maximum(jnp.arctan2(v[1] + 5.0, v[0] + 5.0) + jnp.pi, 0.0)


def flat(v: Point) -> Scalar:
    return 0.0 * v.sum()


def quadratic(v: Point) -> Scalar:
    return 5.0 * (v**2).sum()


def wavy_valley_potential(tilt: float = 0.3) -> Callable[[Point], Scalar]:
    r"""The potential of a sinusoidal valley that slopes along the first dimension.

    $V(x) = 0.6\,(x_2 - \sin(\pi x_1/2))^2 - \mathrm{tilt}\,x_1$

    Arguments:
        tilt: the slope along the first dimension, which drives individuals through the valley.

    Returns:
        V, a function of one point (2,).

    Examples:
        >>> import jax.numpy as jnp
        >>> v = sf.datasets.wavy_valley_potential(tilt=0.5)
        >>> round(float(v(jnp.array([1.0, 1.0]))), 6)
        -0.5
    """
    return lambda v: 0.6 * (v[1] - jnp.sin(0.5 * jnp.pi * v[0])) ** 2 - tilt * v[0]


POTENTIALS: dict[str, Callable[[Point], Scalar]] = {
    function.__name__: function
    for function in (
        flowers,
        styblinski_tang,
        holder_table,
        zigzag_ridge,
        oakley_ohagan,
        watershed,
        ishigami,
        friedman,
        sphere,
        bohachevsky,
        wavy_plateau,
        double_exp,
        relu,
        rotational,
        flat,
    )
}
