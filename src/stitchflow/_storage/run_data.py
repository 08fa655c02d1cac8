"""A finished run together with the individuals on which it can be scored."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._method.contract import Fit
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import DataFile, read_table
from stitchflow._status import BadInput
from stitchflow._storage.run_folder import Split, read_split
from stitchflow._storage.save import load


def open_run(run: Path, data: Path | None = None) -> tuple[Fit, Snapshots | None]:
    """A finished run, and individuals to score it on.

    The fit has its training data where that can be found. The individuals are those of `data` that
    the run was not trained on, otherwise those that were held out; None if there are none.

    Arguments:
        run: the directory of the run.
        data: a data file; None uses the file that the run was fitted to.
    """
    result = load(run)
    if {"path", "columns"} <= set(result.source):
        return _open_recorded(result, run, data)
    if data is None:
        raise BadInput(
            f"{run} was not made by `stitchflow fit` and has no record of its data; "
            "name a file with `evaluate --data`"
        )
    file = _in_its_space(read_table(data), result, run)
    return result, _of_other_data(file, run, None)


def _open_recorded(result: Fit, run: Path, data: Path | None) -> tuple[Fit, Snapshots | None]:
    columns, stored = Columns.stored(result.source["columns"]), Path(result.source["path"])
    if data is None and not stored.is_file():
        words = f"{stored}: the data of {run} is gone"
        raise BadInput(f"{words}; name another file with `evaluate --data`")
    file = _in_its_space(read_table(data or stored, columns), result, run)
    split = _with_marks(read_split(run, result.source), result.source, file)
    here = split.found_in(file.snapshots)
    if here is not None and here.same_table(split):
        result.data = file.at_rows(here.train)
        return result, file.at_rows(here.test) if len(here.test) else None
    if data is None:
        words = f"{stored} has changed since {run} was fitted"
        raise BadInput(f"{words}; name a file with `evaluate --data`")
    with suppress(ValueError):  # the file that was fitted may have been removed or replaced
        original = read_table(stored, columns)
        split = _with_marks(split, result.source, original)
        before, here = split.found_in(original.snapshots), split.found_in(file.snapshots)
        if before is not None and before.same_table(split):
            result.data = original.at_rows(before.train)
    return result, _of_other_data(file, run, here)


def _with_marks(split: Split, source: dict[str, Any], file: DataFile) -> Split:
    """The split with marks of its individuals; runs of 0.1.0 only store the hash of the file."""
    if split.marks is None and file.sha256 == source.get("sha256"):
        return split.marked(file.snapshots)
    return split


def _in_its_space(file: DataFile, result: Fit, run: Path) -> DataFile:
    if file.snapshots.dim != result.flow.dim:
        dims = f"{file.snapshots.dim} dimensions; {run} was fitted in {result.flow.dim}"
        raise BadInput(f"{file.path} has {dims}")
    return file


def _of_other_data(file: DataFile, run: Path, here: Split | None) -> Snapshots:
    """The individuals of another file than the run's own that the run was not trained on."""
    data = file.snapshots
    rows = np.arange(len(data.x)) if file.test_rows is None else file.test_rows
    if here is None:
        _say(f"{run} keeps no record of whom it was trained on: all of {file.path} is scored")
        return file.at_rows(rows)
    left = np.setdiff1d(rows, here.train)
    if not left.size:
        raise BadInput(f"{run} was trained on every individual of {file.path}: none can be scored")
    if left.size < rows.size:
        count = f"{rows.size - left.size:,} of the {rows.size:,} individuals of {file.path}"
        _say(f"{run} was trained on {count}; they are left out of the scores")
    return file.at_rows(left)


def _say(words: str) -> None:
    print(f"stitchflow: note: {words}", file=sys.stderr)


def held_out(file: DataFile, run: Path, source: dict[str, Any]) -> Snapshots | None:
    """The individuals of a run's own data that it was not trained on; None if there are none.

    Arguments:
        file: the data of the run.
        run: its directory.
        source: what its header records about the data.
    """
    split = _with_marks(read_split(run, source), source, file).found_in(file.snapshots)
    return file.at_rows(split.test) if split is not None and len(split.test) else None
