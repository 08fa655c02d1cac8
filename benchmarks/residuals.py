"""The residuals at default settings: `make residuals` adds what is missing.

Lines go to results/residuals.jsonl, the tables to docs/residuals.md.
"""

from dataclasses import replace

import stitchflow as sf
from variants import ROOT, run, tables

LINES, PAGE = ROOT / "results" / "residuals.jsonl", ROOT / "docs" / "residuals.md"
TASKS = ("wavy-valley", "synthetic-styblinski_tang-paired")
RESIDUALS = {
    "density": sf.DensityResidual(),
    "dissipation": sf.DissipationResidual(),
    "velocity": sf.VelocityResidual(),
    "velocity + density": sf.VelocityResidual() + sf.DensityResidual(),
}
VARIANTS = {
    name: lambda method, own=residual: replace(method, residual=own)
    for name, residual in RESIDUALS.items()
}
VARIANTS["velocity, splines"] = lambda method: replace(method, curve=sf.Spline())
INTRODUCTION = """# Residuals compared

Every residual at its defaults, everything else as `Stitching()` chooses it; seed 0,
held-out individuals. Seconds were measured on one core shared with other work: only their order
is meaningful.
Written by `make residuals`.

"""

if __name__ == "__main__":
    run(LINES, TASKS, VARIANTS)
    PAGE.write_text(INTRODUCTION + tables(LINES, TASKS, VARIANTS), encoding="utf-8")
