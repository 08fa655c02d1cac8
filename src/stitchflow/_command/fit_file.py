"""What the commands do: from a data file to a run directory, and from there to scores and paths."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

from stitchflow._data.checks import check_data
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.packing import plan_of
from stitchflow._files.whole import only_writer
from stitchflow._judging.compare import Comparison
from stitchflow._judging.crossval import FoldScore
from stitchflow._judging.scores import Scores
from stitchflow._method.contract import Fit, Method
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import DataFile
from stitchflow._status import BadInput, naming
from stitchflow._stitching.stitching import fit
from stitchflow._storage.run_folder import (
    Split,
    check_run,
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
    selection: dict[str, Any] | None = None,
) -> Fit:
    """Fit a method to a data file and keep everything needed to evaluate and resume it in `out`.

    A `selection` of terms, as plain JSON, is kept for the report.
    """
    split, train = for_training(file, hold_out, fraction, seed)
    plan = {
        "data": {
            "path": str(file.path.resolve()),
            "content": file.snapshots.fingerprint,
            "train": train.fingerprint,
            "columns": columns.record,
        },
        "hold_out": list(hold_out),
        "test_fraction": fraction,
        "seed": seed,
        "method": plan_of(method),
    }
    if file.labels:  # `simulate --times` understands them
        plan["data"]["labels"] = dict(file.labels)
    check_run(out, file, plan, resume, overwrite)
    out.mkdir(parents=True, exist_ok=True)
    with only_writer(out):
        check_run(out, file, plan, resume, overwrite)  # another process may have been here since
        settle(out)
        if not resume:
            begin(out, plan)
        before = load(out) if (out / HEADER).exists() else None
        if before is not None and not same_data(before.source, plan["data"], file):
            raise BadInput(f"--resume: a model of other data was saved to {out} since")
        if before is not None and before.status.ok:
            before.data = train
            clear_checkpoints(out)
            return before
        checkpoint = Checkpoint(out / CHECKPOINT)
        with stopping(checkpoint):
            result = fit(train, method, seed, progress=progress, checkpoint=checkpoint)
        result.source = plan["data"] | {"split_sha256": write_split(out, split)}
        if selection is not None:
            result.source["selection"] = selection
        write_run(result, out)
        if result.status.ok:  # an interrupted fit goes on from here with --resume
            clear_checkpoints(out)
        return result


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


def compared_rows(found: Comparison, result: Fit, seconds: float) -> list[dict[str, Any]]:
    """The rows of a comparison of two conditions as the lines of a results file."""
    from stitchflow import __version__

    name = lambda row: row.quantity if row.dimension is None else f"{row.quantity}-{row.dimension}"
    return [
        {
            "task": None,
            "method": result.method.name,
            "seed": result.seed,
            "protocol": "compare",
            "metric": name(row),
            "time": None,
            "value": row.value,
            "floor": None,
            "low": row.low,
            "high": row.high,
            "conditions": list(found.conditions),
            "differs": found.differs,
            "seconds_train": result.seconds,
            "seconds_total": result.seconds + seconds,
            "steps": result.steps,
            "version": __version__,
        }
        for row in found
    ]


def timed(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    return function(*args, **kwargs), time.perf_counter() - start
