"""Straight lines between the positions of individuals that are followed."""

import numpy as np
import pytest

import stitchflow as sf

TIMES = np.array([0.0, 1.0, 3.0])


def crossing() -> sf.Snapshots:
    """Two halves of a line change places: optimal transport would have everybody stand still."""
    x = np.linspace(0.0, 1.0, 11)[:, None]
    return sf.Snapshots.from_arrays([x, 1.0 - x, x], TIMES, paired=True)


def test_everybody_goes_straight_from_sight_to_sight():
    flow = sf.fit(crossing(), sf.Tracks(), progress=False).flow
    half, late = np.asarray(flow.sample([0.5, 2.5], 200))
    np.testing.assert_allclose(half, 0.5, atol=1e-6)  # where all of them meet
    steps = np.unique(np.round(late, 5))
    np.testing.assert_allclose(steps, 0.25 + 0.05 * np.arange(11), atol=1e-4)
    np.testing.assert_allclose(flow.velocity([[0.0], [1.0]], 0.0), [[1.0], [-1.0]])
    way = np.asarray(flow.simulate([[0.0], [1.0]], [0.25, 0.75, 3.0, 4.0]))[..., 0]
    # Both are at places where nobody is: they move along with the nearest one.
    np.testing.assert_allclose(way[1], [0.5, 0.5], atol=1e-6)
    back = np.asarray(flow.simulate([[1.0], [0.0]], [3.0, 1.0], ode=True))[-1]
    np.testing.assert_allclose(back, [[0.0], [1.0]], atol=1e-6)


def test_individuals_who_miss_a_time_or_leave():
    """Id 1 is not seen at time 1 and is half way; id 2 leaves after it; id 3 is seen once."""
    x = np.array([[0.0], [0.0], [5.0], [1.0], [5.0], [7.0], [2.0], [4.0]])
    t, ids = [0, 0, 0, 1, 1, 1, 2, 2], [0, 1, 2, 0, 2, 3, 0, 1]
    flow = sf.fit(sf.Snapshots.from_table(x, t, ids=ids), sf.Tracks(), progress=False).flow
    drawn = [np.unique(cloud) for cloud in np.asarray(flow.sample([0.5, 1.0, 1.5], 99))]
    for found, expected in zip(drawn, ([0.5, 1.0, 5.0], [1.0, 2.0, 5.0], [1.5, 3.0]), strict=True):
        np.testing.assert_allclose(found, expected)


def test_beyond_the_data_everybody_goes_straight_on():
    flow = sf.fit(crossing(), sf.Tracks(), progress=False).flow
    later = np.asarray(flow.sample([5.0], 99))[0]
    assert (later.min(), later.max()) == pytest.approx((-1.0, 2.0))
    np.testing.assert_allclose(flow.velocity([[2.0]], 5.0), [[0.5]])


def test_without_ids_it_is_refused_in_one_sentence():
    data = sf.Snapshots.from_arrays([np.zeros((3, 1)), np.eye(3, 1)], [0.0, 1.0])
    with pytest.raises(sf.BadInput, match="tracks needs ids, by which individuals are followed"):
        sf.fit(data, sf.Tracks(), progress=False)
    x, t = np.arange(4.0)[:, None], [0, 0, 1, 1]
    with pytest.raises(sf.BadInput, match="no id is seen both until 0 and from 1 on"):
        sf.fit(sf.Snapshots.from_table(x, t, ids=list("abcd")), sf.Tracks(), progress=False)
    with pytest.raises(sf.BadInput, match="more than once at the same time"):
        sf.fit(sf.Snapshots.from_table(x, t, ids=list("aaab")), sf.Tracks(), progress=False)
