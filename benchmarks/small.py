"""Few individuals, many dimensions, uneven counts: is the default better than standing still?

Each set is a small part of recorded or simulated data. The default method, `nearest` (standing
still) and `ot-linear` are fitted to it and scored on individuals outside it, at most 500 a time:
one-step and rollout, by W1, or by the energy distance from 20 dimensions on. `make small` adds what
is missing to `results/small.jsonl`, one line a set, and writes the table of `docs/reliability.md`.
The sets in `ASIDE` were not looked at before the defaults were settled.
"""

import argparse
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from tqdm import tqdm

import stitchflow as sf
from marked_pages import ROOT, fill
from paper.tables import markdown
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import append_json, read_lines
from stitchflow.tl._fit import PerCell

LINES = ROOT / "results" / "small.jsonl"
SCORED, MANY, NEIGHBOURS, BOUND = 500, 20, 10, 1.02
Clouds = tuple[list[np.ndarray], np.ndarray]  # everybody there is at each time, and the times


def recorded(name: str) -> Callable[[Path, int, np.random.Generator], Clouds]:
    def read(folder: Path, dim: int, rng: np.random.Generator) -> Clouds:
        with np.load(folder / f"{name}.npz") as stored:
            x, t = stored["x"][:, :dim], stored["t"]
            if "train_idx" in stored:  # the test split of the benchmark is never looked at
                x, t = x[stored["train_idx"]], t[stored["train_idx"]]
        times = np.unique(t)
        return [x[t == when].astype(float) for when in times], times

    return read


def wells(folder: Path, dim: int, rng: np.random.Generator) -> Clouds:
    """From a ridge into two wells along the first axis, a bowl along the others."""
    data, _ = sf.datasets.double_well(dim=dim, n=1200, key=int(rng.integers(2**31)))
    return data.clouds, data.times


def rare(folder: Path, dim: int, rng: np.random.Generator) -> Clouds:
    """A population that relaxes, and one in 25 far away who stay where they are."""
    times = np.array([0.0, 0.3, 0.7, 1.2])
    clouds = []
    for when in times:
        x = rng.normal(size=(1200, dim))
        x[:, 0] += 4.0 * np.exp(-when)
        x[:48] = 0.3 * rng.normal(size=(48, dim)) + 8.0 * np.eye(dim)[-1]
        clouds.append(x)
    return clouds, times


def branching(folder: Path, dim: int, rng: np.random.Generator) -> Clouds:
    """One group that moves along the first axis and parts in two, one five times the other."""
    times = np.arange(5.0)
    clouds = []
    for when in times:
        x = 0.5 * rng.normal(size=(1200, dim))
        x[:, 0] += when
        x[:, 1] += np.where(np.arange(1200) < 200, -1.0, 0.3) * max(when - 1.0, 0.0)
        clouds.append(x)
    return clouds, times


def cells(folder: Path, dim: int, rng: np.random.Generator) -> Clouds:
    """Principal components of counted genes: two fates, a rare type far away, uneven days."""
    times, genes = np.array([0.0, 1.0, 3.0, 6.0, 10.0]), 400
    usual = rng.normal(-0.5, 1.0, genes)
    programs = 1.5 * rng.normal(size=(4, genes)) * (rng.random((4, genes)) < 0.15)
    day = np.repeat(times, 700)
    progress = rng.beta(1.0 + 0.6 * day, 7.0 - 0.6 * day)
    fate = np.where(rng.random(len(day)) < 0.15, 2, 1)
    late = 2.0 * np.maximum(progress - 0.4, 0.0)
    log_rate = usual + progress[:, None] * programs[0] + late[:, None] * programs[fate]
    log_rate += 2.0 * (rng.random(len(day)) < 0.015)[:, None] * programs[3]
    counts = rng.poisson(np.exp(log_rate) * rng.lognormal(0.0, 0.4, (len(day), 1)))
    shares = 1e3 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    x = np.log1p(shares) - np.log1p(shares).mean(axis=0)
    x = x @ np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :dim]
    return [x[day == when] for when in times], times


