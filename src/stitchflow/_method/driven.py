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
from stitchflow._energy.simulate import pairs_apart
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
            since = float(self.data.times[k])
            chosen = draw(self.data.cloud_weights(k), n, rng)
            if t == since:
                clouds.append(jnp.asarray(self.data.cloud(k)[chosen], float))
                continue
            rows, place, told = self._with_others(k, chosen)
            # A time before the first snapshot is reached backwards.
            way = self.simulate(
                self.data.cloud(k)[rows],
                [since, t],
                as_key(int(rng.integers(2**31)) + i),
                ode=t < since,
                **told,
            )
            clouds.append(way[-1][place])
        return jnp.stack(clouds)

    def _with_others(
        self, k: int, chosen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | slice, dict[str, np.ndarray]]:
        """What is simulated to carry some individuals of the k-th time.

        Where individuals interact within groups, each is carried with its whole population. A
        population of which one individual is chosen twice is carried twice.

        Arguments:
            k: the number of the time.
            chosen: rows of its cloud.

        Returns:
            The rows to simulate, the places of the chosen ones among them, and further arguments
            of `simulate`.
        """
        groups, interacting = self.data.within, pairs_apart(self.energy)[0].terms
        if groups is None or not interacting:
            return chosen, slice(None), {}
        label = np.unique(groups[self.data.slice(k)], return_inverse=True)[1]
        members = np.split(np.argsort(label, kind="stable"), np.cumsum(np.bincount(label))[:-1])
        rank = np.empty(len(label), int)
        for rows in members:
            rank[rows] = np.arange(len(rows))
        order = np.argsort(chosen, kind="stable")
        _, first, times = np.unique(chosen[order], return_index=True, return_counts=True)
        again = np.empty(len(chosen), int)
        again[order] = np.arange(len(chosen)) - np.repeat(first, times)
        copies, own = np.unique(
            np.stack([label[chosen], again], axis=1), axis=0, return_inverse=True
        )
        clouds = [members[population] for population, _ in copies]
        sizes = np.array([len(rows) for rows in clouds])
        place = (np.cumsum(sizes) - sizes)[own.reshape(-1)] + rank[chosen]
        rows = np.concatenate(clouds)
        told = {"groups": np.repeat(np.arange(len(clouds)), sizes)}
        if (weights := self.data.uneven_weights(k)) is not None:
            told["weights"] = weights[rows]
        return rows, place, told

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        """The velocity that moves the marginal at time t: the drift minus beta times the score."""
        points, time = self.units.points_in(x), self.units.moment_in(t)
        # A drift of place and time alone does not depend on the population.
        alone = not any(term.sees_others for term in self.energy.terms)
        cloud = points if alone else self.units.space_in(np.asarray(self.sample([t], 1000)[0]))
        return velocity(self.energy, points, time, KDE.uniform(cloud)) * self.units.speed

    def simulate(
        self,
        x0: Any,
        times: Any,
        key: KeyLike = 0,
        *,
        weights: Any = None,
        groups: Any = None,
        ode: bool = False,
    ) -> Float[Array, "t n d"]:
        return simulate_in_units(self.energy, self.units, x0, times, key, ode, weights, groups)


def _answering(energy: Energy) -> Energy | None:
    """The energy if it contains a potential; a velocity field alone is not an energy."""
    return energy if energy.only(Potential) else None
