"""Divergences of Gaussians in closed form; expectations over q by Gauss-Hermite quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stitchflow import KDE, KL, DenoisingScoreMatching, ScoreMatching

MU, H, M, S = 0.3, 0.7, -0.5, 1.1  # rho = N(MU, H^2), q = N(M, S^2)


@pytest.fixture
def gaussians(x64):
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    points = jnp.asarray((M + S * nodes)[:, None])
    rho = KDE(jnp.asarray([[MU]]), jnp.asarray(H), jnp.zeros(1))
    return rho, points, jnp.asarray(weights / weights.sum())


def test_kl(gaussians):
    expected = 0.5 * np.log(2 * np.pi * H**2) + (S**2 + (M - MU) ** 2) / (2 * H**2)
    assert float(KL()(*gaussians, jax.random.key(0))) == pytest.approx(expected, rel=1e-12)


def test_score_matching(gaussians):
    expected = (S**2 + (M - MU) ** 2) / H**4 - 2.0 / H**2
    assert float(ScoreMatching()(*gaussians, jax.random.key(0))) == pytest.approx(
        expected, rel=1e-12
    )


def test_denoising_score_matching(gaussians):
    sigma = 0.4
    expected = (S**2 + sigma**2 + (M - MU) ** 2) / H**4 - 2.0 / H**2 + 1.0 / sigma**2
    keys = jax.random.split(jax.random.key(0), 20_000)
    values = jax.vmap(lambda k: DenoisingScoreMatching(sigma)(*gaussians, k))(keys)
    assert float(values.mean()) == pytest.approx(expected, abs=4 * float(values.std()) / 141)


def test_weights_choose_the_individuals(gaussians):
    rho, points, _ = gaussians
    only_first = jnp.zeros(len(points)).at[0].set(1.0)
    alone = KL()(rho, points[:1], jnp.ones(1), jax.random.key(0))
    assert float(KL()(rho, points, only_first, jax.random.key(0))) == pytest.approx(float(alone))


def test_bad_sigma_is_named():
    with pytest.raises(ValueError, match="sigma must be in"):
        DenoisingScoreMatching(0.0)
