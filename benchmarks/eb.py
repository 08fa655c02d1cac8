"""Fit and score the embryoid-body data with defaults; append result lines to results/eb.jsonl."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("STITCHFLOW_DATA", ROOT.parent / "shared" / "data")) / "eb5.npz"
RESULTS = ROOT / "results" / "eb.jsonl"
RUNS = (["--time-varying"], [], ["--method", "nearest"], ["--method", "ot-linear"])


def main() -> None:
    command = [sys.executable, "-m", "stitchflow.cli"]
    RESULTS.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for i, options in enumerate(RUNS):
            run = f"{folder}/run{i}"
            subprocess.run([*command, "fit", str(DATA), "--out", run, *options], check=True)
            subprocess.run([*command, "evaluate", run, "--json", str(RESULTS)], check=True)


if __name__ == "__main__":
    main()
