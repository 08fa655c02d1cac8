"""A look at an HDF5 file in a process of its own: HDF5 loops or crashes on some damaged files.

Run as a script, with a path and whether the matrix X is wanted. It prints the bytes that the arrays
declare. It imports nothing of stitchflow, so that it starts in a moment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import h5py


def look(group: Any, whole: bool) -> Iterator[int]:
    """Bytes of every array, after what a reader will ask of it was asked."""
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
                yield item.size * item.dtype.itemsize
                if h5py.check_vlen_dtype(item.dtype) or h5py.check_string_dtype(item.dtype):
                    item[()]  # its parts lie anywhere


if __name__ == "__main__":
    try:
        with h5py.File(sys.argv[1]) as file:
            print(sum(look(file, sys.argv[2] == "whole")))
    except Exception as error:
        sys.exit(str(error).splitlines()[0] if str(error) else type(error).__name__)
