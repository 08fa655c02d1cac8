"""Every experiment of the paper: runs that are missing, then tables and figures from the lines.

A run is appended to the results file in one piece when it is done, so an interrupted `paper` goes
on where it stopped, and a second one only makes what version, settings or data have changed.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from stitchflow._runs import append_json, keep_compilations
from stitchflow.bench._pictures import picture_of, picture_path, write_picture
from stitchflow.bench._runs import Run, is_done, read_lines
from stitchflow.bench._tasks import TASKS

LINES, PICTURES = "paper.jsonl", "pictures"
TRIVIAL = ("nearest", "ot-linear")
QUICK = ("wavy-valley", "synthetic-oakley_ohagan-paired", "eb-full-varying", "doublewell-terminal")


def paper_runs(quick: bool = False) -> Iterator[Run]:
    """All runs: our own, the trivial methods, then the published columns."""
    tasks = [task for task in TASKS.values() if not quick or task.name in QUICK]
    ours, euler, trivial = [], [], []
    for task in tasks:
        seeds = range(1 if quick else task.seeds)
        ours += [Run(task.name, seed=seed) for seed in seeds]
        if task.simulated_by_euler and not quick:
            euler += [Run(task.name, seed=seed, euler=True) for seed in seeds]
        if not task.name.endswith("-varying"):  # its twin has the same data
            recorded = task.family in ("eb", "eb-gaps", "cis")
            pairs = itertools.product(TRIVIAL, range(1) if recorded else seeds)
            trivial += [Run(task.name, method, seed) for method, seed in pairs]
    return iter([*ours, *trivial, *euler])


def on_same_data(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs that share their data, which may be dear to simulate, side by side."""
    groups: dict[tuple[str, int, bool], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.task, run.seed, run.euler), []).append(run)
    return list(groups.values())


def paper(folder: Path, *, quick: bool = False, workers: int | None = None) -> list[str]:
    """Carry out what is missing in `folder` and return what failed, one line each."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = on_same_data(paper_runs(quick))
    workers = workers or max(1, min(len(groups), os.cpu_count() or 1))
    failures: list[str] = []
    # A fresh interpreter per worker: JAX does not survive a fork. One core each, since many small
    # fits side by side do more than one fit on all cores.
    context = multiprocessing.get_context("spawn")
    turn = context.Value("i", 0)
    with ProcessPoolExecutor(workers, context, _settle, (turn,)) as pool:
        jobs = {pool.submit(_all, group, folder): group for group in groups}
        bar = tqdm(total=sum(map(len, groups)), desc="paper", unit="run")
        try:
            for job in as_completed(jobs):
                for run, words in zip(jobs[job], _outcome(job, jobs[job]), strict=True):
                    if words.startswith("failed"):
                        failures.append(f"{run}: {words}")
                    bar.write(f"{time.strftime('%H:%M:%S')}  {run}: {words}")
                    bar.update()
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return failures


def _outcome(job: Any, group: list[Run]) -> list[str]:
    try:
        return job.result()
    except Exception as error:  # a worker that died must not lose the others
        return [f"failed: {type(error).__name__}: {error}"] * len(group)


def _settle(turn: Any) -> None:
    """One core and the shared store of compiled programs for this worker."""
    with turn.get_lock():
        place, turn.value = turn.value, turn.value + 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[place % len(cores)]})
    keep_compilations()
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this worker when its parent is gone, lest it go on writing unseen."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _all(group: list[Run], folder: Path) -> list[str]:
    return [_one(run, folder) for run in group]


def _one(run: Run, folder: Path) -> str:
    try:
        return _carry_out(run, folder)
    except Exception as error:  # one failed run must not lose the others
        return f"failed: {type(error).__name__}: {error}"


def _carry_out(run: Run, folder: Path) -> str:
    prepared = run.prepare()
    lines = folder / LINES
    if is_done(prepared.identity, read_lines(lines)):
        return "there already"
    fit, rows = prepared.carry_out()
    picture = picture_of(prepared, fit)
    if picture is not None:
        write_picture(picture_path(folder / PICTURES, run), picture)
    append_json(lines, rows)
    train, total = rows[0]["seconds_train"], rows[0]["seconds_total"]
    return f"{fit.status}; {train:.0f} s training, {total:.0f} s in all"
