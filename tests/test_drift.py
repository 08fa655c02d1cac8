"""The motion a population shares, against populations whose motion is known."""

import numpy as np
import pytest

from stitchflow._measure.drift import Drift, shared_drift

TIMES = np.array([0.0, 0.4, 1.0, 1.5, 2.3])
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


def turned(x: np.ndarray, angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return x @ np.array([[c, s], [-s, c]])


def bar(rng: np.random.Generator) -> np.ndarray:
    """A lop-sided cloud: its marginals show how it lies."""
    return rng.normal(size=(150, 2)) * [1.0, 0.2] + [0.5, 0.0]


def test_carry_solves_the_linear_flow():
    matrix = np.zeros((3, 3))
    matrix[:2, :2], matrix[:2, 2] = -2.0 * np.eye(2), [2.0, 0.0]
    x = np.array([[3.0, 1.0]])
    expected = [1.0, 0.0] + np.exp(-2.0 * 0.7) * (x - [1.0, 0.0])
    np.testing.assert_allclose(Drift(matrix).carry(x, 0.7), expected)
    np.testing.assert_allclose(Drift(matrix).carry(expected, -0.7), x)


def test_least_squares_through_exact_paths_return_their_drift():
    true = Drift(np.block([[TURN, np.array([[0.3], [0.1]])], [np.zeros((1, 3))]]))
    x = bar(np.random.default_rng(1))
    paths = np.stack([true.carry(x, t) for t in TIMES])
    found = Drift.none(2)
    for _ in range(10):
        found = Drift.through(paths, TIMES, found)
    np.testing.assert_allclose(found.matrix, true.matrix, atol=0.05)


@pytest.mark.parametrize("speed", [1.5, -1.5])
def test_a_turning_population_is_followed(speed):
    """Other individuals at every time: only the marginals turn."""
    rng = np.random.default_rng(2)
    clouds = [turned(bar(rng), speed * t) for t in TIMES]
    found = shared_drift(clouds, TIMES).matrix[:2, :2]
    assert 0.5 * (found[1, 0] - found[0, 1]) == pytest.approx(speed, rel=0.15)


def test_paths_turn_between_the_times_that_were_seen():
    matrix = np.zeros((3, 3))
    matrix[:2, :2] = TURN
    x = bar(np.random.default_rng(3))
    matched = np.stack([turned(x, t) for t in TIMES])
    when = np.array([0.2, 2.0])
    paths = Drift(matrix).paths(matched, TIMES, when)
    np.testing.assert_allclose(paths, [turned(x, t) for t in when], atol=1e-9)


@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_individuals_that_share_no_motion_have_no_drift(spread):
    """At rest, or parting from each other to two sides."""
    rng = np.random.default_rng(4)
    side = rng.choice([-1.0, 1.0], 150)
    clouds = [rng.normal(size=(150, 2)) + spread * t * side[:, None] for t in TIMES]
    assert not shared_drift(clouds, TIMES).matrix.any()
