"""The report of a run: one page to look at, to print and to send, that needs no network."""

from stitchflow.report._page import write_report
from stitchflow.report._run import REPORT, report_run

__all__ = ["REPORT", "report_run", "write_report"]
