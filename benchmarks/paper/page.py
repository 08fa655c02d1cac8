"""The page of results: tables and figures made from result lines and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from paper import tables
from paper.experiments import LINES, PICTURES
from paper.figures import Studio, draw_all
from paper.tables import Results
from stitchflow._files.lines import read_lines

RESIDUALS = "residuals.jsonl"  # of `make residuals`, which may not have been run
INTRODUCTION = """# Results

Every experiment of *Wasserstein Residuals*, run by `make paper` with the library's defaults and the
form of each task's energy (no entropy where there is no noise, an interaction where there is one).
Tables and figures are made from `results/paper.jsonl` and `results/pictures/`; `make paper-draw`
makes them anew without fitting anything.

Means are over seeds, ± their standard deviation. A seed draws the simulation as well as the fit;
recorded data (EB, CIS, the seven chiral snapshots) is the same for all. The floor is what as
many other individuals of the training data score; for `one-step` and `rollout` of a known energy it
is what that energy scores from the same starts. The trivial methods stand still (nearest snapshot)
or follow straight optimal-transport lines; where they win, the table says so. Lines of earlier
defaults stand until `make paper` has replaced them
([which ones](log.md#where-the-lines-of-resultspaperjsonl-stand))."""

PUBLISHED = """`stitching-paper` is the method of the paper's text, with the settings of its
experiments (`Stitching.paper`). The way from there to our default is among the
[decisions](decisions.md#from-the-paper-to-the-default). Synthetic figures are of data moved by one
Euler step a gap, as the paper's were."""

SECTIONS: list[tuple[str, str, Callable[[Results], str], tuple[str, ...]]] = [
    ("The published method, run here", PUBLISHED, tables.three_columns, ()),
    (
        "Wavy valley",
        "Twenty paired particles at five times on a sinusoidal valley. The published figures "
        "belong to `wavy-valley-code`.",
        tables.wavy_valley,
        ("wavy-valley",),
    ),
    (
        "Synthetic potentials, paired",
        "Fifteen potentials, 1,000 training individuals at six times 0.01 apart, the same "
        "individuals throughout.",
        lambda results: tables.synthetic(results, "paired"),
        ("synthetic-paired",),
    ),
    (
        "Synthetic potentials, unpaired",
        "The same with other individuals in every snapshot: sampling noise limits what can be "
        "known of weak potentials.",
        lambda results: tables.synthetic(results, "unpaired"),
        ("synthetic-unpaired", "synthetic-compact", "synthetic-evolution"),
    ),
    (
        "The published columns",
        "Data moved by one Euler step a gap, as the paper's was (`--euler`), and the curve with "
        "it. L2-UVP here is the quantity behind the published stitching figures, not `grad_error`.",
        tables.euler,
        (),
    ),
    (
        "Embryoid bodies",
        "Five snapshots, five principal components, W1 on held-out cells. Printed rows follow "
        "their own protocols.",
        tables.embryoid,
        ("embryoid",),
    ),
    (
        "Embryoid bodies, two times left out",
        "Trained on all cells of t 0, 2, 4; scored on all cells of t 1 and 3.",
        tables.embryoid_gaps,
        (),
    ),
    (
        "Embryoid bodies, one time left out",
        "One of t 1, 2 and 3 is left out of training; W1 against all of its cells, in clouds of at "
        "most 2,000 (`eb-loo-1` to `-3`). Published harnesses compare all 3,300 to 4,200 cells; "
        "larger clouds score lower.",
        tables.embryoid_unseen,
        (),
    ),
    (
        "Interacting particles (CIS)",
        "V, a radial W and entropy from 201 snapshots of 155 training particles. The learner "
        "is not told which particle is which.",
        tables.cis,
        ("cis",),
    ),
    (
        "A chiral system",
        "A free vector kernel; no potential, no entropy. `chiral` has seven snapshots, "
        "`chiral-dense` 1,601 simulated ones.",
        tables.chiral,
        ("chiral-dense", "chiral", "chiral-published"),
    ),
    (
        "Double well under three observation regimes",
        "V = (|x| - 7)^2 / 2, beta 1: twenty snapshots, the first and last only, or 1,000 "
        "snapshots of ten particles. Judged on 500 held-out particles at twenty times.",
        tables.double_well,
        ("doublewell", "doublewell-published"),
    ),
]


def write_page(results: Path, docs: Path) -> Path:
    """`docs/results.md` and `docs/figures/`, from what `run_paper` left in `results`."""
    variants = ({**row, "method": row["variant"]} for row in read_lines(results / RESIDUALS))
    lines = Results([*read_lines(results / LINES), *variants])
    drawn = draw_all(Studio(results / PICTURES, docs / "figures", lines))
    parts = [INTRODUCTION]
    for title, words, table, figures in SECTIONS:
        parts.append(f"## {title}\n\n{words}\n\n{table(lines)}")
        parts += [f"![{title}: {name}](figures/{name}.png)" for name in figures if name in drawn]
    page = docs / "results.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page
