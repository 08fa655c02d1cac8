"""Tables of named columns: which columns are numbers, and how the numbers are written."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stitchflow._reading import parquet as _parquet
from stitchflow._reading.numerals import is_numeral, is_plain, read_numerals
from stitchflow._reading.time_labels import durations
from stitchflow._status import BadInput, DataWarning
from stitchflow._types import as_numbers, rows_named

LOOK = 100  # rows that are read to decide whether a column of texts holds numbers
MANY = 10  # rows from which on numbers that rise by one are no coincidence
DIGITS = re.compile(r"[-+]?\d+")
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")  # a whole number without leading zeros
# Names of columns that name or count individuals: id, cell_id, trackID, barcode, row.
NAMING = re.compile(r"(?:.*[\W_])?(?:id|ids|index|idx|barcode|barcodes|row|uuid)|.*[a-z]I[Dd]")


class Asked(NamedTuple):
    """What is wanted from a table.

    Arguments:
        named: the columns that the user named.
        labels: the columns of ids, groups and conditions among them.
        chosen: whether the coordinates are among them too, so that no other column is needed.
    """

    named: set[str]
    labels: set[str]
    chosen: bool


@dataclass(frozen=True)
class Table:
    """The part of a table that was read.

    Arguments:
        frame: the data frame.
        names: the names of all columns of the file.
        unread: the columns of texts that were not read.
    """

    frame: Any
    names: list[str]
    unread: tuple[str, ...] = ()

    def dimensions(self, taken: Collection[str | None]) -> list[str]:
        """The columns of numbers that are not `taken`; a warning names those that are left out."""
        others = [name for name in self.frame.columns if name not in taken]
        found = [name for name in others if _is_dimension(name, self.frame[name])]
        left = [name for name in (*others, *self.unread) if name not in found]
        if found and left:
            listed = ", ".join(map(repr, left[:20])) + (", ..." if len(left) > 20 else "")
            words = f"columns {listed} hold no numbers and are left out"
            warnings.warn(f"{words}; choose others with --columns", DataWarning, stacklevel=2)
        self._check_whole(found)
        return found

    def _check_whole(self, names: Sequence[str]) -> None:
        """Refuse names and row numbers as coordinates; a warning names other whole numbers.

        Columns that the user chose with --columns never come here.
        """
        whole = [name for name in names if _is_whole(self.frame[name])]
        for name in whole:
            if NAMING.fullmatch(name) or _counts_rows(self.frame[name]):
                words = f"column {name!r} looks like names or row numbers, not like a coordinate"
                raise BadInput(f"{words}; say what it is with --id-key, or choose --columns")
        if whole:
            listed = ", ".join(map(repr, whole[:20])) + (", ..." if len(whole) > 20 else "")
            words = f"columns {listed} hold whole numbers and are used as coordinates"
            advice = "if some are labels or counts of something else, choose others with --columns"
            warnings.warn(f"{words}; {advice}", DataWarning, stacklevel=3)


def read_csv(path: Path, asked: Asked, separator: str = ",") -> Table:
    """A table written as text.

    Columns of labels stay texts, because 007 and 7 are two different names.

    Arguments:
        path: the file.
        asked: what is wanted from it.
        separator: the character between two fields.
    """
    import pandas

    exact: Any = {"float_precision": "round_trip", "low_memory": False}
    texts: Any = dict.fromkeys(asked.labels, str)
    frame = pandas.read_csv(path, sep=separator, dtype=texts, **exact)
    if not isinstance(frame.index, pandas.RangeIndex):  # pandas makes unnamed columns the index
        named, there = len(frame.columns), len(frame.columns) + frame.index.nlevels
        raise BadInput(f"its header names {named} columns, but its rows have {there} fields")
    # pandas renames the second of two equal names.
    first = pandas.read_csv(path, sep=separator, header=None, nrows=1, dtype=str)
    _check_names(first.iloc[0].dropna().tolist())
    for name in asked.labels & set(frame.columns):
        column = frame[name]
        if column.notna().all() and all(map(WHOLE.fullmatch, column.unique())):
            frame[name] = column.astype(np.int64)
    return Table(frame, frame.columns.tolist())


def read_parquet(path: Path, asked: Asked) -> Table:
    """The named columns of a `.parquet` file, and all numbers unless coordinates were chosen.

    Texts are read if they were asked for. Other texts are read only if their first rows look like
    numbers.

    Arguments:
        path: the file.
        asked: what is wanted from it.
    """
    import pandas

    named, there = asked.named, _parquet.columns_of(path)
    _check_names(there)
    wanted = [name for name in there if name in named or not asked.chosen]
    _parquet.check_columns(path, set(wanted))
    numeric, written = _parquet.kinds(path)
    texts = [name for name in wanted if name in written]
    plain = [name for name in wanted if name not in written and name in named | numeric]
    frame = pandas.DataFrame()
    if plain:
        frame = pandas.read_parquet(path, columns=plain).reset_index(drop=True)
        frame.columns = frame.columns.map(str)  # names may have been numbers
    for name in texts:
        if name in named or _mostly(is_numeral, _parquet.texts(path, name, LOOK)):
            frame[name] = pandas.Series(_parquet.texts(path, name), dtype=object)
    read = [name for name in wanted if name in frame.columns]
    return Table(frame[read], there, tuple(name for name in wanted if name not in read))


def _check_names(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise BadInput(f"two columns are called {name!r}")


def _is_dimension(name: str, column: Any) -> bool:
    """Whether an unnamed column is a coordinate; an error is raised where that is unclear."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    mend = "or choose columns with --columns"
    if is_numeric_dtype(column) and not is_bool_dtype(column):
        if name.startswith("Unnamed: "):  # pandas' name of a column without a name
            words = "looks like an index that was written along; write the file without it"
            raise BadInput(f"column {name!r} {words}, {mend}")
        return True
    known = column.dropna().tolist()
    if not known or not all(isinstance(entry, str) for entry in known):
        return any(isinstance(entry, Decimal) for entry in known)
    values = _of_texts(column, read_numerals)
    if values is not None:
        if all(map(DIGITS.fullmatch, known)):
            return False  # whole numbers that the file declares as texts are names
        example = f"for example {known[0]!r} as {values[column.notna()][0]:g}"
        words = f"column {name!r} is text that is read as numbers, {example}"
        warnings.warn(words, DataWarning, stacklevel=4)
        return True
    if _mostly(is_plain, known):
        bad = np.flatnonzero([isinstance(e, str) and not is_plain(e) for e in column])
        example = f"{column.iloc[bad[0]]!r} in {rows_named(bad)}"
        raise BadInput(f"column {name!r} holds numbers, but {example}; mend it, {mend}")
    if _mostly(is_numeral, known):
        words = "numbers that are not written in one clear way"
        raise BadInput(f"column {name!r} holds {words}, such as {known[0]!r}; mend it, {mend}")
    return False


