"""Action matching against the action of Gaussians that move on straight lines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri

import stitchflow as sf
from stitchflow.rivals._action import between, ends
from stitchflow.rivals._pairs import Pairs

pytestmark = pytest.mark.full

SHIFT, GROWTH = np.array([1.5, -0.5]), 0.8  # x1 = SHIFT + (1 + GROWTH) x0
TIMES = np.array([0.0, 0.2, 1.0])


def curve() -> Pairs:
    """Optimal lines of N(0, 1) to N(SHIFT, (1 + GROWTH)^2), seen at three uneven times."""
    x = jax.random.normal(jax.random.key(0), (5_000, 2))
    x = (x - x.mean(0, keepdims=True)) / x.std(0, keepdims=True)
    clouds = jnp.stack([t * SHIFT[None] + (1.0 + GROWTH * t) * x for t in TIMES])
    return Pairs(clouds[:-1], clouds[1:], jnp.asarray(TIMES))


def best(x, t):
    """The potential of the lines, up to a function of time: grad = -velocity."""
    centred = x - t[:, None] * SHIFT[None]
    scale = GROWTH / (1.0 + GROWTH * t)
    return -x @ jnp.asarray(SHIFT) - 0.5 * scale * (centred**2).sum(-1) + jnp.sin(3.0 * t)


def objective(potential, beta=0.0):
    lines = curve().lines(20_000, jax.random.key(1))
    inside = between(potential, lines.position, lines.time, beta, jax.random.key(2))
    return float(ends(potential, lines) + inside)


def test_the_least_value_is_minus_the_action():
    # Every individual keeps its speed, so the action is 1/2 (|SHIFT|^2 + d GROWTH^2).
    action = 0.5 * ((SHIFT**2).sum() + 2 * GROWTH**2)
    assert objective(best) == pytest.approx(-action, rel=0.02)
    # Elsewhere it is above by half the mean squared error of the gradient.
    tilted = objective(lambda x, t: best(x, t) + t * x[:, 0])
    assert tilted == pytest.approx(0.5 / 3.0 - action, rel=0.02)


def test_the_entropic_least_value_counts_the_score():
    # At the best potential the objective is -1/2 int E|v + beta score|^2; with s = 1 + GROWTH t,
    # v = SHIFT + GROWTH z and the score is -z / s.
    beta = 0.6
    s = np.linspace(1.0, 1.0 + GROWTH, 2001)
    squared = (SHIFT**2).sum() + 2 * np.mean((GROWTH - beta / s) ** 2)

    def with_noise(x, t):
        spread = (1.0 + GROWTH * t) ** 2
        centred = x - t[:, None] * SHIFT[None]
        return best(x, t) + 0.5 * beta * (centred**2).sum(-1) / spread

    assert objective(with_noise, beta) == pytest.approx(-0.5 * squared, rel=0.02)


def ornstein_uhlenbeck(beta: float) -> sf.Snapshots:
    """The flow of V = |x - 2|^2 / 2 at uneven times and counts, from N(0, 0.5^2).

    Quantiles, not draws: the mean of 500 draws alone is off by a tenth of the motion over a gap.
    """
    times = np.array([0.0, 0.2, 0.5, 1.0])
    decay = np.exp(-times)
    spread = np.sqrt(0.25 * decay**2 + beta * (1.0 - decay**2))
    clouds = [
        2.0 * (1.0 - a) + s * ndtri((np.arange(n)[:, None] + 0.5) / n)
        for a, s, n in zip(decay, spread, (600, 500, 550, 600), strict=True)
    ]
    return sf.Snapshots.from_arrays(clouds, times)


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_a_quadratic_potential_is_recovered(beta):
    data = ornstein_uhlenbeck(beta)
    fit = sf.fit(
        data, sf.ActionMatching(beta=beta, hidden=(32, 32), batch=256, steps=2000), progress=False
    )
    assert fit.energy is not None
    x = np.linspace(-0.3, 0.3, 7)[:, None]
    for t in (0.1, 0.35, 0.75):
        middle = x + 2.0 * (1.0 - np.exp(-t))
        np.testing.assert_allclose(fit.energy.force(middle, t), 2.0 - middle, atol=0.25)
    end = np.asarray(fit.flow.simulate(data.cloud(0), [0.0, 1.0], key=0)[-1])
    assert end.mean() == pytest.approx(data.cloud(3).mean(), abs=0.1)
    assert end.std() == pytest.approx(data.cloud(3).std(), rel=0.15)
    assert fit.energy.beta == pytest.approx(beta)
