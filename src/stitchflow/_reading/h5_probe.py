"""Inspect an HDF5 file in a separate process: HDF5 loops or crashes on some damaged files.

It is run as a script with a path, the number of bytes that may be declared or used, and the names
of the parts that a reader wants. It prints the number of bytes that the arrays declare and the
wanted texts take, and stops counting when they are too many. It imports nothing from stitchflow, so
that it starts quickly.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

ROWS = 64  # rows of texts at once: all of them may refer to one long text
MATRICES = ("/X/", "/raw/X/")
CURRENT = "0.2.0"  # the encoding of a data frame whose columns can be read one by one


def look(group: Any, wanted: Sequence[str]) -> Iterator[int]:
    """The bytes of every array, each before its content is read."""
    import h5py

    list(group.attrs.items())
    for name in group:
        item = group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None
        if isinstance(item, h5py.Group):
            yield from look(item, wanted)
        elif item is None or item.external or item.is_virtual:
            raise ValueError(f"{name} leads outside the file")
        else:
            list(item.attrs.items())
            asked = any(f"{item.name}/".startswith(f"{part}/") for part in wanted)
            if asked or not f"{item.name}/".startswith(MATRICES):
                # One chunk may be larger than all of its array.
                largest = max(item.size or 0, math.prod(item.chunks or ()))
                yield largest * item.dtype.itemsize
            if asked:
                yield from read(item)


def read(item: Any) -> Iterator[int]:
    """Read an array, which may be stored anywhere in the file; yields the bytes of its texts."""
    import h5py

    if h5py.check_vlen_dtype(item.dtype) or h5py.check_string_dtype(item.dtype):
        places = [slice(at, at + ROWS) for at in range(0, len(item), ROWS)] if item.shape else [()]
        for place in places:
            found = item[place]
            yield sum(map(len, found.flat)) if hasattr(found, "flat") else len(found)
    elif item.chunks and item.size:
        for chunk in item.iter_chunks():
            item[chunk]


def parts_of(file: Any, wanted: Sequence[str]) -> list[str]:
    """The parts that are read: the wanted ones and the names of rows, or all of an older file."""
    obs = file.get("obs")
    if obs is not None and obs.attrs.get("encoding-version") == CURRENT:
        return [*wanted, f"/obs/{obs.attrs.get('_index')}"]
    names: list[str] = []
    file.visit(lambda name: names.append(f"/{name}"))
    return [*wanted, *(name for name in names if not f"{name}/".startswith(MATRICES))]


def declared(path: str, most: int, wanted: Sequence[str]) -> int:
    """The bytes of a file's arrays and of its wanted texts, counted until they are too many."""
    import h5py

    total = 0
    with h5py.File(path) as file:
        for size in look(file, parts_of(file, wanted)):
            total += size
            if total > most:
                break
    return total


def limit_memory(most: int) -> None:
    """Limit memory to `most` bytes more than the interpreter and HDF5 use already (on Linux)."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return  # Windows has no limits, and other systems do not report the memory in use
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = used + most if hard == resource.RLIM_INFINITY else min(used + most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


if __name__ == "__main__":
    try:
        import h5py as h5py

        limit_memory(int(sys.argv[2]))
        print(declared(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
    except ImportError as error:
        sys.exit(f"a look into it needs h5py, which cannot be imported: {error}")
    except MemoryError:
        sys.exit(f"a look into it takes more than {int(sys.argv[2]):,} bytes: refused")
    except Exception as error:
        sys.exit(str(error).splitlines()[0] if str(error) else type(error).__name__)
