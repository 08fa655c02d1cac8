"""The parts that JKO methods share."""

import jax
import jax.numpy as jnp
import numpy as np

import stitchflow as sf
from stitchflow.rivals._jko import Marginals, origins


def test_origins_are_where_a_shifted_cloud_was(x64):
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(60, 2))
    shuffled = rng.permutation(60)
    data = sf.Snapshots.from_arrays([cloud, (cloud + 3.0)[shuffled], cloud[:40]], [0.0, 1.0, 5.0])
    came = np.asarray(data.units.space_out(jnp.asarray(origins(data, data.units))))
    np.testing.assert_allclose(came[0], cloud[shuffled], atol=1e-6)
    np.testing.assert_allclose(came[1][:40].mean(0), cloud.mean(0) + 3.0, atol=1e-6)


def test_weightless_individuals_move_nobody():
    x = np.array([[0.0], [1.0], [50.0], [2.0], [3.0], [-50.0]])
    t, w = np.array([0, 0, 0, 1, 1, 1.0]), np.array([1, 1, 0, 1, 1, 0.0])
    data = sf.Snapshots.from_table(x, t, weights=w)
    came = np.asarray(data.units.space_out(jnp.asarray(origins(data, data.units))))
    np.testing.assert_allclose(came[0][:, 0], [0.0, 1.0, -50.0], atol=1e-4)


def test_marginals_know_the_density_of_a_gaussian():
    rng = np.random.default_rng(0)
    data = sf.Snapshots.from_arrays(
        [rng.normal(size=(n, 1)) for n in (900, 500, 1)], [0.0, 1.0, 3.0]
    )
    units = sf.Units((0.0,))
    seen = Marginals.of(data, units, densities=True)
    rows, cloud, field = seen.draw(jnp.arange(3), 400, jax.random.key(0))
    assert rows.shape == (3, 400)
    np.testing.assert_allclose(cloud.weights.sum(axis=1), 1.0, rtol=1e-5)
    x, score = np.asarray(cloud.centres)[:2, :, 0], np.asarray(field.score)[:2, :, 0]
    inside = np.abs(x) < 1.5
    assert np.abs(score + x)[inside].mean() < 0.2
    exact = -0.5 * x**2 - 0.5 * np.log(2.0 * np.pi)
    assert np.abs(field.log_density[:2] - exact)[inside].mean() < 0.1
    assert np.isfinite(field.log_density).all(), "also where there is one individual only"
