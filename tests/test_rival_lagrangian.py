"""Wasserstein Lagrangian flows against the transport of Gaussians."""

import jax
import numpy as np
import pytest

import stitchflow as sf

pytestmark = pytest.mark.full

SMALL = {"hidden": (32, 32), "curve_hidden": (16,), "batch": 256, "steps": 1000}


def gaussians(times=(0.0, 1.0), seed=0) -> sf.Snapshots:
    """Straight motion of N(0, 1) to N(3, 0.5^2) in the first coordinate, at rest in the second."""
    rng = np.random.default_rng(seed)
    clouds = []
    for t, n in zip(times, (500, 400, 450), strict=False):
        z = rng.standard_normal((n, 2))
        clouds.append(np.stack([3.0 * t + (1.0 - 0.5 * t) * z[:, 0], z[:, 1]], axis=1))
    return sf.Snapshots.from_arrays(clouds, times)


def test_action_and_dual_meet_at_half_the_squared_distance():
    # 1/2 W2^2 of the Gaussians, in internal units of action (length^2 over duration).
    data = gaussians()
    fit = sf.fit(data, sf.LagrangianOT(**SMALL), progress=False)
    expected = 0.5 * (3.0**2 + 0.5**2) / data.units.length**2
    assert fit.history[0]["action"][-1] == pytest.approx(expected, rel=0.1)
    assert fit.history[0]["dual"][-1] == pytest.approx(expected, rel=0.1)
    moved = np.asarray(fit.flow.simulate(data.cloud(0), [0.0, 1.0])[-1])
    assert moved[:, 0].mean() == pytest.approx(3.0, abs=0.15)
    assert moved.std(axis=0) == pytest.approx([0.5, 1.0], abs=0.12)
    x = np.array([[1.5, 0.0], [1.5, 1.0], [2.0, 0.0]])  # half-way the velocity is 3 - 2/3 (x - 1.5)
    truth = np.stack([3.0 - (x[:, 0] - 1.5) / 1.5, np.zeros(3)], axis=1)
    np.testing.assert_allclose(fit.flow.velocity(x, 0.5), truth, atol=0.4)


def test_the_bridge_has_its_noise_and_arrives():
    data = gaussians((0.0, 0.3, 1.0))
    fit = sf.fit(data, sf.LagrangianBridge(sigma=0.4, **SMALL), progress=False)
    assert fit.energy is not None
    assert fit.energy.beta == pytest.approx(0.5 * 0.4**2 * data.units.energy, rel=1e-5)
    moved = np.asarray(fit.flow.simulate(data.cloud(0), [0.0, 1.0], key=1)[-1])
    assert moved[:, 0].mean() == pytest.approx(3.0, abs=0.2)
    assert moved.std(axis=0) == pytest.approx([0.5, 1.0], abs=0.15)
    other = np.asarray(fit.flow.simulate(data.cloud(0), [0.0, 1.0], key=jax.random.key(2))[-1])
    assert np.abs(moved - other).mean() > 0.1, "the same start ends elsewhere with other noise"
