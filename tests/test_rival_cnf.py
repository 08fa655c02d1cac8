"""Likelihoods through a flow: closed forms for linear fields and Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import stitchflow as sf
from stitchflow.rivals._cnf import LEAD, CNFFlow, Gaussian, back_to_base

pytestmark = pytest.mark.full


def quantiles(n: int) -> np.ndarray:
    return norm.ppf((np.arange(n) + 0.5) / n)[:, None]


@pytest.mark.parametrize("dim", [1, 2])
def test_a_linear_field_carries_the_base_as_it_should(dim, x64):
    """Under u = -x a Gaussian shrinks by e^-t on its way from the base."""
    x = np.random.default_rng(0).normal(size=(200, dim)) + 1.0
    data = sf.Snapshots.from_arrays([x, x], [0.0, 1.0])
    energy = sf.Energy((sf.VectorField(lambda p: -p),))
    energy = energy.init(x, data.units, jax.random.key(0))
    flow, base = CNFFlow("cnf", energy, data), Gaussian.of(data)
    shrink, centre = np.exp(-LEAD - 0.5), np.asarray(data.units.centre)
    start = lambda y: np.asarray(data.units.space_in(y / shrink))
    expected = base.log_density(jnp.asarray(start(x))) - dim * np.log(data.units.length * shrink)
    np.testing.assert_allclose(flow.log_density(x, 0.5), expected, rtol=1e-3)
    slope = np.diff(np.asarray(flow.log_density([[0.3] * dim, [0.301] + [0.3] * (dim - 1)], 0.5)))
    score = np.asarray(flow.score([[0.3] * dim], 0.5))
    assert score[0, 0] == pytest.approx(slope[0] / 1e-3, rel=2e-2)
    mean = np.asarray(flow.sample([0.5], 4000)[0]).mean(axis=0)
    np.testing.assert_allclose(mean, shrink * centre, atol=0.05)


def test_random_signs_estimate_the_divergence():
    energy = sf.Energy((sf.VectorField(lambda p: jnp.array([[-1.0, 2.0], [0.5, -3.0]]) @ p),))
    energy = energy.init(np.eye(2), sf.Units.identity(2), jax.random.key(0))
    x, t = jnp.zeros((4000, 2)), jnp.ones(4000)
    probe = jax.random.rademacher(jax.random.key(1), x.shape, x.dtype)
    exact, guessed = (back_to_base(energy, x, t, 2, p).divergence for p in (None, probe))
    np.testing.assert_allclose(exact, -4.0 * (1.0 + LEAD), rtol=1e-5)
    assert float(guessed.mean()) == pytest.approx(float(exact[0]), rel=0.05)


def test_the_flow_of_a_quadratic_is_found():
    """V = x^2 / 2 from N(2, 1): at time t N(2 e^-t, e^-2t), each by its quantiles."""
    times = np.array([0.0, 0.4, 1.0])
    counts = (200, 300, 250)
    clouds = [np.exp(-t) * (2.0 + quantiles(n)) for t, n in zip(times, counts, strict=True)]
    data = sf.Snapshots.from_arrays(clouds, times)
    method = sf.CNF(hidden=(32,), moves=8, batch=192, optimiser=sf.Optimiser(300))
    flow = sf.fit(data, method, progress=False).flow
    end = np.asarray(flow.simulate(clouds[0], times))[-1]
    assert end.mean() == pytest.approx(2.0 * np.exp(-1.0), abs=0.15)
    assert end.std() == pytest.approx(np.exp(-1.0), rel=0.2)
    x = clouds[2][25:-25:10]
    truth = norm.logpdf(x[:, 0], 2.0 * np.exp(-1.0), np.exp(-1.0))
    np.testing.assert_allclose(flow.log_density(x, 1.0), truth, atol=0.3)
    grid = np.linspace(-3.0, 5.0, 400)[:, None]
    mass = np.exp(np.asarray(flow.log_density(grid, 0.7))).sum() * (grid[1, 0] - grid[0, 0])
    assert mass == pytest.approx(1.0, abs=0.02)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="penalty"):
        sf.CNF(penalty=-1.0)
    with pytest.raises(ValueError, match="moves"):
        sf.CNF(moves=0)
