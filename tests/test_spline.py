"""Splines: exact on cubic paths, fitted to an Ornstein-Uhlenbeck flow, stored and loaded."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._measure.curve import inverse_softplus
from stitchflow._objective.intervals import Intervals

pytestmark = pytest.mark.full

CUBICS = np.random.default_rng(0).normal(size=(4, 3, 2))  # coefficient, particle, dimension
KNOTS = (0.0, 0.3, 0.5, 0.9, 1.0)
NODES = (0.0, 0.1, 0.3, 0.4, 0.5, 0.7, 0.9, 1.0)


def place(t):
    return np.einsum("ct,cnd->tnd", np.power(np.atleast_1d(t)[None], np.arange(4)[:, None]), CUBICS)


def speed(t):
    slopes = np.arange(1, 4)[:, None, None] * CUBICS[1:]
    return np.einsum("ct,cnd->tnd", np.power(np.atleast_1d(t)[None], np.arange(3)[:, None]), slopes)


def cubic_curve() -> sf.SplineCurve:
    knots = jnp.asarray(place(np.array(KNOTS)))
    return sf.SplineCurve(knots, jnp.zeros(3), inverse_softplus(np.array(0.5)), NODES, knots=KNOTS)


def test_cubic_paths_are_followed_exactly(x64):
    curve = cubic_curve()
    for t in (0.0, 0.04, 0.3, 0.61, 1.0):
        at = jnp.asarray(t)
        np.testing.assert_allclose(curve.centres(at), place(t)[0], atol=1e-12)
        np.testing.assert_allclose(curve.velocity(at), speed(t)[0], atol=1e-12)
    intervals = Intervals.of(curve).some(4, jax.random.key(0))
    for share in (0.0, 0.5, 1.0):
        times, centres, _ = intervals.at(share)
        np.testing.assert_allclose(centres, place(np.asarray(times)), atol=1e-12)
        np.testing.assert_allclose(
            intervals.velocities(share), speed(np.asarray(times)), atol=1e-12
        )


def test_a_potential_that_moves_particles_along_a_spline_has_no_residual(x64):
    """x(t) = x0 + t^2 / 2 is driven by -grad V with V = -x t, at any number of nodes."""
    times, start = np.array(KNOTS), np.array([[0.0], [1.0]])
    knots = jnp.asarray(start[None] + 0.5 * times[:, None, None] ** 2)
    width = inverse_softplus(np.array(0.5))
    curve = sf.SplineCurve(knots, jnp.zeros(2), width, KNOTS, knots=KNOTS)
    energy = sf.Energy.known(sf.Potential(lambda x, t: -(x * t).sum()), 1)
    for scheme in (sf.Midpoint(), sf.Forward()):
        for alpha in (0.0, 1.0):
            residual = sf.VelocityResidual(scheme, alpha=alpha)
            at = jax.jit(lambda key, r=residual: r(curve, energy, key))
            assert float(at(jax.random.key(0))) < 1e-20


def test_knots_are_nodes():
    with pytest.raises(ValueError, match="every knot must be a node"):
        sf.SplineCurve(jnp.zeros((2, 1, 1)), jnp.zeros(1), jnp.ones(()), (0.0, 1.0), knots=(0, 2))
    with pytest.raises(ValueError, match="knots must be at least 2, got 1"):
        sf.Spline(knots=1)
    knots, nodes = sf.Spline(knots=7).times(np.array([0.0, 0.2, 1.0]), 20)
    assert set(knots) <= set(nodes)


@pytest.mark.full
def test_an_ou_flow_is_fitted_and_stored(tmp_path):
    rng, rate, beta = np.random.default_rng(0), 1.5, 0.3
    times = np.linspace(0.0, 1.0, 5)
    noise = rng.normal(size=(5, 200, 2)) * np.sqrt(beta / rate)
    mean = np.exp(-rate * times)[:, None, None] * np.array([3.0, -1.0])
    data = sf.Snapshots.from_arrays(list(mean + noise), times).drop_times([0.5])
    energy = sf.Potential(lambda x: 0.5 * rate * (x**2).sum()) + sf.Entropy(beta, learn=False)
    method = sf.Stitching(
        energy,
        particles=60,
        curve=sf.Spline(),
        optimiser=sf.Optimiser(steps=300),
        residual=sf.VelocityResidual(ridge=0.0),
    )
    fit = sf.fit(data, method, progress=False)
    assert fit.method.curve.knots == 8
    assert isinstance(fit.flow.curve, sf.SplineCurve)
    for t in (0.5, 0.9):
        middle = np.exp(-rate * t) * np.array([3.0, -1.0])
        found = fit.flow.sample([t], 4000, key=0)[0]
        np.testing.assert_allclose(found.mean(0), middle, atol=0.12)
        speeds = fit.flow.velocity(middle[None], t)[0]
        np.testing.assert_allclose(speeds, -rate * middle, atol=0.35)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run", energy=fit.method.energy)
    assert again.method.curve == fit.method.curve
    np.testing.assert_array_equal(fit.flow.sample([0.33], 9), again.flow.sample([0.33], 9))
    np.testing.assert_array_equal(
        fit.flow.velocity(mean[0], 0.2), again.flow.velocity(mean[0], 0.2)
    )


def test_a_setting_that_came_later_is_left_out_while_unused():
    from stitchflow._parts import described, made

    plain = described(sf.Stitching(), leave_out=("energy",))
    assert "curve" not in plain
    assert made(plain, {}, sf.Stitching).curve is None
    smooth = described(sf.Stitching(curve=sf.Spline(5)), leave_out=("energy",))
    assert made(smooth, {}, sf.Stitching).curve == sf.Spline(5)
