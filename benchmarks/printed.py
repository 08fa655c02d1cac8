"""What stands in the way of comparing printed W1 with ours: `make printed`, `docs/rivals.md`.

The floor of EB by the number of cells on either side, and the score of the true V on individuals
that were moved by one Euler step a gap.
"""

from __future__ import annotations

import numpy as np

from marked_pages import ROOT, fill
from paper.published import JKO_PAIRED
from paper.tables import markdown, number
from stitchflow._files.lines import append_json, read_lines
from stitchflow.bench import Run
from stitchflow.metrics import w1

LINES = ROOT / "results" / "printed.jsonl"
SIZES, REPEATS, MOVES = (100, 200, 400, 900), 3, 20


def floor(cells: int) -> float:
    """W1 of so many training cells from so many test cells, over all times but the first."""
    problem, rng = Run("eb-full", "nearest").prepare().problem, np.random.default_rng(0)
    some = lambda cloud: cloud[rng.permutation(len(cloud))[:cells]]
    pairs = [(problem.train.cloud(k), problem.test.cloud(k)) for k in range(1, 5)] * REPEATS
    return float(np.mean([w1(some(a), some(b)) for a, b in pairs]))


def true_step(potential: str) -> float:
    """W1 of held-out individuals that the true V carries continuously over every gap."""
    problem = Run(f"synthetic-{potential}-paired", "nearest", euler=True).prepare().problem
    energy, test, found = problem.energy, problem.test, []
    assert energy is not None
    for k, gap in enumerate(np.diff(test.times)):
        x = test.cloud(k)
        for _ in range(MOVES):
            x = x + gap / MOVES * np.asarray(energy.force(x))
        found.append(w1(x, test.cloud(k + 1)))
    return float(np.mean(found))


def table(rows: list[dict]) -> str:
    cells = [["floor of EB", f"{row['cells']} cells", number(row["w1"])] for row in rows[:4]]
    steps = [["true V, Euler steps", row["potential"], number(row["w1"])] for row in rows[4:]]
    return markdown(["", "", "W1"], cells + steps)


if __name__ == "__main__":
    if not read_lines(LINES):
        rows = [{"cells": n, "w1": floor(n)} for n in SIZES]
        rows += [{"potential": name, "w1": true_step(name)} for name in JKO_PAIRED]
        append_json(LINES, rows)
    fill(ROOT / "docs" / "rivals.md", "table: benchmarks/printed.py", table(read_lines(LINES)))
