"""Individuals that are followed: the default's curve beside straight lines between their positions.

Inner times are left out of training, and the curve at each of them is compared (`interpolate`, W1)
with all individuals of that time. `results/followed.jsonl` holds one line per population, seed,
method and time; `make followed` adds what is missing and writes the table of `docs/rivals.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import stitchflow as sf
from marked_pages import ROOT, fill
from paper.tables import markdown, number
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import append_json, read_lines

LINES, PAGE = ROOT / "results" / "followed.jsonl", ROOT / "docs" / "rivals.md"
METHODS = ("stitching", "tracks", "ot-linear")
SEEDS = (0, 1)


def springs(seed: int) -> sf.Snapshots:
    """An Ornstein-Uhlenbeck process of V = |x|^2 and beta 0.2 in the plane, by its exact law."""
    rng, times, stiff, beta = np.random.default_rng(seed), np.linspace(0.0, 1.2, 7), 2.0, 0.2
    x = rng.normal(size=(200, 2)) * 0.4 + np.array([2.0, 1.0])
    clouds, decay = [x], np.exp(-stiff * times[1])
    for _ in times[1:]:
        noise = np.sqrt(beta / stiff * (1.0 - decay**2)) * rng.normal(size=x.shape)
        x = decay * x + noise
        clouds.append(x)
    return sf.Snapshots.from_arrays(clouds, times, paired=True)


def turning(seed: int) -> sf.Snapshots:
    """A long cloud that turns by 0.6 between two times around its own middle."""
    x = np.random.default_rng(seed).normal(size=(200, 2)) * [1.0, 0.3]
    times = np.arange(7.0)
    turned = lambda a: x @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])
    return sf.Snapshots.from_arrays([turned(0.6 * t) for t in times], times, paired=True)


def valley(seed: int) -> sf.Snapshots:
    """All 40 individuals of `wavy-valley`, each known by its id."""
    train, test, _ = sf.datasets.wavy_valley(key=seed)
    paths = np.concatenate([train.paths, test.paths], axis=1)
    return sf.Snapshots.from_arrays(list(paths), train.times, paired=True)


def ring(seed: int) -> sf.Snapshots:
    """Training individuals of `cis` at every tenth time, with their ids; recorded once."""
    train = sf.datasets.cis().train
    return train.keep_times(train.times[::10])


POPULATIONS: dict[str, Callable[[int], sf.Snapshots]] = {
    "springs": springs,
    "turning": turning,
    "wavy-valley": valley,
    "cis, every tenth time": ring,
}


def method_for(name: str, population: str) -> sf.Method:
    """The defaults, told that individuals interact where they do."""
    method = sf.METHODS[name]()
    if population.startswith("cis"):
        return method.learning(sf.Potential() + sf.Interaction() + sf.Entropy())
    return method


def left_out(data: sf.Snapshots) -> np.ndarray:
    """Every other inner time, at most four: they are left out of one fit together."""
    inner = data.times[1:-1:2]
    return inner[np.unique(np.linspace(0, len(inner) - 1, 4).round().astype(int))]


def run() -> None:
    for name, make in POPULATIONS.items():
        for seed in SEEDS[: 1 if name.startswith("cis") else None]:
            data = make(seed)
            hidden = left_out(data)
            for method in METHODS:
                place = {"population": name, "seed": seed, "method": method}
                place["version"] = sf.__version__
                if any(place.items() <= row.items() for row in read_lines(LINES)):
                    continue
                fit = sf.fit(
                    data.drop_times(hidden), method_for(method, name), key=seed, progress=False
                )
                unseen = replace(data.keep_times(hidden), ids=None)
                scores = sf.evaluate(fit, unseen, metrics=("w1",), protocols=("interpolate",))
                beta = None if fit.energy is None else fit.energy.beta
                told = {"beta": beta, "seconds": fit.seconds}
                rows = [
                    {**place, "time": row.time, "value": row.value, **told}
                    for row in scores
                    if row.time is not None
                ]
                append_json(LINES, rows)
                print(place, told, [round(row["value"], 4) for row in rows], flush=True)


def table() -> str:
    rows, found = [], {}
    for row in read_lines(LINES):
        place = (row["population"], row["seed"], row["time"])
        found.setdefault(place, {})[row["method"]] = row["value"]
    for name in POPULATIONS:
        own = [values for place, values in found.items() if place[0] == name]
        if not own:
            continue
        means = [number(float(np.mean([v[m] for v in own]))) for m in METHODS]
        ratio = np.log([values["stitching"] / values["tracks"] for values in own]).mean()
        rows.append([name, str(len(own)), *means, number(float(np.exp(ratio)), 2)])
    return markdown(["", "times", *METHODS, "stitching / tracks"], rows)


if __name__ == "__main__":
    keep_compilations()
    run()
    fill(PAGE, "table: benchmarks/followed.py", table())
