"""Do the 90 % intervals of the weak form hold the truth? Lines in results, a table in docs.

`make calibration` simulates fifty data sets of each of three known energies, asks every fit for V,
force, W and beta at individuals that it has not seen, and counts how often the truth lies inside.
It goes on where it stopped. `--seeds N` makes fewer data sets, `--draw` only the table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import stitchflow as sf
from marked_pages import ROOT, fill
from stitchflow import datasets
from stitchflow._energy.simulate import simulate
from stitchflow._files.lines import append_json, read_lines
from stitchflow._types import as_key

LINES, PAGE = ROOT / "results" / "calibration.jsonl", ROOT / "docs" / "identify.md"
SEEDS, NINETY, HELD_OUT = 50, 1.645, 300
PARTS = ("V", "force", "W", "beta")
Case = tuple[sf.Snapshots, sf.Energy, np.ndarray]  # data, truth, and individuals not seen


def _drawn(energy: sf.Energy, start: Callable, times: np.ndarray, n: int, seed: int) -> Case:
    """Other individuals at every time, and some more of all times."""
    rng, clouds, more = np.random.default_rng(seed), [], []
    for k in range(len(times)):
        x0 = jnp.asarray(start(rng, n + HELD_OUT // len(times)), float)
        way = np.asarray(simulate(energy, x0, times[: k + 1], as_key(1000 * seed + k)))
        clouds.append(way[-1][:n])
        more.append(way[-1][n:])
    return sf.Snapshots.from_arrays(clouds, times), energy, np.concatenate(more)


def ornstein_uhlenbeck(seed: int) -> Case:
    """V = |x|^2 in the plane, started three standard deviations off, over one relaxation time."""
    form = sf.Potential(lambda x: (x**2).sum()) + sf.Entropy(0.5, learn=False)
    start = lambda rng, n: rng.normal(size=(n, 2)) * 0.5 + np.array([1.5, 0.0])
    return _drawn(sf.Energy.known(form, 2), start, np.linspace(0.0, 0.5, 6), 500, seed)


def double_well(seed: int) -> Case:
    """The demo's double well."""
    data, energy = datasets.double_well(dim=2, n=500, key=seed)
    return data, energy, datasets.double_well(dim=2, n=HELD_OUT // 6, key=seed + 10_000)[0].x


def ring(seed: int) -> Case:
    """The energy of `cis`: 310 individuals, seen at 50 times without their names."""
    energy, rng = datasets.cis_energy(), np.random.default_rng(seed)
    x0 = jnp.asarray(rng.normal(size=(310, 2)) * 0.5, float)
    way = np.asarray(simulate(energy, x0, np.arange(50.0), as_key(seed)))
    clouds = [cloud[rng.permutation(310)] for cloud in way]
    other = np.asarray(
        simulate(energy, x0[::-1] * 1.01, np.arange(0.0, 50.0, 7.0), as_key(-seed - 1))
    )
    some = other.reshape(-1, 2)[rng.permutation(other.shape[0] * 310)[:HELD_OUT]]
    return sf.Snapshots.from_arrays(clouds, np.arange(50.0)), energy, some


CASES: dict[str, tuple[Callable[[int], Case], sf.Energy]] = {
    "Ornstein-Uhlenbeck": (ornstein_uhlenbeck, sf.Potential() + sf.Entropy()),
    "double well": (double_well, sf.Potential() + sf.Entropy()),
    "ring": (ring, sf.Potential() + sf.Interaction() + sf.Entropy()),
}


def _inside(found: Any, truth: np.ndarray) -> float:
    """The share of true values within the 90 % intervals."""
    mean, sd = np.asarray(found.mean), np.asarray(found.sd)
    return float((np.abs(mean - truth) <= NINETY * sd).mean())


def measured(name: str, seed: int) -> dict[str, Any]:
    """What one data set says: shares inside, beta, and seconds."""
    make, form = CASES[name]
    data, truth, x = make(seed)
    began = time.perf_counter()
    fit = sf.fit(data, sf.WeakForm(form), key=seed, progress=False)
    seconds, known = time.perf_counter() - began, fit.uncertainty
    middle = float(np.mean(truth.potential(data.x)))
    ratio = float(np.log(known.beta.mean / truth.beta))
    error = float(known.beta.sd / known.beta.mean)  # beta is known by its logarithm
    line = {
        "case": name,
        "seed": seed,
        "V": _inside(known.potential(x), np.asarray(truth.potential(x)) - middle),
        "force": _inside(known.force(x), np.asarray(truth.force(x))),
        "beta": float(abs(ratio) <= NINETY * error),
        "beta_ratio": float(np.exp(ratio)),
        "beta_error": error,
        "seconds": seconds,
        "status": fit.status.message.partition(";")[0],
    }
    if form.only(sf.Interaction):
        r = np.quantile(_distances(x), np.linspace(0.05, 0.95, 50))
        line["W"] = _inside(known.interaction(r), np.asarray(truth.interaction(r)))
    return line


def _distances(x: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(len(x), 1)
    return np.linalg.norm(x[i] - x[j], axis=1)


def table() -> str:
    """One row a case: mean coverage, and beta against the truth."""
    head = "| 90 % intervals | data sets | " + " | ".join(PARTS)
    rows = [head + " | beta / true | its error, stated | s |", "|" + "---|" * 9]
    for name in CASES:
        lines = [line for line in read_lines(LINES) if line["case"] == name]
        if not lines:
            continue
        shares = [[line[part] for line in lines if part in line] for part in PARTS]
        cells = [f"{100 * np.mean(found):.0f} %" if found else "" for found in shares]
        ratios = [line["beta_ratio"] for line in lines]
        stated = np.mean([line["beta_error"] for line in lines])
        cells += [f"{np.mean(ratios):.2f} ± {np.std(ratios):.2f}", f"{stated:.2f}"]
        cells.append(f"{np.median([line['seconds'] for line in lines]):.1f}")
        rows.append(f"| {name} | {len(lines)} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="data sets of each case")
    parser.add_argument("--draw", action="store_true", help="only the table")
    chosen = parser.parse_args()
    for seed in range(0 if chosen.draw else chosen.seeds):
        done = {(line["case"], line["seed"]) for line in read_lines(LINES)}
        for name in CASES:
            if (name, seed) not in done:
                append_json(LINES, [measured(name, seed)])
    fill(PAGE, "calibration: benchmarks/calibration.py", table())
