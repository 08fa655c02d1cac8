"""An Ornstein-Uhlenbeck population is carried, and the divergence it is trained by is right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._measure.sinkhorn import sinkhorn_divergence

pytestmark = pytest.mark.full


@pytest.mark.parametrize("blur", [0.05, 0.5])
def test_the_divergence_of_a_shifted_cloud_is_half_its_squared_shift(blur, x64):
    """For any blur: entropy does not see shifts."""
    y, shift = jax.random.normal(jax.random.key(0), (60, 3)), jnp.array([[1.0, -2.0, 0.5]])
    w = jax.nn.softmax(jax.random.normal(jax.random.key(1), (60,)))
    value, slope = jax.value_and_grad(sinkhorn_divergence)(y + shift, w, y, w, blur)
    assert float(value) == pytest.approx(0.5 * float((shift**2).sum()), rel=0.05)
    # The plan itself needs more rounds where it is sharp; its mean pull is right at once.
    np.testing.assert_allclose(slope.sum(axis=0), shift[0], atol=0.05)
    same, flat = jax.value_and_grad(sinkhorn_divergence)(y, w, y, w, blur)
    assert float(same) == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(flat, 0.0, atol=1e-6)


def test_individuals_without_weight_do_not_count():
    x, far = jnp.zeros((3, 1)), jnp.array([[1.0], [1.1], [99.0]])
    third = jnp.full(3, 1.0 / 3.0)
    value = sinkhorn_divergence(x, third, far, jnp.array([0.5, 0.5, 0.0]), 0.1)
    assert float(value) == pytest.approx(0.5 * 1.05**2, rel=0.05)


def test_an_ornstein_uhlenbeck_population_is_carried():
    """V = x^2 / 2 with noise, from N(3, 0.5^2): mean 3 e^-t, variance towards beta."""
    beta, times, rng = 0.3, np.array([0.0, 0.4, 1.0, 1.5]), np.random.default_rng(0)
    mean = lambda t: 3.0 * np.exp(-t)
    deviation = lambda t: np.sqrt(0.25 * np.exp(-2 * t) + beta * (1.0 - np.exp(-2 * t)))
    clouds = [
        mean(t) + deviation(t) * rng.standard_normal((n, 1))
        for t, n in zip(times, (300, 400, 350, 300), strict=True)
    ]
    data = sf.Snapshots.from_arrays(clouds, times)
    method = sf.NeuralSDE(hidden=(32,), individuals=64, moves=4, optimiser=sf.Optimiser(200))
    fit = sf.fit(data, method, progress=False)
    way = np.asarray(fit.flow.simulate(clouds[0], times, key=1))[:, :, 0]
    for t, cloud in zip(times[1:], way[1:], strict=True):
        assert cloud.mean() == pytest.approx(mean(t), abs=0.15)
        assert cloud.std() == pytest.approx(deviation(t), rel=0.25)
    assert fit.energy is None


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="blur"):
        sf.NeuralSDE(blur=0.0)
    with pytest.raises(ValueError, match="individuals"):
        sf.NeuralSDE(individuals=1)
