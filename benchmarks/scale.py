"""A million cells in fifty dimensions: memory, time and quality of a fit from file to scores.

A branching process with known truth: two coordinates walk down a potential that forks twice,
forty-eight forget where they started, all are turned together by a random rotation. `make scale`
writes the file to `build/`, fits it in a process of its own, and adds a line to
`results/scale.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
LINES = ROOT / "results" / "scale.jsonl"
DIM, TIMES, BETA = 50, np.linspace(0.0, 3.0, 10), 0.05


def drift(x: np.ndarray) -> np.ndarray:
    """Minus the slope of V = (y^2 - x/2)^2 - x/2: along x the valley forks into two."""
    along, across = x[:, 0], x[:, 1]
    gap = across**2 - 0.5 * along
    return np.stack([gap + 0.5, -4.0 * gap * across], axis=1)


def cells(n: int, t: float, rng: np.random.Generator, step: float = 0.01) -> np.ndarray:
    """n independent cells at time t."""
    x = 0.15 * rng.normal(size=(n, 2)) - np.array([1.0, 0.0])
    for _ in range(round(t / step)):
        x += step * drift(x) + np.sqrt(2.0 * BETA * step) * rng.normal(size=x.shape)
    # The rest relaxes to its stationary width, each coordinate at its own rate.
    rates = np.linspace(0.2, 2.0, DIM - 2)
    widths = np.sqrt(
        BETA / rates * (1.0 - np.exp(-2.0 * rates * t)) + 0.01 * np.exp(-2 * rates * t)
    )
    rest = widths * rng.normal(size=(n, DIM - 2))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM)))[0]
    return (np.concatenate([x, rest], axis=1) @ turn).astype(np.float32)


def write(path: Path, total: int) -> None:
    rng, n = np.random.default_rng(1), total // len(TIMES)
    x = np.concatenate([cells(n, t, rng) for t in TIMES])
    np.savez(path, x=x, t=np.repeat(TIMES, n))


def fit(path: Path, method: str) -> dict:
    import stitchflow as sf
    from stitchflow._reading.tables import read_table

    start = time.perf_counter()
    data = read_table(path).snapshots
    read = time.perf_counter() - start
    chosen = sf.WeakForm() if method == "weak-form" else sf.Stitching()
    result = sf.fit(data, method=chosen, key=0)
    fitted = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rng = np.random.default_rng(2)
    clouds = [cells(4000, t, rng) for t in TIMES]
    test = sf.Snapshots.from_arrays([cloud[:2000] for cloud in clouds], TIMES)
    scores = sf.evaluate(result, test, metrics=("sliced_w2",))
    rows = {(r.protocol, r.time): (r.value, r.floor) for r in scores if r.time is None}
    return {
        "cells": len(data.x),
        "dim": data.dim,
        "method": method,
        "announced_mib": chosen.memory(data) / 2**20 if isinstance(chosen, sf.Stitching) else None,
        "peak_gib": peak,
        "seconds_read": read,
        "seconds": fitted,
        "status": result.status.message,
        **{protocol: value for (protocol, _), (value, _) in rows.items()},
        "floor": rows["one-step", None][1],
        "beta": float(result.energy.beta) if result.energy is not None else None,
        "version": sf.__version__,
    }


def table(rows: list[dict]) -> str:
    """The latest line of every method and size."""
    head = "method", "cells", "dimensions", "announced, MiB", "peak, GiB", "read and fit, s"
    head += "marginal", "one-step", "rollout", "floor"
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in {(row.get("method"), row["cells"]): row for row in rows}.values():
        announced = row.get("announced_mib")
        cells = [row.get("method", "stitching"), f"{row['cells']:,}", str(row["dim"])]
        cells += ["" if announced is None else f"{announced:.0f}"]
        cells += [f"{row['peak_gib']:.2f}", f"{row['seconds']:.0f}"]
        for name in ("marginal", "one-step", "rollout", "floor"):
            cells += [f"{row[name]:.4f}" if name in row else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1_000_000)
    parser.add_argument("--method", choices=("stitching", "weak-form"), default="stitching")
    parser.add_argument("--fit", type=Path)
    chosen = parser.parse_args()
    if chosen.fit:
        print(json.dumps(fit(chosen.fit, chosen.method)))
        return
    path = ROOT / "build" / f"branching-{chosen.cells}.npz"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        write(path, chosen.cells)
    call = [sys.executable, __file__, "--method", chosen.method, "--fit", str(path)]
    out = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout
    with open(LINES, "a") as file:
        file.write(out.splitlines()[-1] + "\n")
    print(out)


if __name__ == "__main__":
    main()
