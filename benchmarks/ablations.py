"""The default without each of its mechanisms: results/ablations.jsonl, docs/ablations.md.

`make ablations` runs what is missing, one seed first and then two more, and draws the table.
Nothing is judged by a test split: embryoid-body cells are training cells, of which a fifth is held
out, and the sets of `ASIDE` are run by `--aside` alone, after everything has been decided.
`--limit MINUTES` stops after that time; `--draw` only draws.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import stitchflow as sf
from ladder import problem_of
from marked_pages import ROOT, fill
from paper.tables import markdown
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import append_json, read_lines
from stitchflow._judging.evaluate import Row
from stitchflow.bench._runs import Prepared, Run
from stitchflow.bench._tasks import TASKS
from stitchflow.datasets._recorded import data_folder

LINES, PAGE = ROOT / "results" / "ablations.jsonl", ROOT / "docs" / "ablations.md"
SEEDS = (0, 1, 2)
WHOLE = "the default"

# What is asked of each task. Lower is better, except of an R2.
CARRIED = (("one-step", "w1"), ("rollout", "w1"))
SCORES: dict[str, tuple[tuple[str, str], ...]] = {
    "eb-full": (("marginal", "w1"), *CARRIED),
    "eb-full-varying": (("marginal", "w1"), *CARRIED),
    "cis": (*CARRIED, ("energy", "pattern_r2"), ("energy", "w_pattern_r2")),
    "wavy-valley": (("marginal", "w1"), *CARRIED, ("energy", "raw_r2")),
    "doublewell-dense": (("rollout", "w1"), ("energy", "raw_r2"), ("energy", "grad_error")),
    "doublewell-terminal": (("rollout", "w1"), ("energy", "raw_r2"), ("energy", "grad_error")),
    "synthetic-flowers-paired": (("one-step", "w1"), ("energy", "grad_error")),
    "synthetic-styblinski_tang-unpaired": (("one-step", "w1"), ("energy", "grad_error")),
    "larry2d": (("marginal", "w1"), *CARRIED),
    "eb100": (("one-step", "energy_distance"), ("rollout", "energy_distance")),
    "gom9": (("marginal", "w1"), *CARRIED),
    "eb5, 300 cells": (("marginal", "w1"), *CARRIED),
    "eb100, 10 PCs, 200 cells": CARRIED,
}
ASIDE = ("larry2d", "synthetic-styblinski_tang-unpaired", "eb100, 10 PCs, 200 cells")

# Files that are no task of the benchmark: dimensions, individuals of each time to train on.
FILES: dict[str, tuple[str, int, int]] = {
    "larry2d": ("larry2d", 2, 1000),
    "eb100": ("eb100", 100, 400),
    "gom9": ("gom9", 2, 70),
    "eb5, 300 cells": ("eb5", 5, 60),
    "eb100, 10 PCs, 200 cells": ("eb100", 10, 40),
}

Change = Callable[[sf.Stitching], sf.Stitching]


def _residual(**settings: Any) -> Change:
    """Other settings of the velocity residual."""
    return lambda m: replace(m, residual=replace(m.residual, **settings))


# A change takes the settings with nothing left open, and switches one mechanism off.
ABLATIONS: dict[str, Change] = {
    WHOLE: lambda m: m,
    "no energy from averages": lambda m: replace(m, anchor=sf.NoAnchor()),
    "one stage": lambda m: replace(m, consistency=sf.Consistency(steps=0)),
    "no settling": lambda m: replace(m, consistency=replace(m.consistency, settling=0)),
    "no ridge": _residual(ridge=0.0),
    "no widening": _residual(widening=1.0),
    "residual at the centres": _residual(alpha=0.0),
    "all intervals in a step": _residual(stations=10_000),
    "trapezoid": _residual(scheme=sf.Trapezoid()),
    "residual weight 1": _residual(weight=1.0),
    "straight start": lambda m: replace(m, init=sf.StraightStart()),
    "even nodes": lambda m: replace(m, spacing=sf.Even()),
    "free kernel": lambda m: replace(m, kernel=sf.FreeKernel()),
    "equal weights": lambda m: replace(m, learn_weights=False),
    "weights by both terms": lambda m: replace(m, weights=sf.JointWeights()),
    "kernel as it starts": lambda m: replace(m, learn_bandwidth=False),
    "particles as they start": lambda m: replace(m, learn_particles=False),
    "100 particles, 50 nodes": lambda m: replace(m, particles=100, nodes=50),
    "no clipping": lambda m: replace(m, optimiser=replace(m.optimiser, clip=None)),
    "last step, not the best": lambda m: replace(m, optimiser=replace(m.optimiser, last=True)),
    "bare: one stage, energy from averages": lambda m: replace(
        m,
        **{name: getattr(sf.Stitching.paper(), name) for name in ("init", "spacing", "kernel")},
        weights=sf.JointWeights(),
        consistency=sf.Consistency(steps=0),
        residual=sf.VelocityResidual(alpha=1.0, ridge=0.0, widening=1.0),
    ),
}


def _from_file(name: str, seed: int) -> tuple[sf.Snapshots, sf.Snapshots]:
    """Some individuals of each time of a file to train on, and at most 1,000 others."""
    file, dim, size = FILES[name]
    folder = data_folder()
    assert folder is not None, "STITCHFLOW_DATA or ../shared/data has the files"
    z = np.load(folder / f"{file}.npz")
    rng, rows = np.random.default_rng(seed), z.get("train_idx", np.arange(len(z["x"])))
    x, t = z["x"][rows, :dim], z["t"][rows]
    parts: list[list[np.ndarray]] = [[], []]
    for time_ in np.unique(t):
        here = rng.permutation(np.flatnonzero(t == time_))
        parts[0].append(here[:size])
        parts[1].append(here[size : size + 1000])
    train, test = (np.concatenate(part) for part in parts)
    return sf.Snapshots.from_table(x[train], t[train]), sf.Snapshots.from_table(x[test], t[test])


def _rows(name: str, change: Change, seed: int) -> tuple[list[Row], float]:
    """All scores of one fit, and its seconds."""
    if name in FILES:
        train, test = _from_file(name, seed)
        fit = sf.fit(train, change(sf.Stitching().resolved(train)), seed, progress=False)
        metrics = tuple(dict.fromkeys(metric for _, metric in SCORES[name]))
        return list(sf.evaluate(fit, test, metrics=metrics)), fit.seconds
    problem = problem_of(name, seed)
    kind = "stitching-varying" if name.endswith("-varying") else "stitching"
    method = TASKS[name].suit(sf.METHODS[kind](), problem.train)
    assert isinstance(method, sf.Stitching)
    method = change(method.resolved(problem.train))
    prepared: Prepared = replace(
        Run(name, "stitching", seed).prepare(), problem=problem, method=method
    )
    fit = sf.fit(problem.train, method, seed, progress=False)
    return list(prepared.scores(fit)), fit.seconds


def scores(name: str, words: str, seed: int) -> Iterator[dict[str, Any]]:
    """The lines of one fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, seconds = _rows(name, ABLATIONS[words], seed)
    for row in rows:
        if row.time is None and (row.protocol, row.metric) in SCORES[name]:
            yield {
                "ablation": words,
                "set": name,
                "seed": seed,
                "protocol": row.protocol,
                "metric": row.metric,
                "value": float(row.value),
                "seconds": seconds,
                "version": sf.__version__,
            }


