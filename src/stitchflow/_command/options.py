"""Arguments of the command line that several commands share, and the examples of `fit --help`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from stitchflow._reading.formats import formats_in_words

FORMULA = re.compile(r",? \$[^$]*\$")


def methods(incomplete: str) -> list[str]:
    """Names a shell may complete."""
    from stitchflow._method.contract import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]


def described(name: str) -> str:
    """What a method does, in one sentence."""
    from stitchflow._method.contract import METHODS

    made = METHODS[name]()
    first = (type(made).__doc__ or "").strip().splitlines()[0]
    energy = getattr(made, "energy", None)
    varies = " V changes in time." if getattr(energy, "time_varying", False) else ""
    return FORMULA.sub("", first) + varies


def tasks(incomplete: str) -> list[str]:
    """Names a shell may complete."""
    from stitchflow.bench import TASKS

    return [name for name in TASKS if name.startswith(incomplete)]


Data = Annotated[
    Path,
    typer.Argument(
        help=formats_in_words(),
        metavar="DATA",
    ),
]
Run = Annotated[
    Path, typer.Argument(help="a directory made by `stitchflow fit` or `fit.save`", metavar="RUN")
]
Seed = Annotated[
    int, typer.Option(help="same seed, same result", min=0, max=2**63 - 1, metavar="S")
]
TimeKey = Annotated[
    str | None,
    typer.Option(
        help="column of the times at which individuals were seen, such as day", metavar="K"
    ),
]
Rep = Annotated[
    str | None,
    typer.Option(
        help=".h5ad: coordinates of the cells, such as X_pca or X_scVI. UMAP distorts distances",
        metavar="R",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(
        help="tables: columns to use as coordinates; else all numeric ones", metavar="a,b"
    ),
]
WeightKey = Annotated[
    str | None, typer.Option(help="column of weights: how many each stands for", metavar="W")
]
IdKey = Annotated[
    str | None, typer.Option(help="column that names individuals seen more than once", metavar="I")
]
GroupKey = Annotated[
    str | None,
    typer.Option(help="column of dishes, donors or batches: who interacts with whom", metavar="G"),
]
ConditionKey = Annotated[
    str | None,
    typer.Option(help="column of what was done to them, such as control or treated", metavar="C"),
]
Total = Annotated[
    float | None,
    typer.Option(help="how many interact, in each group, where only some were seen", metavar="N"),
]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="append one JSON object per line", metavar="FILE")
]
Out = Annotated[Path, typer.Option(help="directory to write the result to", metavar="RUN")]
HoldOut = Annotated[
    str | None,
    typer.Option(
        help="times to keep from the fit, to see if it predicts them: numbers, or labels of the "
        'data such as "day 2"',
        metavar="1,3",
    ),
]
TestFraction = Annotated[
    float,
    typer.Option(help="share of each time kept from the fit, to score it on", metavar="F"),
]
Members = Annotated[
    int | None,
    typer.Option(
        "--ensemble",
        help="also fit N bootstraps of the individuals: bands and spread in the report",
        min=2,
        metavar="N",
    ),
]
MethodName = Annotated[
    str,
    typer.Option(help="a name of `bench --methods`", metavar="M", autocompletion=methods),
]
TimeVarying = Annotated[
    bool,
    typer.Option(
        "--time-varying", help="let the landscape change in time: fits more, forecasts less"
    ),
]
WithInteraction = Annotated[
    bool, typer.Option("--interaction", help="let individuals attract or repel each other")
]
NoEntropy = Annotated[
    bool, typer.Option("--no-entropy", help="no random motion: individuals follow the slope only")
]
Select = Annotated[
    bool, typer.Option("--select", help="first ask which terms the data support, then fit those")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="one setting, such as steps=4000 or residual.ridge=2; repeat for more. "
        "A name that there is not lists those that there are",
        metavar="KEY=VALUE",
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="go on with a run that was stopped, same command")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace a run that is there")]
TaskName = Annotated[
    str | None,
    typer.Argument(help="a name of --list", metavar="TASK", autocompletion=tasks),
]

# A backspace keeps the lines of a paragraph as they are.
FIT_EXAMPLES = """\b
Examples
  Cells of five days in an .h5ad, in their principal components:
    stitchflow fit cells.h5ad --out run --time-key day --rep X_pca

\b
  Could it have predicted day 3? Keep that day from the fit, then score it:
    stitchflow fit cells.h5ad --out run3 --time-key day --rep X_pca --hold-out 3
    stitchflow evaluate run3

\b
  A table with a column t and two coordinates; a quick look before a real fit:
    stitchflow fit tracks.csv --out look --time-key t --columns x,y --set steps=300

Settings you leave out are chosen from the data. Each run holds report.html, a page to look at.
"""
