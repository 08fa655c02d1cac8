"""What the commands do: from a data file to a run directory, and from there to scores and paths."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.packing import plan_of
from stitchflow._files.whole import only_writer
from stitchflow._judging.crossval import FoldScore
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.scores import Scores
from stitchflow._method.contract import Fit, Method, check_data
from stitchflow._method.methods import METHODS
from stitchflow._reading.tables import Columns, DataFile, read_table
from stitchflow._stitching.stitching import fit
from stitchflow._storage.run_folder import (
    Split,
    check_run,
    naming,
    read_split,
    same_data,
    stopping,
    write_split,
)
from stitchflow._storage.run_state import CHECKPOINT, HEADER, begin, clear_checkpoints, settle
from stitchflow._storage.save import load, write_run
from stitchflow._training.checkpoint import Checkpoint


def keep_compilations() -> None:
    """Compiled programs survive the process; only commands do this, never an import."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "stitchflow" / "xla"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    logging.getLogger("jax").setLevel(logging.ERROR)


def for_training(
    file: DataFile, hold_out: Sequence[float], fraction: float, seed: int
) -> tuple[Split, Snapshots]:
    """Who is set aside, and the individuals that are left to learn from.

    The whole file has to be sound: individuals who are set aside judge the fit later.
    """
    with naming(str(file.path)):
        check_data(file.snapshots)
    split = Split.of(file, hold_out, fraction, seed)
    with naming(f"{file.path}: what is left for training"):
        return split, check_data(file.at_rows(split.train))


