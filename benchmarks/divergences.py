"""The five data terms at default settings: `make divergences` adds what is missing.

Lines go to results/divergences.jsonl, the tables to docs/divergences.md.
"""

from dataclasses import replace

import stitchflow as sf
from variants import ROOT, run, tables

LINES, PAGE = ROOT / "results" / "divergences.jsonl", ROOT / "docs" / "divergences.md"
TASKS = ("doublewell-dense", "wavy-valley")
TERMS = (
    sf.KL(),
    sf.ScoreMatching(),
    sf.DenoisingScoreMatching(),
    sf.MMD(),
    sf.SinkhornDivergence(),
)
VARIANTS = {
    type(term).__name__: lambda method, own=term: replace(method, divergence=own) for term in TERMS
}
INTRODUCTION = """# Data terms compared

Every data term at its defaults, everything else as `Stitching()` chooses it; seed 0,
held-out individuals. Seconds were measured on one core shared with other work: only their order
is meaningful.
Written by `make divergences`.

"""

if __name__ == "__main__":
    run(LINES, TASKS, VARIANTS)
    PAGE.write_text(INTRODUCTION + tables(LINES, TASKS, VARIANTS), encoding="utf-8")
