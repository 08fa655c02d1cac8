"""Before any model: noise is not called a change, and growth in place is not called motion."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._judging import change as _change
from stitchflow._judging.change import LEVEL, change

TIMES = np.arange(5.0)
SETS = 60


def noise(rng, n=60, number=5):
    return [rng.normal(size=(n, 2)) for _ in range(number)]


def clusters(rng, shares, n=200):
    """Two fixed clusters, of which one has the given share at each time."""
    ones = [rng.random(n) < share for share in shares]
    return [6.0 * one[:, None] * [1.0, 0.0] + 0.5 * rng.normal(size=(n, 2)) for one in ones]


def relaxing(rng, n=200):
    """Ornstein-Uhlenbeck from 3 spreads off its equilibrium, over one relaxation time."""
    means = 3.0 * np.exp(-np.linspace(0.0, 1.0, 5))
    return [rng.normal(size=(n, 2)) + np.array([mean, 0.0]) for mean in means]


def rejected(make, name, sets=SETS):
    """How often one of the tests rejects, of so many data sets."""
    found = [getattr(change(make(np.random.default_rng([5, s])), s), name) for s in range(sets)]
    return int((np.array(found) <= LEVEL).sum())


@pytest.fixture
def few_permutations(monkeypatch):
    """Whether a test keeps its level does not hang on the steps of its p-values."""
    monkeypatch.setattr(_change, "PERMUTATIONS", 19)


def test_a_population_at_rest_seldom_changes(few_permutations):
    """At a level of 5 %, nine or more of 60 would be seen once in 500 times, none once in 20."""
    plain = rejected(lambda rng: sf.Snapshots.from_arrays(noise(rng), TIMES), "rest")
    assert plain <= 8
    # The same individuals in another order; steps that individuals at rest take cancel.
    followed = lambda rng: sf.Snapshots.from_arrays(noise(rng, 40), TIMES, paired=True)
    assert rejected(followed, "rest") <= 8


def test_weights_count(few_permutations):
    """One population, of which every other time one half is seen nine times as often."""

    def snapshots(rng, weighted):
        often = [0.5, 0.9, 0.5, 0.9, 0.5]
        clouds = clusters(rng, often, 80)
        right = [cloud[:, 0] > 3.0 for cloud in clouds]
        pairs = zip(right, often, strict=True)
        weights = [np.where(one, 0.5 / p, 0.5 / (1.0 - p)) for one, p in pairs]
        return sf.Snapshots.from_arrays(clouds, TIMES, weights if weighted else None)

    assert rejected(lambda rng: snapshots(rng, False), "rest", 5) == 5
    assert rejected(lambda rng: snapshots(rng, True), "rest", 30) <= 5


def test_small_motion_is_found_and_does_not_need_equal_sizes():
    rng = np.random.default_rng(0)
    clouds = [
        rng.normal(size=(n, 2)) + np.array([0.15 * k, 0.0])
        for k, n in enumerate((150, 80, 200, 90, 150))
    ]
    assert change(sf.Snapshots.from_arrays(clouds, TIMES)).changed


def test_clusters_that_grow_in_place_are_not_called_motion():
    found = change(
        sf.Snapshots.from_arrays(
            clusters(np.random.default_rng(0), np.linspace(0.2, 0.8, 5)), TIMES
        )
    )
    assert found.changed
    assert found.in_place > LEVEL
    assert not found.moved


def test_growth_up_to_the_bound_is_seldom_called_motion(few_permutations):
    """From one ninth to eight ninths, one cluster gains 64 times as much as the other."""
    bound, beyond = [1.0 / 9.0, 8.0 / 9.0], [0.01, 0.99]
    make = lambda rng: sf.Snapshots.from_arrays(clusters(rng, bound, 200), [0.0, 1.0])
    assert rejected(make, "in_place") <= 8
    make = lambda rng: sf.Snapshots.from_arrays(clusters(rng, beyond, 400), [0.0, 1.0])
    assert rejected(make, "in_place", 5) == 5


def test_a_population_that_moves_is_found_to(few_permutations):
    for seed in range(3):
        data = sf.Snapshots.from_arrays(relaxing(np.random.default_rng(seed)), TIMES)
        assert change(data).moved
    # Many small snapshots say the same as a few large ones.
    x, t = np.concatenate(relaxing(np.random.default_rng(0))), np.repeat(TIMES, 200)
    small = sf.Snapshots.from_table(x, t + 1e-3 * np.tile(np.arange(20), 50))
    assert len(small) == 100
    assert change(small).moved


def test_individuals_that_are_followed_cannot_change_places():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    data = sf.Snapshots.from_arrays([x + 0.05 * k for k in range(5)], TIMES, paired=True)
    # Strangers would hide a shift as small as this; the same individuals do not.
    assert change(data).moved
    assert not change(sf.Snapshots.from_arrays(data.clouds, TIMES)).changed


def test_the_same_key_gives_the_same_answer_and_one_time_no_change():
    data = sf.Snapshots.from_arrays(noise(np.random.default_rng(0)), TIMES)
    assert change(data, 3) == change(data, 3)
    assert change(data, 3) != change(data, 4)
    assert not change(data.keep_times([0.0])).changed


def test_large_data_is_looked_at_in_part(monkeypatch, few_permutations):
    monkeypatch.setattr(
        _change, "cdist", lambda x, y: sizes.append(len(x)) or np.zeros((len(x),) * 2)
    )
    sizes = []
    rng = np.random.default_rng(0)
    change(sf.Snapshots.from_arrays(noise(rng, 3000, 3), [0.0, 1.0, 2.0]))
    change(sf.Snapshots.from_arrays(noise(rng, 300, 40), np.arange(40.0)))
    assert sizes == [1998, 2000]
