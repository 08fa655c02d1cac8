"""A look at an HDF5 file in a process of its own: HDF5 loops or crashes on some damaged files.

Run as a script, with a path, whether the matrix X is wanted, and how many bytes may be declared. It
prints the bytes that the arrays declare, or so many of them that they are too many. It imports
nothing of stitchflow, so that it starts in a moment.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any


def look(group: Any, whole: bool) -> Iterator[int]:
    """Bytes of every array, each before what a reader will ask of it is asked."""
    import h5py

    list(group.attrs.items())
    for name in group:
        item = group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None
        if isinstance(item, h5py.Group):
            yield from look(item, whole)
        elif item is None or item.external or item.is_virtual:
            raise ValueError(f"{name} leads outside the file")
        else:
            list(item.attrs.items())
            if whole or not item.name.startswith(("/X", "/raw/X")):
                # One chunk may be larger than all of its array.
                largest = max(item.size or 0, math.prod(item.chunks or ()))
                yield largest * item.dtype.itemsize
                read(item)


def read(item: Any) -> None:
    """What lies anywhere in the file: texts, and the chunks of numbers."""
    import h5py

    if h5py.check_vlen_dtype(item.dtype) or h5py.check_string_dtype(item.dtype):
        item[()]
    elif item.chunks and item.size:
        for chunk in item.iter_chunks():
            item[chunk]


def declared(path: str, whole: bool, most: int) -> int:
    """The bytes that a file's arrays declare, counted until they are too many."""
    import h5py

    total = 0
    with h5py.File(path) as file:
        for size in look(file, whole):
            total += size
            if total > most:
                break
    return total


if __name__ == "__main__":
    try:
        print(declared(sys.argv[1], sys.argv[2] == "whole", int(sys.argv[3])))
    except ImportError as error:
        sys.exit(f"a look into it needs h5py, which cannot be imported: {error}")
    except Exception as error:
        sys.exit(str(error).splitlines()[0] if str(error) else type(error).__name__)
