"""The formats of data files: one entry of `FORMATS` for each, with its endings and its reader."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stitchflow._files.archive import Archive
from stitchflow._reading.cells import representation, representation_key, times, warn_of_drawings
from stitchflow._reading.frames import Asked, Table, numbers, read_csv, read_parquet
from stitchflow._reading.frames import times as frame_times
from stitchflow._reading.h5ad import read_cells
from stitchflow._reading.time_labels import durations, labels_of
from stitchflow._status import BadInput


@dataclass(frozen=True)
class Columns:
    """The meaning of the columns of a file; None uses the format's default name, or none.

    Arguments:
        time: the column of times.
        rep: the array of coordinates, of an `.npz` or `.h5ad` file.
        features: the columns of coordinates of a table; None takes all other columns of numbers.
        weight: the column of weights.
        id: the column of ids.
        group: the column of groups.
        condition: the column of conditions.
        total: how many interacting individuals there were, a number; None takes what an `.npz`
            file says in its array `total`.
    """

    time: str | None = None
    rep: str | None = None
    features: tuple[str, ...] | None = None
    weight: str | None = None
    id: str | None = None
    group: str | None = None
    total: float | None = None
    condition: str | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The columns as a run stores them; without a `total` as runs before it did."""
        later = ("total", "condition")
        return {n: v for n, v in asdict(self).items() if v is not None or n not in later}

    @staticmethod
    def stored(entry: dict[str, Any]) -> Columns:
        """The columns that the JSON of a run describes, in which tuples are lists."""
        features = entry.get("features")
        columns = Columns(**{name: entry[name] for name in entry if name != "features"})
        return replace(columns, features=None if features is None else tuple(features))


class Found(NamedTuple):
    """What a reader returns: arrays with one entry for each individual, in the order of the file.

    Arguments:
        x: the coordinates.
        t: the times.
        weights: the weights; None where there are none.
        ids: the ids; None where there are none.
        groups: the groups; None where there are none.
        conditions: the conditions; None where there are none.
        total: how many interacting individuals there were, one number or one for each of the sorted
            groups; None where the file does not say.
        labels: the times by their labels, where the file holds labels such as "day 2".
        names: the names of individuals, which are only shown to the user.
        train_idx: the row numbers of training individuals; None without a stored split.
        test_idx: the row numbers of held-out individuals; None without a stored split.
    """

    x: Any
    t: Any
    weights: Any = None
    ids: Any = None
    groups: Any = None
    conditions: Any = None
    total: Any = None
    labels: Any = None
    names: Any = None
    train_idx: Any = None
    test_idx: Any = None


@dataclass(frozen=True)
class Format:
    """A kind of data file.

    Attributes:
        endings: the endings of its files, in lower case and with their dot.
        read: makes arrays of a file. Any problem with the file is a `BadInput` that begins with its
            path.
        about: what the help says after the endings.
    """

    endings: tuple[str, ...]
    read: Callable[[Path, Columns], Found]
    about: str = ""

    def __str__(self) -> str:
        return f"{', '.join(self.endings)} {self.about}".rstrip()


def _npz(path: Path, columns: Columns) -> Found:
    names = {
        "x": columns.rep or "x",
        "t": columns.time or "t",
        "weights": columns.weight or "w",
        "ids": columns.id or "id",
        "groups": columns.group or "group",
        "conditions": columns.condition or "condition",
        "total": "total",
    }
    chosen = {"weights": columns.weight, "ids": columns.id}
    chosen |= {"groups": columns.group, "conditions": columns.condition}
    asked = {"x", "t", *(part for part, name in chosen.items() if name)}
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
            if counted is not None:
                found["labels"] = labels_of(found["t"], counted[index])
                found["t"] = counted[index]
        for name in ("train_idx", "test_idx"):
            if name in file.names:
                found[name] = file[name]
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    return Found(**found)


def _table(read: Callable[[Path, Asked], Table], path: Path, columns: Columns) -> Found:
    """A table of named columns, which `read` returns as a data frame."""
    time = columns.time or "t"
    named_labels = (columns.id, columns.group, columns.condition)
    labels = {name for name in named_labels if name is not None}
    taken = {time, *labels, *([] if columns.weight is None else [columns.weight])}
    named = [*taken, *(columns.features or ())]
    try:
        import pandas as pandas

        with _quietly(path, "a readable table"):
            table = read(path, Asked(set(named), labels, bool(columns.features)))
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise BadInput(f"{path}: reading it needs {package}; install stitchflow[data]") from None
    if columns.rep:
        raise BadInput(f"{path}: --rep names a representation of an .h5ad; use --columns")
    for name in named:
        if name not in table.names:
            listed = ", ".join(map(str, table.names[:20]))
            raise BadInput(f"{path}: no column {name!r}; columns are {listed}")
    frame, weight = table.frame, columns.weight
    pick = lambda name: None if name is None else frame[name].to_numpy()
    try:
        t = frame_times(frame[time], time)
        weights = None if weight is None else numbers(frame[weight], weight)
        features = columns.features or table.dimensions(taken)
        if not features:
            raise BadInput(f"no numeric columns beside {time!r}")
        return Found(
            x=np.stack([numbers(frame[name], name) for name in features], axis=1),
            t=t,
            labels=labels_of(frame[time], t),
            weights=weights,
            ids=pick(columns.id),
            groups=pick(columns.group),
            conditions=pick(columns.condition),
        )
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None


def _h5ad(path: Path, columns: Columns) -> Found:
    asked = [columns.time, columns.weight, columns.id, columns.group, columns.condition]
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
        warn_of_drawings(representation_key(cells, rep))
        x, t = representation(cells, rep), times(cells, columns.time)
    except KeyError:
        listed = ", ".join(cells.obsm) or "nothing"
        raise BadInput(f"{path}: no representation {rep!r} in obsm, which holds {listed}") from None
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None
    pick = lambda name: None if name is None else cells.obs[name].to_numpy()
    return Found(
        x=x,
        t=t,
        weights=pick(columns.weight),
        ids=pick(columns.id),
        groups=pick(columns.group),
        conditions=pick(columns.condition),
        labels=labels_of(cells.obs[columns.time], t),
        names=cells.obs.index,
    )


@contextmanager
def _quietly(path: Path, kind: str) -> Iterator[None]:
    """Turn any error of another package into one sentence that names the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError:
        raise
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInput(f"{path}: not {kind} ({first})") from None


FORMATS = (
    Format((".npz",), _npz, "with x (individuals by features) and t (times)"),
    Format((".csv",), partial(_table, read_csv)),
    Format((".parquet",), partial(_table, read_parquet)),
    Format((".h5ad",), _h5ad),
)


def format_of(path: Path) -> Format:
    """The format of the file `path` by its ending; an error lists the known endings."""
    for known in FORMATS:
        if path.suffix.lower() in known.endings:
            return known
    endings = ", ".join(ending for known in FORMATS for ending in known.endings)
    came = path.suffix or "a file without ending"
    raise BadInput(f"{path}: cannot read {came!r}; expected one of {endings}")


def formats_in_words() -> str:
    """All formats in one line of help, those with an explanation last."""
    *others, last = map(str, sorted(FORMATS, key=lambda known: bool(known.about)))
    return f"{', '.join(others)}, or {last}"
