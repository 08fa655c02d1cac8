"""Of few individuals some are held out, and tell how much of the learned energy to believe."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.isolated import isolated
from stitchflow._data.observations import Observations
from stitchflow._objective.consistency import (
    arrival_distance,
    arrival_distances,
    energy_distance,
)
from stitchflow._stitching import defaults
from stitchflow._stitching.shrinkage import chosen

ENERGY = sf.Potential(lambda x: (x**2).sum(), learn=True) + sf.Entropy(0.2)


def moving(n: int = 40, speed: float = 2.0) -> sf.Snapshots:
    """Exact draws of an Ornstein-Uhlenbeck process of that speed, from N(3, 0.2)."""
    rng, clouds = np.random.default_rng(0), []
    for t in (0.0, 0.25, 0.5):
        left = np.exp(-speed * t)
        spread = np.sqrt(0.2 * left**2 + 0.1 * (1.0 - left**2))
        clouds.append(3.0 * left + spread * rng.normal(size=(n, 1)))
    return sf.Snapshots.from_arrays(clouds, [0.0, 0.25, 0.5])


def resting(n: int = 40) -> sf.Snapshots:
    rng = np.random.default_rng(1)
    return sf.Snapshots.from_arrays([rng.normal(size=(n, 3)) for _ in range(3)], [0.0, 1.0, 2.0])


def known(data: sf.Snapshots, stiffness: float) -> sf.Energy:
    term = sf.Potential(lambda x: 0.5 * stiffness * (x**2).sum(), learn=True)
    return (term + sf.Entropy(0.1 * abs(stiffness))).init_for(data, jax.random.key(0))


def test_a_share_of_an_energy_is_all_of_it_smaller():
    energy = sf.Energy.known(ENERGY + sf.Interaction(lambda r: r**2, learn=True), 2)
    half, x = energy.times(0.5), np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(half.force(x), 0.5 * energy.force(x), rtol=1e-5)
    np.testing.assert_allclose(half.interaction([2.0]), 0.5 * energy.interaction([2.0]), rtol=1e-5)
    assert half.beta == pytest.approx(0.5 * energy.beta, rel=1e-5)
    velocity = half.velocity(x, 0.0, x)
    np.testing.assert_allclose(velocity, 0.5 * energy.velocity(x, 0.0, x), rtol=1e-4)


@pytest.mark.parametrize(
    ("apart", "row"),
    [
        ([[1, 1], [2, 2], [3, 3]], 0),  # all of it is best
        ([[4, 4], [1, 1], [3, 3]], 1),  # all of it is worse than standing still
        ([[1, 2], [2, 0.5], [3, 3]], 0),  # as good as the best within the error of the entries
        ([[2, 2.1], [1, 1], [3, 3]], 1),  # worse than the best in every entry
        ([[4, 4], [3.5, 3.5], [3, 3]], 2),  # nothing is better than standing still
        ([[np.inf, 1], [2, 2], [3, 3]], 1),  # individuals were lost
    ],
)
def test_the_largest_share_that_is_as_good_as_the_best(apart, row):
    assert chosen(np.array(apart, float)) == row


def test_the_distances_of_arrival_sum_to_what_is_minimised():
    data = moving()
    energy, seen = known(data, 2.0), Observations.of(data)
    settings = energy_distance, 40, 3, 4, jax.random.key(0)
    each = arrival_distances(energy, seen, *settings)
    assert each.shape == (2, 2)
    assert float(each.sum()) == pytest.approx(float(arrival_distance(energy, seen, *settings)))
    # Both ways over the first gap start with the same individuals and have noise of their own.
    assert float(abs(each[0, 0] - each[0, 1])) < 0.1


def test_held_out_individuals_tell_how_fast_they_moved():
    data = moving()
    share = lambda s: sf.ByHeldOut().share(known(data, s), data, data, jax.random.key(0))
    assert share(2.0) == 1.0
    assert share(8.0) in (0.25, 0.5)
    assert share(-8.0) == defaults.SHARES[-1]  # away from where they went


def test_where_nothing_moves_next_to_nothing_is_believed():
    data = resting()
    energy = known(data, 1.0)
    assert sf.ByHeldOut().share(energy, data, data, jax.random.key(0)) == defaults.SHARES[-1]
    assert sf.ByAverages().estimate(sf.Potential() + sf.Entropy(), data, data.units) is None


def test_nobody_is_held_out_of_many_of_followed_or_for_given_terms():
    rule, few = sf.ByHeldOut(), moving()
    learned = sf.Potential() + sf.Entropy()
    shown, held = rule.divided(learned, few)
    assert held is not None
    assert held.counts.tolist() == [8] * 3
    assert set(shown.x[:, 0]).isdisjoint(held.x[:, 0])
    assert 3 * 32 - 2 <= len(shown.x) <= 3 * 32
    assert rule.divided(learned, moving(1000))[1] is None
    followed = sf.Snapshots.from_arrays(list(few.clouds), few.times, paired=True)
    assert rule.divided(learned, followed)[1] is None
    assert rule.divided(sf.Potential() + sf.Entropy(0.1, learn=False), few)[1] is None
    assert sf.NoShrinkage().divided(learned, few) == (few, None)


def test_nobody_is_held_out_where_those_who_were_drawn_have_no_weight():
    rule, learned, few = sf.ByHeldOut(), sf.Potential() + sf.Entropy(), moving(5)
    assert rule.divided(learned, few)[1] is not None
    drawn, weights = few.split(0.8, key=0, by="individual")[1], np.ones(len(few.x))
    weights[drawn.rows[:2]] = 0.0
    none = replace(few, weights=weights)  # as in a bootstrap
    assert rule.divided(learned, none) == (none, None)


def test_a_fit_believes_a_share_and_keeps_everybody(tmp_path):
    data = resting()
    short = {"optimiser": sf.Optimiser(steps=40), "particles": 20, "nodes": 6}
    assert sf.Stitching(**short).resolved(data).shrinkage == sf.NoShrinkage()
    fit = sf.fit(data, sf.Stitching(**short, shrinkage=sf.ByHeldOut()), progress=False)
    assert "individuals who were held out ask for 0.05 of the energy" in str(fit.status)
    assert len(fit.data.x) == len(data.x)
    x = data.cloud(0)
    moved = np.asarray(fit.flow.simulate(x, data.times))[-1] - x
    assert np.sqrt((moved**2).mean()) < 0.3
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    np.testing.assert_allclose(again.energy.force(x), fit.energy.force(x), rtol=1e-5)


def test_a_handful_far_from_all_others_are_not_trained_on():
    rng = np.random.default_rng(2)
    clouds = [rng.normal(size=(40, 4)) + k for k in range(3)]
    alone = [clouds[0], np.concatenate([clouds[1], np.full((2, 4), 20.0)]), clouds[2]]
    data = sf.Snapshots.from_arrays(alone, [0.0, 1.0, 2.0])
    assert np.flatnonzero(isolated(data)).tolist() == [80, 81]
    # Six are more than a handful, and a snapshot that lies apart is a whole one.
    many = [clouds[0], np.concatenate([clouds[1], 20.0 + rng.normal(size=(6, 4))]), clouds[2]]
    assert not isolated(sf.Snapshots.from_arrays(many, [0.0, 1.0, 2.0])).any()
    apart = [clouds[0][:4] + 20.0, clouds[1], clouds[2]]
    assert not isolated(sf.Snapshots.from_arrays(apart, [0.0, 1.0, 2.0])).any()


def test_few_individuals_take_fewer_steps_unless_all_is_believed():
    few = moving()
    assert sf.Stitching().resolved(few).optimiser.steps == defaults.STEPS_OF_FEW
    assert sf.Stitching().resolved(few).shrinkage == sf.ByHeldOut()
    for method in (sf.Stitching(shrinkage=sf.NoShrinkage()), sf.Stitching.paper()):
        assert method.resolved(few).optimiser.steps == defaults.STEPS
    assert sf.Stitching().resolved(moving(1000)).optimiser.steps == defaults.STEPS
