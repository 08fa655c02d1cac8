"""What a step costs against cells, particles, nodes and dimensions, with fitted exponents.

`make bench` times steps on simulated clouds and adds lines to `results/costs.jsonl`. "all pairs"
looks at every particle of every station; the default draws a hundred of them, an unbiased estimate
whose error is stated beside it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

import stitchflow as sf
from speed import median_seconds
from stitchflow._data.observations import Observations
from stitchflow._files.lines import append_json, read_lines
from stitchflow._stitching.stages import boxed_objective
from stitchflow._stitching.start import start_model
from stitchflow._training.sharding import Devices

ROOT = Path(__file__).parents[1]
LINES, FIGURE = ROOT / "results" / "costs.jsonl", ROOT / "docs" / "figures" / "costs.png"
BASE = {"cells": 10_000, "particles": 500, "nodes": 50, "dim": 5, "all_pairs": False}
BASE |= {"devices": 1}
SWEEPS = {
    "cells": [{"cells": n} for n in (1_000, 10_000, 100_000, 1_000_000)],
    "particles": [{"particles": n} for n in (100, 500, 2_000, 8_000, 20_000)],
    "particles, all pairs": [{"particles": n, "all_pairs": True} for n in (100, 500, 2_000, 5_000)],
    "nodes": [{"nodes": k} for k in (10, 50, 200, 800)],
    "dim": [{"dim": d} for d in (2, 5, 20, 50, 200)],
    "devices": [{"devices": k, "particles": 2_000, "all_pairs": True} for k in (1, 2)],
}


def measure(
    cells: int, particles: int, nodes: int, dim: int, all_pairs: bool, devices: int
) -> dict:
    """Seconds and memory of one step with entropy and a radial interaction."""
    rng, times = np.random.default_rng(0), np.arange(5.0)
    clouds = [rng.standard_normal((cells // 5, dim), np.float32) + k for k in range(5)]
    data = sf.Snapshots.from_arrays(clouds, times)
    energy = sf.Potential(hidden=(128, 128)) + sf.Entropy() + sf.Interaction()
    method = sf.Stitching(energy, particles=particles, nodes=nodes).resolved(data)
    key = jax.random.key(0)
    if all_pairs:
        method = replace(method, residual=replace(method.residual, draws=particles))
    plan = method.plan(data)
    model, seen = start_model(plan, data, key, key), Observations.of(data)
    if devices > 1:
        parts, (curve, _) = Devices(jax.devices()), model
        model = parts.spread(model, [(curve.particles, 1), (curve.log_weights, 0)])
        seen = parts.spread(seen, [(seen.points, 1), (seen.weights, 1)])
    params, static = eqx.partition(model, eqx.is_inexact_array)
    loss = lambda p, o, k: boxed_objective(plan, *eqx.combine(p, static), o, k)[0]
    step = jax.jit(jax.value_and_grad(loss))
    seconds = median_seconds(step, params, seen, key)
    residual = jax.jit(lambda p, k: method.residual(*eqx.combine(p, static), k))
    looks = [
        float(residual(params, jax.random.key(i))) for i in range(20 if particles < 2000 else 3)
    ]
    return {
        "seconds": seconds,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "residual_error": float(np.std(looks) / np.mean(looks)),
    }


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """The slope of log time in log size over the larger half, where overheads are small."""
    half = len(sizes) // 2 if len(sizes) > 3 else 0
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def table(rows: list[dict]) -> str:
    lines = [
        "| what grows | from | to | ms a step | exponent | peak GiB |",
        "|---|---|---|---|---|---|",
    ]
    for sweep in SWEEPS:
        own = [row for row in rows if row["sweep"] == sweep]
        if len(own) < 2:
            continue
        name = sweep.split(",")[0]
        sizes, seconds = [row[name] for row in own], [row["seconds"] for row in own]
        span = f"{1e3 * seconds[0]:.1f} .. {1e3 * seconds[-1]:.1f}"
        memory = max(row["peak_gib"] for row in own)
        slope = exponent(sizes, seconds)
        lines.append(
            f"| {sweep} | {sizes[0]:,} | {sizes[-1]:,} | {span} | {slope:.2f} | {memory:.2f} |"
        )
    return "\n".join(lines)


def draw(rows: list[dict]) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(10, 2.6), sharey=True, layout="constrained")
    panels = ["cells", "particles", "nodes", "dim"]
    for sweep in SWEEPS:
        name = sweep.split(",")[0]
        if name not in panels:
            continue
        own = [row for row in rows if row["sweep"] == sweep]
        axis = axes[panels.index(name)]
        label = "all pairs" if "," in sweep else "100 draws"
        axis.loglog([r[name] for r in own], [1e3 * r["seconds"] for r in own], "o-", label=label)
        axis.set_xlabel({"dim": "dimensions"}.get(name, name))
    axes[0].set_ylabel("ms a step")
    axes[1].legend(frameon=False, fontsize="small")
    figure.savefig(FIGURE, dpi=150)


def main() -> None:
    if len(sys.argv) == 2:
        print(json.dumps(measure(**json.loads(sys.argv[1]))))
        return
    for sweep, points in SWEEPS.items():
        for point in points:
            place = {"sweep": sweep, **BASE, **point, "version": sf.__version__}
            if any(place.items() <= row.items() for row in read_lines(LINES)):
                continue
            sizes = {**BASE, **point}
            call = [sys.executable, __file__, json.dumps(sizes)]
            # A process each: peak memory is its own, and so are the devices it pretends to have.
            flags = f"--xla_force_host_platform_device_count={sizes['devices']}"
            own = {**os.environ, "XLA_FLAGS": flags}
            out = subprocess.run(call, check=True, capture_output=True, text=True, env=own).stdout
            append_json(LINES, [{**place, **json.loads(out.splitlines()[-1])}])
    print(table(read_lines(LINES)))


if __name__ == "__main__":
    main()
