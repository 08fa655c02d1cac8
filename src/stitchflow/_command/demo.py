"""The embedded example: simulate, fit, evaluate, draw, report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

from stitchflow._data.snapshots import Snapshots
from stitchflow._files.whole import only_writer, write_atomically
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.scores import table
from stitchflow._judging.trivial import baselines
from stitchflow._method.contract import Fit
from stitchflow._objective.consistency import Consistency
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table
from stitchflow._status import BadInput
from stitchflow._stitching.stitching import Stitching, fit
from stitchflow._storage.run_folder import Split, write_split
from stitchflow._storage.run_state import HEADER
from stitchflow._storage.save import packed, write_run
from stitchflow._training.optimise import Optimiser
from stitchflow.datasets import double_well
from stitchflow.metrics import pattern_r2
from stitchflow.report import REPORT, write_report


def run_demo(out: Path, console: Console) -> None:
    """A 2-D double well, from snapshots to pictures, in `out`."""
    _check_folder(out)
    data, truth = double_well(dim=2, n=500, key=0)
    train, test = data.split(0.7, key=0)
    console.print(f"simulated {data!r} in two wells, beta = {truth.beta:g}")
    # Quick rather than best: no second stage.
    method = Stitching(optimiser=Optimiser(steps=1500), consistency=Consistency(steps=0))
    result = fit(train, method, progress=sys.stderr.isatty())
    console.print(result.summary())
    scores = evaluate(result, test, metrics=("w1",))
    columns = {result.method.name: scores, **baselines(train, test)}
    console.print(table(columns, title="held-out individuals"))
    assert result.energy is not None
    learned, true = result.energy.potential(test.x), truth.potential(test.x)
    r2 = pattern_r2(np.asarray(learned), np.asarray(true))
    console.print(f"potential against the truth on the held-out points: pattern R2 = {r2:.3f}")
    _keep(result, data, test, out)
    pictures = _draw(result, train, test, out)
    console.print(
        f"wrote {out}/: header.json, arrays.npz, data.npz" + (", " + pictures if pictures else "")
    )
    if not pictures:
        console.print("pictures need matplotlib: install stitchflow[plot]")
    try:
        write_report(result, out / REPORT, test=test)
        console.print(f"wrote {out / REPORT}: open it in a browser", soft_wrap=True)
    except ImportError as error:
        console.print(str(error))


def _keep(result: Fit, data: Snapshots, test: Snapshots, out: Path) -> None:
    """The run with its data beside it, so that `evaluate` and `report` work on it."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / "data.npz"
    assert data.rows is not None
    assert test.rows is not None
    rows = np.flatnonzero(np.isin(data.rows, test.rows))  # the file is in the order of `data`
    split = Split(np.setdiff1d(np.arange(len(data.x)), rows), rows)
    with only_writer(out):
        write_atomically(file, packed({"x": data.x, "t": data.times[data.index]}))
        table = read_table(file)
        split = split.marked(table.snapshots)
        content, columns = table.snapshots.fingerprint, Columns().record
        result.source = {"demo": True, "path": str(file.resolve()), "content": content}
        result.source |= {"columns": columns, "split_sha256": write_split(out, split)}
        write_run(result, out)


def _check_folder(out: Path) -> None:
    """A folder of an earlier demo may be written again, anything else may not."""
    header = out / HEADER
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out} is a file")
    if out.is_dir() and any(out.iterdir()):
        try:
            ours = json.loads(header.read_bytes())["data"]["demo"] is True
        except (OSError, ValueError, KeyError, TypeError):
            ours = False
        if not ours:
            raise BadInput(f"--out {out} is not empty and not a demo: choose another folder")


def _draw(result: Fit, train: Snapshots, test: Snapshots, out: Path) -> str:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    from stitchflow import pl

    path = np.linspace(test.times[0], test.times[-1], 20)
    overview = Figure(figsize=(13.0, 4.0), layout="constrained")
    left, middle, right = overview.subplots(1, 3)
    pl.snapshots(train, result, ax=left)
    pl.landscape(result, train, ax=middle)
    pl.trajectories(result, test.cloud(0), path, ax=right)
    history = Figure(figsize=(5.0, 4.0), layout="constrained")
    pl.history(result, ax=history.add_subplot())
    for name, figure in (("overview.png", overview), ("history.png", history)):
        figure.savefig(out / name, dpi=110)
    return "overview.png, history.png"
