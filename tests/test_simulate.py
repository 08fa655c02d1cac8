"""Simulation by the energy alone: exact moments, dissipation, conservation, reversal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stitchflow import Energy, Entropy, Interaction, Potential
from stitchflow._energy.simulate import _steepness, simulate

RATE, BETA = 1.5, 0.3
QUADRATIC = Potential(lambda x: 0.5 * RATE * (x**2).sum())
TIMES = np.array([0.0, 0.3, 1.0])


def ou_variance(t, start):
    return start * np.exp(-2 * RATE * t) + BETA / RATE * (1 - np.exp(-2 * RATE * t))


def test_the_sde_has_ornstein_uhlenbeck_moments():
    energy = Energy.known(QUADRATIC + Entropy(BETA, learn=False), 2)
    x0 = jnp.asarray([[1.0, -2.0]]) + 0.5 * jax.random.normal(jax.random.key(0), (40_000, 2))
    path = np.asarray(simulate(energy, x0, TIMES, jax.random.key(1)))
    for t, cloud in zip(TIMES, path, strict=True):
        np.testing.assert_allclose(cloud.mean(0), np.exp(-RATE * t) * np.array([1, -2]), atol=0.015)
        np.testing.assert_allclose(cloud.var(0), ou_variance(t, 0.25), rtol=0.03)


def test_the_probability_flow_has_the_same_moments():
    energy = Energy.known(QUADRATIC + Entropy(BETA, learn=False), 1)
    x0 = 1.0 + 0.5 * jax.random.normal(jax.random.key(0), (2_000, 1))
    path = np.asarray(simulate(energy, x0, TIMES, jax.random.key(1), ode=True))
    for t, cloud in zip(TIMES, path, strict=True):
        start = float(np.var(path[0]))
        assert cloud.mean() == pytest.approx(path[0].mean() * np.exp(-RATE * t), abs=0.01)
        # The score is that of the cloud's own kernel density, a little too wide.
        assert cloud.var() == pytest.approx(ou_variance(t, start), rel=0.08)


def test_the_ode_is_exact_and_runs_backwards(x64):
    energy = Energy.known(QUADRATIC, 2)
    x0 = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
    forward = simulate(energy, x0, TIMES, jax.random.key(0), ode=True)
    np.testing.assert_allclose(forward[-1], np.exp(-RATE) * x0, atol=1e-7)
    back = simulate(energy, forward[-1], TIMES[::-1], jax.random.key(0), ode=True)
    np.testing.assert_allclose(back[-1], x0, atol=1e-6)


def test_energy_falls_at_the_rate_of_the_ede(x64):
    r"""F[rho_T] - F[rho_0] = -int E|grad dF|^2 dt on an exact particle flow of V + W."""
    energy = Energy.known(
        Potential(lambda x: jnp.cos(x).sum() + 0.1 * (x**4).sum())
        + Interaction(lambda r: -jnp.exp(-(r**2))),
        2,
    )
    x0 = jnp.asarray(np.random.default_rng(0).normal(size=(12, 2)))
    times = np.linspace(0.0, 1.0, 101)
    path = np.asarray(simulate(energy, x0, times, jax.random.key(0), ode=True))
    speeds = [(np.asarray(energy.velocity(x, None, x)) ** 2).sum(1).mean() for x in path]
    simpson = np.dot(speeds, np.r_[1, np.tile([4, 2], 50)[:-1], 1]) * 0.01 / 3
    values = [energy.value(x) for x in path]
    assert (np.diff(values) < 0).all()
    assert values[-1] - values[0] == pytest.approx(-simpson, rel=1e-5)


def test_interaction_keeps_the_centre_of_mass(x64):
    energy = Energy.known(Interaction(lambda r: -jnp.exp(-(r**2))), 2)
    x0 = jnp.asarray(np.random.default_rng(0).normal(size=(70, 2)))
    end = simulate(energy, x0, TIMES, jax.random.key(0))[-1]
    assert float(jnp.abs(end - x0).max()) > 0.05
    np.testing.assert_allclose(end.mean(0), x0.mean(0), atol=1e-10)


def test_padding_does_not_change_the_cloud(x64):
    """70 points are padded to 256; the weightless copies must not pull."""
    energy = Energy.known(Interaction(lambda r: -jnp.exp(-(r**2))), 2)
    x0 = jnp.asarray(np.random.default_rng(0).normal(size=(70, 2)))
    v = energy.velocity(x0, None, x0)
    end = simulate(energy, x0, np.array([0.0, 1e-4]), jax.random.key(0))[-1]
    np.testing.assert_allclose((end - x0) / 1e-4, v, atol=1e-3)


def test_copies_do_not_make_a_pair_term_steep(x64):
    """A pull of constant strength turns round at distance zero, where only copies lie."""
    energy = Energy.known(Interaction(lambda r: r), 2)
    x0 = jnp.asarray(np.random.default_rng(0).normal(size=(70, 2)))
    nobody = jnp.where(jnp.arange(140) < 70, 0.0, -jnp.inf)
    alone = _steepness(energy, x0, jnp.zeros(70), jnp.zeros(()))
    padded = _steepness(energy, jnp.tile(x0, (2, 1)), nobody, jnp.zeros(()))
    assert 0.1 < alone < 10.0
    assert padded == pytest.approx(alone, rel=0.5)


def test_stiff_drifts_get_small_steps():
    """A rate of 1,000 over one gap would blow up at twenty steps."""
    energy = Energy.known(Potential(lambda x: 500.0 * (x**2).sum()) + Entropy(0.1, learn=False), 1)
    x0 = jnp.ones((100, 1))
    end = np.asarray(simulate(energy, x0, np.array([0.0, 1.0]), jax.random.key(0))[-1])
    assert np.isfinite(end).all()
    assert end.var() == pytest.approx(0.1 / 1000.0, rel=0.5)


def test_a_cloud_that_escapes_to_infinity_does_not_stop_the_simulation():
    """dx/dt = x^3 reaches infinity at t = 1 / (2 x0^2): before t = 1 from 2, never from 0."""
    energy = Energy.known(Potential(lambda x: -0.25 * (x**4).sum()), 1)
    start = jnp.asarray([[0.0], [2.0]])
    path = np.asarray(simulate(energy, start, np.linspace(0.0, 1.0, 6), jax.random.key(0)))
    assert not np.isfinite(path[-1, 1]).all()
    np.testing.assert_array_equal(path[:, 0], 0.0)
