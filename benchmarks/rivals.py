"""Every method on the same data, splits, draws and metrics.

`make rivals` adds what is missing to `results/rivals.jsonl` and writes the tables of
`docs/rivals.md` and `docs/choose.md`; it goes on where it stopped, and a run that fails does not
stop the others. What `make paper` has fitted with the same settings is not fitted again. `--quick`
takes two short tasks into `build/rivals-quick`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import stitchflow as sf
from marked_pages import ROOT, fill
from paper.experiments import carry_out_all
from paper.tables import Results
from rival_tables import GROUPS, LEFT_OUT, NO_SEED, STEPPED, Group, stepped, table, winners
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import read_lines
from stitchflow.bench import Run
from stitchflow.bench._runs import Prepared
from stitchflow.bench._tasks import UNSEEN, Problem, Task, _diffusion
from stitchflow.datasets._recorded import data_folder

QUICK = ("wavy-valley", "gom9")


@dataclass(frozen=True)
class Compared(Run):
    """A run that is scored by what the tables show, and no more."""

    protocols: tuple[str, ...] = ()

    def prepare(self) -> Prepared:
        prepared = self._unseen() if self.task in LEFT_OUT else super().prepare()
        metrics = ("w2",) if self.protocols == UNSEEN else ("w1",)
        task = replace(prepared.task, protocols=self.protocols, metrics=metrics)
        return replace(prepared, task=task)

    def _unseen(self) -> Prepared:
        """Recorded data without some inner times, which are to be told."""
        start, folder = time.perf_counter(), data_folder()
        if folder is None:
            raise FileNotFoundError(f"{self.task} needs a folder: set STITCHFLOW_DATA")
        with np.load(folder / f"{self.task}.npz") as stored:
            data = sf.Snapshots.from_table(stored["x"], stored["t"])
        hidden = LEFT_OUT[self.task]
        problem = Problem(data.drop_times(hidden), data.keep_times(hidden))
        task = Task(self.task, lambda seed, euler: problem, _diffusion, family="recorded")
        method = task.suit(sf.METHODS[self.method](), problem.train).resolved(problem.train)
        return Prepared(self, task, problem, method, time.perf_counter() - start)


def runs(groups: Iterable[Group]) -> Iterator[Run]:
    """Method after method on the same data, which is then made once."""
    for group in groups:
        for task in group.tasks:
            for seed in range(group.seeds):
                for method in group.methods:
                    if seed == 0 or method not in NO_SEED:
                        yield Compared(task, method, seed, group.euler, group.protocols)


def known(path: Path) -> list[dict]:
    """Lines of `make paper`; its time-varying tasks are our time-varying method."""
    rows = []
    for row in read_lines(path):
        base = row["task"].removesuffix("-varying")
        if base != row["task"]:
            row = {**row, "task": base, "method": "stitching-varying"}
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short tasks, one seed")
    parser.add_argument("--draw", action="store_true", help="only the tables")
    chosen = parser.parse_args()
    keep_compilations()
    folder = ROOT / "build/rivals-quick" if chosen.quick else ROOT / "results"
    lines, failures = folder / "rivals.jsonl", []
    groups = [group for group in GROUPS if not chosen.quick or group.tasks[0] in QUICK]
    before = [] if chosen.quick else known(ROOT / "results" / "paper.jsonl")
    if not chosen.draw:
        cores = os.cpu_count() or 1
        wanted = runs(groups if chosen.quick else (*groups, STEPPED))
        failures = carry_out_all(wanted, lines, cores, "rivals", apart=True, known=before)
    # What was fitted here was missing there, or had other settings.
    own = read_lines(lines)
    place = lambda row: (row["task"], row["method"], row["seed"], row["euler"])
    fitted = {place(row) for row in own}
    results = Results([*(row for row in before if place(row) not in fitted), *own])
    parts = [*(table(results, group) for group in groups), stepped(results)]
    tables = "\n\n".join(filter(None, parts))
    if chosen.quick:
        print(tables)
    else:
        fill(ROOT / "docs" / "rivals.md", "tables: benchmarks/rivals.py", tables)
        found = winners(results, groups)
        fill(ROOT / "docs" / "choose.md", "winners: benchmarks/rivals.py", found)
    for failure in failures:
        print(failure)


if __name__ == "__main__":  # workers import this file
    main()
