"""The report of a run: one page to look at, to print and to send, that needs no network."""

from stitchflow.report._page import write_report as write_report
from stitchflow.report._run import REPORT as REPORT
from stitchflow.report._run import report_run as report_run
