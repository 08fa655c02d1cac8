"""Matching clouds."""

import numpy as np

from stitchflow._measure import coupling as _coupling


def test_assignment_undoes_a_permutation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    shuffled = rng.permutation(40)
    found = _coupling.assignment(x, x[shuffled] + 1e-6, rng)
    np.testing.assert_array_equal(shuffled[found], np.arange(40))
