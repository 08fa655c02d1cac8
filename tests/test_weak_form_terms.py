"""Fields that turn, growth, and interactions with a direction, found by the weak form."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._weak_form.bases import Bumps, Splines
from stitchflow._weak_form.carry import carry
from stitchflow._weak_form.displacement import DisplacementPush
from stitchflow._weak_form.drift import Drift, Landscape
from stitchflow._weak_form.growing import Growing, grown
from stitchflow._weak_form.neighbours import Neighbours
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.turning import Turning


def drift_of_everything(x):
    """A drift with a part of every kind."""
    d = x.shape[1]
    bumps = Bumps.for_points(x, (1.0,), 60)
    parts = [Landscape(bumps, 2), Turning.of(bumps, x, alone=False)]
    parts += [DisplacementPush.of(x, (0.8,), 3.0)] if d <= 3 else []
    parts += [PairPush(Splines(3.0, 9, True), "turning")] if d == 2 else []
    return Drift(tuple(parts), Growing.of(bumps, x, x))


@pytest.mark.parametrize("dim", [2, 3])
def test_the_design_is_the_derivative_of_averages(dim):
    """Of every part and of growth, by central differences."""
    rng = np.random.default_rng(0)
    n = 40
    x = rng.normal(size=(n, dim))
    near = Neighbours.within(np.zeros(n, int), np.full(n, 1 / n), np.full(n, 1.0 * n))
    drift, weights = drift_of_everything(x), np.full(n, 1 / n)
    tests = Bumps.for_points(x, (1.5,), 30)
    c, log_beta = 0.05 * rng.normal(size=drift.count), np.log(0.02)

    def averages(c, log_beta):
        seed = np.random.default_rng(3)
        end = carry(drift, c, np.exp(log_beta), x, 0.1, 0.02, 2, near, seed)
        values = np.stack([tests.values(y) for y in end.x])
        values, apart, factors = grown(values, end.gain.factors(weights), weights)
        slopes = np.stack([tests.slopes(y) for y in end.x]) * factors[:, :, None, None]
        return weights @ values.mean(axis=0), end.design(slopes, weights, np.arange(n), apart)

    design, step = averages(c, log_beta)[1], 1e-4
    for part, own in drift.each():
        way = np.zeros(drift.count)
        way[own] = rng.normal(size=part.count)
        ends = [averages(c + s * step * way, log_beta)[0] for s in (1, -1)]
        numeric = (ends[0] - ends[1]) / (2 * step)
        size = 0.01 * np.abs(numeric).max()
        np.testing.assert_allclose(design[:, :-1] @ way, numeric, atol=size, err_msg=str(part))
    ends = [averages(c, log_beta + s * step)[0] for s in (1, -1)]
    numeric = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(design[:, -1], numeric, atol=0.01 * np.abs(numeric).max())
