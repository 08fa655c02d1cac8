"""Is the energy itself found? V, W, K and beta against the truth, on every task that knows it.

`make identify` runs `weak-form` and the default with five seeds where data are simulated, adds what
is missing to `results/identify.jsonl`, goes on where it stopped, and writes the tables of
`docs/identify.md`. `make identify-rivals` adds other methods, with one seed. `--tasks` chooses some
tasks, `--draw` only writes tables and pictures, and `--pictures` makes the fits that the pictures
lack instead of all runs. A method that is not there (yet) is left out and named.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import identify_pictures
import stitchflow as sf
from marked_pages import ROOT, fill
from paper.experiments import carry_out_all
from paper.tables import Results, mark, markdown
from stitchflow import datasets
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import read_lines
from stitchflow.bench import Run
from stitchflow.bench._runs import Prepared
from stitchflow.bench._tasks import MARGINALS

LINES, PAGE = ROOT / "results" / "identify.jsonl", ROOT / "docs" / "identify.md"
OURS = ("weak-form", "stitching")
RIVALS = ("jkonet-star", "jkonet-star-linear", "ijkonet", "action-matching")
SEEDS = 5
RECORDED = ("cis",)  # the same data for every seed
CARRIED = {  # beside the energy, what is asked of the dynamics
    "cis": ("one-step", "rollout"),
    "doublewell-dense": ("rollout",),
    "doublewell-trickle": ("rollout",),
    "doublewell-terminal": ("rollout",),
}
EARLY = 20.0  # later the ring of cis breaks its symmetry, and the truth itself scores badly


@dataclass(frozen=True)
class Asked:
    """One row of the table: a score, its goal, and what it is compared with.

    Arguments:
        task: the task.
        score: a metric of the `energy` protocol; "beta / true"; or a protocol "/ oracle".
        low: the least value that meets the goal; None for no such bound.
        high: the largest value that meets the goal.
        published: what others report.
        before: what the default of version 0.1.0 scored (PROTOCOLS.md, and its lines).
        limit: what the information in the data allows, as far as it is known.
    """

    task: str
    score: str
    low: float | None = None
    high: float | None = None
    published: str = ""
    before: str = ""
    limit: str = ""

    @property
    def goal(self) -> str:
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"≥ {self.low:g}"
        return "" if self.high is None else f"≤ {self.high:g}"

    def met(self, value: float) -> bool:
        above = self.low is None or value >= self.low
        return above and (self.high is None or value <= self.high)


BETA, STEP, WAY = "beta / true", "one-step / oracle", "rollout / oracle"
UNPAIRED = [name for name in datasets.POTENTIALS if name != "flat"]
NMAE = {"quadratic": 0.06, "oakley_ohagan": 0.075, "styblinski_tang": 0.12}
MARGINALS_BEFORE = {  # cosine, nmae, beta / true
    "oakley_ohagan": ("0.990", "0.214", "77"),
    "styblinski_tang": ("0.951", "0.350", "70"),
}
ROWS: list[Asked] = [
    Asked("cis", "pattern_r2", 0.90, None, "0.84", "0.25", "0.97"),
    Asked("cis", "w_pattern_r2", 0.90, None, "0.81", "0.01", "0.91"),
    Asked("cis", "raw_r2"),
    Asked("cis", "grad_error", None, 10.0, "", "88", "2 to 3"),
    Asked("cis", BETA, 0.85, 1.15, "", "0.18", "0.95 to 1.05"),
    Asked("cis", STEP, None, 1.15),
    Asked("cis", WAY, None, 1.15),
    Asked("doublewell-dense", BETA, 0.9, 1.1, "", "0.80", "0.92 to 1.02"),
    Asked("doublewell-dense", "raw_r2", 0.985, None, "", "0.964", "0.988 to 0.998"),
    Asked("doublewell-dense", "grad_error", None, 7.0, "", "9", "6 to 7"),
    Asked("doublewell-dense", WAY, None, 1.3),
    Asked("doublewell-trickle", BETA, 0.9, 1.1, "", "0.46", "0.99 to 1.04"),
    Asked("doublewell-trickle", "raw_r2", 0.97, None, "", "0.65", "0.970 to 0.998"),
    Asked("doublewell-trickle", "grad_error", None, 8.0, "", "41", "6 to 7"),
    Asked("doublewell-trickle", WAY, None, 1.3),
    Asked("doublewell-terminal", "pattern_r2", 0.95),
    Asked("doublewell-terminal", "raw_r2", 0.934, None, "", "0.934"),
    Asked("doublewell-terminal", BETA),
    Asked("chiral-all", "kernel_r2", 0.995, None, "", "", "1.000"),
    Asked("chiral-all", "kernel_r2_long", 0.995, None, "", "", "0.999"),
    Asked("chiral-dense", "kernel_r2", 0.93, None, "", "0.29", "0.94"),
    Asked("chiral-dense", "kernel_r2_long", 0.93, None, "", "-1.2", "0.93"),
    Asked("wavy-valley", "raw_r2", 0.93, None, "", "0.85"),
    Asked("wavy-valley", "grad_error", None, None, "", "57"),
    Asked("wavy-valley", BETA),
]
for name in MARGINALS:
    task, old = f"three-marginals-{name}", MARGINALS_BEFORE.get(name, ("", "", ""))
    others = ("0.9965", "0.128") if name == "oakley_ohagan" else ("", "")  # nn-APPEX
    ROWS += [
        Asked(task, "cosine", 0.985, None, others[0], old[0]),
        Asked(task, "nmae", None, NMAE.get(name), others[1], old[1]),
        Asked(task, "raw_r2"),
        Asked(task, "grad_error"),
        Asked(task, BETA, 0.5, 2.0, "", old[2]),
    ]
for model, ending in (("E", ""), ("E", "-coarse"), ("A", ""), ("A", "-coarse")):
    task = f"populations-{model}{ending}"
    goals = {"E": (0.8, 1.1), "E-coarse": (3.2, 5.8)}.get(model + ending, (None, None))
    others = {"E": ("0.80", "1.10"), "E-coarse": ("6.8; network 3.2", "6.9; network 5.8")}
    said = others.get(model + ending, ("", ""))
    ROWS += [
        Asked(task, "v_slope_error", None, goals[0], said[0]),
        Asked(task, "w_slope_error", None, goals[1], said[1]),
        Asked(task, BETA),
    ]
ROWS += [Asked(f"synthetic-{name}-unpaired", "grad_error", None, 100.0) for name in UNPAIRED]
TASK_NAMES = list(dict.fromkeys(row.task for row in ROWS))


@dataclass(frozen=True)
class Identified(Run):
    """A run that is asked for its energy, and for the few distances that have a goal."""

    def prepare(self) -> Prepared:
        prepared = super().prepare()
        asked = CARRIED.get(self.task, ())
        # No figure of the paper shows these runs.
        task = replace(prepared.task, protocols=asked, metrics=("w1",), family="identify")
        return replace(prepared, task=task)


def runs(tasks: Sequence[str], methods: Sequence[str], seeds: int) -> Iterator[Run]:
    """Method after method on the same data, which is then made once."""
    for task in tasks:
        for seed in range(1 if task in RECORDED or task.startswith("synthetic-") else seeds):
            for method in methods:
                yield Identified(task, method, seed)


def values(results: Results, asked: Asked, method: str) -> list[float]:
    """The score that a row asks for, one value a seed."""
    if asked.score == BETA:
        rows = results.rows(asked.task, "energy", "beta", method=method)
        return [row["value"] / row["floor"] for row in rows]
    if not asked.score.endswith(" / oracle"):
        return [r["value"] for r in results.rows(asked.task, "energy", asked.score, method=method)]
    protocol = asked.score.partition(" / ")[0]
    places = (place for place in results.found if place[:2] == (asked.task, method))
    times = {place[5] for place in places if place[3:5] == (protocol, "w1")} - {None}
    early = asked.task == "cis" and protocol == "rollout"
    chosen = [t for t in times if t > min(times) and (t <= EARLY or not early)]
    seeds: dict[int, list[tuple[float, float]]] = {}
    for t in chosen:
        for row in results.rows(asked.task, protocol, "w1", method=method, time=t):
            if row["floor"] is not None:
                seeds.setdefault(row["seed"], []).append((row["value"], row["floor"]))
    means = (np.mean(pairs, axis=0) for pairs in seeds.values())
    return [float(value / floor) for value, floor in means]


def cell(asked: Asked, found: list[float]) -> str:
    """The mean over seeds with its spread, and whether it meets the goal."""
    if not found:
        return "-"
    mean, spread = float(np.mean(found)), float(np.std(found))
    text = f"{mean:.3g}" + (f" ± {spread:.1g}" if len(found) > 1 else "")
    return f"{text} {mark(asked.met(mean))}" if asked.goal else text


def table(results: Results, methods: Sequence[str]) -> str:
    head = ["task", "score", "goal", "published", "0.1.0", "limit", *methods]
    rows = []
    for asked in ROWS:
        found = [values(results, asked, method) for method in methods]
        if any(found):
            cells = [cell(asked, each) for each in found]
            told = [asked.goal, asked.published, asked.before, asked.limit]
            rows.append([asked.task, asked.score, *told, *cells])
    return markdown(head, rows) if rows else "No runs yet: `make identify`."


def covering(results: Results, task: str, method: str) -> str:
    """How many of a task's 90 % intervals of beta hold the true one."""
    ends = [results.rows(task, "energy", f"beta_{end}", method=method) for end in ("low", "high")]
    pairs = list(zip(*ends, strict=True))
    held = sum(low["value"] <= low["floor"] <= high["value"] for low, high in pairs)
    return f"{held} of {len(pairs)}" if pairs else "-"