def still(folder: Path, dim: int, rng: np.random.Generator) -> Clouds:
    """Normal, the same at all times."""
    return [rng.normal(size=(1200, dim)) for _ in range(4)], np.arange(4.0)


SOURCES = {name: recorded(name) for name in ("eb5", "eb100", "larry2d")}
SOURCES |= {"wells": wells, "rare": rare, "branching": branching, "cells": cells, "still": still}

# Source, dimensions, individuals of the times. Counts go from the first to the last time evenly on
# a logarithmic scale.
SETS: list[tuple[str, int, int, int]] = [
    ("eb100", 10, 27, 270),
    ("eb5", 2, 20, 20),
    ("wells", 2, 20, 20),
    ("eb5", 5, 27, 270),
    ("larry2d", 2, 10, 100),
    ("eb100", 20, 40, 40),
    ("rare", 5, 50, 50),
    ("eb100", 10, 40, 40),
    ("eb5", 3, 60, 60),
    ("branching", 10, 60, 60),
    ("eb100", 30, 27, 270),
    ("wells", 5, 50, 50),
    ("still", 10, 30, 30),
    ("eb5", 5, 12, 12),
    ("eb100", 5, 60, 60),
    ("still", 2, 50, 50),
    ("larry2d", 2, 30, 30),
    ("wells", 10, 10, 100),
    ("eb100", 10, 200, 20),
    ("eb100", 30, 60, 60),
    ("eb5", 2, 10, 100),
    ("rare", 10, 100, 100),
    ("branching", 2, 10, 100),
    ("rare", 2, 30, 30),
    ("eb100", 15, 20, 20),
    ("eb5", 5, 100, 10),
    ("wells", 1, 30, 30),
    ("eb5", 3, 10, 100),
    ("eb100", 20, 100, 10),
    ("larry2d", 2, 200, 200),
    ("branching", 30, 20, 200),
    ("eb100", 2, 12, 12),
    ("still", 5, 10, 100),
    ("eb5", 5, 60, 60),
    ("wells", 20, 40, 40),
    ("eb100", 10, 100, 100),
    ("eb100", 10, 12, 12),
    ("eb5", 5, 120, 120),
    ("rare", 20, 20, 200),
    ("branching", 5, 12, 12),
    ("eb100", 5, 100, 10),
    ("larry2d", 2, 60, 20),
    ("eb5", 2, 120, 120),
    ("still", 20, 40, 40),
    ("cells", 10, 27, 270),
    ("cells", 10, 40, 40),
    ("cells", 20, 100, 10),
    ("cells", 10, 100, 10),
    ("cells", 30, 60, 60),
    ("cells", 5, 12, 12),
    ("cells", 15, 27, 100),
    ("cells", 30, 20, 200),
]


def title(source: str, dim: int, first: int, last: int) -> str:
    return f"{source} {dim}-D, {first} to {last}"


NAMES = [title(*chosen) for chosen in SETS]
# Every fourth set.
ASIDE = NAMES[3::4]


def made(name: str, folder: Path) -> tuple[sf.Snapshots, sf.Snapshots]:
    """The individuals of a set, and others of the same times."""
    source, dim, first, last = SETS[NAMES.index(name)]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    clouds, times = SOURCES[source](folder, dim, rng)
    counts = np.rint(np.geomspace(first, last, len(times))).astype(int)
    clouds = [rng.permutation(cloud) for cloud in clouds]
    pairs = list(zip(clouds, counts, strict=True))
    few = sf.Snapshots.from_arrays([cloud[:n] for cloud, n in pairs], times)
    others = sf.Snapshots.from_arrays([cloud[n : n + SCORED] for cloud, n in pairs], times)
    return few, others


def deepest_share(x: np.ndarray, potential: np.ndarray) -> float:
    """The share of individuals from whom steps to the lowest of the nearest end at the lowest."""
    near = cKDTree(x).query(x, min(NEIGHBOURS + 1, len(x)))[1]
    ends = near[np.arange(len(x)), potential[near].argmin(axis=1)]
    for _ in range(len(x)):
        ends = ends[ends]
    return float((ends == potential.argmin()).mean())


