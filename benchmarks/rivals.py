"""Every method on the same data, splits, draws and metrics.

`make rivals` adds what is missing to `results/rivals.jsonl` and writes `docs/rivals.md`; it goes on
where it stopped. `--quick` takes a few short tasks, one seed, into `build/rivals-quick`. Defaults
are chosen so that no method trains for more than 120 s on 2 cores; the table has the seconds.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import stitchflow as sf
from stitchflow._runs import append_json, crossval_rows, keep_compilations
from stitchflow.bench import Run
from stitchflow.bench._paper import carry_out_all
from stitchflow.bench._runs import read_lines

ROOT = Path(__file__).parents[1]
SYNTHETIC = ("styblinski_tang", "oakley_ohagan", "flowers")
SEEDS = {"eb-full": 3, "eb-leave-two-out": 3, "wavy-valley": 1, "cis": 1} | {
    f"synthetic-{name}-{kind}": 1 for name in SYNTHETIC for kind in ("paired", "unpaired")
}
QUICK = {"doublewell-dense": 1, "wavy-valley": 1}
RECORDED = ("larry2d", "gom9")
# Every column: task, protocol and metric, and what the table calls it.
COLUMNS = {
    "EB marginal": ("eb-full", "marginal", "w1"),
    "EB one-step": ("eb-full", "one-step", "w1"),
    "EB rollout": ("eb-full", "rollout", "w1"),
    "EB left out": ("eb-leave-two-out", "interpolate", "w2"),
    "wavy valley rollout": ("wavy-valley", "rollout", "w1"),
    "wavy valley raw R2": ("wavy-valley", "energy", "raw_r2"),
    "CIS rollout": ("cis", "rollout", "w1"),
    "larry2d left out": ("larry2d", "interpolate", "w2"),
    "gom9 left out": ("gom9", "interpolate", "w2"),
} | {
    f"{name} {kind}, gradient error %": (f"synthetic-{name}-{kind}", "energy", "grad_error")
    for name in SYNTHETIC
    for kind in ("paired", "unpaired")
}
# Table 2 and table 6 of the paper: mean W1 over the transitions of EB (whose protocol is nearest to
# our one-step; cells are scored in other units and splits) and mean W2 of the left-out times.
PUBLISHED = {
    "stitching": (0.58, 0.92),
    "stitching-varying": (0.54, 0.88),
    "cnf": (0.93, 1.98),
    "ot-cfm": (0.77, None),
    "wlf-ot": (0.74, None),
    "wlf-sb": (0.73, None),
    "jkonet": (1.34, None),
    "jkonet-star": (1.12, 1.84),
    "ijkonet": (1.05, 1.12),
    "schrodinger-bridge": (None, 1.52),
    "NLSB (published only)": (0.78, None),
    "MMSB (published only)": (None, 1.42),
    "DMSB (published only)": (None, 1.29),
}


def runs(seeds: dict[str, int]) -> Iterator[Run]:
    """Cheap methods first, so that an early table is already a comparison."""
    for method in sorted(sf.METHODS, key=lambda name: not name.startswith(("nearest", "ot-"))):
        for task, number in seeds.items():
            still = method in ("nearest", "ot-linear", "ot-spline")  # no seed in them
            yield from (Run(task, method, seed) for seed in range(1 if still else number))


def left_out(lines: Path, folder: Path, cluster: int) -> None:
    """Every inner time of recorded data in turn, for what is not there yet."""
    for name in RECORDED:
        with np.load(folder / f"{name}.npz") as stored:
            data = sf.Snapshots.from_table(stored["x"], stored["t"])
        done = {row["method"] for row in read_lines(lines) if row["task"] == name}
        for method in (m for m in sf.METHODS if m not in done):
            inner = data.times[1:-1].tolist()
            found = sf.cross_validate(
                data, [method], leave_out=inner, metrics=("w2",), cluster=cluster
            )
            append_json(lines, [{**row, "task": name} for row in crossval_rows(found)])


def value(rows: list[dict], method: str, task: str, protocol: str, metric: str) -> float | None:
    """The mean over seeds (and left-out times) of one entry."""
    wanted = {"method": method, "task": task, "protocol": protocol, "metric": metric}
    own = [row for row in rows if wanted.items() <= row.items()]
    whole = [row["value"] for row in own if row["time"] is None]
    found = whole or [row["value"] for row in own]
    return float(np.mean(found)) if found else None


def table(rows: list[dict]) -> str:
    names = [n for n in COLUMNS if any(value(rows, m, *COLUMNS[n]) is not None for m in sf.METHODS)]
    head = ["method", *names, "training on EB, s", "published EB", "published EB left out"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    text = lambda number: "" if number is None else f"{number:.3g}"
    for method in [*sf.METHODS, *(name for name in PUBLISHED if name not in sf.METHODS)]:
        cells = [text(value(rows, method, *COLUMNS[name])) for name in names]
        on_eb = [r for r in rows if (r["method"], r["task"]) == (method, "eb-full")]
        seconds = f"{np.mean([r['seconds_train'] for r in on_eb]):.0f}" if on_eb else ""
        published = [text(number) for number in PUBLISHED.get(method, (None, None))]
        lines.append(f"| {' | '.join([method, *cells, seconds, *published])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short tasks, one seed")
    parser.add_argument("--draw", action="store_true", help="only the table")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    chosen = parser.parse_args()
    keep_compilations()
    lines = (ROOT / "build/rivals-quick" if chosen.quick else ROOT / "results") / "rivals.jsonl"
    cores, failures = os.cpu_count() or 1, []
    if not chosen.draw:
        seeds = QUICK if chosen.quick else SEEDS
        failures = carry_out_all(runs(seeds), lines, cores, "rivals", apart=True)
        if not chosen.quick:
            left_out(lines, chosen.data, cores)
    found = table(read_lines(lines))
    if chosen.quick:
        print(found)
    else:
        page = ROOT / "docs" / "rivals.md"
        start, end = "<!-- table: benchmarks/rivals.py -->", "<!-- end -->"
        before, rest = page.read_text().split(start)
        page.write_text(f"{before}{start}\n{found}\n{end}{rest.split(end)[1]}")
    for failure in failures:
        print(failure)


if __name__ == "__main__":  # workers import this file
    main()
