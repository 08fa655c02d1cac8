"""JKOnet*: what a JKO step of a known energy leaves is that energy."""

import numpy as np
import pytest

import stitchflow as sf

pytestmark = pytest.mark.full

TIMES = np.array([0.0, 0.2, 0.3, 0.7])  # uneven
QUICK = sf.Optimiser(steps=600, learning_rate=1e-2)


def implicit_steps(x: np.ndarray, stiffness: float) -> list[np.ndarray]:
    """The scheme's own steps for V = stiffness |x|^2 / 2."""
    clouds = [x]
    for tau in np.diff(TIMES):
        clouds.append(clouds[-1] / (1.0 + stiffness * tau))
    return clouds


@pytest.fixture(scope="module")
def quadratic() -> sf.Snapshots:
    rng = np.random.default_rng(0)
    return sf.Snapshots.from_arrays(implicit_steps(rng.normal(size=(300, 2)) + 1.0, 2.0), TIMES)


@pytest.mark.parametrize("varying", [False, True])
def test_a_quadratic_potential_is_recovered(quadratic, varying):
    energy = sf.Potential(hidden=(32, 32), time_varying=varying)
    fit = sf.fit(quadratic, sf.JKOnetStar(energy=energy, optimiser=QUICK), key=0, progress=False)
    x = quadratic.cloud(2)
    exact = -2.0 * x
    error = np.asarray(fit.energy.force(x, 0.25)) - exact
    assert np.sqrt((error**2).mean() / (exact**2).mean()) < 0.05
    end = np.asarray(fit.flow.simulate(quadratic.cloud(0), [0.0, 0.7])[-1])
    expected = quadratic.cloud(0) * np.exp(-2.0 * 0.7)
    assert np.abs(end - expected).mean() < 0.1


def test_noise_and_interaction_are_recovered():
    """Gaussian clouds: beta and a quadratic W against the spread and the centre's own potential."""
    stiffness, pull, beta = 1.0, 2.0, 0.4
    rng = np.random.default_rng(0)
    shape = rng.normal(size=(1500, 1))
    shape = (shape - shape.mean()) / shape.std()
    means, stds = [2.0], [1.5]
    times = np.array([0.0, 0.1, 0.3, 0.4, 0.7, 1.2])
    for tau in np.diff(times):
        means.append(means[-1] / (1.0 + stiffness * tau))
        # std' (1 + (stiffness + pull) tau) - beta tau / std' = std
        a, b = 1.0 + (stiffness + pull) * tau, stds[-1]
        stds.append((b + np.sqrt(b**2 + 4.0 * a * beta * tau)) / (2.0 * a))
    clouds = [m + s * shape for m, s in zip(means, stds, strict=True)]
    data = sf.Snapshots.from_arrays(clouds, times)
    energy = sf.Potential(hidden=(16,)) + sf.Entropy() + sf.Interaction(hidden=(16,))
    optimiser = sf.Optimiser(steps=1500, learning_rate=1e-2)
    fit = sf.fit(data, sf.JKOnetStar(energy=energy, optimiser=optimiser), key=0, progress=False)
    x = np.linspace(-0.5, 3.0, 50)[:, None]
    velocity = np.asarray(fit.energy.velocity(x, None, clouds[1]))
    exact = -stiffness * x - pull * (x - means[1]) + beta * (x - means[1]) / stds[1] ** 2
    assert np.abs(velocity - exact).mean() < 0.2 * np.abs(exact).mean()
    assert fit.energy.beta == pytest.approx(beta, rel=0.5)


def test_a_fit_comes_back(quadratic, tmp_path):
    energy = sf.Potential(hidden=(8,)) + sf.Entropy(0.1)
    method = sf.JKOnetStar(energy=energy, optimiser=sf.Optimiser(steps=5))
    fit = sf.fit(quadratic, method, key=0, progress=False)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert repr(again.method.energy) == repr(method.energy)
    x = quadratic.cloud(0)[:7]
    ways = [f.flow.simulate(x, [0.0, 0.7], 0) for f in (fit, again)]
    np.testing.assert_array_equal(*map(np.asarray, ways))


def test_an_energy_is_asked_for():
    with pytest.raises(TypeError, match="energy must be"):
        sf.JKOnetStar(energy="V")
