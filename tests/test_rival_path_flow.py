"""The path-finding instance on flows known in closed form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow.rivals._flow_curve import FlowCurve
from stitchflow.rivals._path_flow import velocity_residual

pytestmark = pytest.mark.full


def test_a_gaussian_at_rest_has_no_residual_under_its_own_energy():
    # N(0, 1) rests where grad V = -beta score, that is V = beta |x|^2 / 2.
    cloud = np.random.default_rng(0).normal(size=(500, 2))
    cloud = (cloud - cloud.mean(0)) / cloud.std(0)
    curve = FlowCurve(cloud, 2, (4,), jax.random.key(0))
    zero = lambda a: 0.0 * a if eqx.is_inexact_array(a) else a
    curve = jax.tree.map(zero, curve)  # the identity at all times
    z, t = jax.random.normal(jax.random.key(1), (2000, 2)), jnp.linspace(0.0, 1.0, 2000)
    bowl = sf.Potential(lambda x: 0.35 * (x**2).sum())
    for beta, expected in ((0.7, 0.0), (1.2, 2 * 0.5**2)):
        energy = sf.Energy.known(bowl + sf.Entropy(beta, learn=False), 2)
        value = float(velocity_residual(curve, energy, z, t))
        assert value == pytest.approx(expected, abs=0.03)


@pytest.fixture(scope="module")
def ornstein_uhlenbeck():
    """V = |x - 2|^2 / 2 without noise, from N(0, 1): all at uneven times and counts."""
    rng, times = np.random.default_rng(0), np.array([0.0, 0.3, 1.0])
    clouds = [
        2.0 + np.exp(-t) * (rng.standard_normal((n, 1)) - 2.0)
        for t, n in zip(times, (600, 400, 500), strict=True)
    ]
    data = sf.Snapshots.from_arrays(clouds, times)
    method = sf.PathFlow(
        layers=2, hidden=(32, 32), curve_hidden=(16,), batch=256, steps=1200, weight=1.0
    )
    return data, sf.fit(data, method, progress=False)


def test_it_moves_as_the_quadratic_potential_says(ornstein_uhlenbeck):
    data, fit = ornstein_uhlenbeck
    flow = fit.flow
    for t in (0.15, 0.6, 1.0):
        mean, spread = 2.0 - 2.0 * np.exp(-t), np.exp(-t)
        cloud = np.asarray(flow.sample([t], 2000)[0])
        assert cloud.mean() == pytest.approx(mean, abs=0.15)
        assert cloud.std() == pytest.approx(spread, rel=0.2)
        x = mean + spread * np.linspace(-1.0, 1.0, 9)[:, None]
        np.testing.assert_allclose(flow.velocity(x, t), 2.0 - x, atol=0.5)
        np.testing.assert_allclose(
            flow.log_density(x, t),
            -0.5 * ((x[:, 0] - mean) / spread) ** 2 - np.log(spread * np.sqrt(2.0 * np.pi)),
            atol=0.3,
        )
    end = np.asarray(flow.simulate(data.cloud(0), [0.0, 1.0])[-1])
    assert end.mean() == pytest.approx(data.cloud(2).mean(), abs=0.15)
    assert end.std() == pytest.approx(data.cloud(2).std(), rel=0.25)


def test_it_comes_back_and_goes_beyond_its_times(ornstein_uhlenbeck, tmp_path):
    _, fit = ornstein_uhlenbeck
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    x = np.linspace(-1.0, 2.0, 5)[:, None]
    for name in ("log_density", "score", "velocity"):
        here, there = (np.asarray(getattr(f.flow, name)(x, 0.4)) for f in (fit, again))
        np.testing.assert_array_equal(here, there)
    with pytest.warns(sf.ExtrapolationWarning):
        cloud = np.asarray(fit.flow.sample([1.3], 500)[0])
    assert cloud.mean() == pytest.approx(2.0 - 2.0 * np.exp(-1.3), abs=0.15)
    assert cloud.std() == pytest.approx(np.exp(-1.3), rel=0.3)
    with pytest.warns(sf.ExtrapolationWarning):
        assert fit.flow.log_density(x, 1.3).shape == (5,)
