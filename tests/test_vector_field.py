"""Velocities that are not gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._energy.vector_field import VectorField


def ready(term: VectorField, dim: int) -> VectorField:
    return term.init(np.eye(2, dim), sf.Units.identity(dim), jax.random.key(0))


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_a_divergence_free_field_has_no_divergence_and_is_no_gradient(dim):
    field = ready(VectorField(divergence_free=True), dim)
    one = lambda p: field.velocity(p[None], jnp.zeros(1))[0]
    jacobians = jax.vmap(jax.jacfwd(one))(jax.random.normal(jax.random.key(1), (20, dim)))
    size = jnp.abs(jacobians).max()
    assert jnp.abs(jnp.trace(jacobians, axis1=1, axis2=2)).max() < 1e-5 * size
    assert jnp.abs(jacobians - jacobians.transpose(0, 2, 1)).max() > 0.1 * size


def test_a_known_rotation_turns_a_cloud():
    turn = sf.Energy.known(VectorField(lambda x: jnp.array([-x[1], x[0]])), 2)
    from stitchflow._method.flow import simulate_in_units

    x0 = np.array([[1.0, 0.0], [0.0, 2.0]])
    end = simulate_in_units(turn, sf.Units.identity(2), x0, [0.0, np.pi / 2], 0, True)[-1]
    np.testing.assert_allclose(end, [[0.0, 1.0], [-2.0, 0.0]], atol=1e-3)


@pytest.mark.full
def test_a_potential_and_a_turn_are_told_apart():
    """A linear spiral: the potential takes the inward part, the field the turning."""
    rng, times = np.random.default_rng(0), np.linspace(0.0, 1.0, 6)
    x0 = rng.normal(size=(300, 2)) + np.array([2.0, 0.0])
    turn = lambda t: np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    clouds = [np.exp(-0.5 * t) * x0 @ turn(t).T for t in times]
    data = sf.Snapshots.from_arrays(clouds, times, paired=True)
    energy = sf.Potential(hidden=(32, 32)) + VectorField(hidden=(32, 32), divergence_free=True)
    method = sf.Stitching(energy, particles=100, nodes=6, optimiser=sf.Optimiser(steps=600))
    found = sf.fit(data, method, progress=False).energy
    assert found is not None
    x = clouds[2]
    force = np.asarray(found.force(x))
    whole = np.asarray(found.velocity(x, None, x))
    assert np.mean((whole - (-0.5 * x + x @ turn(np.pi / 2).T)) ** 2) < 0.05 * np.mean(x**2)
    # Force and turning share a harmonic part; the inward pull is the potential's alone.
    centred = x - x.mean(axis=0)
    pull = (force * centred).sum() / (centred**2).sum()
    assert pull == pytest.approx(-0.5, abs=0.1)


def test_bad_fields_are_refused():
    with pytest.raises(ValueError, match="divergence_free"):
        VectorField(lambda x: x, divergence_free=True)
    with pytest.raises(ValueError, match="line"):
        ready(VectorField(divergence_free=True), 1)
