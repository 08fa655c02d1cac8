"""Data files as tables: `.npz`, `.csv`, `.parquet`, `.h5ad`, validated before any compute."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._files.archive import Archive
from stitchflow._reading.cells import representation, times
from stitchflow._reading.frames import numbers, read_csv, read_parquet
from stitchflow._reading.frames import times as frame_times
from stitchflow._reading.h5ad import read_cells
from stitchflow._reading.time_labels import durations
from stitchflow._status import BadInput


@dataclass(frozen=True)
class Columns:
    """Which columns of a file mean what; None where the file's own names serve."""

    time: str | None = None
    rep: str | None = None
    features: tuple[str, ...] | None = None
    weight: str | None = None
    id: str | None = None
    group: str | None = None

    @staticmethod
    def stored(entry: dict[str, Any]) -> Columns:
        """From the JSON of a run, where tuples have become lists."""
        features = entry.get("features")
        columns = Columns(**{name: entry[name] for name in entry if name != "features"})
        return replace(columns, features=None if features is None else tuple(features))


@dataclass(frozen=True)
class DataFile:
    """A file's individuals, and the split it carries if it does."""

    path: Path
    snapshots: Snapshots
    train_rows: np.ndarray | None = None
    test_rows: np.ndarray | None = None

    @cached_property
    def sha256(self) -> str:
        """The hash of the file itself, by which runs of version 0.1.0 know their data."""
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def at_rows(self, rows: np.ndarray) -> Snapshots:
        """The individuals at row numbers of the file."""
        assert self.snapshots.rows is not None
        return self.snapshots.take(np.flatnonzero(np.isin(self.snapshots.rows, rows)))


def read_table(path: Any, columns: Columns | None = None) -> DataFile:
    """Read a data file by its ending; every problem is one sentence that names file and key."""
    path, columns = Path(path), columns or Columns()
    if not path.is_file():
        raise BadInput(f"{path}: no such file")
    readers = {".npz": _npz, ".csv": _frame, ".parquet": _frame, ".h5ad": _h5ad}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise BadInput(
            f"{path}: cannot read {path.suffix or 'a file without ending'!r}; "
            f"expected one of {', '.join(readers)}"
        )
    try:
        found = reader(path, columns)
    except MemoryError:
        raise BadInput(f"{path}: it does not fit into memory") from None
    split = {name: found.pop(name, None) for name in ("train_idx", "test_idx")}
    names = found.pop("names", None)
    try:
        snapshots = replace(Snapshots.from_table(**found), names=names)
        rows = {name: _rows(part, name, len(snapshots.x)) for name, part in split.items()}
    except ValueError as error:
        raise BadInput(f"{path}: {' '.join(str(error).split())}") from None
    train, test = rows["train_idx"], rows["test_idx"]
    if train is not None and test is not None and np.intersect1d(train, test).size:
        raise BadInput(f"{path}: train_idx and test_idx must not share rows")
    return DataFile(path, snapshots, train, test)


def _npz(path: Path, columns: Columns) -> dict[str, Any]:
    names = {
        "x": columns.rep or "x",
        "t": columns.time or "t",
        "weights": columns.weight or "w",
        "ids": columns.id or "id",
        "groups": columns.group or "group",
    }
    asked = {"x", "t"} | {
        part
        for part, name in (
            ("weights", columns.weight),
            ("ids", columns.id),
            ("groups", columns.group),
        )
        if name
    }
    if columns.features:
        raise BadInput(f"{path}: --columns chooses columns of a table; an .npz has its array x")
    found: dict[str, Any] = {}
    try:
        file = Archive(path)
        for part, name in names.items():
            if name in file.names or part in asked:
                found[part] = file[name]
        if found["t"].dtype.kind == "U":  # labels such as 36h
            labels, index = np.unique(found["t"], return_inverse=True)
            counted = durations(labels.tolist())
            found["t"] = found["t"] if counted is None else counted[index]
        for name in ("train_idx", "test_idx"):
            if name in file.names:
                found[name] = file[name]
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    return found


def _frame(path: Path, columns: Columns) -> dict[str, Any]:
    time = columns.time or "t"
    labels = {name for name in (columns.id, columns.group) if name is not None}
    taken = {time, *labels, *([] if columns.weight is None else [columns.weight])}
    named = [*taken, *(columns.features or ())]
    try:
        import pandas as pandas

        with _quietly(path, "a readable table"):
            if path.suffix.lower() == ".csv":
                table = read_csv(path, labels)
            else:
                table = read_parquet(path, set(named), bool(columns.features))
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise BadInput(f"{path}: reading it needs {package}; install stitchflow[data]") from None
    if columns.rep:
        raise BadInput(f"{path}: --rep names a representation of an .h5ad; use --columns")
    for name in named:
        if name not in table.names:
            listed = ", ".join(map(str, table.names[:20]))
            raise BadInput(f"{path}: no column {name!r}; columns are {listed}")
    frame = table.frame
    pick = lambda name: None if name is None else frame[name].to_numpy()
    try:
        features = columns.features or table.dimensions(taken)
        if not features:
            raise BadInput(f"no numeric columns beside {time!r}")
        return {
            "x": np.stack([numbers(frame[name], name) for name in features], axis=1),
            "t": frame_times(frame[time], time),
            "weights": columns.weight and numbers(frame[columns.weight], columns.weight),
            "ids": pick(columns.id),
            "groups": pick(columns.group),
        }
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None


def _h5ad(path: Path, columns: Columns) -> dict[str, Any]:
    asked = [columns.time, columns.weight, columns.id, columns.group]
    keys = [name for name in asked if name is not None]
    rep = columns.rep or "X_pca"
    try:
        with _quietly(path, "a readable .h5ad file"):
            cells = read_cells(path, keys, rep)
    except ImportError:
        raise BadInput(f"{path}: reading it needs anndata; install stitchflow[anndata]") from None
    if columns.features:
        raise BadInput(f"{path}: --columns chooses columns of a table; use --rep for an .h5ad")
    listed = ", ".join(cells.columns) or "nothing"
    if columns.time is None:
        raise BadInput(f"{path}: --time-key is needed; obs holds {listed}")
    for name in keys:
        if name not in cells.columns:
            raise BadInput(f"{path}: no {name!r} in obs, which holds {listed}")
    try:
        x, t = representation(cells, rep), times(cells, columns.time)
    except KeyError:
        listed = ", ".join(cells.obsm) or "nothing"
        raise BadInput(f"{path}: no representation {rep!r} in obsm, which holds {listed}") from None
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    pick = lambda name: None if name is None else cells.obs[name].to_numpy()
    return {
        "x": x,
        "t": t,
        "weights": pick(columns.weight),
        "ids": pick(columns.id),
        "groups": pick(columns.group),
        "names": cells.obs.index,
    }


@contextmanager
def _quietly(path: Path, kind: str) -> Iterator[None]:
    """Whatever another package says of a file's content, as one sentence that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError:
        raise
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"{path}: not {kind} ({first})") from None


def _rows(part: Any, name: str, n: int) -> np.ndarray | None:
    if part is None:
        return None
    part = np.asarray(part)
    if part.ndim != 1 or part.dtype.kind not in "iu" or part.size == 0:
        raise BadInput(f"{name} must be a list of row numbers, got {part.dtype} {part.shape}")
    if part.min() < 0 or part.max() >= n:
        raise BadInput(f"{name} must be row numbers below {n}, got {part.min()}..{part.max()}")
    return part
