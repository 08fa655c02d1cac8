"""Seconds from data to a fit with defaults, beside the quality it reached and the goal.

`make bench` runs each case alone on all cores, so that seconds are those of a user's machine, and
adds lines to `results/quality.jsonl`. Compilation is part of the seconds; nothing is cached. What
tracing and compiling took in all, of the first curve, of every stage and of what lies between, is
given beside it, with the longest of the programs; a trace within a trace counts twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import jax

import stitchflow as sf
from stitchflow._files.lines import append_json, read_lines
from stitchflow.bench import Run
from stitchflow.bench._tasks import TASKS

LINES = Path(__file__).parents[1] / "results" / "quality.jsonl"

# Task, and steps where there are fewer: seconds allowed, and goals as (protocol, metric, bound). A
# bound below zero is a least value, and None one of 1.15 times the floor.
NEAR_FLOOR = (("marginal", "w1", None), ("marginal", "w2", None))
CASES: dict[str, tuple[float, tuple[tuple[str, str, float | None], ...]]] = {
    "eb-full-varying": (
        40.0,
        (("marginal", "w1", 0.535), ("one-step", "w1", 0.56), ("rollout", "w1", 0.59)),
    ),
    "eb-full": (
        40.0,
        (("marginal", "w1", 0.60), ("one-step", "w1", 0.80), ("rollout", "w1", 0.75)),
    ),
    "synthetic-flowers-paired": (30.0, (("energy", "grad_error", 5.0),)),
    "synthetic-styblinski_tang-paired": (30.0, (("energy", "grad_error", 1.0),)),
    "synthetic-styblinski_tang-unpaired": (30.0, (("energy", "grad_error", 5.5),)),
    "cis": (45.0, NEAR_FLOOR),
    "cis, 1000 steps": (45.0, NEAR_FLOOR),
    "chiral": (60.0, ()),
    "chiral-dense": (60.0, (("energy", "kernel_r2_long", -0.9),)),
    "wavy-valley": (10.0, (("energy", "raw_r2", -0.93),)),
}


def one(case: str) -> dict:
    task, _, fewer = case.partition(", ")
    prepared, compiling = Run(task).prepare(), []
    method = prepared.method
    if fewer:
        steps = int(fewer.split()[0])
        method = TASKS[task].suit(sf.Stitching(), prepared.problem.train, False)
        method = replace(method, optimiser=sf.Optimiser(steps=steps))
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, seconds, **_: compiling.append(seconds) if "/compile/" in name else None
    )
    start = time.perf_counter()
    fit = sf.fit(prepared.problem.train, method, 0, progress=False)
    row: dict = {"task": case, "seconds": time.perf_counter() - start, "limit": CASES[case][0]}
    row |= {"compile": sum(compiling), "compile_longest": max(compiling)}
    found = {(r.protocol, r.metric): r for r in prepared.scores(fit) if r.time is None}
    for protocol, metric, bound in CASES[case][1]:
        place = found[protocol, metric]
        bound = 1.15 * place.floor if bound is None else bound
        good = place.value >= -bound if bound < 0 else place.value <= bound
        row[f"{protocol} {metric}"] = [place.value, abs(bound), good]
    return {**row, "version": sf.__version__, "status": fit.status.message}


def table(rows: list[dict]) -> str:
    """The latest line of every task."""
    head = "| task | training, s | limit, s | of it compiling | longest program | quality (goal) |"
    lines = [head, "|---|---|---|---|---|---|"]
    for row in {row["task"]: row for row in rows}.values():
        goals = [f"{name} {v[0]:.3g} ({v[1]:.3g})" for name, v in row.items() if type(v) is list]
        cells = [row["task"], f"{row['seconds']:.0f}", f"{row['limit']:.0f}"]
        cells += [f"{row['compile']:.1f}", f"{row['compile_longest']:.1f}", "; ".join(goals)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) == 2:
        print(json.dumps(one(sys.argv[1])))
        return
    for case in CASES:  # a process each, so that nothing is compiled already
        call = [sys.executable, __file__, case]
        out = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout
        append_json(LINES, [json.loads(out.splitlines()[-1])])
        print(out.splitlines()[-1], flush=True)
    print(table(read_lines(LINES)))


if __name__ == "__main__":
    main()
