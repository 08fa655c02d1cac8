"""Every experiment of the paper: missing runs, then docs/results.md and its figures.

`make paper` runs all of it and goes on where it stopped; `make paper-quick` four short tasks, into
a folder of its own.
"""

import argparse
import os
import sys
from pathlib import Path

from paper.experiments import run_paper, run_published
from paper.page import write_page
from stitchflow._command.fit_file import keep_compilations

ROOT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four tasks, one seed")
    parser.add_argument("--published", action="store_true", help="only the published method")
    parser.add_argument("--draw", action="store_true", help="only tables and figures")
    parser.add_argument(
        "--cluster",
        default=os.cpu_count(),
        help="0 for none, local workers, or the address of a scheduler",
    )
    chosen = parser.parse_args()
    keep_compilations()
    results = ROOT / ("build/paper-quick" if chosen.quick else "results")
    docs = results if chosen.quick else ROOT / "docs"
    failures = []
    if not chosen.draw:
        cluster = int(chosen.cluster) if str(chosen.cluster).isdigit() else chosen.cluster
        cluster = cluster or None
        if chosen.published:
            failures = run_published(results, cluster=cluster)
        else:
            failures = run_paper(results, quick=chosen.quick, cluster=cluster)
    page = write_page(results, docs)
    print(f"wrote {page}")
    for failure in failures:
        print(failure, file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":  # workers import this file
    main()
