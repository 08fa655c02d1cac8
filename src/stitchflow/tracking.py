"""Watching a fit: every look at its loop is a row, told to one function.

A row has the `stage` of the fit, the `step` within it, and the means of the loss and of its parts
since the look before. Any function of a row will do; those here pass rows on to a tracker.

>>> rows = []
>>> fit = stitchflow.fit(data, callback=rows.append)                      # doctest: +SKIP
>>> fit = stitchflow.fit(data, callback=tracking.TensorBoard("logs"))     # doctest: +SKIP
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tqdm import TqdmWarning

from stitchflow._status import BadInputType, require

with warnings.catch_warnings():
    # A notebook without ipywidgets has bars of text, which need no word at the import.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm as tqdm

__all__ = ["Callback", "MLflow", "TensorBoard", "WandB"]

Callback = Callable[[dict[str, Any]], Any]

# Methods need not hand a callback on: whatever loop runs inside `watched_by` is watched.
_watcher: ContextVar[Callback | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(callback: Callback | None) -> Iterator[None]:
    """Loops inside tell their rows to `callback`."""
    if callback is not None and not callable(callback):
        raise BadInputType(f"callback must be a function of a row, got {callback!r}")
    token = _watcher.set(callback)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell(stage: str, row: dict[str, float]) -> None:
    """Hand a row to whoever watches."""
    watcher = _watcher.get()
    if watcher is not None:
        watcher({"stage": stage, **row})


class TensorBoard:
    """Rows as scalars in a folder that `tensorboard --logdir` shows."""

    def __init__(self, folder: Any):
        self.writer = require("tensorboard.summary", "tensorboard").Writer(str(folder))

    def __call__(self, row: dict[str, Any]) -> None:
        for name, value in _scalars(row).items():
            self.writer.add_scalar(name, value, row["step"])
        self.writer.flush()


class MLflow:
    """Rows as metrics of MLflow's active run, or of a new one."""

    def __init__(self) -> None:
        self.mlflow = require("mlflow", "mlflow")

    def __call__(self, row: dict[str, Any]) -> None:
        self.mlflow.log_metrics(_scalars(row), step=row["step"])


class WandB:
    """Rows in the active run of Weights & Biases, or in a new one with these `settings`."""

    def __init__(self, **settings: Any):
        wandb = require("wandb", "wandb")
        self.run = wandb.run or wandb.init(**settings)
        self.stages: set[str] = set()

    def __call__(self, row: dict[str, Any]) -> None:
        stage, axis = row["stage"], f"{row['stage']}/step"
        if stage not in self.stages:  # each stage counts its own steps
            self.stages.add(stage)
            self.run.define_metric(f"{stage}/*", step_metric=axis)
        self.run.log({axis: row["step"], **_scalars(row)})


def _scalars(row: dict[str, Any]) -> dict[str, float]:
    """`stage/name` of everything measured."""
    names = [name for name in row if name not in ("stage", "step")]
    return {f"{row['stage']}/{name}": row[name] for name in names}
