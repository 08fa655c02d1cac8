"""Compilation, step time and memory of fits, beside the bare cost of what cannot be avoided.

`make bench` times every case in one run, so that ratios mean something on a noisy machine, adds
lines to `results/speed.jsonl` and prints the table of `docs/performance.md`. The bare cost: an
exponential for every pair a step looks at, the matrix products of those pairs forward and backward,
and value and gradient of the network's gradient at every point it is asked at, each compiled alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import stitchflow as sf
from stitchflow._data.observations import Observations
from stitchflow._files.lines import append_json, read_lines
from stitchflow._stitching.plan import Plan
from stitchflow._stitching.stages import boxed_objective
from stitchflow._stitching.start import start_model
from stitchflow._training.optimise import minimise
from stitchflow.bench._tasks import TASKS

LINES = Path(__file__).parents[1] / "results" / "speed.jsonl"
# Name: task, and what is set by hand so that sizes are those of the authors' experiments.
CASES = {
    "EB, 100 particles": ("eb-full-varying", {"particles": 100, "nodes": 50}),
    "EB, 1,000 particles": ("eb-full-varying", {"particles": 1000, "nodes": 50}),
    "EB, defaults": ("eb-full-varying", {}),
    "synthetic, 1,000 particles": ("synthetic-flowers-paired", {"particles": 1000, "nodes": 50}),
    "CIS, 100 particles": ("cis", {"particles": 100, "nodes": 50}),
    "chiral": ("chiral", {}),
    "wavy valley": ("wavy-valley", {}),
}
STEPS = 60


def problem(task: str, settings: dict) -> tuple[sf.Snapshots, sf.Stitching]:
    """Data and resolved settings of a case."""
    data = TASKS[task].problem(0, False).train
    base = sf.Stitching.varying() if task.endswith("varying") else sf.Stitching()
    method = replace(TASKS[task].suit(base, data, False), **settings)
    return data, method.resolved(data)


def median_seconds(function, *args, seconds: float = 2.0) -> float:
    """The median time of a call, after one that compiles."""
    jax.block_until_ready(function(*args))
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def bare(method: sf.Stitching, energy: sf.Energy, dim: int) -> dict[str, float]:
    """Seconds of what a step cannot do without, part by part."""
    n, residual, parts = method.particles, method.residual, {}
    points = residual.stations * min(residual.draws or n, n)
    pair_terms = energy.only(sf.Interaction) + energy.only(sf.VectorKernel)
    rows = method.batch + points * (energy.needs_density + len(pair_terms))
    parts["exponential"] = median_seconds(jax.jit(jnp.exp), jnp.ones((rows, n)))

    def products(x, kernels, centres, wanted):  # distances, then what is averaged over neighbours
        return (x @ centres.T).sum() + (kernels @ wanted).sum()

    arrays = [jnp.ones(s) for s in ((rows, dim), (rows, n), (n, dim), (n, 3 * dim))]
    parts["products"] = median_seconds(jax.jit(jax.grad(products, (0, 1, 2, 3))), *arrays)
    for term in energy.only(sf.Potential):
        times = jnp.zeros(points)
        slope = lambda v, x, times=times: (
            jax.grad(lambda y: v.potential(y, times).sum())(x) ** 2
        ).sum()
        network = jax.jit(jax.value_and_grad(slope, (0, 1)))
        parts["network"] = median_seconds(network, term, jnp.zeros((points, dim)))
    return parts


def on_pair(plan: Plan, model, seen, key):
    """The boxed objective of a (curve, energy)."""
    return boxed_objective(plan, *model, seen, key)


def compile_seconds(plan: Plan, model, seen, key) -> float:
    """Tracing and compiling the loop of a fit, once."""
    loss = jax.tree_util.Partial(on_pair, plan)
    run = lambda steps: minimise(loss, model, seen, key, sf.Optimiser(steps=steps), steps, False)
    first = run(100).seconds
    return first - run(100).seconds


def one(name: str) -> dict:
    task, settings = CASES[name]
    data, method = problem(task, settings)
    key = jax.random.key(0)
    plan = method.plan(data)
    model, seen = start_model(plan, data, key, key), Observations.of(data)
    params, static = eqx.partition(model, eqx.is_inexact_array)
    loss = lambda p, k: on_pair(plan, eqx.combine(p, static), seen, k)[0]
    step = median_seconds(jax.jit(jax.value_and_grad(loss)), params, key)
    parts = bare(method, model[1], data.dim)
    again = median_seconds(jax.jit(jax.value_and_grad(loss)), params, key)
    compiled = compile_seconds(plan, model, seen, key)
    cost = sum(parts.values())
    return {
        "case": name,
        "particles": method.particles,
        "cells": len(data.x),
        "dim": data.dim,
        "compile": compiled,
        "step": min(step, again),
        **parts,
        "ratio": min(step, again) / cost,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "version": sf.__version__,
    }


def table(rows: list[dict]) -> str:
    """The latest line of every case."""
    head = "| case | compile, s | step, ms | bare cost, ms | ratio | peak, MiB |"
    lines = [head, "|---|---|---|---|---|---|"]
    for row in {row["case"]: row for row in rows}.values():
        bare_ms = 1e3 * row["step"] / row["ratio"]
        lines.append(
            f"| {row['case']} | {row['compile']:.1f} | {1e3 * row['step']:.1f} | {bare_ms:.1f} | "
            f"{row['ratio']:.2f} | {row['peak_mib']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES)
    chosen = parser.parse_args()
    if chosen.case:
        print(json.dumps(one(chosen.case)))
        return
    rows = []
    for name in CASES:  # a process each: peak memory is a process's own
        call = [sys.executable, __file__, "--case", name]
        out = subprocess.run(call, check=True, capture_output=True, text=True).stdout
        rows.append(json.loads(out.splitlines()[-1]))
        print({k: round(v, 5) if isinstance(v, float) else v for k, v in rows[-1].items()})
        append_json(LINES, rows[-1:])
    print(table(read_lines(LINES)))


if __name__ == "__main__":
    main()
