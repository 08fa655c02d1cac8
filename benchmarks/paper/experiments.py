"""The list of the paper's runs, and how those that are missing are carried out.

A run is appended to the results file in one piece when it is done, so an interrupted `run_paper`
goes on where it stopped, and a second one only makes what version, settings or data have changed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paper.pictures import Arrays, picture_of, picture_path, write_picture
from stitchflow._files.lines import append_json, read_lines
from stitchflow._training.cluster import ClusterLike, run_all
from stitchflow.bench._runs import Run, is_done
from stitchflow.bench._tasks import TASKS
from stitchflow.tracking import tqdm

LINES, PICTURES = "paper.jsonl", "pictures"
TRIVIAL = ("nearest", "ot-linear")
QUICK = ("wavy-valley", "synthetic-oakley_ohagan-paired", "eb-full-varying", "doublewell-terminal")


def published_runs() -> Iterator[Run]:
    """The published method on all its tasks, with the paper's seeds, short runs first."""
    plain, euler = [], []
    for task in TASKS.values():
        method = "stitching-paper" + ("-varying" if task.name.endswith("-varying") else "")
        # Five seeds for unseen times; a single one elsewhere, and three for the small valley.
        seeds = {"eb-gaps": 5, "wavy-valley": 3}.get(task.family, 1)
        if task.published:
            plain += [Run(task.name, method, seed) for seed in range(seeds)]
        if task.published and task.simulated_by_euler:
            euler.append(Run(task.name, method, euler=True))
    dear = ("synthetic", "chiral")
    return iter(
        [
            *(run for run in plain if not run.task.startswith(dear)),
            *euler,
            *(run for run in plain if run.task.startswith(dear)),
        ]
    )


def paper_runs(quick: bool = False) -> Iterator[Run]:
    """All runs: our own, the trivial methods, the published columns, then the published method."""
    tasks = [task for task in TASKS.values() if not quick or task.name in QUICK]
    ours, euler, trivial = [], [], []
    for task in tasks:
        seeds = range(1 if quick else task.seeds)
        ours += [Run(task.name, seed=seed) for seed in seeds]
        if task.simulated_by_euler and not quick:
            euler += [Run(task.name, seed=seed, euler=True) for seed in seeds]
        if not task.name.endswith("-varying"):  # its twin has the same data
            recorded = task.family in ("eb", "eb-gaps", "eb-loo", "cis")
            pairs = itertools.product(TRIVIAL, range(1) if recorded else seeds)
            trivial += [Run(task.name, method, seed) for method, seed in pairs]
    return iter([*ours, *trivial, *euler, *([] if quick else published_runs())])


def on_same_data(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs that share their data, which may be dear to simulate, side by side."""
    groups: dict[tuple[str, int, bool], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task, run.seed, run.euler), []).append(run)
    return list(groups.values())


def run_published(folder: Path, *, cluster: ClusterLike = None) -> list[str]:
    """Carry out what is missing of the published method alone."""
    return carry_out_all(published_runs(), folder / LINES, cluster, "published", apart=True)


def run_paper(folder: Path, *, quick: bool = False, cluster: ClusterLike = None) -> list[str]:
    """Carry out what is missing in `folder` and return what failed, one line each."""
    return carry_out_all(paper_runs(quick), folder / LINES, cluster, "paper")


def carry_out_all(
    runs: Iterable[Run],
    lines: Path,
    cluster: ClusterLike,
    label: str,
    *,
    apart: bool = False,
    known: Iterable[dict[str, Any]] = (),
) -> list[str]:
    """Carry out runs that are not among the lines of a file and return what failed.

    Only this process writes there, so that the workers of a `cluster` may be anywhere, and those at
    a scheduler's address need only stitchflow. Runs on the same data go together unless `apart`.
    `known` lines are kept elsewhere and count as well.
    """
    if isinstance(cluster, str):
        _send_code_with_jobs()
    lines.parent.mkdir(parents=True, exist_ok=True)
    stored, runs = [*known, *read_lines(lines)], list(runs)
    groups = [[run] for run in runs] if apart else on_same_data(runs)
    batches = [Batch.of(group, stored) for group in groups]
    failures: list[str] = []
    for batch, found in run_all(Batch.carry_out, batches, cluster=cluster, label=label):
        if isinstance(found, Exception):  # a worker that died must not lose the others
            found = [Outcome.of(found)] * len(batch.runs)
        for run, outcome in zip(batch.runs, found, strict=True):
            outcome.write(run, lines)
            if outcome.failed:
                failures.append(f"{run}: {outcome.words}")
            tqdm.write(f"{time.strftime('%H:%M:%S')}  {run}: {outcome.words}")
    return failures


def _send_code_with_jobs() -> None:
    """Let jobs hold the code of this package, which workers elsewhere cannot import."""
    import cloudpickle

    import paper

    cloudpickle.register_pickle_by_value(paper)


@dataclass(frozen=True)
class Outcome:
    """What came of a run: words for the terminal, lines, and a picture's arrays."""

    words: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    picture: Arrays | None = None
    failed: bool = False

    @staticmethod
    def of(error: Exception) -> Outcome:
        return Outcome(f"failed: {type(error).__name__}: {error}", failed=True)

    def write(self, run: Run, lines: Path) -> None:
        if self.picture is not None:
            write_picture(picture_path(lines.parent / PICTURES, run), self.picture)
        if self.rows:  # last: they say that the run is done
            append_json(lines, self.rows)


@dataclass(frozen=True)
class Batch:
    """Runs on the same data, with the lines that are stored of them."""

    runs: list[Run]
    stored: list[dict[str, Any]]

    @staticmethod
    def of(runs: list[Run], stored: list[dict[str, Any]]) -> Batch:
        names = {(run.task, run.method, run.seed) for run in runs}
        known = [row for row in stored if (row["task"], row["method"], row["seed"]) in names]
        return Batch(runs, known)

    def __str__(self) -> str:
        return str(self.runs[0])

    def carry_out(self) -> list[Outcome]:
        return [self._attempt(run) for run in self.runs]

    def _attempt(self, run: Run) -> Outcome:
        try:
            return self._carry_out(run)
        except Exception as error:  # one failed run must not lose the others
            return Outcome.of(error)

    def _carry_out(self, run: Run) -> Outcome:
        prepared = run.prepare()
        if is_done(prepared.identity, self.stored):
            return Outcome("there already")
        fit, rows = prepared.carry_out()
        if not rows:
            return Outcome(f"{fit.status}; but nothing finite to be scored", failed=True)
        train, total = rows[0]["seconds_train"], rows[0]["seconds_total"]
        words = f"{fit.status}; {train:.0f} s training, {total:.0f} s in all"
        return Outcome(words, rows, picture_of(prepared, fit))
