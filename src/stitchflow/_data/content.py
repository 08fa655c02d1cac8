"""Individuals identified by their measurements, independent of the file and row they come from."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from stitchflow._data.snapshots import Snapshots

BLOCK = 2**16  # rows at once: a memory map is not read whole
# Single-precision numbers that were written as text are read in double precision: they differ from
# the originals unless both are compared in single precision.
SINGLE, DOUBLE = 4, 8


def precision_of(data: Snapshots) -> int:
    """Bytes by which numbers are compared: single precision unless it confuses individuals.

    Coordinates of 1,000,000.01 and 1,000,000.02, or times in seconds since 1970, need double.
    """
    count = lambda precision: len(np.unique(marks(data, precision)))
    return SINGLE if count(SINGLE) == count(DOUBLE) else DOUBLE


def marks(data: Snapshots, precision: int) -> np.ndarray:
    """A hash for every row of a whole table, computed from its coordinates and its time alone.

    Hashes are in the order of the rows of the file. Equal rows have equal hashes; among a million
    different rows, two have the same hash with a probability of 3e-8.
    """
    assert data.rows is not None
    kind, found = np.dtype(f"<f{precision}"), np.empty(len(data.x), np.uint64)
    for start in range(0, len(data.x), BLOCK):
        part = slice(start, start + BLOCK)
        t = data.times[data.index[part], None]
        # Zero is added because minus zero is the same number with different bytes.
        rows = np.hstack([data.x[part].astype(kind), t.astype(kind)]) + kind.type(0)
        raw = b"".join(blake2b(row, digest_size=8).digest() for row in rows)
        found[data.rows[part]] = np.frombuffer(raw, "<u8")
    return found


def among(here: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Which hashes belong to known individuals; of several copies, as many as are known."""
    order = np.argsort(here, kind="stable")
    values, first, count = np.unique(here[order], return_index=True, return_counts=True)
    copy = np.empty(len(here), int)
    copy[order] = np.arange(len(here)) - np.repeat(first, count)
    known = np.sort(known)
    several = np.searchsorted(known, values, "right") - np.searchsorted(known, values, "left")
    most = np.empty(len(here), int)
    most[order] = np.repeat(several, count)
    return copy < most
