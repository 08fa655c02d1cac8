"""The tables of the comparison: what is run for them, and how lines become rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

import stitchflow as sf
from paper.published import CIS, EB_FULL, EB_GAPS, JKO_PAIRED
from paper.tables import Results, markdown, number

NO_SEED = ("nearest", "ot-linear")  # nothing is trained or drawn
TRIVIAL = (*NO_SEED, "ot-spline")
OURS = ("stitching", "stitching-varying")
LEFT_OUT = {"larry2d": (4.0,), "gom9": (1.0, 3.0, 5.0, 7.0)}  # all of them in one fit
SYNTHETIC = ("styblinski_tang", "oakley_ohagan", "flowers")
JKO = ("jkonet-star", "ijkonet")  # told a V(x, t) as well, as they are printed


@dataclass(frozen=True)
class Column:
    """One score: the mean over tasks, as a share (%) of standing still where asked."""

    title: str
    protocol: str
    metric: str
    relative: bool = False
    digits: int = 3


# `tracks` asks for the name of every individual; `benchmarks/followed.py` compares it.
WITHOUT_NAMES = tuple(name for name in sf.METHODS if name != "tracks")


@dataclass(frozen=True)
class Group:
    """A table: tasks that are averaged, what is scored, and what others have printed."""

    title: str
    tasks: tuple[str, ...]
    columns: tuple[Column, ...]
    seeds: int = 1
    methods: tuple[str, ...] = WITHOUT_NAMES
    euler: bool = False
    published: tuple[str, dict[str, float]] | None = None  # column title; by method

    @property
    def protocols(self) -> tuple[str, ...]:
        named = dict.fromkeys(column.protocol for column in self.columns)
        return tuple(name for name in named if name != "energy")


W1 = tuple(Column(f"{protocol} W1", protocol, "w1") for protocol in ("marginal", "one-step"))
W1 += (Column("rollout W1", "rollout", "w1"),)
W2 = (Column("interpolate W2", "interpolate", "w2"),)
ENERGY = (
    Column("one-step W1, % of standing still", "one-step", "w1", relative=True, digits=1),
    Column("gradient error %", "energy", "grad_error", digits=1),
    Column("pattern R2", "energy", "pattern_r2"),
)
# Names of the paper's tables for what is built here, by the energy they are told.
PRINTED = {
    "stitching": "stitching V(x), paper",
    "stitching-varying": "stitching V(x,t), paper",
    "jkonet": "JKOnet",
    "jkonet-star": "JKOnet* V(x)",
    "ijkonet": "iJKOnet V(x)",
    "wlf-ot": "WLF-OT",
    "wlf-sb": "WLF-SB",
    "ot-cfm": "OT-CFM",
    "neural-sde": "Neural SDE",
    "schrodinger-bridge": "Vanilla-SB",
    "cnf": "TrajectoryNet",
}
PRINTED_VARYING = {"jkonet-star": "JKOnet* V(x,t)", "ijkonet": "iJKOnet V(x,t)"}


def printed(table: dict[str, tuple[float, ...]], varying: bool = False) -> dict[str, float]:
    """The means of a published table under our names; what is not built keeps its own."""
    names = PRINTED_VARYING if varying else PRINTED
    ours = {theirs: name for name, theirs in names.items()}
    own = {ours[theirs]: row[-1] for theirs, row in table.items() if theirs in ours}
    built = {*PRINTED.values(), *PRINTED_VARYING.values()}
    rest = {f"{n} (not built)": row[-1] for n, row in table.items() if n not in built}
    return own if varying else {**own, **rest}


GROUPS = (
    Group("EB", ("eb-full",), W1, 3, published=("published W1", printed(EB_FULL))),
    Group(
        "EB, t 1 and 3 left out",
        ("eb-leave-two-out",),
        W2,
        3,
        published=("published W2", printed(EB_GAPS)),
    ),
    Group(
        "EB, JKO methods with V(x, t)",
        ("eb-full-varying",),
        W1,
        methods=JKO,
        published=("published W1", printed(EB_FULL, varying=True)),
    ),
    Group(
        "EB, t 1 and 3 left out, JKO methods with V(x, t)",
        ("eb-leave-two-out-varying",),
        W2,
        methods=JKO,
        published=("published W2", printed(EB_GAPS, varying=True)),
    ),
    *(
        Group(
            f"Synthetic, {kind}",
            tuple(f"synthetic-{n}-{kind}" for n in SYNTHETIC),
            ENERGY,
        )
        for kind in ("paired", "unpaired")
    ),
    Group(
        "Wavy valley",
        ("wavy-valley",),
        (W1[2], Column("raw R2", "energy", "raw_r2"), Column("beta", "energy", "beta", digits=4)),
    ),
    Group(
        "CIS",
        ("cis",),
        (
            W1[2],
            Column("pattern R2 of V", "energy", "pattern_r2"),
            Column("of W", "energy", "w_pattern_r2"),
        ),
        published=("published W1", {"jkonet-star": CIS["JKOnet*, paper"][0]}),
    ),
    *(Group(f"{name}, inner times left out", (name,), W2) for name in LEFT_OUT),
)
# The published JKO columns: paired individuals, moved by one Euler step a gap.
STEPPED = Group(
    "Paired, moved by Euler steps",
    tuple(f"synthetic-{name}-paired" for name in JKO_PAIRED),
    (W1[1], Column("L2-UVP", "energy", "l2_uvp"), ENERGY[1]),
    methods=("nearest", *JKO),
    euler=True,
)


def score(
    results: Results, group: Group, column: Column, method: str, field: str = "value"
) -> float | None:
    """The mean over the tasks of a group of a field of their lines, or None where one lacks."""
    found = []
    for task in group.tasks:
        place = (task, column.protocol, column.metric)
        where = {"euler": group.euler, "seeds": group.seeds}
        value = results.mean(*place, method=method, column=field, **where)
        if column.relative and value is not None and field != "seconds_train":
            still = results.mean(*place, method="nearest", **where)
            value = 100.0 * value / still if still else None
        found.append(value)
    known = [value for value in found if value is not None]
    return float(np.mean(known)) if len(known) == len(group.tasks) else None


def table(results: Results, group: Group) -> str | None:
    """One row a method with its time, then the floor, then what is only published."""
    title, others = group.published or ("", {})
    rows = []
    for method in group.methods:
        values = {c: score(results, group, c, method) for c in group.columns}
        answered = [column for column, value in values.items() if value is not None]
        if answered:
            seconds = score(results, group, answered[0], method, "seconds_train")
            cells = [
                "lost"
                if value is None and column.protocol != "energy"
                else number(value, column.digits)
                for column, value in values.items()
            ]
            rows.append([method, *cells, number(seconds, 0)])
    if not rows:
        return None
    rows.append(
        ["floor", *(number(floor(results, group, c), c.digits) for c in group.columns), "-"]
    )
    header = ["", *(column.title for column in group.columns), "training, s"]
    if title:
        header.append(title)
        rows = [[*row, number(others.get(row[0]))] for row in rows]
        empty, shown = ["-"] * (len(group.columns) + 1), {row[0] for row in rows}
        rows += [[n, *empty, number(v)] for n, v in others.items() if n not in shown]
    seeds = f" ({group.seeds} seeds)" if group.seeds > 1 else ""
    return f"## {group.title}{seeds}\n\n{markdown(header, rows)}"


def floor(results: Results, group: Group, column: Column) -> float | None:
    """The same for all methods: taken from the first that has one."""
    found = (score(results, group, column, method, "floor") for method in group.methods)
    return next((value for value in found if value is not None), None)


def stepped(results: Results) -> str | None:
    """One row a potential: where held-out individuals arrive after one step."""
    header, rows = ["potential", "standing still, W1"], []
    for method in JKO:
        header += [f"{method}, W1", "published", "L2-UVP", "gradient error %", "s"]
    for name, figures in JKO_PAIRED.items():
        group = replace(STEPPED, tasks=(f"synthetic-{name}-paired",))
        row = [name, number(score(results, group, group.columns[0], "nearest"))]
        for method in JKO:
            step, uvp, error = (score(results, group, c, method) for c in group.columns)
            seconds = score(results, group, group.columns[0], method, "seconds_train")
            row += [number(step), number(figures[method]), number(uvp), number(error, 1)]
            row.append(number(seconds, 0))
        rows.append(row)
    known = any(cell != "-" for row in rows for cell in row[1:2])
    return f"## {STEPPED.title}\n\n{markdown(header, rows)}" if known else None


def winners(results: Results, groups: Iterable[Group]) -> str:
    """For every score the best method, beside stitching, the best trivial method and the floor."""
    header, rows = ["", "score", "best", "of", *OURS, "best without training", "floor"], []
    for group, column in ((g, c) for g in groups for c in g.columns if c.metric != "beta"):
        found = {method: score(results, group, column, method) for method in group.methods}
        known = sorted((value, name) for name, value in found.items() if value is not None)
        if len(group.methods) < len(WITHOUT_NAMES) or not known:
            continue
        best = known[::-1] if column.metric.endswith("r2") else known
        trivial = [(value, name) for value, name in best if name in TRIVIAL]
        named = [f"{n} {number(v, column.digits)}" for v, n in (best[0], *trivial[:1])]
        ours = [number(found[name], column.digits) for name in OURS]
        least = number(floor(results, group, column), column.digits)
        told = [group.title, column.title, named[0], str(len(known)), *ours]
        rows.append([*told, *(named[1:] or ["-"]), least])
    return markdown(header, rows)
