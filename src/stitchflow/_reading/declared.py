"""What an HDF5 file declares, looked at in a process of its own before a reader believes it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stitchflow._files.archive import check_unpacked
from stitchflow._status import BadInput
from stitchflow._types import most_unpacked

PROBE = Path(__file__).with_name("h5_probe.py")
# For a first look at an HDF5 file: seconds, most of them for a cold start, and bytes a second.
PATIENCE, RATE = 30.0, 2e7


def check_h5(path: Path, wanted: Sequence[str]) -> None:
    """Nothing that lies outside the file, no more than it could hold, no endless loop.

    What the file declares is looked at everywhere, and read only in the `wanted` parts.
    """
    size = path.stat().st_size
    arguments = [str(path.resolve()), str(most_unpacked(size)), *wanted]
    # -P: the modules beside the probe are none that it may import.
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
