"""Callbacks that watch a fit: they are called with a row of numbers each time its loss is read.

A row is a dictionary of the `stage` of the fit, the `step` within it, and the means of the loss and
of its parts since the row before. Any function of a row can be a callback; the classes here pass
rows on to a tracker.

Examples:
    >>> rows = []
    >>> fit = sf.fit(data, callback=rows.append)                              # doctest: +SKIP
    >>> rows[-1]["loss"]                                                      # doctest: +SKIP
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
    """A context in which every training loop passes its rows to a callback.

    Arguments:
        callback: a function of a row; None for none.
    """
    if callback is not None and not callable(callback):
        raise BadInputType(f"callback must be a function of a row, got {callback!r}")
    token = _watcher.set(callback)
    try:
        yield
    finally:
        _watcher.reset(token)


def tell(stage: str, row: dict[str, float]) -> None:
    """Pass a row to the callback of the context, if there is one.

    Arguments:
        stage: the name of the stage.
        row: the step and the numbers.
    """
    watcher = _watcher.get()
    if watcher is not None:
        watcher({"stage": stage, **row})


class TensorBoard:
    """A callback that writes rows as scalars for TensorBoard.

    `tensorboard --logdir` with the same folder shows them. It needs `stitchflow[tensorboard]`.

    Arguments:
        folder: where the event files are written.

    Examples:
        >>> sf.fit(data, callback=sf.tracking.TensorBoard("logs"))    # doctest: +SKIP
    """

    def __init__(self, folder: Any):
        self.writer = require("tensorboard.summary", "tensorboard").Writer(str(folder))

    def __call__(self, row: dict[str, Any]) -> None:
        for name, value in _scalars(row).items():
            self.writer.add_scalar(name, value, row["step"])
        self.writer.flush()


class MLflow:
    """A callback that logs rows as metrics of MLflow's active run, or of a new one.

    It needs `stitchflow[mlflow]`.

    Examples:
        >>> sf.fit(data, callback=sf.tracking.MLflow())    # doctest: +SKIP
    """

    def __init__(self) -> None:
        self.mlflow = require("mlflow", "mlflow")

    def __call__(self, row: dict[str, Any]) -> None:
        self.mlflow.log_metrics(_scalars(row), step=row["step"])


class WandB:
    """A callback that logs rows to the active run of Weights & Biases, or to a new one.

    It needs `stitchflow[wandb]`.

    Arguments:
        settings: arguments of `wandb.init`, used where no run is active.

    Examples:
        >>> sf.fit(data, callback=sf.tracking.WandB(project="cells"))    # doctest: +SKIP
    """

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
