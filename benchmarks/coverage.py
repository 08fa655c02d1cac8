"""How often the ensemble's 90 % band covers the true mean of a simulated population.

Every repeat simulates fresh individuals, fits a bootstrap ensemble, and asks for the band of the
rollout's mean at every observed time; the truth is a simulation of 100,000 particles.
`results/coverage.jsonl` holds one line per task and repeat; `make coverage` adds what is missing
and writes the table of `docs/prediction.md`.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import stitchflow as sf
from marked_pages import ROOT, fill
from stitchflow._command.fit_file import keep_compilations
from stitchflow._energy.energy import Energy
from stitchflow._energy.simulate import simulate
from stitchflow._files.lines import append_json, read_lines
from stitchflow.datasets import wavy_valley_potential

LINES = ROOT / "results" / "coverage.jsonl"
TRUTH = 100_000


def _known(potential, beta: float) -> Energy:
    return Energy.known(sf.Potential(potential) + sf.Entropy(beta, learn=False), 2)


# Energy, mean and width of the start, times, individuals a snapshot.
TASKS = {
    "ornstein-uhlenbeck": (
        _known(lambda x: 0.5 * (x**2).sum(), 0.5),
        (3.0, 0.0),
        0.3,
        (0.0, 0.3, 0.6, 1.0, 1.6),
        200,
    ),
    "double-well": (
        _known(lambda x: (x[0] ** 2 - 1.0) ** 2 + 0.5 * x[1] ** 2, 0.2),
        (0.2, 1.0),
        0.3,
        (0.0, 0.2, 0.4, 0.8, 1.6),
        200,
    ),
    "wavy-valley": (
        _known(wavy_valley_potential(0.3), 0.00625),
        (-3.0, 1.0),
        0.1,
        (0.0, 5.0, 10.0, 20.0, 30.0),
        100,
    ),
}


def simulated(name: str, n: int, seed: int) -> np.ndarray:
    """(time, n, 2) positions of n independent particles."""
    energy, mean, width, times, _ = TASKS[name]
    rng = np.random.default_rng(seed)
    start = np.asarray(mean) + width * rng.normal(size=(n, 2))
    return np.asarray(
        simulate(energy, jnp.asarray(start, float), np.asarray(times), jax.random.key(seed))
    )


def one(name: str, repeat: int, members: int) -> dict:
    times, n = TASKS[name][3:]
    # Individuals of their own at every time, as destroyed cells would be.
    clouds = [simulated(name, n, 1000 * repeat + k)[k] for k in range(len(times))]
    data = sf.Snapshots.from_arrays(clouds, times)
    start = time.perf_counter()
    ensemble = sf.fit_ensemble(data, members=members, key=repeat, progress=False)
    band = ensemble.band(times, n=2000, key=repeat)
    truth = simulated(name, TRUTH, 10**6).mean(axis=1)
    inside = (band.low <= truth) & (truth <= band.high)
    width = float((band.high - band.low).mean())
    return {
        "task": name,
        "repeat": repeat,
        "members": members,
        "covered": float(inside[1:].mean()),
        "width": width,
        "error": float(np.abs(band.mean - truth)[1:].mean()),
        "seconds": time.perf_counter() - start,
        "version": sf.__version__,
    }


def table(rows: list[dict]) -> str:
    lines = ["| task | repeats | covered, % | mean width | mean error |", "|---|---|---|---|---|"]
    for name in TASKS:
        own = [row for row in rows if row["task"] == name]
        if own:
            mean = lambda key, own=own: float(np.mean([row[key] for row in own]))
            cells = f"{100 * mean('covered'):.0f} | {mean('width'):.3f} | {mean('error'):.3f}"
            lines.append(f"| {name} | {len(own)} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--members", type=int, default=8)
    chosen = parser.parse_args()
    keep_compilations()
    for repeat in range(chosen.repeats):
        for name in TASKS:
            rows = read_lines(LINES)
            if any((row["task"], row["repeat"]) == (name, repeat) for row in rows):
                continue
            row = one(name, repeat, chosen.members)
            append_json(LINES, [row])
            print(row, flush=True)
    page = ROOT / "docs" / "prediction.md"
    fill(page, "table: benchmarks/coverage.py", table(read_lines(LINES)))


if __name__ == "__main__":
    main()
