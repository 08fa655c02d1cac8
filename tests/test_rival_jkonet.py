"""JKOnet: convex maps, and the potential behind them."""

import jax
import numpy as np
import pytest

import stitchflow as sf
from stitchflow.rivals._jkonet import Convex

pytestmark = pytest.mark.full

TIMES = np.array([0.0, 0.2, 0.3, 0.7])  # uneven


def test_the_maps_are_gradients_of_convex_functions(x64):
    convex = Convex(3, (8, 8), jax.random.key(0))
    convex = jax.tree.map(lambda a: a + 0.5 * np.cos(np.arange(a.size)).reshape(a.shape), convex)
    x = np.random.default_rng(0).normal(size=(50, 3))
    curvature = jax.vmap(jax.jacfwd(jax.grad(convex.value)))(x)
    np.testing.assert_allclose(curvature, curvature.swapaxes(1, 2), atol=1e-10)
    assert np.linalg.eigvalsh(np.asarray(curvature)).min() > 0.0


def test_the_maps_start_by_moving_hardly_anybody():
    x = jax.random.normal(jax.random.key(1), (50, 2))
    assert float(abs(Convex(2, (64, 64), jax.random.key(0))(x) - x).max()) < 0.3


def test_a_quadratic_potential_is_recovered(tmp_path):
    """The scheme's own steps for V = |x|^2; its force to 15 %."""
    clouds = [np.random.default_rng(0).normal(size=(200, 2)) + 1.0]
    for tau in np.diff(TIMES):
        clouds.append(clouds[-1] / (1.0 + 2.0 * tau))
    data = sf.Snapshots.from_arrays(clouds, TIMES)
    method = sf.JKOnet(
        energy=sf.Potential(hidden=(16, 16)),
        convex_hidden=(16,),
        batch=600,  # everybody, as the noise of a few shrinks the clouds
        optimiser=sf.Optimiser(steps=300, learning_rate=1e-2),
    )
    fit = sf.fit(data, method, key=0, progress=False)
    x = data.cloud(2)
    error = np.asarray(fit.energy.force(x)) + 2.0 * x
    assert np.sqrt((error**2).mean() / (4.0 * x**2).mean()) < 0.15
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    np.testing.assert_array_equal(again.energy.force(x), fit.energy.force(x))


def test_only_a_potential_is_learned():
    with pytest.raises(ValueError, match="energy must be a Potential"):
        sf.JKOnet(energy=sf.Potential() + sf.Entropy())
    assert repr(sf.JKOnet().learning(sf.Potential() + sf.Entropy()).energy) == "Potential(V(x))"
