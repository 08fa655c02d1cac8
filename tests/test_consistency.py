"""Consistency: carried clouds against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._consistency import carry, energy_distance, sorted_some
from stitchflow._energy import Energy
from stitchflow._observations import Observations


def test_energy_distance_of_two_gaussians_and_of_one_with_itself():
    """E|X - Y| of unit Gaussians a shift s apart in 1-D is known in closed form."""
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2000, 1)), rng.normal(size=(2000, 1)) + 1.5
    mean = lambda s, sd: 2 * sd * norm.pdf(s / sd) + s * (2 * norm.cdf(s / sd) - 1)
    exact = 2 * mean(1.5, np.sqrt(2)) - 2 * mean(0.0, np.sqrt(2))
    assert float(energy_distance(jnp.asarray(x), jnp.asarray(y))) == pytest.approx(exact, rel=0.06)
    same = [float(energy_distance(*jnp.asarray(rng.normal(size=(2, 100, 1))))) for _ in range(200)]
    assert abs(np.mean(same)) < 3 * np.std(same) / np.sqrt(200) + 1e-3  # unbiased


def test_carried_clouds_follow_ornstein_uhlenbeck():
    energy = Energy.known(
        sf.Potential(lambda x: 0.5 * (x**2).sum()) + sf.Entropy(0.5, learn=False), 1
    )
    x = jnp.full((2, 4000, 1), 2.0)
    zero, one = jnp.zeros(()), jnp.ones(())
    ends = np.asarray(carry(energy, x, zero, one, 16, jax.random.key(0)))
    for cloud in ends:
        assert cloud.mean() == pytest.approx(2.0 * np.exp(-1.0), abs=0.04)
        assert cloud.var() == pytest.approx(0.5 * (1.0 - np.exp(-2.0)), rel=0.08)
    assert not np.array_equal(ends[0], ends[1])


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


def test_some_times_are_in_order_and_cover_the_range():
    chosen = np.asarray(sorted_some(100, 8, jax.random.key(0)))
    assert (np.diff(chosen) > 0).all()
    assert chosen[0] < 13
    assert chosen[-1] > 86
    np.testing.assert_array_equal(sorted_some(5, 8, jax.random.key(0)), np.arange(5))


def test_individuals_are_drawn_by_weight():
    x = np.arange(4.0)[:, None]
    data = sf.Snapshots.from_arrays([x, x[:2]], [0.0, 1.0], weights=[[0, 1, 3, 0], [1, 1]])
    seen = Observations.of(data)
    drawn = seen.individuals(jnp.arange(2), 4000, jax.random.key(0))
    back = np.round(np.asarray(data.units.space_out(drawn))[..., 0]).astype(int)
    np.testing.assert_allclose(
        np.bincount(back[0], minlength=4) / 4000, [0, 0.25, 0.75, 0], atol=0.03
    )
    np.testing.assert_allclose(np.bincount(back[1]) / 4000, [0.5, 0.5], atol=0.03)


@pytest.mark.parametrize("bad", [{"weight": 0.0}, {"steps": 0}, {"individuals": 1}, {"rate": -1}])
def test_bad_settings_are_named(bad):
    with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
        sf.Consistency(**bad)
