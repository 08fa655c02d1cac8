"""A data file as a table of individuals, validated before any computation."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._reading.formats import Columns, format_of
from stitchflow._status import BadInput


@dataclass(frozen=True)
class DataFile:
    """The individuals of a file, and the split that it contains.

    Arguments:
        path: the file.
        snapshots: its individuals.
        train_rows: the rows to train on; None where the file does not say.
        test_rows: the rows to hold out; None where the file does not say.
        labels: the times by their labels, where the file holds labels such as "day 2".
    """

    path: Path
    snapshots: Snapshots
    train_rows: np.ndarray | None = None
    test_rows: np.ndarray | None = None
    labels: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def sha256(self) -> str:
        """The hash of the file itself, which runs of version 0.1.0 store."""
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def at_rows(self, rows: np.ndarray) -> Snapshots:
        """The individuals at row numbers of the file."""
        assert self.snapshots.rows is not None
        return self.snapshots.take(np.flatnonzero(np.isin(self.snapshots.rows, rows)))


def read_table(path: Any, columns: Columns | None = None) -> DataFile:
    """Read a data file by its ending; every problem is one sentence that names file and key.

    Arguments:
        path: the file.
        columns: the meaning of its columns; None uses the default names of the format.
    """
    path, columns = Path(path), columns or Columns()
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    try:
        found = format_of(path).read(path, columns)
    except MemoryError:
        raise BadInput(f"{path}: it does not fit into memory") from None
    try:
        parts = {"weights": found.weights, "ids": found.ids, "groups": found.groups}
        parts["conditions"] = found.conditions
        parts["total"] = found.total if columns.total is None else columns.total
        snapshots = replace(Snapshots.from_table(found.x, found.t, **parts), names=found.names)
        train = _rows(found.train_idx, "train_idx", len(snapshots.x))
        test = _rows(found.test_idx, "test_idx", len(snapshots.x))
    except ValueError as error:
        raise BadInput(f"{path}: {' '.join(str(error).split())}") from None
    if train is not None and test is not None and np.intersect1d(train, test).size:
        raise BadInput(f"{path}: train_idx and test_idx must not share rows")
    return DataFile(path, snapshots, train, test, found.labels or {})


def _rows(part: Any, name: str, n: int) -> np.ndarray | None:
    if part is None:
        return None
    part = np.asarray(part)
    if part.ndim != 1 or part.dtype.kind not in "iu" or part.size == 0:
        raise BadInput(f"{name} must be a list of row numbers, got {part.dtype} {part.shape}")
    if part.min() < 0 or part.max() >= n:
        raise BadInput(f"{name} must be row numbers below {n}, got {part.min()}..{part.max()}")
    return part