def _is_whole(column: Any) -> bool:
    """Whether a column of numbers is declared as whole numbers."""
    return column.dtype.kind in "iu" or str(column.dtype).lower().startswith(("int", "uint"))


def _counts_rows(column: Any) -> bool:
    """Whether whole numbers count the rows of a table one by one, from any number on."""
    values = column.dropna().to_numpy(np.int64)
    return len(values) >= MANY and bool((np.diff(values) == 1).all())


def _mostly(test: Callable[[str], bool], entries: Sequence[Any]) -> bool:
    known = [entry for entry in entries if isinstance(entry, str)]
    return 2 * sum(map(test, known)) > len(known)


def numbers(column: Any, name: str) -> np.ndarray:
    """A pandas `column` called `name` as floats; an error says what it holds and where."""
    found = _of_texts(column, read_numerals)
    if found is not None:
        return found
    try:
        found = column.to_numpy()
        if found.dtype == object:  # pandas has several values for what is missing
            found = np.where(column.isna(), np.nan, found)
        return as_numbers(found, name).astype(np.float64)
    except ValueError:
        bad = [row for row, e in enumerate(column) if isinstance(e, str) and not is_plain(e)]
        example = f", for example {column.iloc[bad[0]]!r} in row {bad[0]}" if bad else ""
        raise BadInput(f"column {name!r} must hold numbers, got {column.dtype}{example}") from None


def times(column: Any, name: str) -> np.ndarray:
    """The numbers of a `column` called `name`, whose labels may also be durations."""
    found = _of_texts(column, durations)
    return numbers(column, name) if found is None else found


def _of_texts(column: Any, read: Callable[..., Any]) -> np.ndarray | None:
    """The numbers of a column of texts, NaN where they are missing; None for other columns."""
    import pandas

    if not (pandas.api.types.is_object_dtype(column) or pandas.api.types.is_string_dtype(column)):
        return None
    codes, unique = pandas.factorize(column)
    if not len(unique) or not all(isinstance(text, str) for text in unique):
        return None
    values = read(list(unique))
    return None if values is None else np.append(values, np.nan)[codes]
