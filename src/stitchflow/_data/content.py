"""Individuals known by what was measured of them, whatever file and row they are read from."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from stitchflow._data.snapshots import Snapshots

BLOCK = 2**16  # rows at once: a memory map is not read whole
# A file of single precision that is written as text comes back in double: the same numbers differ
# unless they are compared in single precision.
SINGLE, DOUBLE = 4, 8


def precision_of(data: Snapshots) -> int:
    """Bytes a number is compared by: single precision unless it takes individuals for one another.

    Coordinates of 1,000,000.01 and 1,000,000.02, or times in seconds since 1970, need double.
    """
    count = lambda precision: len(np.unique(marks(data, precision)))
    return SINGLE if count(SINGLE) == count(DOUBLE) else DOUBLE


def marks(data: Snapshots, precision: int) -> np.ndarray:
    """A number for every row of a whole table, made from its coordinates and its time alone.

    They are in the order of the rows of the file. Equal rows have equal marks; of a million others,
    two have the same one with a probability of 3e-8.
    """
    assert data.rows is not None
    kind, found = np.dtype(f"<f{precision}"), np.empty(len(data.x), np.uint64)
    for start in range(0, len(data.x), BLOCK):
        part = slice(start, start + BLOCK)
        t = data.times[data.index[part], None]
        # Zero is added because minus zero is the same number and has other bytes.
        rows = np.hstack([data.x[part].astype(kind), t.astype(kind)]) + kind.type(0)
        raw = b"".join(blake2b(row, digest_size=8).digest() for row in rows)
        found[data.rows[part]] = np.frombuffer(raw, "<u8")
    return found


def among(here: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which marks are those of known individuals; of several copies, as many as are known."""
    order = np.argsort(here, kind="stable")
    values, first, count = np.unique(here[order], return_index=True, return_counts=True)
    copy = np.empty(len(here), int)
    copy[order] = np.arange(len(here)) - np.repeat(first, count)
    known = np.sort(known)
    several = np.searchsorted(known, values, "right") - np.searchsorted(known, values, "left")
    most = np.empty(len(here), int)
    most[order] = np.repeat(several, count)
    return copy < most
