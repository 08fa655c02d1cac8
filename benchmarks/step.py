"""Step time of a fit on the embryoid-body data, beside the bare cost of what cannot be avoided.

Everything is timed in one run, so that ratios mean something on a noisy machine.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import stitchflow as sf
from stitchflow._observations import Observations

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("STITCHFLOW_DATA", ROOT.parent / "shared" / "data")) / "eb5.npz"


def seconds(function, *args, repeats: int = 30) -> tuple[float, float]:
    """Compilation, and the median time of a call."""
    start = time.perf_counter()
    jax.block_until_ready(function(*args))
    compiled = time.perf_counter() - start
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - start)
    return compiled, float(np.median(times))


def main() -> None:
    file = np.load(DATA)
    rows = file["train_idx"]
    data = sf.Snapshots.from_table(file["x"][rows], file["t"][rows])
    method = sf.Stitching.varying().resolved(data)
    key = jax.random.key(0)
    energy = method.energy.init(np.asarray(data.units.space_in(data.x)), data.units, key)
    model, seen = (method.start(data, key), energy), Observations.of(data)
    params, static = eqx.partition(model, eqx.is_inexact_array)
    n, stations, d = method.particles, method.residual.stations, data.dim
    pairs = stations * n * n + method.batch * n
    points = jnp.zeros((stations * n, d))
    times = jnp.zeros(stations * n)
    a, b = jnp.ones((pairs // n, d)), jnp.ones((d, n))
    potential = energy.terms[0]

    def slope(v, x):
        return (jax.grad(lambda y: v.potential(y, times).sum())(x) ** 2).sum()

    programs = {
        "step": (
            jax.jit(jax.grad(lambda p, k: method.loss(eqx.combine(p, static), seen, k)[0])),
            (params, key),
        ),
        "exponential": (jax.jit(jnp.exp), (jnp.ones((pairs // n, n)),)),
        "products": (jax.jit(jax.grad(lambda u, v: (u @ v).sum(), (0, 1))), (a, b)),
        "network": (jax.jit(jax.grad(slope, (0, 1))), (potential, points)),
    }
    found = {name: seconds(*program[:1], *program[1]) for name, program in programs.items()}
    bare = sum(found[name][1] for name in ("exponential", "products", "network"))
    row = {name: {"compile": c, "seconds": s} for name, (c, s) in found.items()}
    row["ratio"] = found["step"][1] / bare
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
