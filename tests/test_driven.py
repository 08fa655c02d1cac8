"""The parts that methods without a curve share."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._method.driven import Driven, DrivenFlow
from stitchflow._training.optimise import Optimum, minimise


@dataclass(frozen=True)
class MeanDrift(Driven):
    """The smallest method: a field that moves everybody by the mean displacement."""

    name = "mean-drift"
    hidden: tuple[int, ...] = (8,)

    def learn(self, data, key, progress, checkpoint) -> Optimum:
        units = data.units
        field = sf.VectorField(hidden=self.hidden)
        energy = sf.Energy((field,)).init(np.asarray(units.space_in(data.x)), units, key)
        means = units.space_in(np.stack([cloud.mean(axis=0) for cloud in data.clouds]))
        speed = (means[-1] - means[0])[None]

        def loss(energy, data, key):
            error = energy.terms[0].velocity(means, jnp.zeros(len(means))) - speed
            return (error**2).mean(), {}

        return minimise(loss, energy, speed, key, sf.Optimiser(), 300, progress)


@pytest.fixture(scope="module")
def fitted():
    cloud = np.random.default_rng(0).normal(size=(200, 2))
    clouds = [cloud + np.array([3.0 * t, 1.0]) for t in (0.0, 1.0, 2.0)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0])
    return data, MeanDrift().fit(data, 0, False)


@pytest.mark.full
def test_individuals_are_carried_from_the_last_snapshot(fitted):
    data, result = fitted
    for t in (0.5, 1.0, 2.0, 2.5):
        mean = np.asarray(result.flow.sample([t], 200)[0]).mean(axis=0)
        expected = data.cloud(0).mean(axis=0) + np.array([3.0 * t, 0.0])
        np.testing.assert_allclose(mean, expected, atol=0.3)
    speed = result.flow.velocity(data.cloud(1), 1.0)
    np.testing.assert_allclose(np.asarray(speed).mean(axis=0), [3.0, 0.0], atol=0.3)


def test_a_driven_fit_comes_back_from_its_arrays(fitted):
    data, result = fitted
    method, flow, energy = MeanDrift.unpack(result.method.pack(result))
    assert method == MeanDrift()
    assert energy is None, "a bare field is not an energy"
    assert isinstance(flow, DrivenFlow)
    ways = [
        f.simulate(data.cloud(0)[:9], [0.0, 2.0], jax.random.key(0)) for f in (result.flow, flow)
    ]
    np.testing.assert_array_equal(*map(np.asarray, ways))
