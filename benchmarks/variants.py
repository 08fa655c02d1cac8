"""Variants of stitching side by side on a few tasks: lines that are missing, then a table each."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from paper.tables import Results, markdown, number
from stitchflow import Stitching
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import append_json, read_lines
from stitchflow.bench._runs import Run, is_done

ROOT = Path(__file__).parents[1]
PROTOCOLS = ("marginal", "one-step", "rollout")
Variant = Callable[[Stitching], Stitching]


def run(lines: Path, tasks: tuple[str, ...], variants: dict[str, Variant]) -> None:
    """Fit every variant to every task, seed 0, and append what is not there yet."""
    keep_compilations()
    for task in tasks:
        for name, change in variants.items():
            prepared = Run(task).prepare()
            assert isinstance(prepared.method, Stitching)
            method = change(prepared.method).resolved(prepared.problem.train)
            prepared = replace(prepared, method=method)
            if is_done({**prepared.identity, "variant": name}, read_lines(lines)):
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a variant may fail; its figures say so
                fit, rows = prepared.carry_out()
            append_json(lines, [{**row, "variant": name} for row in rows])
            print(f"{task} {name}: {fit.status}; {fit.seconds:.0f} s", flush=True)


def tables(lines: Path, tasks: tuple[str, ...], variants: dict[str, Variant]) -> str:
    """One table a task: distances by the protocols, the energy, and the time of training."""
    results = Results({**row, "method": row["variant"]} for row in read_lines(lines))
    parts = []
    for task in tasks:
        rows, floors = [], ["floor"]
        for name in variants:
            at = {"method": name}
            rows.append(
                [
                    name,
                    *(results.cell(task, protocol, "w1", **at) for protocol in PROTOCOLS),
                    results.cell(task, "energy", "pattern_r2", **at),
                    results.cell(task, "energy", "grad_error", digits=1, **at),
                    results.cell(task, "energy", "beta", digits=4, **at),
                    number(
                        results.mean(task, "marginal", "w1", column="seconds_train", **at), digits=0
                    ),
                ]
            )
        known = {"method": next(iter(variants)), "column": "floor"}
        floors += [number(results.mean(task, protocol, "w1", **known)) for protocol in PROTOCOLS]
        truth = number(results.mean(task, "energy", "beta", **known), 4)
        rows.append([*floors, "1.000", "0.0", truth, ""])
        header = ["", *(f"{protocol} W1" for protocol in PROTOCOLS)]
        header += ["pattern R2", "grad_error %", "beta", "train s"]
        parts.append(f"## {task}\n\n{markdown(header, rows)}")
    return "\n\n".join(parts) + "\n"
