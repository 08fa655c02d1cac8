"""Splines through matched individuals."""

import numpy as np
import pytest

import stitchflow as sf

TIMES = np.array([0.0, 0.3, 0.7, 1.2, 1.6, 2.0])


def relaxing(paired: bool) -> tuple[sf.Snapshots, np.ndarray]:
    """The flow of V = |x|^2 / 2 from a grid, where optimal transport matches everybody."""
    axis = np.linspace(1.0, 2.0, 10)
    x0 = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    shuffled = np.random.default_rng(0)
    clouds = [np.exp(-t) * (x0 if paired else shuffled.permutation(x0)) for t in TIMES]
    return sf.Snapshots.from_arrays(clouds, TIMES, paired=paired), x0


@pytest.mark.parametrize("paired", [True, False])
def test_the_flow_of_a_quadratic_is_followed(paired):
    data, x0 = relaxing(paired)
    flow = sf.fit(data, sf.OTSpline(), progress=False).flow
    way = np.asarray(flow.simulate(x0, [0.0, 1.0, 2.0]))
    for t, x in zip((1.0, 2.0), way[1:], strict=True):
        np.testing.assert_allclose(x, np.exp(-t) * x0, atol=0.02)
    x = np.exp(-1.0) * x0
    np.testing.assert_allclose(flow.velocity(x, 1.0), -x, atol=0.05)
    back = np.asarray(flow.simulate(way[-1], [2.0, 0.0]))[-1]
    np.testing.assert_allclose(back, x0, atol=0.02)


def test_beyond_the_data_paths_go_straight_on():
    data, _ = relaxing(True)
    flow = sf.fit(data, sf.OTSpline(), progress=False).flow
    ends = np.asarray(flow.sample([2.0, 2.5, 3.0], 100, key=0))
    means = ends.mean(axis=1)
    np.testing.assert_allclose(means[2] - means[1], means[1] - means[0], atol=1e-6)
    assert not np.allclose(means[1], means[0])


def test_individuals_without_weight_are_never_drawn():
    clouds = [np.array([[0.0], [0.5], [9.0]]), np.array([[1.0], [0.8], [10.0]])]
    for paired in (True, False):
        data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0], [[1.0, 1.0, 0.0]] * 2, paired=paired)
        flow = sf.fit(data, sf.OTSpline(), progress=False).flow
        assert np.asarray(flow.sample([0.0, 0.5, 1.0], 50)).max() <= 1.0