def scored(fit: sf.Fit, others: sf.Snapshots) -> dict[str, float]:
    metric = "energy_distance" if others.dim >= MANY else "w1"
    protocols = ("one-step", "rollout")
    scores = sf.evaluate(fit, others, metrics=(metric,), protocols=protocols)
    found = {}
    for protocol in protocols:
        try:
            found[protocol] = scores.mean(protocol, metric)
        except KeyError:  # individuals who were lost on the way
            found[protocol] = None
    return found


def one(name: str, folder: Path, method: sf.Method | None = None) -> dict:
    """The scores of the default and of the baselines, and what V looks like."""
    few, others = made(name, folder)
    start = time.perf_counter()
    fit = sf.fit(few, method, progress=False)
    row = {"seconds": time.perf_counter() - start, "status": fit.status.message}
    for label, other in (("still", sf.Nearest()), ("ot-linear", sf.OTLinear())):
        found = scored(sf.fit(few, other, progress=False), others)
        row |= {f"{label} {protocol}": value for protocol, value in found.items()}
    row |= scored(fit, others)
    assert fit.energy is not None
    potential = np.asarray(fit.energy.potential(few.x), float)
    low, high = np.quantile(potential, [0.05, 0.95])
    pseudotime = PerCell(potential, None).pseudotime
    assert pseudotime is not None
    row |= {
        "lowest V": float(potential.min()),
        "highest V": float(potential.max()),
        "middle of V": float(high - low),
        "deepest": deepest_share(few.x, potential),
        "pseudotime": float(np.ptp(np.quantile(pseudotime, [0.1, 0.9]))),
        "beta": fit.energy.beta,
    }
    return row


def ratios(row: dict) -> list[float]:
    """The default over standing still, one-step and rollout; infinite for lost individuals."""
    return [
        np.inf if row[p] is None else row[p] / row[f"still {p}"] for p in ("one-step", "rollout")
    ]


def table(rows: list[dict]) -> str:
    heads = ["set", "one-step", "rollout", "ot-linear", "V", "its middle 90 %"]
    heads += ["deepest well", "s"]
    parts = []
    for words, chosen in (
        ("Sets of development", [n for n in NAMES if n not in ASIDE]),
        ("Sets that were kept aside", ASIDE),
    ):
        some = [row for name in chosen for row in rows if row["set"] == name]
        lines, met = [], sum(max(ratios(row)) <= BOUND for row in some)
        for row in some:
            other = (row[f"ot-linear {p}"] / row[f"still {p}"] for p in ("one-step", "rollout"))
            cells = [row["set"], *(f"{value:.2f}" for value in ratios(row))]
            cells += [", ".join(f"{value:.2f}" for value in other)]
            cells += [f"{row['lowest V']:.3g} to {row['highest V']:.3g}"]
            cells += [f"{row['middle of V']:.3g}", f"{100 * row['deepest']:.0f} %"]
            lines.append([*cells, f"{row['seconds']:.0f}"])
        run = f"{len(some)} run so far of {len(chosen)}"
        parts += [f"{words}: {met} are at most {BOUND} on both, {run}.", ""]
        parts += [markdown(heads, lines), ""] if some else []
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--aside", action="store_true", help="also the sets that were kept aside")
    parser.add_argument("--set", choices=NAMES, action="append")
    chosen = parser.parse_args()
    keep_compilations()
    names = NAMES if chosen.aside else [name for name in NAMES if name not in ASIDE]
    for name in tqdm(chosen.set or names, unit="set"):
        place = {"set": name, "version": sf.__version__}
        if not any(place.items() <= row.items() for row in read_lines(LINES)):
            append_json(LINES, [{**place, **one(name, chosen.data)}])
    fill(ROOT / "docs" / "reliability.md", "table: benchmarks/small.py", table(read_lines(LINES)))


if __name__ == "__main__":
    main()
