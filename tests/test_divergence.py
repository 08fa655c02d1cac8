"""Divergences of Gaussians in closed form; expectations over q by Gauss-Hermite quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stitchflow import KDE, KL, MMD, DenoisingScoreMatching, ScoreMatching, SinkhornDivergence

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


def test_mmd(gaussians):
    """A Gaussian kernel averaged over two Gaussians is one more Gaussian."""
    length = 0.8
    mean = lambda gap, variance: (
        length / np.sqrt(length**2 + variance) * np.exp(-0.5 * gap**2 / (length**2 + variance))
    )
    expected = mean(0.0, 2 * H**2) - 2 * mean(M - MU, H**2 + S**2) + mean(0.0, 2 * S**2)
    keys = jax.random.split(jax.random.key(0), 2500)
    values = jax.jit(jax.vmap(lambda k: MMD((length,), weight=3.0)(*gaussians, k)))(keys)
    error = 4 * float(values.std()) / 50
    assert float(values.mean()) == pytest.approx(3 * expected, abs=error)
    assert error < 0.1


def test_sinkhorn_divergence(x64):
    """Half of the closed form for Gaussians with the squared distance and twice the entropy."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    w, e = jnp.asarray(weights / weights.sum()), 0.5
    a, b = (MU + H * nodes)[:, None], (M + S * nodes)[:, None]
    rho = KDE(jnp.asarray(a), jnp.asarray(1e-9), jnp.log(w))

    def part(p: float, q: float) -> float:
        d = np.sqrt(4 * p * q + e**2)
        return p + q - d + e * np.log(d + e)

    own = part(H**2, H**2) + part(S**2, S**2)
    expected = 0.5 * ((M - MU) ** 2 + part(H**2, S**2) - 0.5 * own)
    divergence = SinkhornDivergence(blur=float(np.sqrt(e)), weight=1.0, iterations=200)
    found = divergence(rho, jnp.asarray(b), w, jax.random.key(0))
    assert float(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("divergence", [MMD(weight=1.0), SinkhornDivergence(weight=1.0)])
def test_distances_vanish_on_the_same_cloud_and_pull_towards_another(x64, divergence):
    rng = np.random.default_rng(0)
    cloud, w = jnp.asarray(rng.normal(size=(40, 2))), jnp.asarray(rng.dirichlet(np.ones(40)))
    key, shift = jax.random.key(0), jnp.asarray([0.3, -0.1])
    at = lambda x, v: divergence(KDE(x, jnp.asarray(1e-6), jnp.log(v)), cloud, w, key)
    step = jax.jit(jax.value_and_grad(at, (0, 1)))
    assert float(step(cloud, w)[0]) == pytest.approx(0.0, abs=1e-6)
    pull = step(cloud + shift[None], w)[1][0].sum(0)
    assert float(pull @ shift) > 0.95 * float(jnp.linalg.norm(pull) * jnp.linalg.norm(shift))
    stray = cloud.at[3].add(9.0 * shift)
    assert int(step(stray, w)[1][1].argmax()) == 3  # weight on the stray costs most


def test_sinkhorn_moves_a_shifted_cloud_straight_back(x64):
    """S of a cloud and its translate is half the squared shift; the envelope gradient is its."""
    rng = np.random.default_rng(0)
    cloud, shift = jnp.asarray(rng.normal(size=(30, 2))), jnp.asarray([0.4, 0.2])
    divergence = SinkhornDivergence(blur=0.5, weight=1.0, iterations=300)
    even, key = jnp.full(30, 1 / 30), jax.random.key(0)
    at = lambda s: divergence(
        KDE(cloud + s[None], jnp.asarray(1e-9), jnp.zeros(30)), cloud, even, key
    )
    value, slope = jax.jit(jax.value_and_grad(at))(shift)
    assert float(value) == pytest.approx(0.5 * float(shift @ shift), rel=1e-5)
    np.testing.assert_allclose(slope, shift, rtol=1e-4)


@pytest.mark.parametrize("divergence", [MMD(draws=10), SinkhornDivergence(draws=10)])
def test_individuals_without_weight_are_not_seen(divergence):
    rng = np.random.default_rng(0)
    rho = KDE.uniform(jnp.asarray(rng.normal(size=(20, 2)), float))
    points = jnp.asarray(rng.normal(size=(12, 2)), float)
    weights = jnp.where(jnp.arange(12) < 8, 1 / 8, 0.0)
    at = lambda r, x, w: divergence(r, x, w, jax.random.key(0))
    step = jax.jit(jax.value_and_grad(at))
    value, grads = step(rho, points, weights)
    assert float(value) == pytest.approx(float(step(rho, points[:8], weights[:8])[0]), rel=1e-4)
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DenoisingScoreMatching(0.0), "sigma must be in"),
        (lambda: MMD(()), "lengths must hold one length or more"),
        (lambda: MMD((0.0,)), "lengths must be in"),
        (lambda: MMD(weight=0.0), "weight must be in"),
        (lambda: SinkhornDivergence(blur=0.0), "blur must be in"),
        (lambda: SinkhornDivergence(weight=0.0), "weight must be in"),
        (lambda: SinkhornDivergence(iterations=0), "iterations must be at least 1, got 0"),
    ],
)
def test_bad_settings_are_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()
