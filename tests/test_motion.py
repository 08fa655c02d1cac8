"""What the motion of a population is told by: all snapshots together, however they are cut."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.motion import motion

RNG = np.random.default_rng(0)


def drifting(times, n: int, speed: float = 1.5) -> sf.Snapshots:
    """A Gaussian population of variance one in the plane that moves along the first axis."""
    rng = np.random.default_rng(7)
    clouds = [rng.normal(size=(n, 2)) + np.array([speed * t, 0.0]) for t in times]
    return sf.Snapshots.from_arrays(clouds, times)


def dealt(data: sf.Snapshots, parts: int, width: float) -> sf.Snapshots:
    """Everybody seen at one of `parts` times within `width` of their own."""
    offsets = np.linspace(-width, width, parts)
    t = data.times[data.index]
    for k in range(len(data)):
        rows = np.flatnonzero(data.index == k)
        t[rows] += offsets[RNG.permutation(len(rows)) % parts]
    return sf.Snapshots.from_table(data.x, t)


def test_motion_of_matched_individuals_is_their_way():
    x = RNG.normal(size=(300, 2))
    clouds = [x + np.array([shift, 0.0]) for shift in (0.0, 0.1, 0.3)]
    moved = motion(clouds, matched=True)
    spread = np.sqrt(np.concatenate(clouds).var(axis=0).sum())
    assert moved.distance == pytest.approx(0.3 / spread)
    assert moved.noise == 0.0


def test_a_population_at_rest_shows_only_noise():
    rest, moving = (drifting(range(4), 400, speed).motion for speed in (0.0, 2.0))
    assert moving.noise < 0.01
    assert rest.noise > 20.0 * moving.noise
    assert moving.distance > 1.0


@pytest.mark.parametrize("width", [1e-4, 0.01])
@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_splitting_snapshots_into_many_small_ones_changes_nothing(speed, width):
    whole = drifting(np.linspace(0.0, 1.0, 5), 400, speed)
    small = dealt(whole, 40, width)
    assert len(small) == 200
    assert small.motion.noise == pytest.approx(whole.motion.noise, rel=0.05)
    assert small.motion.distance == pytest.approx(whole.motion.distance, rel=0.03)
    ridges = [sf.Stitching().resolved(data).residual.ridge for data in (whole, small)]
    assert ridges[1] == pytest.approx(ridges[0], rel=0.05)


def test_nodes_go_where_motion_is_however_snapshots_are_cut():
    """The noise of ten individuals over a hair of time is no fast motion."""
    times = np.array([0.0, 0.1, 0.2, 0.6, 1.0])
    rng = np.random.default_rng(3)
    places = np.minimum(times, 0.2) * 20.0  # everything happens in the first fifth
    clouds = [rng.normal(size=(400, 1)) + place for place in places]
    whole = sf.Snapshots.from_arrays(clouds, times)
    small = dealt(whole, 40, 1e-3)
    passed = lambda data: np.interp(
        times, data.times, np.concatenate([[0.0], np.cumsum(data.actions)])
    )
    shares = [np.diff(passed(data)) / data.actions.sum() for data in (whole, small)]
    assert shares[0][:2].sum() > 0.9
    np.testing.assert_allclose(shares[1], shares[0], atol=0.05)


def test_many_small_snapshots_tell_as_much_as_a_few_large_ones():
    few = drifting(np.linspace(0.0, 1.0, 20), 100, 3.0).motion
    many = drifting(np.linspace(0.0, 1.0, 200), 10, 3.0).motion
    assert 0.5 * few.noise < many.noise < 2.0 * few.noise
    assert many.distance == pytest.approx(few.distance, rel=0.1)


def test_fast_motion_between_close_times_is_kept_apart():
    """Times that are close on the clock are not taken together where the population moved."""
    rng = np.random.default_rng(1)
    times = [0.0, 0.002, 0.01, 0.5, 1.0]
    clouds = [rng.normal(size=(300, 1)) + shift for shift in (0.0, 3.0, 4.0, 4.0, 4.0)]
    data = sf.Snapshots.from_arrays(clouds, times)
    spread = np.sqrt(np.concatenate(clouds).var())
    assert data.motion.distance == pytest.approx(4.0 / spread, rel=0.05)
    assert data.actions[0] > 0.9 * data.actions.sum()
