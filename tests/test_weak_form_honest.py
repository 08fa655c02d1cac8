"""What a weak form says of itself: no answer is called one that the data do not bear out."""

from dataclasses import replace

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.basis import Basis
from stitchflow._weak_form.carry import carry
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.equilibrium import potential_at_rest
from stitchflow._weak_form.estimate import Estimate
from stitchflow._weak_form.evidence import Equations, solve
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.uncertainty import Uncertainty


@pytest.fixture
def settled():
    """Two coefficients and log beta from a hundred residuals of the size that noise has."""
    bumps, equations = Bumps(np.zeros((0, 1)), np.zeros(0)), Equations(2)
    a = np.random.default_rng(0).normal(size=(100, 3))
    equations.add(a, a @ [1.0, 2.0, 0.0], np.zeros(100), np.ones(100))
    posterior = solve(equations, bumps.blocks(), True)
    none = np.zeros((3, 0))
    return Estimate(
        posterior.mean, 0.5, posterior, converged=True, misfit=1.0, rows=100, others=(1.0, none)
    )


def test_a_settled_fit_that_noise_explains_has_no_concerns(settled):
    assert settled.concerns == []
    plain, more = settled.posterior.root, settled.root
    np.testing.assert_allclose(more @ more.T, settled.excess * plain @ plain.T)


def test_errors_of_rounds_that_alternate_reach_from_one_to_the_other(settled):
    move = np.array([0.3, -0.2, 1.5])
    found = replace(settled, converged=False, move=move)
    assert "still moved" in found.concerns[0]
    more = found.root @ found.root.T - settled.root @ settled.root.T
    np.testing.assert_allclose(more, np.outer(move, move), atol=1e-12)


@pytest.mark.parametrize(("misfit", "words"), [(4.0, "times what noise"), (0.1, "smaller than")])
def test_residuals_of_another_size_refute_a_fit(settled, misfit, words):
    found = replace(settled, misfit=misfit)
    assert words in found.concerns[0]
    assert np.sqrt((found.root[-1] ** 2).sum()) > constants.UNKNOWN_FACTOR


def test_residuals_that_the_priors_know_of_are_explained(settled):
    found = replace(settled, misfit=4.0, heat=4.0)
    assert found.concerns == []
    assert found.excess < 1.1


def test_the_interval_of_beta_reaches_the_upper_limit_of_its_logarithm():
    data = sf.Snapshots.from_arrays([np.zeros((5, 1)), np.ones((5, 1))], [0.0, 1.0])
    root = np.array([[0.0], [0.0], [1.2]])
    known = Uncertainty(Drift(()), np.zeros(2), 0.0, root, np.zeros(0), data.units)
    beta = known.beta
    assert beta.mean + 1.645 * beta.sd == pytest.approx(beta.mean * np.exp(1.645 * 1.2))


def test_how_noise_spreads_follows_the_curvature_of_v():
    """The derivative by the coefficients of a quadratic V, which the path does not change."""
    bumps = Bumps(np.zeros((0, 2)), np.zeros(0))
    drift, c = Drift((Landscape(bumps),)), np.array([0.1, -0.2, 0.8, 0.3, 0.5])
    x = np.random.default_rng(0).normal(size=(3, 2))

    def at(c):
        return carry(drift, c, 0.1, x, 0.0, 1.0, 16, None, np.random.default_rng(1))

    found, step = at(c).spread_tangents(np.arange(3)), 1e-5
    for k, along in enumerate(step * np.eye(5)):
        exact = (at(c + along).spread - at(c - along).spread) / (2.0 * step)
        np.testing.assert_allclose(found[..., k], exact, atol=1e-6)


def test_a_snapshot_at_equilibrium_tells_v_against_beta():
    rng, variance = np.random.default_rng(0), 0.3
    clouds = [3.0 + rng.normal(size=(1000, 1)), np.sqrt(variance) * rng.normal(size=(1000, 1))]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0])
    problem = Problem.of(sf.Potential() + sf.Entropy(), Basis(), data)
    blocks = next(iter(problem.priors.values()))
    rest = potential_at_rest(problem.drift.landscape, problem.found, blocks)
    x = np.linspace(-1.0, 1.0, 21)
    inside = (x[:, None] - np.asarray(data.units.centre)) / data.units.length
    v = problem.tests.values(inside) @ rest.mean
    assert 2.0 * np.polyfit(x, v, 2)[0] == pytest.approx(1.0 / variance, rel=0.2)


def test_two_snapshots_far_apart_tell_no_beta():
    """From N(3, 1) to what an Ornstein-Uhlenbeck process makes of it in 4.5 relaxation times."""
    rng, rate, beta, gap = np.random.default_rng(1), 1.5, 0.5, 3.0
    decay = np.exp(-rate * gap)
    x = [3.0 + rng.normal(size=(500, 1)) for _ in range(2)]
    noise = np.sqrt(beta / rate * (1.0 - decay**2))
    x[1] = decay * x[1] + noise * rng.normal(size=(500, 1))
    fit = sf.fit(sf.Snapshots.from_arrays(x, [0.0, gap]), sf.WeakForm(), progress=False)
    found = fit.uncertainty.beta
    assert abs(found.mean - beta) < 1.645 * found.sd
    assert found.sd > found.mean
