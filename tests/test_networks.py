"""The learned functions against what they say they are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stitchflow._energy.networks import MLP, Chebyshev, PolarSeries
from stitchflow._objective.growth import GrowthRate


def silu(x):
    return x / (1.0 + np.exp(-x))


def test_a_perceptron_skips_between_equal_widths(x64):
    network = MLP(3, (5, 5), 2, jax.random.key(0))
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=w.shape) for w in network.weights]
    biases = [rng.normal(size=b.shape) for b in network.biases]
    parts = tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases))
    network = eqx.tree_at(lambda n: (n.weights, n.biases), network, parts)
    x = rng.normal(size=(4, 7, 3))
    first = silu(x @ weights[0] + biases[0])
    second = first + silu(first @ weights[1] + biases[1])
    np.testing.assert_allclose(network(jnp.asarray(x)), second @ weights[2] + biases[2], rtol=1e-10)


def test_a_perceptron_starts_almost_flat():
    """Layers keep the size of what they are given, but for the last, a hundredth of it."""
    network = MLP(400, (300,), 200, jax.random.key(0))
    first, last = (float(jnp.std(w)) for w in network.weights)
    assert first == pytest.approx(400**-0.5, rel=0.05)
    assert last == pytest.approx(0.01 * 300**-0.5, rel=0.05)
    assert not any(b.any() for b in network.biases)


def test_a_rate_sees_times_from_minus_one_to_one(x64):
    rate = GrowthRate(MLP(3, (6,), 1, jax.random.key(0)))
    x, t = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2))), jnp.linspace(0.0, 1.0, 5)
    seen = jnp.concatenate([x, jnp.asarray([-1.0, -0.5, 0.0, 0.5, 1.0])[:, None]], axis=1)
    np.testing.assert_allclose(rate(x, t), rate.network(seen)[:, 0])


def test_a_series_is_the_polynomial_through_its_nodes(x64):
    """Degree 5 through 6 nodes is exact; beyond the reach the end value is kept."""
    polynomial = np.polynomial.Polynomial([0.3, -1.0, 0.5, 0.2, -0.1, 0.05])
    table = Chebyshev.through(jnp.asarray(polynomial(Chebyshev.nodes(6, 3.0))), 3.0)
    r = np.linspace(0.0, 3.0, 11)
    np.testing.assert_allclose(table(jnp.asarray(r)), polynomial(r), atol=1e-12)
    slopes = jax.vmap(jax.grad(table))(jnp.asarray(r[:-1]))
    np.testing.assert_allclose(slopes, polynomial.deriv()(r[:-1]), atol=1e-11)
    assert float(table(jnp.asarray(5.0))) == pytest.approx(polynomial(3.0))


def test_chebyshev_series_and_its_derivatives(x64):
    nodes = jnp.asarray(Chebyshev.nodes(30, 4.0))
    r = jnp.linspace(0.0, 3.9, 50)
    at = lambda a, s: Chebyshev.through(jnp.sin(a * nodes), 4.0)(s)
    np.testing.assert_allclose(at(1.3, r), jnp.sin(1.3 * r), atol=1e-12)
    slope = jax.grad(lambda s: at(1.3, s).sum())(r)
    np.testing.assert_allclose(slope, 1.3 * jnp.cos(1.3 * r), atol=1e-10)
    by_parameter = jax.grad(lambda a: at(a, r).sum())(1.3)
    np.testing.assert_allclose(by_parameter, (r * jnp.cos(1.3 * r)).sum(), rtol=1e-10)
    assert float(at(1.3, jnp.asarray(9.0))) == pytest.approx(float(at(1.3, jnp.asarray(4.0))))


def polar(z, coefficients):
    """The same field by cosines, sines and NumPy's own series."""
    r, angle = np.hypot(*z.T), np.arctan2(z[:, 1], z[:, 0])
    waves = [f(h * angle) for h in PolarSeries.HARMONICS for f in (np.cos, np.sin)]
    scaled = coefficients / np.arange(1.0, PolarSeries.DEGREE + 1.0)[:, None, None]
    s = np.minimum(2.0 * np.sqrt(r) - 1.0, 1.0)
    radial = np.polynomial.chebyshev.chebval(s, scaled)  # h d m
    return np.einsum("hm,hdm->md", waves, radial)


def test_a_polar_series_is_odd_harmonics_times_chebyshev(x64):
    rng = np.random.default_rng(0)
    field = PolarSeries(jax.random.key(0))
    coefficients = np.asarray(field.coefficients, float)
    assert coefficients.std() == pytest.approx(1e-2, rel=0.1)
    z = rng.normal(size=(40, 2))  # some of them beyond the disc
    np.testing.assert_allclose(field(jnp.asarray(z)), polar(z, coefficients), atol=1e-8)
    np.testing.assert_allclose(field(jnp.asarray(-z)), -polar(z, coefficients), atol=1e-8)


def test_a_polar_series_is_steep_but_finite_at_the_origin():
    field = PolarSeries(jax.random.key(0))
    assert jnp.isfinite(field(jnp.zeros((1, 2)))).all()
    assert jnp.isfinite(jax.jacfwd(field)(jnp.zeros(2))).all()
