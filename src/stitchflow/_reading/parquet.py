"""Columns of `.parquet` files: what they declare, and their texts within a limit of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stitchflow._files.archive import check_unpacked
from stitchflow._status import BadInput
from stitchflow._types import most_unpacked

ROWS = 2**16  # rows of texts at once


def columns_of(path: Path) -> list[str]:
    """The names of the columns of the file `path`, without the index of pandas."""
    schema = _schema(path)
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [name for name in schema.names if name not in index]


def kinds(path: Path) -> tuple[set[str], set[str]]:
    """The columns of the file `path` that declare numbers, and those that declare texts."""
    from pyarrow import types

    numbers, written = set(), set()
    for field in _schema(path):
        kind = field.type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            numbers.add(field.name)
        kind = kind.value_type if types.is_dictionary(kind) else kind
        if types.is_string(kind) or types.is_large_string(kind):
            written.add(field.name)
    return numbers, written


def check_columns(path: Path, wanted: set[str]) -> None:
    """Refuse columns of lists, and more numbers than a file of its size can hold.

    Arguments:
        path: the file.
        wanted: the columns that will be read.
    """
    from pyarrow.parquet import read_metadata
    from pyarrow.types import is_nested

    for field in _schema(path):
        if field.name in wanted and is_nested(field.type):
            raise BadInput(f"column {field.name!r} holds {field.type} instead of single values")
    found = read_metadata(path)
    total = 0
    for group in map(found.row_group, range(found.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema in wanted:
                count = max(column.num_values, group.num_rows)
                total += max(8 * count, column.total_uncompressed_size)
    check_unpacked(total, path.stat().st_size)


def texts(path: Path, name: str, most: int | None = None) -> list[str | None]:
    """The texts of a column, unless they are far larger than the file.

    A text that is stored once may be referred to by every row. Rows are therefore read as
    references, and the total size is checked before texts are made of them.

    Arguments:
        path: the file.
        name: the column.
        most: how many rows are read; None reads all.
    """
    from pyarrow.parquet import ParquetFile, read_metadata

    size, total = path.stat().st_size, 0
    found: list[str | None] = []
    metadata = read_metadata(path)
    longest, shared = _stored(metadata, name)
    # Texts stored as differences to the one before are unpacked; each is at most as long as all.
    rows = ROWS if shared else max(1, min(ROWS, most_unpacked(size) // longest))
    with ParquetFile(path, metadata=metadata, read_dictionary=[name] if shared else None) as file:
        for batch in file.iter_batches(min(rows, most or rows), columns=[name], use_threads=False):
            column, added = _as_texts(batch.column(0))
            total += added
            check_unpacked(total, size)
            found += column
            if most is not None and len(found) >= most:
                return found[:most]
    return found


def _stored(metadata: Any, name: str) -> tuple[int, bool]:
    """The bytes of a column's largest part, and whether its texts are stored completely."""
    longest, shared = 1, True
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema == name:
                longest = max(longest, column.total_uncompressed_size)
                shared = shared and "DELTA_BYTE_ARRAY" not in column.encodings
    return longest, shared


def _as_texts(column: Any) -> tuple[list[str | None], int]:
    """The texts of a batch, equal ones as one object, and their bytes without this sharing."""
    from pyarrow import compute

    codes = column if hasattr(column, "dictionary") else column.dictionary_encode()
    lengths = compute.binary_length(codes.dictionary)  # pyright: ignore
    added = compute.sum(lengths.take(codes.indices)).as_py() or 0  # pyright: ignore
    values = codes.dictionary.to_pylist()
    return [None if code is None else values[code] for code in codes.indices.to_pylist()], added


def _schema(path: Path) -> Any:
    from pyarrow.parquet import read_schema

    return read_schema(path)
