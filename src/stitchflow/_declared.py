"""What data files of other formats declare, looked at before their readers believe it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from stitchflow._archive import check_unpacked
from stitchflow._types import most_unpacked

PROBE = Path(__file__).with_name("_h5_probe.py")
# For a first look at an HDF5 file: seconds, most of them for a cold start, and bytes a second.
PATIENCE, RATE = 30.0, 2e7


def parquet_columns(path: Path) -> list[str]:
    """The names of a file's columns but for the index that pandas keeps beside them."""
    from pyarrow.parquet import read_schema

    schema = read_schema(path)
    index = (schema.pandas_metadata or {}).get("index_columns", ())
    return [name for name in schema.names if name not in index]


def check_parquet(path: Path, wanted: set[str]) -> None:
    """No more numbers than a file of its size could hold, each in a row of its own."""
    from pyarrow.parquet import read_metadata, read_schema
    from pyarrow.types import is_nested

    for field in read_schema(path):
        if field.name in wanted and is_nested(field.type):
            raise ValueError(f"column {field.name!r} holds {field.type} instead of single values")
    found = read_metadata(path)
    total = 0
    for group in map(found.row_group, range(found.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            if column.path_in_schema in wanted:
                count = max(column.num_values, group.num_rows)
                total += max(8 * count, column.total_uncompressed_size)
    check_unpacked(total, path.stat().st_size)


def check_h5(path: Path, whole: bool) -> None:
    """Nothing that lies outside the file, no more numbers than it could hold, no endless loop.

    The matrix X stays on disk unless the `whole` file is wanted.
    """
    size = path.stat().st_size
    arguments = [str(path.resolve()), "whole" if whole else "parts", str(most_unpacked(size))]
    # -P: the modules beside the probe are none that it may import.
    probe = [sys.executable, "-P", str(PROBE), *arguments]
    seconds = PATIENCE + size / RATE
    try:
        found = subprocess.run(probe, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ValueError(f"HDF5 finds no end in it within {seconds:.0f} s") from None
    if found.returncode < 0:
        raise ValueError("HDF5 crashes on it")
    if found.returncode:
        raise ValueError(found.stderr.strip().splitlines()[-1])
    check_unpacked(int(found.stdout), size)
