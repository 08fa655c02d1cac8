"""A normalizing flow in time against autodiff and the continuity equation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stitchflow.rivals._flow_curve import FlowCurve

pytestmark = pytest.mark.full


@pytest.fixture(params=[1, 3], ids=lambda d: f"{d}d")
def bent(request):
    """A curve far from the identity, points and times."""
    d = request.param
    cloud = np.random.default_rng(0).normal(size=(50, d)) * np.arange(1.0, d + 1.0)
    curve = FlowCurve(cloud, 4, (8,), jax.random.key(1))
    last = lambda c: c.layers.network.weights[-1]
    curve = eqx.tree_at(last, curve, 50.0 * last(curve))
    z = jax.random.normal(jax.random.key(2), (20, d))
    return curve, z, jnp.linspace(0.0, 1.0, 20)


@eqx.filter_jit
def by_autodiff(curve, z, t):
    """x(z, t), its way back, and log density of x by the Jacobian of the map."""
    x = curve.place(z, t)
    one = lambda p, s: curve.place(p[None], s[None])[0]
    slopes = jnp.linalg.slogdet(jax.vmap(jax.jacfwd(one))(z, t))[1]
    density = jax.scipy.stats.norm.logpdf(z).sum(-1) - slopes
    return x, curve.origin(x, t)[0], curve.log_density(x, t), density


def test_maps_are_inverted_and_the_density_is_theirs(bent):
    curve, z, t = bent
    x, back, density, expected = by_autodiff(curve, z, t)
    np.testing.assert_allclose(back, z, atol=2e-3)
    assert float(jnp.abs(x - z).max()) > 0.5, "the map does something"
    np.testing.assert_allclose(density, expected, atol=1e-2)


@eqx.filter_jit
def continuity(curve, z, t):
    """Both sides of d/dt log rho = -div v - v . score."""
    x = curve.place(z, t)
    change = jax.jvp(lambda s: curve.log_density(x, s), (t,), (jnp.ones_like(t),))[1]
    one = lambda p, s: curve.velocity(p[None], s[None])[0]
    spreading = jnp.trace(jax.vmap(jax.jacfwd(one))(x, t), axis1=1, axis2=2)
    return change, -spreading - (curve.velocity(x, t) * curve.score(x, t)).sum(-1)


def test_the_velocity_transports_the_density(bent):
    change, expected = continuity(*bent)
    np.testing.assert_allclose(change, expected, atol=1e-2 * float(jnp.abs(change).max()))
