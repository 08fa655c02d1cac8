"""Consistency: carried clouds against closed forms."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.observations import Observations
from stitchflow._energy.energy import Energy
from stitchflow._objective.consistency import carry, energy_distance, window
from stitchflow._stitching import stages as _stages


def test_energy_distance_of_two_gaussians_and_of_one_with_itself():
    """E|X - Y| of unit Gaussians a shift s apart in 1-D is known in closed form."""
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 1)), rng.normal(size=(2000, 1)) + 1.5
    even = lambda n: jnp.full(n, 1.0 / n)
    apart = lambda a, b: float(
        energy_distance(jnp.asarray(a), even(len(a)), jnp.asarray(b), even(len(b)))
    )
    mean = lambda s, sd: 2 * sd * norm.pdf(s / sd) + s * (2 * norm.cdf(s / sd) - 1)
    exact = 2 * mean(1.5, np.sqrt(2)) - 2 * mean(0.0, np.sqrt(2))
    assert apart(x, y) == pytest.approx(exact, rel=0.06)
    same = [apart(*rng.normal(size=(2, 100, 1))) for _ in range(200)]
    assert abs(np.mean(same)) < 3 * np.std(same) / np.sqrt(200) + 1e-3  # unbiased


def test_carried_clouds_follow_ornstein_uhlenbeck():
    energy = Energy.known(
        sf.Potential(lambda x: 0.5 * (x**2).sum()) + sf.Entropy(0.5, learn=False), 1
    )
    x = jnp.full((2, 4000, 1), 2.0)
    zero, one, even = jnp.zeros(()), jnp.ones(()), jnp.full((2, 4000), 1.0 / 4000)
    ends = np.asarray(carry(energy, x, even, zero, one, 16, jax.random.key(0)))
    for cloud in ends:
        assert cloud.mean() == pytest.approx(2.0 * np.exp(-1.0), abs=0.04)
        assert cloud.var() == pytest.approx(0.5 * (1.0 - np.exp(-2.0)), rel=0.08)
    assert not np.array_equal(ends[0], ends[1])


def test_carried_clouds_are_of_second_order():
    """Without noise the error of dx/dt = -x^3 falls fourfold when the moves are doubled."""
    energy = Energy.known(sf.Potential(lambda x: 0.25 * (x**4).sum()), 1)
    x, even = jnp.full((1, 1, 1), 1.5), jnp.ones((1, 1))
    exact = 1.0 / np.sqrt(2.0 + 1.0 / 1.5**2)
    far = [
        abs(
            float(
                carry(energy, x, even, jnp.zeros(()), jnp.ones(()), m, jax.random.key(0))[0, 0, 0]
            )
            - exact
        )
        for m in (16, 32)
    ]
    assert 3.0 < far[0] / far[1] < 5.5


@pytest.mark.full
def test_consistency_is_zero_for_the_truth_and_not_for_another_energy():
    rng = np.random.default_rng(0)
    times = [0.0, 0.5, 1.0]
    clouds = [rng.normal(size=(1500, 1)) + 3.0 * np.exp(-t) for t in times]  # stays at variance one
    data = sf.Snapshots.from_arrays(clouds, times)
    known = lambda k: (
        sf.Potential(lambda x: 0.5 * k * (x**2).sum()) + sf.Entropy(1.0, learn=False)
    ).init(np.zeros((2, 1)), data.units, jax.random.key(0))
    judge = sf.Consistency(individuals=512, moves=8)
    keys = jax.random.split(jax.random.key(1), 20)
    value = lambda energy: float(
        np.mean([judge(energy, Observations.of(data), key) for key in keys])
    )
    right, wrong = value(known(1.0)), value(known(0.3))
    assert abs(right) < 0.02
    assert wrong > 10.0 * abs(right) + 0.05


def test_windows_are_neighbours_in_order():
    for seed in range(20):
        chosen = np.asarray(window(201, 8, jax.random.key(seed)))
        assert len(set(np.diff(chosen))) == 1
        assert 1 <= np.diff(chosen)[0] <= 4
        assert chosen.min() >= 0
        assert chosen.max() <= 200
    np.testing.assert_array_equal(window(5, 8, jax.random.key(0)), np.arange(5))


def test_individuals_are_different_ones_with_their_weights():
    x = np.arange(6.0)[:, None]
    data = sf.Snapshots.from_arrays([x, x[:2]], [0.0, 1.0], weights=[[0, 1, 3, 0, 2, 2], [1, 1]])
    seen = Observations.of(data)
    points, weights = seen.individuals(jnp.arange(2), 4, jax.random.key(0))
    back = np.round(np.asarray(data.units.space_out(points))[..., 0]).astype(int)
    assert len(set(back[0])) == 4
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-6)
    raw = np.array([0, 1, 3, 0, 2, 2])[back[0]]
    np.testing.assert_allclose(weights[0], raw / raw.sum(), rtol=1e-6)
    np.testing.assert_allclose(np.sort(weights[1])[-2:], [0.5, 0.5], rtol=1e-6)
    assert set(back[1][np.asarray(weights[1]) > 0]) == {0, 1}


@pytest.mark.full
def test_a_curve_settles_under_the_energy_that_carries_individuals(monkeypatch):
    monkeypatch.setattr(_stages, "MOST_UNEXPLAINED", np.inf)  # so short a fit explains little
    rng, times = np.random.default_rng(0), [0.0, 0.5, 1.0]
    clouds = [0.5 * rng.normal(size=(100, 1)) + 3.0 * np.exp(-t) for t in times]
    data = sf.Snapshots.from_arrays(clouds, times)
    method = sf.Stitching(particles=30, nodes=7, optimiser=sf.Optimiser(steps=100))
    stages = lambda settling: sf.Consistency(steps=40, settling=settling, individuals=32)
    loose, settled = (
        sf.fit(data, replace(method, consistency=stages(n)), progress=False) for n in (0, 40)
    )
    assert (loose.steps, settled.steps) == (140, 180)
    assert settled.energy.beta == loose.energy.beta, "the energy stays as it was"
    assert sf.diagnose(settled).explained > sf.diagnose(loose).explained


@pytest.mark.parametrize("bad", [{"weight": 0.0}, {"steps": -1}, {"individuals": 1}, {"rate": -1}])
def test_bad_settings_are_named(bad):
    with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
        sf.Consistency(**bad)
