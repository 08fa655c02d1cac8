"""From the published method to our default, one change a row: results/ladder.jsonl, docs/decisions.

`make ladder` runs what is missing and draws the table. Cells are judged by validation cells, which
are a fifth of the training cells; test cells are never looked at.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import stitchflow as sf
from marked_pages import fill
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import append_json, read_lines
from stitchflow.bench._runs import Run
from stitchflow.bench._tasks import TASKS, Problem

ROOT = Path(__file__).parents[1]
LINES, PAGE = ROOT / "results" / "ladder.jsonl", ROOT / "docs" / "decisions.md"
SEEDS = (0, 1, 2)

# What a row shows of each task: (protocol, metric, heading).
SHOWN = {
    "eb-full-varying": (("marginal", "w1", "marginal"), ("rollout", "w1", "rollout")),
    "eb-full": (("marginal", "w1", "marginal"), ("rollout", "w1", "rollout")),
    "cis": (("energy", "pattern_r2", "V"), ("energy", "w_pattern_r2", "W")),
    "wavy-valley": (("energy", "raw_r2", "raw R2"), ("rollout", "w1", "rollout")),
    "doublewell-dense": (("energy", "raw_r2", "raw R2"), ("energy", "beta", "beta (1)")),
    "synthetic-flowers-paired": (("energy", "grad_error", "gradient error %"),),
}

# Each row keeps the changes of the rows above it. A change names the settings that are no longer
# the paper's and become the default's.
ROWS = (
    ("the paper", ()),
    ("our optimiser and its steps", ("optimiser", "batch")),
    ("scaled units, weight by the data", ("scaling", "weight")),
    ("our networks", ("energy",)),
    ("smooth start, nodes by action", ("init", "spacing")),
    ("bounded kernel", ("kernel",)),
    ("weights by the data term alone", ("weights", "learn_weights")),
    ("draws at the midpoint of some intervals", ("scheme", "alpha", "stations", "widening")),
    ("ridge", ("ridge",)),
    ("our number of particles and nodes", ("particles", "nodes")),
    ("three stages: the default", ("consistency",)),
)
OF_RESIDUAL = ("weight", "scheme", "alpha", "stations", "widening", "ridge")


def method_of_row(row: int, task: str, data: sf.Snapshots) -> sf.Stitching:
    """The method of a row, on one task."""
    name = "stitching-paper" + ("-varying" if task.endswith("-varying") else "")
    paper = TASKS[task].suit(sf.METHODS[name](), data).resolved(data)
    assert isinstance(paper, sf.Stitching)
    ours = TASKS[task].suit(sf.METHODS[name.replace("-paper", "")](), data)
    gone = {setting for _, settings in ROWS[: row + 1] for setting in settings}
    kept = {name: getattr(paper, name) for name in KEPT if name not in gone}
    left = {n: getattr(paper.residual, n) for n in OF_RESIDUAL if n not in gone}
    return replace(ours, **kept, residual=sf.VelocityResidual(**left))


KEPT = (
    *("optimiser", "batch", "scaling", "energy", "init", "spacing", "kernel", "weights"),
    *("learn_weights", "learn_particles", "learn_bandwidth", "particles", "nodes", "consistency"),
)


def problem_of(task: str, seed: int) -> Problem:
    """The data of a task; cells of the training half alone, a fifth of them for validation."""
    problem = TASKS[task].problem(seed)
    if not task.startswith("eb"):
        return problem
    train, validation = problem.train.split(0.8, key=seed)
    return Problem(train, validation)


def scores(row: int, task: str, seed: int) -> Iterator[dict[str, Any]]:
    problem = problem_of(task, seed)
    method = method_of_row(row, task, problem.train).resolved(problem.train)
    prepared = replace(Run(task, "stitching", seed).prepare(), problem=problem, method=method)
    _, rows = prepared.carry_out()
    shown = {(protocol, metric) for protocol, metric, _ in SHOWN[task]}
    for found in rows:
        if found["time"] is None and (found["protocol"], found["metric"]) in shown:
            kept = {n: found[n] for n in ("protocol", "metric", "value", "seconds_train")}
            yield {"row": ROWS[row][0], "task": task, "seed": seed, **kept}


def run_missing() -> None:
    done = {(line["row"], line["task"], line["seed"]) for line in read_lines(LINES)}
    for seed in SEEDS:
        for row, (words, _) in enumerate(ROWS):
            for task in SHOWN:
                if (words, task, seed) in done:
                    continue
                found = list(scores(row, task, seed))
                append_json(LINES, found)
                print(seed, words, task, [round(line["value"], 3) for line in found], flush=True)


def table() -> str:
    """One row a change: means over seeds, with their spread."""
    found: dict[tuple[str, ...], list[float]] = {}
    for line in read_lines(LINES):
        place = (line["row"], line["task"], line["protocol"], line["metric"])
        found.setdefault(place, []).append(line["value"])
    columns = [(task, *shown) for task, all_shown in SHOWN.items() for shown in all_shown]
    short = {"synthetic-flowers-paired": "flowers", "doublewell-dense": "double well"}
    head = [f"{short.get(task, task)}: {words}" for task, _, _, words in columns]
    lines = ["| each row keeps those above | " + " | ".join(head) + " |"]
    lines.append("|" + "---|" * (len(columns) + 1))
    for words, _ in ROWS:
        cells = []
        for task, protocol, metric, _ in columns:
            values = found.get((words, task, protocol, metric), [])
            spread = f" ± {np.std(values):.2g}" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.3g}{spread}" if values else "-")
        lines.append(f"| {words} | " + " | ".join(cells) + " |")
    seeds = {line["seed"] for line in read_lines(LINES)}
    return "\n".join(lines) + f"\n\nSeeds run so far: {len(seeds)} of {len(SEEDS)}."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draw", action="store_true", help="only the table")
    if not parser.parse_args().draw:
        keep_compilations()
        run_missing()
    fill(PAGE, "ladder", table())
