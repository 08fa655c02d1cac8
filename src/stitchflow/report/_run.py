"""From a run directory to its report."""

from __future__ import annotations

from pathlib import Path

from stitchflow._data.snapshots import Snapshots
from stitchflow._files.whole import only_writer
from stitchflow._storage.members import read_members
from stitchflow._storage.run_data import open_run
from stitchflow._storage.run_state import REPORT, whole_model
from stitchflow._storage.save import load
from stitchflow.report._page import write_report


def report_run(run: Path) -> Path:
    """Write RUN/report.html; where the run's data is gone, with what the fit alone can tell."""
    versions = whole_model(run).header.get("versions")
    told: list[str] = []
    test: Snapshots | None = None
    try:
        fit, test = open_run(run)
    except ValueError as error:
        fit = load(run)
        told.append(f"No scores and no data: {error}.")
    known = versions if isinstance(versions, dict) else {}
    with only_writer(run):
        members = read_members(run, fit.data)
        write_report(fit, run / REPORT, test=test, versions=known, warned=told, members=members)
    return run / REPORT
