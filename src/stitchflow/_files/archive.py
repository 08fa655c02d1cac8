"""The arrays of `.npz` files, with every declared size checked before memory is asked for."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from stitchflow._types import most_unpacked

LARGE = 2**28  # bytes; larger arrays that are not compressed stay on disk
PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what NumPy writes
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def check_unpacked(unpacked: int, packed: int) -> None:
    if unpacked > most_unpacked(packed):
        raise Unreadable(f"it declares {unpacked:,} bytes in a file of {packed:,}: refused")


class Unreadable(ValueError):
    """A file that is not what it should be, and why."""


class Archive:
    """The arrays of an `.npz`, a path or its bytes, by name; nothing in it is executed.

    Whatever is wrong with it is `Unreadable`, a `ValueError` that says what.
    """

    def __init__(self, source: Path | bytes):
        self._source = source
        with self._open() as file:
            entries = file.infolist()
            self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
            if len(self._entries) < len(entries):
                raise Unreadable("it holds two arrays of one name")
            size = len(source) if isinstance(source, bytes) else source.stat().st_size
            check_unpacked(sum(entry.file_size for entry in entries), size)

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def __getitem__(self, name: str) -> np.ndarray:
        """The array, as a read-only map of the file where it is large and not compressed."""
        if name not in self._entries:
            raise Unreadable(
                f"no array {name!r}; the file holds {', '.join(self.names) or 'nothing'}"
            )
        entry = self._entries[name]
        with self._open() as file:
            with file.open(entry) as member:
                header = _check_header(member, entry)
            if header is not None and not isinstance(self._source, bytes):
                return _mapped(self._source, entry, *header)
            with file.open(entry) as member:
                array = np.lib.format.read_array(member, allow_pickle=False)
                member.read()  # the checksum is compared at the end
            return array

    def all(self) -> dict[str, np.ndarray]:
        return {name: self[name] for name in self.names}

    @contextmanager
    def _open(self) -> Iterator[zipfile.ZipFile]:
        source = self._source
        try:
            with zipfile.ZipFile(
                io.BytesIO(source) if isinstance(source, bytes) else source
            ) as file:
                yield file
        except Unreadable:
            raise
        except Exception as error:  # what a parser makes of arbitrary bytes has no end
            reason = str(error) or type(error).__name__
            raise Unreadable(f"not a readable .npz file ({reason})") from None


def _check_header(member: IO[bytes], entry: zipfile.ZipInfo) -> tuple | None:
    """Offset, shape and type of an array that is worth a map; the declared size must be there."""
    if entry.compress_type not in PLAIN:
        raise Unreadable(f"not a readable .npz file ({entry.filename} is packed in another way)")
    read = HEADERS.get(np.lib.format.read_magic(member))
    if read is None:
        raise Unreadable(f"not a readable .npz file ({entry.filename} is of another version)")
    shape, fortran, dtype = read(member)
    if dtype.hasobject:
        raise Unreadable("it holds pickled objects, which are refused")
    start, count = member.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or max(dtype.itemsize, 1) * count != entry.file_size - start:
        raise Unreadable(f"not a readable .npz file ({entry.filename} is not of its declared size)")
    large = entry.compress_type == zipfile.ZIP_STORED and entry.file_size >= LARGE
    return (start, shape, dtype) if large and not fortran else None


def _mapped(path: Path, entry: zipfile.ZipInfo, start: int, shape: tuple, dtype: np.dtype):
    with open(path, "rb") as file:
        # A local header: 26 bytes, two lengths, the name and what else the writer put there.
        file.seek(entry.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2").astype(int)
    return np.memmap(path, dtype, "r", entry.header_offset + 30 + int(lengths.sum()) + start, shape)
