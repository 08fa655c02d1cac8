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

from stitchflow._archive import Archive
from stitchflow._cells import representation, times
from stitchflow._declared import check_h5, check_parquet, parquet_columns
from stitchflow._snapshots import Snapshots
from stitchflow._types import as_numbers, rows_named


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
        raise ValueError(f"{path}: no such file")
    readers = {".npz": _npz, ".csv": _frame, ".parquet": _frame, ".h5ad": _h5ad}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"{path}: cannot read {path.suffix or 'a file without ending'!r}; "
            f"expected one of {', '.join(readers)}"
        )
    try:
        found = reader(path, columns)
    except MemoryError:
        raise ValueError(f"{path}: it does not fit into memory") from None
    split = {name: found.pop(name, None) for name in ("train_idx", "test_idx")}
    names = found.pop("names", None)
    try:
        snapshots = replace(Snapshots.from_table(**found), names=names)
        rows = {name: _rows(part, name, len(snapshots.x)) for name, part in split.items()}
    except ValueError as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    train, test = rows["train_idx"], rows["test_idx"]
    if train is not None and test is not None and np.intersect1d(train, test).size:
        raise ValueError(f"{path}: train_idx and test_idx must not share rows")
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
        raise ValueError(f"{path}: --columns chooses columns of a table; an .npz has its array x")
    found: dict[str, Any] = {}
    try:
        file = Archive(path)
        for part, name in names.items():
            if name in file.names or part in asked:
                found[part] = file[name]
        for name in ("train_idx", "test_idx"):
            if name in file.names:
                found[name] = file[name]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return found


def _frame(path: Path, columns: Columns) -> dict[str, Any]:
    try:
        import pandas
    except ImportError:
        raise ValueError(f"{path}: reading tables needs pandas; install stitchflow[data]") from None
    time = columns.time or "t"
    named = [time, columns.weight, columns.id, columns.group, *(columns.features or ())]
    try:
        with _quietly(path, "a readable table"):
            if path.suffix.lower() == ".csv":
                frame = pandas.read_csv(path)
                # pandas gives the second of two equal names another one.
                raw = pandas.read_csv(path, header=None, nrows=1, dtype=str)
                names, there = pandas.Index(raw.iloc[0].dropna()), frame.columns
            else:
                there = names = pandas.Index(parquet_columns(path))
                wanted = there[there.isin(named)] if columns.features else there
                check_parquet(path, set(wanted))
                frame = pandas.read_parquet(path, columns=list(wanted))
                frame.columns = frame.columns.map(str)  # names may have been numbers
    except ImportError:
        raise ValueError(f"{path}: reading it needs pyarrow; install stitchflow[data]") from None
    if not names.is_unique:
        twice = names[names.duplicated()][0]
        raise ValueError(f"{path}: two columns are called {twice!r}")
    if columns.rep:
        raise ValueError(f"{path}: --rep names a representation of an .h5ad; use --columns")
    for name in named:
        if name is not None and name not in there:
            listed = ", ".join(map(str, there[:20]))
            raise ValueError(f"{path}: no column {name!r}; columns are {listed}")
    features = list(columns.features or ())
    if not features:
        taken = {time, columns.weight, columns.id, columns.group}
        left = frame[[name for name in frame.columns if name not in taken]]
        features = list(left.select_dtypes("number").columns)
        _check_left_to_us(left, features, path)
    if not features:
        raise ValueError(f"{path}: no numeric columns beside {time!r}")
    pick = lambda name: None if name is None else frame[name].to_numpy()
    numbers = {
        name: _numbers(frame[name], f"{path}: column {name!r}") for name in [time, *features]
    }
    return {
        "x": np.stack([numbers[name] for name in features], axis=1),
        "t": numbers[time],
        "weights": pick(columns.weight),
        "ids": pick(columns.id),
        "groups": pick(columns.group),
    }


