"""The weak form where a start from nothing fails or chance misleads: long gaps, few, no motion."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.basis import Basis
from stitchflow._weak_form.carry import carry, most_steps
from stitchflow._weak_form.climb import Prior
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.problem import Problem

STIFF, BETA = 3.0, 0.2


def followed(seed, n=20, times=(0.0, 0.5, 1.0, 2.0, 3.0)):
    """Exact paths of dX = -STIFF (X - (1, -1)) dt + sqrt(2 BETA) dB over long gaps."""
    rng = np.random.default_rng(seed)
    x, middle, clouds = rng.normal(size=(n, 2)) + 2.0, np.array([1.0, -1.0]), []
    for gap in np.diff(times, prepend=times[0]):
        decay = np.exp(-STIFF * gap)
        noise = np.sqrt(BETA / STIFF * (1 - decay**2))
        x = middle + decay * (x - middle) + noise * rng.normal(size=x.shape)
        clouds.append(x)
    return sf.Snapshots.from_arrays(clouds, times, paired=True)


def test_few_individuals_that_are_followed_are_not_pooled():
    data = followed(0)
    problem = Problem.of(sf.Potential() + sf.Entropy(), Basis(), data)
    assert len(problem.found) == 5
    assert all(len(np.unique(window.ids)) == len(window.ids) == 20 for window in problem.found)


def test_the_same_individuals_over_gaps_of_several_relaxation_times():
    """Gaps of 1.5 to 3 relaxation times: force and beta of the closed form within their errors."""
    data = followed(1)
    fit = sf.fit(data, sf.WeakForm(basis=sf.Basis(widths=(2.0,))), progress=False)
    assert fit.status.ok, fit.status.message
    assert fit.energy.beta == pytest.approx(BETA, rel=0.5)
    x = data.x
    true = -STIFF * (x - np.array([1.0, -1.0]))
    gap = np.asarray(fit.energy.force(x)) - true
    assert (gap**2).sum() < 0.1 * (true**2).sum()


def test_noise_of_many_steps_is_that_of_few_in_finer_pieces():
    """A sum of the fine increments is the coarse one, so that step counts can be compared."""
    assert most_steps(20) == 512
    assert most_steps(5000) == 32
    free = Drift((Landscape(Bumps(np.zeros((1, 1)), np.ones(1))),))
    x, c = np.zeros((10, 1)), np.zeros(3)
    ends = [
        carry(free, c, 0.5, x, 0.0, 1.0, steps, None, np.random.default_rng(0)).x
        for steps in (1, 32, 256)
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)
    np.testing.assert_allclose(ends[0], ends[2], atol=1e-12)


def test_the_charge_of_a_prior_is_that_of_its_independent_numbers():
    bumps = Bumps.for_points(np.linspace(-1.0, 1.0, 30)[:, None], (1.0, 0.5), 50)
    blocks = bumps.blocks()
    u = np.random.default_rng(2).normal(size=sum(b.factor.shape[1] for b in blocks))
    precisions = np.array([1e-6, 2.0, 3.0])
    c = np.concatenate([block.factor for block in blocks], axis=1) @ u
    exact = np.repeat(precisions, [b.factor.shape[1] for b in blocks]) @ u**2
    assert Prior(blocks, precisions).cost(c) == pytest.approx(exact, rel=1e-6)


def test_draws_of_one_distribution_seldom_pass_for_the_same_individuals():
    """Five averages of few gaps are often small by chance; the same individuals never move less."""
    plain = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        data = sf.Snapshots.from_arrays([rng.normal(size=(100, 2)) for _ in range(3)], range(3))
        problem = Problem.of(sf.Energy((sf.Potential(),)), Basis(widths=(2.0,)), data)
        plain.append(problem.moments(problem.tests).plainly_same)
    assert sum(plain) <= 3
    x = np.random.default_rng(0).normal(size=(100, 2))
    again = sf.Snapshots.from_arrays([x[::-1], x * 1.001, x * 0.999], range(3))
    problem = Problem.of(sf.Energy((sf.Potential(),)), Basis(widths=(2.0,)), again)
    assert problem.moments(problem.tests).plainly_same


def test_without_motion_beyond_chance_there_is_no_force():
    """V = 0, and not what five free coefficients make of sampling noise."""
    rng = np.random.default_rng(3)
    clouds = [rng.uniform(-4.0, 4.0, size=(500, 2)) for _ in range(6)]
    data = sf.Snapshots.from_arrays(clouds, 0.01 * np.arange(6))
    fit = sf.fit(data, sf.WeakForm(sf.Energy((sf.Potential(),))), progress=False)
    # Chance alone moves the mean of 500 by 0.1 a snapshot, which seems to be a force of about 2.
    assert np.sqrt((np.asarray(fit.energy.force(data.x)) ** 2).sum(axis=1).mean()) < 0.5
