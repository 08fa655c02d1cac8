"""iJKOnet: the energy under which no map beats the observed step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow.rivals._ijkonet import log_volumes

pytestmark = pytest.mark.full

TIMES = np.array([0.0, 0.2, 0.3, 0.7])  # uneven
QUICK = sf.Optimiser(steps=1000, learning_rate=1e-2)


@pytest.mark.parametrize("dim", [3, 12])
def test_volumes_of_a_linear_map(x64, dim):
    matrix = np.eye(dim) + 0.02 * np.random.default_rng(0).normal(size=(dim, dim))
    x = np.random.default_rng(1).normal(size=(400, dim))
    found = log_volumes(lambda p: jnp.asarray(matrix) @ p, jnp.asarray(x), jax.random.key(0))
    exact = np.linalg.slogdet(matrix)[1]
    np.testing.assert_allclose(np.mean(found), exact, atol=1e-8 if dim == 3 else 0.03)


def test_a_quadratic_potential_is_recovered(tmp_path):
    """The scheme's own steps for V = |x|^2, in any order; its force to 15 %."""
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(200, 2)) + 1.0]
    for tau in np.diff(TIMES):
        clouds.append(rng.permutation(clouds[-1] / (1.0 + 2.0 * tau)))
    data = sf.Snapshots.from_arrays(clouds, TIMES)
    method = sf.IJKOnet(energy=sf.Potential(hidden=(32,)), map_hidden=(32,), optimiser=QUICK)
    fit = sf.fit(data, method, key=0, progress=False)
    x = data.cloud(2)
    error = np.asarray(fit.energy.force(x)) + 2.0 * x
    assert np.sqrt((error**2).mean() / (4.0 * x**2).mean()) < 0.15
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    np.testing.assert_array_equal(again.energy.force(x), fit.energy.force(x))


def test_diffusion_is_recovered():
    """A Gaussian that spreads and drifts nowhere: the step's velocity at its end to 25 %."""
    beta, rng = 0.5, np.random.default_rng(0)
    shape = rng.normal(size=(800, 1))
    shape, stds = (shape - shape.mean()) / shape.std(), [0.5]
    for tau in np.diff(TIMES):  # std' - beta tau / std' = std
        stds.append(0.5 * (stds[-1] + np.sqrt(stds[-1] ** 2 + 4.0 * beta * tau)))
    data = sf.Snapshots.from_arrays([s * shape for s in stds], TIMES)
    energy = sf.Potential(hidden=(16,)) + sf.Entropy()
    fit = sf.fit(data, sf.IJKOnet(energy=energy, optimiser=QUICK), key=0, progress=False)
    x = np.linspace(-1.0, 1.0, 21)[:, None]
    velocity = np.asarray(fit.energy.velocity(x, None, data.cloud(1)))
    exact = beta * x / stds[1] ** 2
    assert np.abs(velocity - exact).mean() < 0.25 * np.abs(exact).mean()
