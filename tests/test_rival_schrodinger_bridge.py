"""The bridge between Gaussians is Gaussian, with covariances known in closed form."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import stitchflow as sf
from stitchflow._measure.sinkhorn import entropic_plan
from stitchflow.rivals._schrodinger_bridge import LEVELS, noise_level

SIGMA2, MEAN, DEVIATION = 1.0, 2.0, 1.5


def covariance(s0: float, s1: float, sigma2: float) -> float:
    """Between the ends of the bridge from N(., s0^2) to N(., s1^2) over a unit of time."""
    return 0.5 * (np.sqrt(4.0 * (s0 * s1) ** 2 + sigma2**2) - sigma2)


def gaussians(n: int) -> list[np.ndarray]:
    quantiles = norm.ppf((np.arange(n) + 0.5) / n)[:, None]
    return [quantiles, MEAN + DEVIATION * quantiles]


@pytest.mark.parametrize("sigma2", [1e-3, 0.1, 1.0])
def test_entropic_plans_have_the_gaussian_covariance(sigma2):
    x, y = gaussians(400)
    plan = entropic_plan(x, y, np.ones(400), np.ones(400), 2.0 * sigma2)
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 400, atol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 400, atol=4e-5)
    found = float(x[:, 0] @ plan @ (y[:, 0] - MEAN))
    assert found == pytest.approx(covariance(1.0, DEVIATION, sigma2), rel=0.02)


@pytest.mark.full
def test_the_bridge_between_gaussians():
    data = sf.Snapshots.from_arrays(gaussians(500), [0.0, 1.0])
    method = sf.SchrodingerBridge(
        beta=0.5 * SIGMA2, hidden=(32, 32), batch=256, optimiser=sf.Optimiser(600)
    )
    fit = sf.fit(data, method, progress=False)
    assert fit.energy is None
    t, c = 0.5, covariance(1.0, DEVIATION, SIGMA2)
    variance = (1 - t) ** 2 + (t * DEVIATION) ** 2 + 2 * t * (1 - t) * c + SIGMA2 * t * (1 - t)
    way = np.asarray(fit.flow.simulate(data.cloud(0), [0.0, t, 1.0], key=1))[:, :, 0]
    assert way[1].mean() == pytest.approx(t * MEAN, abs=0.2)
    assert way[1].var() == pytest.approx(variance, rel=0.2)
    assert way[2].mean() == pytest.approx(MEAN, abs=0.25)
    assert way[2].std() == pytest.approx(DEVIATION, rel=0.15)
    # The drift is linear in x with slope (Cov(x_1, x_t) / Var(x_t) - 1) / (1 - t).
    slope = (((1 - t) * c + t * DEVIATION**2) / variance - 1.0) / (1.0 - t)
    x = np.linspace(-1.0, 3.0, 20)[:, None]
    (drift, noise) = fit.flow.energy.terms
    internal = drift.velocity(data.units.space_in(x), jnp.full(20, t))
    expected = MEAN + slope * (x - t * MEAN)
    np.testing.assert_allclose(np.asarray(internal) * data.units.speed, expected, atol=0.35)
    assert float(noise.beta) * data.units.energy == pytest.approx(0.5 * SIGMA2, rel=1e-4)


def test_the_noise_follows_the_data():
    """A population that spreads and gathers again between two snapshots needs noise."""
    rng = np.random.default_rng(0)
    still = rng.normal(size=(300, 1)) + np.array([[-3.0], [3.0]])[rng.integers(2, size=300)]
    wide = [still, still + 1.5 * rng.normal(size=still.shape), still]
    levels = [
        noise_level(sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0]), np.random.default_rng(0))
        for clouds in ([still] * 3, wide)
    ]
    assert levels[0] <= LEVELS[1]
    assert levels[1] > 5 * levels[0]


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="beta"):
        sf.SchrodingerBridge(beta=0.0)