def _h5ad(path: Path, columns: Columns) -> dict[str, Any]:
    try:
        import anndata
    except ImportError:
        raise ValueError(f"{path}: reading it needs anndata; install stitchflow[anndata]") from None
    with _quietly(path, "a readable .h5ad file"):
        check_h5(path, whole=columns.rep == "X")
        # Backed: the genes stay on disk, a fit needs one representation.
        adata = anndata.read_h5ad(path, backed="r")
    if columns.features:
        raise ValueError(f"{path}: --columns chooses columns of a table; use --rep for an .h5ad")
    if columns.time is None:
        listed = ", ".join(map(str, adata.obs.columns)) or "nothing"
        raise ValueError(f"{path}: --time-key is needed; obs holds {listed}")
    for name in (columns.time, columns.weight, columns.id, columns.group):
        if name is not None and name not in adata.obs:
            listed = ", ".join(map(str, adata.obs.columns)) or "nothing"
            raise ValueError(f"{path}: no {name!r} in obs, which holds {listed}")
    rep = columns.rep or "X_pca"
    try:
        x, t = representation(adata, rep), times(adata, columns.time)
    except KeyError:
        listed = ", ".join(adata.obsm) or "nothing"
        raise ValueError(
            f"{path}: no representation {rep!r} in obsm, which holds {listed}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    pick = lambda name: None if name is None else adata.obs[name].to_numpy()
    adata.file.close()
    return {
        "x": x,
        "t": t,
        "weights": pick(columns.weight),
        "ids": pick(columns.id),
        "groups": pick(columns.group),
        "names": adata.obs_names,
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
        raise ValueError(f"{path}: not {kind} ({first})") from None


def _check_left_to_us(frame: Any, features: list[Any], path: Path) -> None:
    """Nobody said which columns are dimensions: none may be one, or not be one, by accident."""
    choose = "or choose columns with --columns"
    for name in features:
        if str(name).startswith("Unnamed: "):  # pandas' word for a column without a name
            raise ValueError(
                f"{path}: column {name!r} looks like an index that was written along; write the "
                f"file without it, {choose}"
            )
    for name in frame.columns.difference(features, sort=False):
        column = frame[name]
        bad = _no_numbers(column)
        if 0 < 2 * bad.size < column.notna().sum():
            raise ValueError(
                f"{path}: column {name!r} holds numbers, but {column.iloc[bad[0]]!r} in "
                f"{rows_named(bad)}; mend it, {choose}"
            )


def _no_numbers(column: Any) -> np.ndarray:
    """The rows of a pandas column of text that are neither numbers nor missing."""
    import pandas

    if not (pandas.api.types.is_object_dtype(column) or pandas.api.types.is_string_dtype(column)):
        return np.arange(len(column))
    unread = pandas.isna(pandas.to_numeric(column, errors="coerce"))
    return np.flatnonzero(unread & column.notna())


def _numbers(column: Any, place: str) -> np.ndarray:
    """A pandas column as floats, or an error that says where it is and what it holds."""
    try:
        found = column.to_numpy()
        if found.dtype == object:  # pandas has several words for what is missing
            found = np.where(column.isna(), np.nan, found)
        return as_numbers(found, place).astype(np.float64)
    except ValueError:
        bad = _no_numbers(column)
        example = f", for example {column.iloc[bad[0]]!r} in row {bad[0]}" if bad.size else ""
        raise ValueError(f"{place} must hold numbers, got {column.dtype}{example}") from None


def _rows(part: Any, name: str, n: int) -> np.ndarray | None:
    if part is None:
        return None
    part = np.asarray(part)
    if part.ndim != 1 or part.dtype.kind not in "iu" or part.size == 0:
        raise ValueError(f"{name} must be a list of row numbers, got {part.dtype} {part.shape}")
    if part.min() < 0 or part.max() >= n:
        raise ValueError(f"{name} must be row numbers below {n}, got {part.min()}..{part.max()}")
    return part
