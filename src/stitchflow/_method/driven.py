"""Methods that learn what moves individuals and have no curve of their own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy, velocity
from stitchflow._energy.packing import named_arrays, packed_method, unpacked_method
from stitchflow._energy.terms import Potential, ready
from stitchflow._measure.coupling import draw
from stitchflow._measure.kde import KDE
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.flow import Flow, simulate_in_units
from stitchflow._training.optimise import Optimum
from stitchflow._types import KeyLike, as_key, as_rng, as_times, check_count


@dataclass(frozen=True)
class Driven(Method):
    """A method whose result is an energy or a velocity field that moves the training individuals.

    Subclasses are frozen dataclasses of plain settings and define how the energy is learned; this
    class makes a fit of it, and stores and loads it.
    """

    @abstractmethod
    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        """Train on `data`; the model of the optimum is an `Energy` with parameters in its units."""

    @property
    def answers(self) -> type[DrivenFlow]:
        """The class of the fit's flow; methods that also have a density override it."""
        return DrivenFlow

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        optimum = self.learn(data, as_key(key), progress, checkpoint)
        flow = self.answers(self.name, optimum.model, data)
        return Fit.of(optimum, self, flow, _answering(optimum.model), data, key)

    def pack(self, fit: Fit) -> Packed:
        flow = fit.flow
        assert isinstance(flow, DrivenFlow)
        arrays = {**flow.data.arrays, **named_arrays(flow.energy)}
        return Packed(packed_method(self, flow.energy), arrays)

    @classmethod
    def unpack(
        cls, packed: Packed, energy: Energy | None = None
    ) -> tuple[Method, Flow, Energy | None]:
        method, ready = unpacked_method(cls, packed, energy)
        data = Snapshots.from_stored(packed.arrays)
        return method, method.answers(method.name, ready, data), _answering(ready)


class DrivenFlow(Flow):
    """Individuals of the training data, moved by an energy or a field.

    The marginal at a time is where the individuals of the last snapshot before it have been
    carried. It is a prediction, also at the observed times after the first.

    Arguments:
        method: the name of the method, for messages.
        energy: an energy with parameters.
        data: the training individuals.
    """

    def __init__(self, method: str, energy: Energy, data: Snapshots):
        self.method, self.energy, self.data, self.units = method, energy, data, ready(energy.units)
        self.dim = data.dim

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        n, rng = check_count(n, "n"), as_rng(key)
        clouds = []
        for i, t in enumerate(as_times(times)):
            k = max(int(np.searchsorted(self.data.times, t)) - 1, 0)
            start = self.data.cloud(k)[draw(self.data.cloud_weights(k), n, rng)]
            since = float(self.data.times[k])
            if t == since:
                clouds.append(jnp.asarray(start, float))
                continue
            # A time before the first snapshot is reached backwards.
            way = self.simulate(
                start, [since, t], as_key(int(rng.integers(2**31)) + i), ode=t < since
            )
            clouds.append(way[-1])
        return jnp.stack(clouds)

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The velocity that moves the marginal at time t: the drift minus beta times the score."""
        points, time = self.units.points_in(x), self.units.moment_in(t)
        # A drift of place and time alone does not depend on the population.
        alone = not any(term.sees_others for term in self.energy.terms)
        cloud = points if alone else self.units.space_in(np.asarray(self.sample([t], 1000)[0]))
        return velocity(self.energy, points, time, KDE.uniform(cloud)) * self.units.speed

    def simulate(
        self, x0: Any, times: Any, key: KeyLike = 0, *, weights: Any = None, ode: bool = False
    ) -> Float[Array, "t n d"]:
        return simulate_in_units(self.energy, self.units, x0, times, key, ode, weights)


def _answering(energy: Energy) -> Energy | None:
    """The energy if it contains a potential; a velocity field alone is not an energy."""
    return energy if energy.only(Potential) else None
