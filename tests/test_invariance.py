"""Moving, scaling, turning, reordering and re-timing data changes answers as mathematics says."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._measure.curve import inverse_softplus
from stitchflow.metrics import DISTANCES

RNG = np.random.default_rng(0)
TIMES = np.array([0.0, 1.0, 2.5])
CLOUDS = [RNG.normal(size=(12, 2)) * [1.0, 0.6] + [0.8 * k, 0.0] for k in range(3)]
X = RNG.normal(size=(12, 2))
TURN = np.linalg.qr(RNG.normal(size=(2, 2)))[0]
BASELINES = {"nearest": sf.Nearest(), "ot-linear": sf.OTLinear(), "ot-spline": sf.OTSpline()}


def baseline(name, clouds=CLOUDS, times=TIMES) -> sf.Fit:
    return sf.fit(sf.Snapshots.from_arrays(clouds, times), BASELINES[name], progress=False)


def carried(fit, x, times) -> np.ndarray:
    return np.asarray(fit.flow.simulate(x, times))


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_turn_move_and_grow_with_the_data(name):
    change = lambda x: 4.0 * np.asarray(x) @ TURN + np.array([3.0, -5.0])
    there = carried(baseline(name, [change(cloud) for cloud in CLOUDS]), change(X), TIMES)
    np.testing.assert_allclose(there, change(carried(baseline(name), X, TIMES)), atol=1e-4)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_do_not_mind_the_order_of_rows(name):
    order = RNG.permutation(12)
    other = carried(baseline(name, [cloud[order] for cloud in CLOUDS]), X, TIMES)
    np.testing.assert_allclose(other, carried(baseline(name), X, TIMES), atol=1e-5)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_run_on_the_clock_they_are_given(name):
    late = lambda t: 8.0 * np.asarray(t) - 100.0
    other = carried(baseline(name, times=late(TIMES)), X, late(TIMES))
    np.testing.assert_allclose(other, carried(baseline(name), X, TIMES), atol=1e-4)


@pytest.mark.parametrize("name", [name for name in DISTANCES if name != "sliced_w2"])
def test_distances_do_not_mind_where_one_stands(name):
    a, b = CLOUDS[0], CLOUDS[2]
    turned = DISTANCES[name](a @ TURN + 7.0, b @ TURN + 7.0)
    assert turned == pytest.approx(DISTANCES[name](a, b), rel=1e-6)
    order = RNG.permutation(12)
    assert DISTANCES[name](a[order], b) == pytest.approx(DISTANCES[name](a, b), rel=1e-9)


def bowl(x):
    return 0.3 * (x**2).sum() + 0.1 * x[0] ** 3


@jax.jit
def objective(turn, order):
    """Residual and divergence of particles, energy and data that are all turned alike."""
    particles = jnp.asarray(np.stack(CLOUDS))[:, order] @ turn
    width = inverse_softplus(np.array(0.5))
    curve = sf.Curve(particles, jnp.zeros(12), width, (0.0, 0.4, 1.0))
    terms = sf.Potential(lambda x: bowl(turn @ x)) + sf.Entropy(0.2, learn=False)
    energy = sf.Energy.known(terms + sf.Interaction(lambda r: jnp.exp(-(r**2))), 2)
    weights = jnp.full(12, 1.0 / 12)
    return jnp.stack(
        [
            sf.VelocityResidual().at_centres(curve, energy),
            sf.KL()(curve.at(jnp.asarray(0.4)), X @ turn, weights, jax.random.key(0)),
        ]
    )


def test_the_objective_does_not_mind_being_turned_or_reordered(x64):
    in_order, close = np.arange(12), partial(np.testing.assert_allclose, rtol=1e-10)
    plain = objective(np.eye(2), in_order)
    close(objective(TURN, in_order), plain)
    close(objective(np.eye(2), RNG.permutation(12)), plain)
    assert np.abs(objective(2.0 * np.eye(2), in_order) - plain).min() > 0.01


def fitted(clouds, times, **settings) -> sf.Fit:
    energy = settings.pop("energy", sf.Potential(hidden=(8,)) + sf.Entropy())
    method = sf.Stitching(energy, 12, 6, optimiser=sf.Optimiser(steps=15), **settings)
    data = sf.Snapshots.from_arrays(clouds, times)
    return sf.fit(data, method, key=1, progress=False)


@pytest.mark.full
def test_a_fit_moves_grows_and_slows_with_the_data(x64):
    """x -> a x + b and t -> c t + d: velocities by a / c, V and beta by a^2 / c."""
    a, b, c, d = 40.0, np.array([300.0, -7.0]), 0.25, 1000.0
    plain = fitted(CLOUDS, TIMES)
    other = fitted([a * cloud + b for cloud in CLOUDS], c * TIMES + d)
    y, t = a * X + b, lambda s: c * np.asarray(s) + d
    close = lambda got, expected: np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8)
    close(other.energy.beta, plain.energy.beta * a**2 / c)
    close(other.energy.potential(y), plain.energy.potential(X) * a**2 / c)
    close(other.energy.force(y), plain.energy.force(X) * a / c)
    close(other.flow.velocity(y, t(0.7)), plain.flow.velocity(X, 0.7) * a / c)
    close(other.flow.log_density(y, t(0.7)), plain.flow.log_density(X, 0.7) - 2 * np.log(a))
    close(other.flow.sample([t(1.3)], 9), np.asarray(plain.flow.sample([1.3], 9)) * a + b)
    close(other.flow.simulate(y, t(TIMES)), np.asarray(plain.flow.simulate(X, TIMES)) * a + b)


@pytest.mark.full
def test_a_fit_does_not_mind_the_order_of_rows(x64):
    order = RNG.permutation(12)
    settings = {"energy": sf.Potential(hidden=(8,)), "learn_bandwidth": False}
    plain = fitted(CLOUDS, TIMES, **settings)
    other = fitted([cloud[order] for cloud in CLOUDS], TIMES, **settings)
    np.testing.assert_allclose(other.energy.force(X), plain.energy.force(X), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        other.flow.velocity(X, 0.7), plain.flow.velocity(X, 0.7), rtol=1e-6, atol=1e-9
    )
