"""Markdown tables from result lines, with published figures, floors and goals beside ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from paper import published
from stitchflow import datasets
from stitchflow.bench._tasks import LEFT_OUT

BASELINES = {"nearest": "nearest snapshot", "ot-linear": "straight optimal transport"}
OURS = "stitching"
# Stitching with another residual at its defaults, where `make residuals` has run it.
RESIDUALS = {"density": "density residual", "dissipation": "dissipation residual"}


class Results:
    """Result lines, looked up by what they measure; means are over seeds."""

    def __init__(self, rows: Iterable[dict[str, Any]]):
        self.found: dict[tuple, dict[int, dict[str, Any]]] = {}
        for row in rows:  # a later line replaces an earlier one of the same run
            place = (row["task"], row["method"], row["euler"], row["protocol"], row["metric"])
            self.found.setdefault((*place, row["time"]), {})[row["seed"]] = row

    def rows(
        self, task: str, protocol: str, metric: str, method: str = OURS, time=None, euler=False
    ) -> list[dict[str, Any]]:
        place = (task, method, euler, protocol, metric, time)
        return list(self.found.get(place, {}).values())

    def mean(
        self, *place: Any, column: str = "value", seeds: int | None = None, **where: Any
    ) -> float | None:
        """Over all seeds, or the first so many."""
        rows = self.rows(*place, **where)
        values = [row[column] for row in rows if seeds is None or row["seed"] < seeds]
        known = [value for value in values if value is not None]
        return float(np.mean(known)) if known else None

    def cell(self, *place: Any, digits: int = 3, **where: Any) -> str:
        """Mean over seeds, with its spread where there are several."""
        values = [row["value"] for row in self.rows(*place, **where)]
        if not values:
            return "-"
        text = number(float(np.mean(values)), digits)
        return text + (f" ± {number(float(np.std(values)), digits)}" if len(values) > 1 else "")


def number(value: float | None, digits: int = 3) -> str:
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:.0f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def published_method(task: str) -> str:
    """The name of the published method on a task."""
    return "stitching-paper" + ("-varying" if task.endswith("-varying") else "")


def mark(met: bool) -> str:
    return "met" if met else "**missed**"


def _labelled(task: str, method: str) -> str:
    return f"{task}, {RESIDUALS[method]}" if method in RESIDUALS else task


def synthetic(results: Results, kind: str) -> str:
    """One row a potential, and how many reach the goals."""
    rows, errors, relative, patterns, limits = [], {}, {}, {}, {}
    for name, method in itertools.product(datasets.POTENTIALS, (OURS, *RESIDUALS)):
        task = f"synthetic-{name}-{kind}"
        if method in RESIDUALS and not results.rows(task, "energy", "grad_error", method=method):
            continue
        step = results.mean(task, "one-step", "w1", method=method)
        still = results.mean(task, "one-step", "w1", method="nearest")
        lines = results.mean(task, "one-step", "w1", method="ot-linear")
        error = results.mean(task, "energy", "grad_error", method=method)
        pattern = results.mean(task, "energy", "pattern_r2", method=method)
        share = None if step is None or not still else 100.0 * step / still
        if name != "flat" and error is not None and method == OURS:
            errors[name] = error
            variance = results.mean(task, "energy", "grad_variance") or 1.0
            limits[name] = max(3.0, 2000.0 / variance)
            if share is not None:
                relative[name] = share
            if pattern is not None:
                patterns[name] = pattern
        rows.append(
            [
                _labelled(name, method),
                number(error, 2),
                number(pattern),
                results.cell(task, "energy", "raw_r2", method=method),
                results.cell(task, "energy", "pattern_r2_box", method=method),
                number(step),
                number(share, 1),
                number(lines),
                number(still),
                results.cell(task, "marginal", "w1", method=method),
                number(results.mean(task, "marginal", "w1", column="floor")),
                results.cell(task, "marginal", "bd2_uvp", digits=2, method=method),
                number(
                    results.mean(
                        task, "energy", "grad_error", column="seconds_train", method=method
                    ),
                    0,
                ),
            ]
        )
    header = [
        "potential",
        "grad_error %",
        "pattern R2",
        "raw R2",
        "pattern R2 box",
        "one-step W1",
        "% of standing still",
        "straight OT",
        "standing still",
        "marginal W1",
        "floor",
        "Bd2-UVP",
        "train s",
    ]
    table = markdown(header, rows)
    if kind == "paired":
        goals = [
            ("grad_error <= 1 %", sum(e <= 1 for e in errors.values()), 9),
            ("grad_error <= 5 %", sum(e <= 5 for e in errors.values()), 11),
            ("pattern R2 >= 0.98", sum(p >= 0.98 for p in patterns.values()), 12),
            ("one-step W1 <= 10 % of standing still", sum(r <= 10 for r in relative.values()), 11),
        ]
    else:
        within = sum(errors[name] <= limits[name] for name in errors)
        goals = [("grad_error <= max(3 %, 2000 % / tr Cov grad V)", within, 11)]
    told = markdown(
        ["goal", "potentials of 14", "wanted", ""],
        [[words, str(count), str(wanted), mark(count >= wanted)] for words, count, wanted in goals],
    )
    return f"{table}\n\n{told}\n\n{_beside_published(results, kind)}"


def _beside_published(results: Results, kind: str) -> str:
    """What the published method learns and predicts on the same data, beside ours."""
    asked = (("energy", "grad_error"), ("one-step", "w1"), ("rollout", "w1"))
    rows = []
    for name in published.SYNTHETIC:
        task, cells = f"synthetic-{name}-{kind}", []
        both = (OURS, published_method(task))
        for protocol, metric in asked:
            found = (results.mean(task, protocol, metric, method=method) for method in both)
            cells += [number(value) for value in found]
        seconds = {"column": "seconds_train", "method": both[1]}
        cells.append(number(results.mean(task, "one-step", "w1", **seconds), 0))
        rows.append([name, *cells])
    header = ["potential, published method beside ours"]
    for words in ("grad_error %", "one-step W1", "rollout W1"):
        header += [words, "published"]
    return markdown([*header, "its seconds"], rows)


def euler(results: Results) -> str:
    """The published columns, on data moved by one Euler step a gap as theirs was."""
    rows, held = [], {"paired": 0, "unpaired": 0}
    for name in datasets.POTENTIALS:
        row = [name]
        for i, kind in enumerate(held):
            task = f"synthetic-{name}-{kind}"
            emd, uvp, moments = published.SYNTHETIC[name][i]
            ours = results.mean(task, "energy", "l2_uvp", euler=True)
            held[kind] += ours is not None and ours <= uvp + 0.005
            row += [
                f"{number(results.mean(task, 'marginal', 'w1', euler=True), 2)} ({emd:.2f})",
                f"{number(ours)} ({uvp:.2f})",
                f"{number(results.mean(task, 'marginal', 'bd2_uvp', euler=True), 2)} ({moments})",
            ]
        rows.append(row)
    columns = ["EMD", "L2-UVP", "Bd2-UVP"]
    header = ["ours (paper)", *(f"{kind} {c}" for kind in held for c in columns)]
    told = markdown(
        ["goal: L2-UVP not above the printed figure + 0.005", "potentials of 15", "wanted", ""],
        [[kind, str(count), "13", mark(count >= 13)] for kind, count in held.items()],
    )
    return f"{markdown(header, rows)}\n\n{told}"


def three_columns(results: Results) -> str:
    """Printed figures, the published method run here, and our default."""
    rows = []
    for task, protocol, metric, printed in published.PRINTED:
        place, method = (task, protocol, metric), published_method(task)
        seconds = [
            number(results.mean(*place, method=name, column="seconds_train"), 0)
            for name in (method, OURS)
        ]
        own = [results.cell(*place, method=name) for name in (method, OURS)]
        rows.append([task, f"{protocol} {metric}", f"{printed:g}", *own, *seconds])
    header = ["task", "figure", "printed", "published method run here", "our default"]
    table = markdown([*header, "its seconds", "our seconds"], rows)
    return f"{table}\n\n{_published_potentials(results)}"


COLUMNS = {
    "EMD": ("marginal", "w1"),
    "L2-UVP": ("energy", "l2_uvp"),
    "Bd2-UVP": ("marginal", "bd2_uvp"),
}


def _published_potentials(results: Results) -> str:
    """The synthetic columns: how many come out as printed, as they are and in units of `flat`."""
    kinds, rows = ("paired", "unpaired"), []
    within = {kind: [0] * len(COLUMNS) for kind in kinds}
    scaled, known = {kind: [0] * len(COLUMNS) for kind in kinds}, dict.fromkeys(kinds, 0)

    def figures(name: str, i: int, j: int) -> tuple[float | None, float]:
        task = f"synthetic-{name}-{kinds[i]}"
        place = list(COLUMNS.values())[j]
        found = results.mean(task, *place, euler=True, method=published_method(task))
        return found, published.SYNTHETIC[name][i][j]

    for name in datasets.POTENTIALS:
        row = [name]
        for i, kind in enumerate(kinds):
            for j in range(len(COLUMNS)):
                (found, printed), (still, flat) = figures(name, i, j), figures("flat", i, j)
                row.append(f"{number(found, 2)} ({printed:.2f})")
                if found is None:
                    continue
                within[kind][j] += abs(found - printed) <= max(0.25 * printed, 0.02)
                if still and flat:
                    scaled[kind][j] += abs(found * flat / still / printed - 1.0) <= 0.25
            known[kind] += figures(name, i, 1)[0] is not None
        rows.append(row)
    header = ["run here (printed)", *(f"{kind} {c}" for kind in kinds for c in COLUMNS)]
    counts = [[kind, *map(str, within[kind]), str(known[kind]), "12 of 15"] for kind in kinds]
    for kind in kinds:
        cells = [str(scaled[kind][0]), "", str(scaled[kind][2])]
        counts.append([f"{kind}, divided by `flat`", *cells, str(known[kind]), ""])
    told = markdown(
        ["within the larger of 25 % and 0.02", *COLUMNS, "potentials run", "wanted"], counts
    )
    return f"{markdown(header, rows)}\n\n{told}\n\n{FLAT}"


FLAT = (
    "On `flat` nothing moves and there is nothing to learn: its EMD and Bd2-UVP are those of two "
    "draws of one square, and tell how many individuals were scored. They differ from the printed "
    "ones by as much as most other rows do (the number that the authors scored is not in the "
    "text), so the last two rows divide every figure by that of `flat`."
)


def wavy_valley(results: Results) -> str:
    rows = []
    for task, method in itertools.product(published.WAVY_VALLEY, (OURS, *RESIDUALS)):
        metric, goal, tilt = published.WAVY_VALLEY[task]
        value = results.mean(task, "energy", metric, method=method)
        if method in RESIDUALS and value is None:
            continue
        rows.append(
            [
                _labelled(task, method),
                *(
                    results.cell(task, "energy", m, method=method)
                    for m in ("raw_r2", "raw_r2_box", "pattern_r2", "grad_pattern_r2")
                ),
                results.cell(task, "energy", "beta", digits=5, method=method),
                f"{metric} >= {goal:g}",
                mark(value is not None and value >= goal),
                f"{tilt:g}",
                "0.62 (JKOnet* 0.51)" if task.endswith("code") else "-",
            ]
        )
    header = [
        "task",
        "raw R2",
        "raw R2 box",
        "pattern R2",
        "gradient pattern R2",
        "beta",
        "goal",
        "",
        "tilt alone",
        "paper, raw R2 box",
    ]
    return f"{markdown(header, rows)}\n\n{distances(results, list(published.WAVY_VALLEY))}"


def distances(results: Results, tasks: Sequence[str], metric: str = "w1") -> str:
    """Every protocol of several tasks, ours beside the trivial methods and the floor."""
    rows = []
    for task in tasks:
        for protocol in ("marginal", "one-step", "rollout", "interpolate"):
            if not results.rows(task, protocol, metric):
                continue
            others = [results.cell(task, protocol, metric, method=name) for name in BASELINES]
            floor = number(results.mean(task, protocol, metric, column="floor"))
            own = [
                results.cell(task, protocol, metric, method=name)
                for name in (OURS, published_method(task))
            ]
            rows.append([task, protocol, *own, *others, floor])
    header = ["task", f"protocol, {metric}", "stitching", "stitching-paper"]
    header += [*BASELINES.values(), "floor"]
    return markdown(header, rows)


def embryoid(results: Results) -> str:
    times = (1.0, 2.0, 3.0, 4.0)
    rows = [
        [name, "printed", *(f"{value:.2f}" for value in values)]
        for name, values in published.EB_FULL.items()
    ]
    for task, name in (("eb-full", "stitching V(x)"), ("eb-full-varying", "stitching V(x,t)")):
        for protocol in ("marginal", "one-step", "rollout"):
            cells = [results.cell(task, protocol, "w1", time=t) for t in (*times, None)]
            rows.append([f"**{name}, ours**", protocol, *cells])
        for protocol in ("marginal", "one-step", "rollout"):
            place, method = (task, protocol, "w1"), published_method(task)
            cells = [results.cell(*place, time=t, method=method) for t in (*times, None)]
            rows.append([f"{name}, published method run here", protocol, *cells])
    for method, name in BASELINES.items():
        for protocol in ("marginal", "one-step", "rollout"):
            place = ("eb-full", protocol, "w1")
            cells = [results.cell(*place, method=method, time=t) for t in (*times, None)]
            rows.append([name, protocol, *cells])
    floors = [results.mean("eb-full", "marginal", "w1", time=t, column="floor") for t in times]
    mean = results.mean("eb-full", "marginal", "w1", column="floor")
    rows.append(["floor (training cells)", "", *(number(f) for f in (*floors, mean))])
    table = markdown(["method", "protocol", "t = 1", "t = 2", "t = 3", "t = 4", "mean"], rows)
    told = []
    for (task, protocol), goal in published.EB_GOALS.items():
        value = results.mean(task, protocol, "w1")
        met = mark(value is not None and value <= goal)
        told.append([task, protocol, results.cell(task, protocol, "w1"), f"<= {goal:g}", met])
    header = ["task", "protocol", "ours, mean W1", "goal", ""]
    return f"{table}\n\n{markdown(header, told)}"


def embryoid_gaps(results: Results) -> str:
    rows = [
        [name, *(f"{value:.2f}" for value in values)] for name, values in published.EB_GAPS.items()
    ]
    tasks = {"eb-leave-two-out": "V(x)", "eb-leave-two-out-varying": "V(x,t)"}
    means = []
    for task, name in tasks.items():
        place = (task, "interpolate", "w2")
        rows.append(
            [
                f"**stitching {name}, ours**",
                *(results.cell(*place, time=t) for t in (1.0, 3.0, None)),
            ]
        )
        means.append(results.mean(*place))
    for method, name in BASELINES.items():
        place = ("eb-leave-two-out", "interpolate", "w2")
        rows.append(
            [name, *(results.cell(*place, method=method, time=t) for t in (1.0, 3.0, None))]
        )
    place = ("eb-leave-two-out", "interpolate", "w2")
    floors = [results.mean(*place, time=t, column="floor") for t in (1.0, 3.0, None)]
    rows.append(["floor (two halves)", *(number(f) for f in floors)])
    known = [mean for mean in means if mean is not None]
    best = min(known) if known else None
    told = f"Goal: the better of the two at most 0.80: {number(best)}, "
    told += mark(best is not None and best <= 0.80) + "."
    return f"{markdown(['method', 't = 1', 't = 3', 'mean W2'], rows)}\n\n{told}"


def embryoid_unseen(results: Results) -> str:
    rows = [[name, *values] for name, values in published.EB_LOO.items()]
    ours = {("", OURS): "**stitching V(x), ours**", ("-varying", OURS): "**V(x,t), ours**"}
    ours |= {("", method): name for method, name in BASELINES.items()}
    tasks = [f"eb-loo-{t:g}" for t in LEFT_OUT]
    mean = lambda values: None if None in values else float(np.mean(values))
    for (ending, method), name in ours.items():
        told = {"method": method}
        scores = [results.mean(task + ending, "interpolate", "w1", **told) for task in tasks]
        rows.append([name, *(number(score) for score in (*scores, mean(scores)))])
    floors = [results.mean(task, "interpolate", "w1", column="floor") for task in tasks]
    if None in floors:  # the same for all methods
        told = {"method": "ot-linear", "column": "floor"}
        floors = [results.mean(task, "interpolate", "w1", **told) for task in tasks]
    rows.append(["floor (two halves)", *(number(floor) for floor in (*floors, mean(floors)))])
    return markdown(["method", *(f"t = {t:g}" for t in LEFT_OUT), "mean W1"], rows)


def cis(results: Results) -> str:
    metrics = ("w1", "w2", "bures", "mmd")
    rows = [
        [name, *(f"{value:g}" for value in values), "-"] for name, values in published.CIS.items()
    ]
    scores = [results.cell("cis", "marginal", metric) for metric in metrics]
    energy = [results.cell("cis", "energy", m) for m in ("pattern_r2", "w_pattern_r2")]
    seconds = number(results.mean("cis", "marginal", "w1", column="seconds_train"), 0)
    rows.append(["**stitching, ours**", *scores, *energy, seconds])
    for method, name in BASELINES.items():
        scores = [results.cell("cis", "marginal", metric, method=method) for metric in metrics]
        rows.append([name, *scores, "-", "-", "-"])
    floors = {m: results.mean("cis", "marginal", m, column="floor") for m in metrics}
    rows.append(["floor", *(number(floor) for floor in floors.values()), "1", "1", "-"])
    header = ["method", "W1", "W2", "BW2", "MMD", "R2(V)", "R2(W)", "train s"]
    told = []
    for metric in ("pattern_r2", "w_pattern_r2"):
        value = results.mean("cis", "energy", metric)
        told.append([metric, number(value), ">= 0.95", mark(value is not None and value >= 0.95)])
    for metric in ("w1", "w2"):
        value, floor = results.mean("cis", "marginal", metric), floors[metric]
        met = value is not None and floor is not None and value <= 1.15 * floor
        limit = None if floor is None else 1.15 * floor
        told.append([f"marginal {metric}", number(value), f"<= {number(limit)}", mark(met)])
    goals = markdown(["goal", "ours", "wanted", ""], told)
    return f"{markdown(header, rows)}\n\n{goals}\n\n{distances(results, ['cis'])}"


def chiral(results: Results) -> str:
    metrics = ("kernel_r2", "kernel_r2_long", "curl_r2")
    rows = [
        [task, *(results.cell(task, "energy", metric) for metric in metrics)]
        for task in ("chiral", "chiral-dense")
    ]
    value = results.mean("chiral-dense", "energy", "kernel_r2_long")
    told = f"Goal: kernel_r2_long of `chiral-dense` at least 0.9: {number(value)}, "
    told += mark(value is not None and value >= 0.9) + ". The paper reports no figure."
    table = markdown(["task", *metrics], rows)
    return f"{table}\n\n{told}\n\n{distances(results, ['chiral', 'chiral-dense'])}"


def double_well(results: Results) -> str:
    tasks = [f"doublewell-{regime}" for regime in ("dense", "terminal", "trickle")]
    metrics = ("pattern_r2", "raw_r2", "grad_error", "beta")
    rows = [[task, *(results.cell(task, "energy", m) for m in metrics)] for task in tasks]
    header = ["task", "pattern R2", "raw R2", "grad_error %", "beta (true 1)"]
    return f"{markdown(header, rows)}\n\n{distances(results, tasks)}"
