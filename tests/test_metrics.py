"""Metrics against closed forms and against POT."""

import numpy as np
import ot
import pytest

from stitchflow import metrics
from stitchflow.metrics import DISTANCES

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(80, 3)), RNG.normal(size=(80, 3)) * 1.5 + 0.4


def test_wasserstein_is_pots():
    assert metrics.w1(X, Y) == pytest.approx(ot.emd2([], [], ot.dist(X, Y, "euclidean")), rel=1e-10)
    squared = ot.emd2([], [], ot.dist(X, Y, "sqeuclidean"))
    assert metrics.w2(X, Y) == pytest.approx(np.sqrt(squared), rel=1e-10)
    unequal = ot.emd2([], [], ot.dist(X[:50], Y, "euclidean"))
    assert metrics.w1(X[:50], Y) == pytest.approx(unequal, rel=1e-10)


def test_a_translation_costs_its_length():
    shift = np.array([0.3, -0.4, 0.0])
    assert metrics.w1(X, X + shift) == pytest.approx(0.5)
    assert metrics.w2(X, X + shift) == pytest.approx(0.5)
    assert metrics.bures(X, X + shift) == pytest.approx(0.25, rel=1e-6)
    assert metrics.sliced_w2(X, X + shift) == pytest.approx(0.5 / np.sqrt(3), rel=0.15)


@pytest.mark.parametrize("n", [80, 40, 20])
def test_on_a_line_slices_are_the_whole(n):
    """Sorted points are matched, each of the smaller cloud with as many of the larger."""
    x, y = X[:n, :1], Y[:, :1]
    assert metrics.sliced_w2(x, y) == pytest.approx(metrics.w2(x, y), rel=1e-10)


@pytest.mark.parametrize("name", DISTANCES)
def test_every_distance_is_zero_on_itself_and_symmetric(name):
    assert DISTANCES[name](X, X) == pytest.approx(0.0, abs=1e-7)
    assert DISTANCES[name](X, Y) == pytest.approx(DISTANCES[name](Y, X), rel=1e-6)
    assert DISTANCES[name](X, Y) > 0


def test_bures_of_gaussians():
    """Diagonal covariances: |m|^2 + sum (s - r)^2."""
    x = RNG.normal(size=(200_000, 2)) * [1.0, 2.0]
    y = RNG.normal(size=(200_000, 2)) * [3.0, 0.5] + [1.0, 0.0]
    assert metrics.bures(x, y) == pytest.approx(1 + 4 + 2.25, rel=0.02)
    assert metrics.bd2_uvp(x, y) == pytest.approx(100 * 7.25 / (0.5 * 9.25), rel=0.02)
    weights = np.zeros(len(x))
    weights[:1000] = 1.0
    assert metrics.bures(x, y, weights) == pytest.approx(metrics.bures(x[:1000], y), rel=1e-6)


def test_energy_distance_and_mmd_by_their_definitions():
    d = lambda a, b: np.linalg.norm(a[:, None] - b[None], axis=-1)
    expected = 2 * d(X, Y).mean() - d(X, X).mean() - d(Y, Y).mean()
    assert metrics.energy_distance(X, Y) == pytest.approx(expected)
    pooled = np.concatenate([X, Y])
    median = np.median(d(pooled, pooled)[np.triu_indices(160, 1)])
    kernel = lambda a, b: np.mean(
        [np.exp(-(d(a, b) ** 2) / (2 * (median * s) ** 2)).mean() for s in (0.25, 0.5, 1, 2, 4)]
    )
    assert metrics.mmd(X, Y) == pytest.approx(kernel(X, X) + kernel(Y, Y) - 2 * kernel(X, Y))


def test_r2s():
    truth = RNG.normal(size=50)
    assert metrics.pattern_r2(3 * truth + 1, truth) == pytest.approx(1.0)
    assert metrics.raw_r2(truth + 5, truth) == pytest.approx(1.0)
    assert metrics.raw_r2(2 * truth, truth) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", DISTANCES)
def test_an_individual_of_weight_two_is_two_individuals(name):
    rng = np.random.default_rng(1)
    a, b = rng.multinomial(240, np.full(80, 1 / 80)), rng.multinomial(240, np.full(60, 1 / 60))
    assert a.min() == 0
    got = DISTANCES[name](X, Y[:60], 0.1 * a, b)
    repeated = DISTANCES[name](np.repeat(X, a, axis=0), np.repeat(Y[:60], b, axis=0))
    # The kernels' width leaves pairs of an individual with itself out, but not with its copy.
    assert got == pytest.approx(repeated, rel=0.05 if name == "mmd" else 1e-9)
    assert abs(got / DISTANCES[name](X, Y[:60]) - 1.0) > 0.01
    one_sided = DISTANCES[name](X, np.repeat(Y[:60], b, axis=0)[::3], y_weights=np.ones(80))
    assert one_sided == DISTANCES[name](X, np.repeat(Y[:60], b, axis=0)[::3])


def test_bad_weights_are_named():
    for bad in (np.ones(3), -np.ones(80), np.zeros(80), np.full(80, np.nan)):
        with pytest.raises(ValueError, match="y_weights must be"):
            metrics.w1(X, Y, None, bad)
