"""Arrays of `.npz` files as memory maps: rows are read when they are asked for."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

LARGE = 2**28  # bytes; smaller arrays are read at once
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def mapped(path: Path, name: str) -> np.ndarray | None:
    """The array `name` of an `.npz` as a read-only map, or None where it is small or compressed."""
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        entry = archive.getinfo(f"{name}.npy")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size < LARGE:
            return None
        with archive.open(entry) as member:
            read = HEADERS.get(np.lib.format.read_magic(member))
            if read is None:
                return None
            shape, fortran, dtype = read(member)
            header = member.tell()
        if dtype.hasobject or fortran:
            return None
        if entry.file_size != header + dtype.itemsize * int(np.prod(shape)):
            raise zipfile.BadZipFile(f"{name}.npy is cut short")
        # A local header: 26 bytes, two lengths, the name and what else the writer put there.
        file.seek(entry.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2").astype(int)
    start = entry.header_offset + 30 + int(lengths.sum()) + header
    return np.memmap(path, dtype, "r", start, shape)