def fit_file(
    file: DataFile,
    columns: Columns,
    method: Method,
    out: Path,
    *,
    hold_out: Sequence[float] = (),
    fraction: float = 0.2,
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> Fit:
    """Fit a method to a data file and keep everything needed to evaluate and resume it in `out`."""
    split, train = for_training(file, hold_out, fraction, seed)
    plan = {
        "data": {
            "path": str(file.path.resolve()),
            "content": file.snapshots.fingerprint,
            "train": train.fingerprint,
            "columns": asdict(columns),
        },
        "hold_out": list(hold_out),
        "test_fraction": fraction,
        "seed": seed,
        "method": plan_of(method),
    }
    check_run(out, file, plan, resume, overwrite)
    out.mkdir(parents=True, exist_ok=True)
    with only_writer(out):
        check_run(out, file, plan, resume, overwrite)  # another process may have been here since
        settle(out)
        if not resume:
            begin(out, plan)
        before = load(out) if (out / HEADER).exists() else None
        if before is not None and not same_data(before.source, plan["data"], file):
            raise ValueError(f"--resume: a model of other data was saved to {out} since")
        if before is not None and before.status.ok:
            before.data = train
            clear_checkpoints(out)
            return before
        checkpoint = Checkpoint(out / CHECKPOINT)
        with stopping(checkpoint):
            result = fit(train, method, seed, progress=progress, checkpoint=checkpoint)
        result.source = plan["data"] | {"split_sha256": write_split(out, split)}
        write_run(result, out)
        if result.status.ok:  # an interrupted fit goes on from here with --resume
            clear_checkpoints(out)
        return result


def open_run(run: Path, data: Path | None = None) -> tuple[Fit, Snapshots | None]:
    """A finished run and individuals to score it on, with its training data where that is at hand.

    They are those of `data`, else those that were held out, if any were.
    """
    result = load(run)
    if {"path", "columns"} <= set(result.source):
        return _open_recorded(result, run, data)
    if data is None:
        raise ValueError(
            f"{run} was not made by `stitchflow fit` and has no record of its data; "
            "name a file with `evaluate --data`"
        )
    file = _in_its_space(read_table(data), result, run)
    return result, _of_other_data(file, run, None)


def _open_recorded(result: Fit, run: Path, data: Path | None) -> tuple[Fit, Snapshots | None]:
    columns, stored = Columns.stored(result.source["columns"]), Path(result.source["path"])
    if data is None and not stored.is_file():
        words = f"{stored}: the data of {run} is gone"
        raise ValueError(f"{words}; name another file with `evaluate --data`")
    file = _in_its_space(read_table(data or stored, columns), result, run)
    split = _with_marks(read_split(run, result.source), result.source, file)
    here = split.found_in(file.snapshots)
    if here is not None and here.same_table(split):
        result.data = file.at_rows(here.train)
        return result, file.at_rows(here.test) if len(here.test) else None
    if data is None:
        words = f"{stored} has changed since {run} was fitted"
        raise ValueError(f"{words}; name a file with `evaluate --data`")
    with suppress(ValueError):  # the file that was fitted may be gone, or be another by now
        original = read_table(stored, columns)
        split = _with_marks(split, result.source, original)
        before, here = split.found_in(original.snapshots), split.found_in(file.snapshots)
        if before is not None and before.same_table(split):
            result.data = original.at_rows(before.train)
    return result, _of_other_data(file, run, here)


def _with_marks(split: Split, source: dict[str, Any], file: DataFile) -> Split:
    """The split with its individuals' content, which runs of 0.1.0 know by the file's hash only."""
    if split.marks is None and file.sha256 == source.get("sha256"):
        return split.marked(file.snapshots)
    return split


def _in_its_space(file: DataFile, result: Fit, run: Path) -> DataFile:
    if file.snapshots.dim != result.flow.dim:
        dims = f"{file.snapshots.dim} dimensions; {run} was fitted in {result.flow.dim}"
        raise ValueError(f"{file.path} has {dims}")
    return file


def _of_other_data(file: DataFile, run: Path, here: Split | None) -> Snapshots:
    """Whom to score of a file that is not the run's own: nobody it was trained on."""
    data = file.snapshots
    rows = np.arange(len(data.x)) if file.test_rows is None else file.test_rows
    if here is None:
        _say(f"{run} keeps no record of whom it was trained on: all of {file.path} is scored")
        return file.at_rows(rows)
    left = np.setdiff1d(rows, here.train)
    if not left.size:
        raise ValueError(
            f"{run} was trained on every individual of {file.path}: none can be scored"
        )
    if left.size < rows.size:
        count = f"{rows.size - left.size:,} of the {rows.size:,} individuals of {file.path}"
        _say(f"{run} was trained on {count}; they are left out of the scores")
    return file.at_rows(left)


def _say(words: str) -> None:
    print(f"stitchflow: note: {words}", file=sys.stderr)


def held_out(file: DataFile, run: Path, source: dict[str, Any]) -> Snapshots | None:
    """The individuals of a run's own data that it was not trained on."""
    split = _with_marks(read_split(run, source), source, file).found_in(file.snapshots)
    return file.at_rows(split.test) if split is not None and len(split.test) else None


def baselines(data: Snapshots | None, test: Snapshots, most: int = 1000) -> dict[str, Scores]:
    """W1 of the trivial methods on the same held-out individuals, from 1,000 of each time."""
    if data is None:
        return {}
    small = data.subsample(most)
    names = ("nearest", "ot-linear")
    fits = {name: fit(small, METHODS[name](), progress=False) for name in names}
    return {name: evaluate(result, test, metrics=("w1",)) for name, result in fits.items()}


def json_rows(
    scores: Scores, result: Fit, task: str | None, seconds: float
) -> list[dict[str, Any]]:
    """Scores as the lines of a results file."""
    from stitchflow import __version__

    return [
        {
            "task": task,
            "method": result.method.name,
            "seed": result.seed,
            **asdict(row),
            "seconds_train": result.seconds,
            "seconds_total": result.seconds + seconds,
            "steps": result.steps,
            "version": __version__,
        }
        for row in scores
    ]


def crossval_rows(scores: Sequence[FoldScore]) -> list[dict[str, Any]]:
    """Cross-validation scores as the lines of a results file."""
    from stitchflow import __version__

    return [
        {"task": None, **asdict(row), "seconds_total": row.seconds_train, "version": __version__}
        for row in scores
    ]


def append_json(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One JSON object a line, added in one write: a kill leaves all of these lines or none.

    A full disk may cut them short, which is said.
    """
    lines = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        while lines:
            lines = lines[os.write(descriptor, lines) :]
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(f"{path} is cut short: it cannot be written ({error.strerror})") from None
    finally:
        os.close(descriptor)


def timed(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    return function(*args, **kwargs), time.perf_counter() - start
