"""Check what an HDF5 file declares in a separate process, before it is read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stitchflow._files.archive import check_unpacked
from stitchflow._status import BadInput
from stitchflow._types import most_unpacked

PROBE = Path(__file__).with_name("h5_probe.py")
# Time limit for inspecting an HDF5 file: seconds, mostly for a cold start, and bytes per second.
PATIENCE, RATE = 30.0, 2e7


def check_h5(path: Path, wanted: Sequence[str]) -> None:
    """Refuse links out of the file, declared sizes that it cannot hold, and endless loops.

    Declared sizes are checked in the whole file; content is read only in the wanted parts.

    Arguments:
        path: the file.
        wanted: the names of the parts that will be read.
    """
    size = path.stat().st_size
    arguments = [str(path.resolve()), str(most_unpacked(size)), *wanted]
    # -P: the probe must not import the modules beside it.
    probe = [sys.executable, "-P", str(PROBE), *arguments]
    seconds = PATIENCE + size / RATE
    try:
        found = subprocess.run(probe, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise BadInput(f"HDF5 finds no end in it within {seconds:.0f} s") from None
    if found.returncode < 0:
        raise BadInput("HDF5 crashes on it")
    if found.returncode:
        raise BadInput(found.stderr.strip().splitlines()[-1])
    check_unpacked(int(found.stdout), size)