def costs(results: Results, methods: Sequence[str]) -> str:
    """Seconds of each fit, and whether intervals of beta hold the truth."""
    rows = []
    for task in TASK_NAMES:
        cells: list[str] = []
        for method in methods:
            lines = [
                row
                for place, seeds in results.found.items()
                if place[:2] == (task, method) and place[3] == "energy"
                for row in seeds.values()
            ]
            seconds = f"{np.mean([row['seconds_train'] for row in lines]):.0f}" if lines else "-"
            cells += [seconds, covering(results, task, method)]
        if any(text != "-" for text in cells):
            rows.append([task, *cells])
    head = [f"{method}: {what}" for method in methods for what in ("s", "beta inside 90 %")]
    return markdown(["task", *head], rows) if rows else "No runs yet: `make identify`."


def write(lines: list[dict[str, Any]]) -> None:
    results = Results(lines)
    fill(PAGE, "table: benchmarks/identify.py", table(results, OURS))
    fill(PAGE, "costs: benchmarks/identify.py", costs(results, OURS))
    fill(PAGE, "rivals: benchmarks/identify.py", table(results, RIVALS))
    fill(PAGE, "pictures: benchmarks/identify.py", identify_pictures.draw())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", action="store_true", help="other methods, one seed")
    parser.add_argument("--draw", action="store_true", help="only the tables")
    parser.add_argument("--pictures", action="store_true", help="only the fits of the pictures")
    parser.add_argument("--tasks", help="some tasks, by name: a,b")
    parser.add_argument("--methods", help="some methods, by name: a,b")
    parser.add_argument("--cluster", type=int, default=os.cpu_count(), help="workers (0: none)")
    parser.add_argument("--seeds", type=int, help="how many seeds where data are simulated")
    chosen = parser.parse_args()
    keep_compilations()
    wanted = RIVALS if chosen.rivals else OURS
    wanted = wanted if chosen.methods is None else tuple(chosen.methods.split(","))
    methods = [name for name in wanted if name in sf.METHODS]
    for name in sorted(set(wanted) - set(methods)):
        print(f"{name}: no such method in this version, left out")
    tasks = TASK_NAMES if chosen.tasks is None else chosen.tasks.split(",")
    seeds = chosen.seeds or (1 if chosen.rivals else SEEDS)
    failures = []
    if chosen.pictures:
        identify_pictures.learn_all()
    elif not chosen.draw:
        todo = runs(tasks, methods, seeds)
        failures = carry_out_all(todo, LINES, chosen.cluster or None, "identify")
    write(read_lines(LINES))
    print(f"wrote {PAGE}")
    for failure in failures:
        print(failure)


if __name__ == "__main__":  # workers import this file
    main()
