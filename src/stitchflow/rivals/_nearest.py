"""The nearest snapshot: a baseline without motion."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._measure.coupling import draw
from stitchflow._method.contract import Fit, Method, Packed
from stitchflow._method.flow import Flow
from stitchflow._status import Status
from stitchflow._types import (
    KeyLike,
    as_cloud,
    as_groups,
    as_rng,
    as_times,
    as_weights,
    check_count,
)


@dataclass(frozen=True)
class Nearest(Method):
    """The baseline without motion: the marginal at a time is the nearest training snapshot.

    Individuals stay where they are. There is no density and no energy.

    >>> x = np.linspace(0.0, 1.0, 20)[:, None]
    >>> data = sf.Snapshots.from_arrays([x, x + 1.0], [0.0, 1.0])
    >>> sf.fit(data, sf.Nearest(), progress=False).flow.velocity([[0.0]], 0.0).tolist()
    [[0.0]]
    """

    name = "nearest"

    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        start = time.perf_counter()
        flow, done = NearestFlow(data), Status(True, "nothing to train")
        return Fit(self, flow, None, done, [], 0, time.perf_counter() - start, data=data)

    def pack(self, fit: Fit) -> Packed:
        assert isinstance(fit.flow, NearestFlow)
        return Packed({}, fit.flow.data.arrays)

    @classmethod
    def unpack(cls, packed: Packed, energy: Energy | None = None) -> tuple[Method, Flow, None]:
        return cls(), NearestFlow(Snapshots.from_stored(packed.arrays)), None


class NearestFlow(Flow):
    """The snapshots without any motion.

    Arguments:
        data: the training individuals.
    """

    method = "nearest"

    def __init__(self, data: Snapshots):
        self.data, self.dim = data, data.dim

    def sample(self, times: Any, n: int, key: KeyLike = 0) -> Float[Array, "t n d"]:
        times, n, rng = as_times(times), check_count(n, "n"), as_rng(key)
        clouds = []
        for t in times:
            k = int(np.abs(self.data.times - t).argmin())
            clouds.append(self.data.cloud(k)[draw(self.data.cloud_weights(k), n, rng)])
        return jnp.asarray(np.stack(clouds))

    def velocity(self, x: Any, t: float) -> Float[Array, "m d"]:
        return jnp.zeros_like(jnp.asarray(as_cloud(x, "x", self.dim)))

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
        x = jnp.asarray(as_cloud(x0, "x0", self.dim))
        as_weights(weights, len(x))  # individuals do not interact here
        as_groups(groups, len(x))
        return jnp.broadcast_to(x[None], (len(as_times(times)), *x.shape))
