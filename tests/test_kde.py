"""Kernel densities against autodiff, closed forms and the authors' numbers."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import parity
from stitchflow import KDE, Curve, silverman
from stitchflow._measure import kde as kde_module
from stitchflow._measure.curve import inverse_softplus
from stitchflow._measure.kde import leave_one_out_bandwidth


def random_kde(shape: str, n: int = 7, d: int = 3) -> KDE:
    keys = jax.random.split(jax.random.key(0), 3)
    bandwidths = {
        "one": jnp.asarray(0.6),
        "per dimension": jnp.asarray([0.5, 0.7, 0.9]),
        "per particle": 0.4 + jax.random.uniform(keys[0], (n, d)),
    }
    centres = jax.random.normal(keys[1], (n, d))
    return KDE(centres, bandwidths[shape], jax.random.normal(keys[2], (n,)))


SHAPES = ("one", "per dimension", "per particle")


@pytest.fixture(params=SHAPES)
def rho(request, x64):
    return random_kde(request.param)


QUERIES = np.random.default_rng(0).normal(size=(11, 3))


def explicit_log_density(rho: KDE, x):
    h = jnp.broadcast_to(rho.bandwidth, rho.centres.shape)
    kernels = jax.scipy.stats.norm.logpdf(x[None, :], rho.centres, h).sum(1)
    return jax.nn.logsumexp(kernels + jnp.log(rho.weights))


def test_log_density_is_the_mixture(rho):
    expected = jax.vmap(lambda x: explicit_log_density(rho, x))(jnp.asarray(QUERIES))
    np.testing.assert_allclose(rho.log_density(jnp.asarray(QUERIES)), expected, rtol=1e-12)


def test_score_and_laplacian_are_derivatives(rho):
    x = jnp.asarray(QUERIES)
    score = jax.vmap(jax.grad(lambda y: explicit_log_density(rho, y)))(x)
    hessian = jax.vmap(jax.hessian(lambda y: explicit_log_density(rho, y)))(x)
    np.testing.assert_allclose(rho.score(x), score, atol=1e-11)
    np.testing.assert_allclose(rho.laplacian(x), jnp.trace(hessian, axis1=1, axis2=2), atol=1e-10)


def test_score_without_self_leaves_each_particle_out(rho):
    field = rho.field_without_self()
    for j in range(rho.centres.shape[0]):
        others = rho.log_weights.at[j].set(-jnp.inf)
        rest = KDE(rho.centres, rho.bandwidth, others)
        expected = jax.grad(lambda y, rest=rest: explicit_log_density(rest, y))(rho.centres[j])
        np.testing.assert_allclose(field.score[j], expected, atol=1e-11)


def test_a_lone_particle_has_no_score_of_its_own(x64):
    rho = KDE(jnp.ones((1, 2)), jnp.asarray(0.5), jnp.zeros(1))
    field = rho.field_without_self()
    assert not field.score.any()
    np.testing.assert_allclose(field.log_density, rho.log_density(rho.centres))


def test_moving_centres_have_the_rates_of_autodiff(rho):
    x, v = jnp.asarray(QUERIES), jnp.asarray(QUERIES[:7])
    later = lambda t: KDE(rho.centres + t * v, rho.bandwidth, rho.log_weights)
    rate = jax.vmap(jax.grad(lambda t, y: explicit_log_density(later(t), y)), (None, 0))(0.0, x)
    hessian = jax.vmap(jax.hessian(lambda y: explicit_log_density(rho, y)))(x)
    field, still = rho.moving_field(x, v), rho.field(x, v)
    np.testing.assert_allclose(field.rate, rate, atol=1e-10)
    np.testing.assert_allclose(field.laplacian, jnp.trace(hessian, axis1=1, axis2=2), atol=1e-10)
    assert still.parts.keys() == {"log_density", "score", "velocity"}
    for name, expected in still.parts.items():
        got = field.parts[name]
        np.testing.assert_allclose(got, expected, atol=1e-11)


@pytest.mark.parametrize("n", [2, 5])
def test_left_out_centres_are_not_in_their_own_rates(x64, n):
    rho, v = random_kde("per particle", n), jnp.asarray(QUERIES[:n])
    others = np.array([[k for k in range(n) if k != j] for j in range(n)])

    def alone(x, keep):
        rest = KDE(rho.centres[keep], rho.bandwidth[keep], rho.log_weights[keep])
        return jax.tree.map(lambda a: a[0], rest.moving_field(x[None], v[keep]))

    expected = jax.jit(jax.vmap(alone))(rho.centres, others)
    found = rho.moving_field(rho.centres, v, True)
    for got, wanted in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_a_lone_moving_particle_is_never_left_out(x64):
    rho, v = random_kde("per particle", 1), jnp.asarray(QUERIES[:1])
    both = (rho.moving_field(rho.centres, v, left_out) for left_out in (True, False))
    for got, expected in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_centres_far_from_zero_keep_their_digits_in_float32(shape):
    near = random_kde(shape)
    x = jnp.asarray(QUERIES, jnp.float32)
    shift = 1024.0  # of a power of two: the shifted numbers are off by 2^-14 at most
    far = KDE(near.centres + shift, near.bandwidth, near.log_weights)
    np.testing.assert_allclose(far.log_density(x + shift), near.log_density(x), atol=0.01)


def test_the_mean_is_weighted(rho):
    values = jnp.arange(1.0, 8.0)
    assert float(rho.mean(values)) == pytest.approx(np.average(values, weights=rho.weights))


def largest(function, x) -> int:
    """The number of entries of the largest array that a program makes."""
    shapes = re.findall(r"f32\[([\d,]+)\]", str(jax.make_jaxpr(function)(x)))
    return max(int(np.prod([int(n) for n in shape.split(",")])) for shape in shapes)


def test_pairs_are_cut_into_blocks_that_fit_the_budget(monkeypatch):
    rho, x = random_kde("one"), jnp.asarray(QUERIES, jnp.float32)
    assert largest(lambda y: rho.log_density(y), x) == 11 * 7  # few pairs are never cut
    monkeypatch.setattr(kde_module, "PAIR_BUDGET", 50)
    assert largest(lambda y: rho.log_density(y), x) <= 50


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_change_nothing(x64, monkeypatch, shape):
    rho, x, v = random_kde(shape), jnp.asarray(QUERIES), jnp.asarray(QUERIES[:7])
    whole = rho.field(x, v), rho.field_without_self(v), rho.log_density(x), rho.laplacian(x)
    slope = jax.grad(lambda y: rho.field(y, v).velocity.sum())(x)
    monkeypatch.setattr(kde_module, "PAIR_BUDGET", 20)
    blocked = rho.field(x, v), rho.field_without_self(v), rho.log_density(x), rho.laplacian(x)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(blocked), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    blocked_slope = jax.grad(lambda y: rho.field(y, v).velocity.sum())(x)
    np.testing.assert_allclose(slope, blocked_slope, atol=1e-12)


def test_kernel_averaged_velocity_satisfies_the_continuity_equation(x64):
    """d_t rho + d_x (rho v) = 0 on a grid, by central differences."""
    curve = Curve(
        particles=jnp.asarray([[[-1.0], [0.2], [1.5]], [[0.5], [-0.3], [1.0]]]),
        log_weights=jnp.asarray([0.1, -0.4, 0.3]),
        raw_bandwidth=inverse_softplus(np.array([0.4])),
        times=(0.0, 1.0),
    )
    grid, t, e = jnp.linspace(-3.0, 4.0, 701)[:, None], 0.37, 1e-5
    density = lambda s: jnp.exp(curve.at(jnp.asarray(s)).log_density(grid))
    flux = (
        density(t)
        * curve.at(jnp.asarray(t)).field(grid, curve.velocity(jnp.asarray(t))).velocity[:, 0]
    )
    change = (density(t + e) - density(t - e)) / (2 * e)
    step = float(grid[1, 0] - grid[0, 0])
    divergence = (flux[2:] - flux[:-2]) / (2 * step)
    assert float(jnp.abs(change[1:-1] + divergence).max()) < 5e-4 * float(jnp.abs(change).max())


def test_samples_have_the_mixture_moments():
    rho = random_kde("per particle")
    x = np.asarray(rho.sample(200_000, jax.random.key(1)))
    w = np.asarray(rho.weights)
    mean = w @ np.asarray(rho.centres)
    variance = w @ (np.asarray(rho.bandwidth) ** 2 + np.asarray(rho.centres) ** 2) - mean**2
    np.testing.assert_allclose(x.mean(0), mean, atol=0.02)
    np.testing.assert_allclose(x.var(0), variance, rtol=0.02)


def test_draws_visit_kernels_as_often_as_they_weigh():
    centres = jnp.asarray([[0.0], [10.0], [20.0]])
    rho = KDE(centres, jnp.asarray(1e-3), jnp.log(jnp.asarray([0.5, 0.3, 0.2])))
    for seed in range(5):
        x = np.asarray(rho.sample(25, jax.random.key(seed)))[:, 0]
        counts = np.bincount(np.round(x / 10).astype(int), minlength=3)
        assert (np.abs(counts - 25 * np.array([0.5, 0.3, 0.2])) < 1.0).all()
        assert not (np.diff(x) > -0.1).all()  # in no order


def test_silverman_is_its_formula(x64):
    x = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 3.0]
    expected = x.std(0) * 50 ** (-1 / 6)  # (4 / (d + 2)) is one in two dimensions
    np.testing.assert_allclose(silverman(x), expected, rtol=1e-12)
    assert (np.asarray(silverman(np.zeros((5, 2)))) > 0).all()


def test_silverman_counts_the_effective_number_of_points(x64):
    """In three dimensions; weights need not sum to one."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(50, 3)), rng.uniform(size=50)
    spread = np.sqrt(np.average((x - np.average(x, axis=0, weights=w)) ** 2, axis=0, weights=w))
    n = w.sum() ** 2 / (w**2).sum()
    np.testing.assert_allclose(silverman(x, jnp.asarray(w)), spread * (0.8 / n) ** (1 / 7))


