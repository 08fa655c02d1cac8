"""Matching clouds, and what their motion says."""

import numpy as np
import pytest

from stitchflow import _coupling
from stitchflow._coupling import motion


def test_assignment_undoes_a_permutation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    shuffled = rng.permutation(40)
    found = _coupling.assignment(x, x[shuffled] + 1e-6, rng)
    np.testing.assert_array_equal(shuffled[found], np.arange(40))


def test_motion_of_matched_individuals_is_their_way():
    x = np.random.default_rng(0).normal(size=(300, 2))
    clouds = [x + np.array([shift, 0.0]) for shift in (0.0, 0.1, 0.3)]
    moved = motion(clouds, matched=True)
    spread = np.sqrt(np.concatenate(clouds).var(axis=0).sum())
    assert moved.distance == pytest.approx(0.3 / spread)
    assert moved.noise == 0.0


def test_a_population_at_rest_shows_only_noise():
    rng = np.random.default_rng(1)
    rest = motion([rng.normal(size=(400, 2)) for _ in range(4)], matched=False)
    steps = [rng.normal(size=(400, 2)) + np.array([2.0 * k, 0.0]) for k in range(4)]
    moving = motion(steps, matched=False)
    assert moving.noise < 0.01
    assert rest.noise > 20.0 * moving.noise
    assert moving.distance > 1.0
