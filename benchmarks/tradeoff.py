"""The trade between curve and energy on embryoid-body cells, over the weight of the residual.

A fifth of the training cells is held out and judged; the test cells are not looked at.
`results/tradeoff.jsonl` holds one line per energy and weight; `make tradeoff` adds what is missing
and draws `docs/figures/tradeoff.png`.
"""

from dataclasses import replace

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import stitchflow as sf
from marked_pages import ROOT
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import append_json, read_lines
from stitchflow.bench._tasks import TASKS

LINES, FIGURE = ROOT / "results" / "tradeoff.jsonl", ROOT / "docs" / "figures" / "tradeoff.png"
WEIGHTS = (0.03, 0.1, 0.3, 1.0, 3.0)
PROTOCOLS = ("marginal", "one-step", "rollout")
ENERGIES = {"V(x)": sf.Stitching(), "V(x, t)": sf.Stitching.varying()}


def run(data: sf.Snapshots) -> None:
    train, held_out = data.split(0.8, key=0)
    for name, method in ENERGIES.items():
        for weight in WEIGHTS:
            place = {"energy": name, "weight": weight, "version": sf.__version__}
            if any(place.items() <= row.items() for row in read_lines(LINES)):
                continue
            method = replace(method, residual=sf.VelocityResidual(weight=weight))
            fit = sf.fit(train, method)
            scores = sf.evaluate(fit, held_out, metrics=("w1",), protocols=PROTOCOLS)
            found = {protocol: scores.mean(protocol) for protocol in PROTOCOLS}
            floor = next(r.floor for r in scores if r.protocol == "marginal" and r.time is None)
            row = {**place, **found, "floor": floor, "seconds": fit.seconds}
            append_json(LINES, [row])
            print(row, flush=True)


def draw() -> None:
    rows = read_lines(LINES)
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.0), sharex=True, layout="constrained")
    for axis, name in zip(axes, ENERGIES, strict=True):
        own = sorted((row for row in rows if row["energy"] == name), key=lambda row: row["weight"])
        for protocol in PROTOCOLS:
            values = [row[protocol] for row in own]
            axis.plot([row["weight"] for row in own], values, marker="o", label=protocol)
        axis.axhline(own[0]["floor"], color="0.5", linestyle=":", label="floor")
        axis.set(title=name, xscale="log", xlabel="weight of the residual", ylabel="W1")
    axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    keep_compilations()
    run(TASKS["eb-full"].problem(0, False).train)
    draw()