def test_a_dimension_without_spread_gets_a_small_share_of_the_widest(x64):
    x = np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 0.0]
    wide, narrow = np.asarray(silverman(x))
    assert wide == pytest.approx(x[:, 0].std() * 50 ** (-1 / 6))
    assert 0.0 < narrow < 0.01 * wide
    np.testing.assert_allclose(silverman(20.0 * x), [20.0 * wide, 20.0 * narrow])


def two_lumps(n: int, d: int) -> np.ndarray:
    """Narrow lumps far apart, for which Silverman's width is much too wide."""
    x = np.random.default_rng(0).normal(size=(n, d)) * np.arange(1, d + 1)
    return x + 10.0 * (np.arange(n) % 2)[:, None]


def left_out_likelihood(x: np.ndarray, width: np.ndarray) -> float:
    """The mean log density of each point under a kernel density of the others."""
    kernels = norm.logpdf(x[:, None], x[None], width).sum(-1)
    np.fill_diagonal(kernels, -np.inf)
    return logsumexp(kernels, axis=1).mean()


def test_the_chosen_bandwidth_predicts_left_out_points_best():
    clouds = [two_lumps(60, 2), 3.0 * two_lumps(40, 2)]
    widths = np.array([silverman(x) for x in clouds])
    chosen = leave_one_out_bandwidth(clouds, np.random.default_rng(0))
    multiple = chosen / widths.mean(axis=0)
    assert multiple[0] == pytest.approx(multiple[1], rel=1e-5)
    assert multiple[0] < 0.6
    total = lambda m: sum(
        left_out_likelihood(x, m * w) for x, w in zip(clouds, widths, strict=True)
    )
    others = multiple[0] * 2.0 ** np.array([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
    assert total(multiple[0]) > max(map(total, others))


def test_a_sample_lends_its_bandwidth_to_the_cloud_by_the_rate():
    cloud = two_lumps(200, 3)
    sample = cloud[np.random.default_rng(1).permutation(200)[:50]]
    carried = leave_one_out_bandwidth([cloud], np.random.default_rng(1), most=50)
    own = leave_one_out_bandwidth([sample], np.random.default_rng(1))
    np.testing.assert_allclose(carried, own * (50 / 200) ** (1 / 7), rtol=1e-5)


def test_two_points_keep_silvermans_width():
    x = np.array([[0.0, 1.0], [2.0, 5.0]])
    chosen = leave_one_out_bandwidth([x], np.random.default_rng(0))
    np.testing.assert_allclose(chosen, silverman(x), rtol=1e-6)


def parity_kde(x64_on: None = None) -> tuple[Curve, KDE]:
    curve = Curve(
        particles=jnp.asarray(parity.PARTICLES),
        log_weights=jnp.asarray(parity.LOG_WEIGHTS),
        raw_bandwidth=inverse_softplus(parity.BANDWIDTH),
        times=tuple(parity.NODES.tolist()),
    )
    return curve, curve.at(jnp.asarray(1.7))


def test_parity_with_the_authors(x64):
    curve, rho = parity_kde()
    x = jnp.asarray(parity.QUERIES)
    field = rho.field(x, jnp.asarray(parity.PARTICLE_VELOCITY))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    close(field.log_density, parity.LOG_DENSITY_AT_QUERIES_T1_7)
    close(field.score, parity.SCORE_AT_QUERIES_T1_7)
    close(field.velocity, parity.KERNEL_AVERAGED_VELOCITY_AT_QUERIES_T1_7)
    close(rho.field_without_self().log_density, parity.LEAVE_ONE_OUT_LOG_DENSITY_AT_CENTRES_T1_7)
    values = [
        curve.at(jnp.asarray(t)).log_density(jnp.asarray(p)[None])[0]
        for t, p in zip(parity.TIMES, parity.POINTS, strict=True)
    ]
    close(-np.mean(values), parity.MEAN_NEGATIVE_LOG_DENSITY_OVER_ALL_POINTS)
