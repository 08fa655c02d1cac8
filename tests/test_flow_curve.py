"""A normalizing flow in time against autodiff and the continuity equation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stitchflow._flow_curve import FlowCurve


@pytest.fixture(params=[1, 2, 5], ids=lambda d: f"{d}d")
def bent(request):
    """A curve far from the identity, points and times."""
    d = request.param
    cloud = np.random.default_rng(0).normal(size=(50, d)) * np.arange(1.0, d + 1.0)
    curve = FlowCurve(cloud, 4, (8,), jax.random.key(1))
    last = lambda c: [layer.network.weights[-1] for layer in c.layers]
    curve = eqx.tree_at(last, curve, [50.0 * w for w in last(curve)])
    z = jax.random.normal(jax.random.key(2), (20, d))
    return curve, z, jnp.linspace(0.0, 1.0, 20)


def test_maps_are_inverted_and_the_density_is_theirs(bent):
    curve, z, t = bent
    x = curve.place(z, t)
    back, _ = curve.origin(x, t)
    np.testing.assert_allclose(back, z, atol=2e-3)
    assert float(jnp.abs(x - z).max()) > 0.5, "the map does something"
    one = lambda p, s: curve.place(p[None], s[None])[0]
    slopes = jnp.linalg.slogdet(jax.vmap(jax.jacfwd(one))(z, t))[1]
    expected = jax.scipy.stats.norm.logpdf(z).sum(-1) - slopes
    np.testing.assert_allclose(curve.log_density(x, t), expected, atol=1e-2)


def test_the_velocity_transports_the_density(bent):
    # d/dt log rho = -div v - v . score
    curve, z, t = bent
    x = curve.place(z, t)
    density = lambda s: curve.log_density(x, s)
    change = jax.jvp(density, (t,), (jnp.ones_like(t),))[1]
    one = lambda p, s: curve.velocity(p[None], s[None])[0]
    spreading = jnp.trace(jax.vmap(jax.jacfwd(one))(x, t), axis1=1, axis2=2)
    carried = (curve.velocity(x, t) * curve.score(x, t)).sum(-1)
    scale = float(jnp.abs(change).max())
    np.testing.assert_allclose(change, -spreading - carried, atol=1e-2 * scale)