def run_missing(names: list[str], minutes: float) -> None:
    """Seed after seed, so that a study that is cut off has seen everything once."""
    began = time.monotonic()
    done = {(line["ablation"], line["set"], line["seed"]) for line in read_lines(LINES)}
    for seed in SEEDS:
        for name in names:
            for words in ABLATIONS:
                if (words, name, seed) in done:
                    continue
                if time.monotonic() - began > 60.0 * minutes:
                    return
                found = list(scores(name, words, seed))
                append_json(LINES, found)
                print(seed, name, words, [round(row["value"], 3) for row in found], flush=True)


Values = dict[tuple[str, str, str, str], dict[int, float]]


def differences(values: Values, words: str) -> Iterator[tuple[str, str, float]]:
    """By how many spreads each score is worse without a mechanism, of (set, score).

    The spread is that of the default over seeds, and at least one per cent of its value: below
    that, nobody would notice.
    """
    for (which, name, protocol, metric), whole in values.items():
        own = values.get((words, name, protocol, metric), {})
        shared = sorted(set(own) & set(whole))
        if which != WHOLE or not shared:
            continue
        spread = float(np.std(list(whole.values()), ddof=1)) if len(whole) > 1 else 0.0
        spread = max(spread, 0.01 * abs(float(np.mean(list(whole.values())))), 1e-3)
        worse = float(np.mean([own[seed] - whole[seed] for seed in shared]))
        worse = -worse if metric.endswith("r2") else worse
        yield name, f"{protocol} {metric}", worse / spread


def table(lines: list[dict[str, Any]]) -> str:
    """One row a mechanism: on how many scores and sets its absence is noticed, and its seconds."""
    values: Values = {}
    seconds: dict[str, dict[tuple[str, int], float]] = {}
    for row in lines:
        place = (row["ablation"], row["set"], row["protocol"], row["metric"])
        values.setdefault(place, {})[row["seed"]] = row["value"]
        seconds.setdefault(row["ablation"], {})[row["set"], row["seed"]] = row["seconds"]
    names = list(dict.fromkeys(row["set"] for row in lines))
    rows = []
    for words in ABLATIONS:
        found = list(differences(values, words))
        if words == WHOLE or not found:
            continue
        worse = {name for name, _, by in found if by > 2.0}
        better = {name for name, _, by in found if by < -2.0}
        cells = []
        for name in names:
            own = [by for which, _, by in found if which == name]
            cells.append(" / ".join(f"{by:+.1f}" for by in own) if own else "-")
        both = set(seconds[words]) & set(seconds[WHOLE])
        ratio = np.mean([seconds[words][k] / seconds[WHOLE][k] for k in both])
        rows.append([words, str(len(worse)), str(len(better)), f"{ratio:.2f}", *cells])
    head = ["without it", "sets worse", "sets better", "time", *names]
    return markdown(head, rows) if rows else "No runs yet: `make ablations`."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true", help="only the table")
    parser.add_argument("--aside", action="store_true", help="only the sets that were kept aside")
    parser.add_argument("--sets", help="some sets, by name: a;b")
    parser.add_argument("--limit", type=float, default=360.0, help="minutes")
    chosen = parser.parse_args()
    names = [name for name in SCORES if (name in ASIDE) == chosen.aside]
    names = names if chosen.sets is None else chosen.sets.split(";")
    if not chosen.draw:
        keep_compilations()
        run_missing(names, chosen.limit)
    fill(PAGE, "table: benchmarks/ablations.py", table(read_lines(LINES)))


if __name__ == "__main__":
    main()
