"""One fit on several devices, of this process or of several (`jax.distributed`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from stitchflow._status import BadInputType

AXIS = "individuals"


class Devices:
    """Arrays divided along one axis over devices; the compiler inserts the communication.

    With several processes each has all of the data and the same key, and gets the same result.
    """

    def __init__(self, devices: Sequence[Any]):
        if not len(devices) or not all(isinstance(device, jax.Device) for device in devices):
            raise BadInputType(f"devices must be some of jax.devices(), got {devices!r}")
        self.mesh = Mesh(np.array(list(devices)), (AXIS,))

    def __len__(self) -> int:
        return self.mesh.size

    def multiple(self, n: int) -> int:
        """The least number that is not below n and can be divided evenly over the devices."""
        return -(-n // len(self)) * len(self)

    def cut(self, array: Array, axis: int | None) -> Array:
        """An array divided along `axis`, or a copy of it on every device."""
        spec = PartitionSpec() if axis is None else PartitionSpec(*(None,) * axis, AXIS)
        host = np.asarray(array)
        here = NamedSharding(self.mesh, spec)
        return jax.make_array_from_callback(host.shape, here, lambda part: host[part])

    def spread(self, tree: Any, axes: Sequence[tuple[Array, int]]) -> Any:
        """Every array of a tree on all devices; those listed with an axis are divided along it."""
        along = {id(array): axis for array, axis in axes}
        place = lambda a: self.cut(a, along.get(id(a))) if eqx.is_array(a) else a
        return jax.tree.map(place, tree)

    def whole(self, tree: Any) -> Any:
        """The undivided arrays of a tree, as if they had been computed on one device."""
        arrays, rest = eqx.partition(tree, eqx.is_array)
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        copies = jax.jit(lambda t: t, out_shardings=everywhere)(arrays)
        local = jax.tree.map(lambda a: jnp.asarray(np.asarray(a.addressable_data(0))), copies)
        return eqx.combine(local, rest)
