"""What a fit says about what it never saw: times left out, long rollouts, diagnoses.

`make predict` adds what is missing to `results/predict.jsonl`, one line a study and task, and
writes the tables of `docs/prediction.md`. Data without a loader of its own is read from `--data`.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import stitchflow as sf
from marked_pages import ROOT, fill
from stitchflow._command.fit_file import keep_compilations
from stitchflow._energy.simulate import simulate
from stitchflow._files.lines import append_json, read_lines
from stitchflow.bench._tasks import TASKS
from stitchflow.datasets import POTENTIALS

LINES = ROOT / "results" / "predict.jsonl"
RECORDED = {"larry2d": "w2", "gom9": "w2", "eb100": "energy_distance"}


def recorded(name: str, folder: Path) -> sf.Snapshots:
    with np.load(folder / f"{name}.npz") as stored:
        return sf.Snapshots.from_table(stored["x"], stored["t"])


def left_out(name: str, folder: Path) -> dict:
    """Every inner time left out in turn: ours over the better trivial method."""
    data, metric = recorded(name, folder), RECORDED[name]
    methods = ["stitching", "stitching-varying", "nearest", "ot-linear"]
    inner = data.times[1:-1].tolist()
    found = sf.cross_validate(data, methods, leave_out=inner, metrics=(metric,))
    row: dict = {"metric": metric}
    for method in found.methods[:2]:
        places = [place for place in found.places(metric) if place[2] is not None]
        best = [min(found.value(m, metric, p) for m in ("nearest", "ot-linear")) for p in places]
        ratios = [found.value(method, metric, p) / b for p, b in zip(places, best, strict=True)]
        row[method] = float(np.exp(np.mean(np.log(ratios))))
        row[f"{method} worst"] = float(max(ratios))
    return row


def long_rollout(name: str, folder: Path) -> dict:
    """Held-out individuals carried ten times as far as the data goes, beside the truth."""
    task = TASKS[f"synthetic-{name}-paired"]
    problem = task.problem(0)
    fit = sf.fit(problem.train, task.suit(sf.Stitching(), problem.train))
    times = problem.test.times
    until = times[0] + 10.0 * (times[-1] - times[0])
    when = np.linspace(times[0], until, 21)
    start = problem.test.clouds[0][:200]
    centre = start.mean(axis=0)
    radius = lambda paths: float(np.linalg.norm(np.asarray(paths) - centre, axis=-1).max())
    assert problem.energy is not None
    true = np.asarray(simulate(problem.energy, jnp.asarray(start, float), when, jax.random.key(0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.ExtrapolationWarning)
        ours = np.asarray(fit.flow.simulate(start, when))
    # The true flow is bounded where its cloud hardly grows in the second half of the way.
    bounded = radius(true) <= 1.5 * max(radius(true[:11]), radius(start))
    bounded = bool(bounded and np.isfinite(true).all())
    finite = bool(np.isfinite(ours).all())
    ratio = radius(ours) / radius(true) if bounded and finite else None
    return {"finite": finite, "bounded": bounded, "ratio": ratio}


def diagnosis(name: str, folder: Path) -> dict:
    """Whether a static energy explains the data, and what turns in it."""
    if name == "ornstein-uhlenbeck":
        rng, times = np.random.default_rng(0), np.array([0.0, 0.3, 0.6, 1.0, 1.6])
        means = 3.0 * np.exp(-times)
        spreads = np.sqrt(0.09 * np.exp(-2 * times) + 0.5 * (1.0 - np.exp(-2 * times)))
        pairs = zip(means, spreads, strict=True)
        clouds = [[m, 0.0] + s * rng.normal(size=(400, 2)) for m, s in pairs]
        data, method = sf.Snapshots.from_arrays(clouds, times), sf.Stitching()
    elif name in RECORDED:
        data, method = recorded(name, folder), sf.Stitching()
    else:
        data = TASKS[name].problem(0).train
        method = sf.Stitching(energy=TASKS["cis"].energy()) if name == "cis" else sf.Stitching()
    found = sf.diagnose(sf.fit(data, method), data)
    low, high = found.non_gradient_interval
    return {
        "explained": found.explained,
        "non_gradient": found.non_gradient,
        "low": low,
        "high": high,
        "words": str(found),
    }


def choice(name: str, folder: Path) -> dict:
    """Which potential to trust at unseen times, asked of the training times alone."""
    data = TASKS[name].problem(0).train
    inner = data.times[1:-1].tolist()
    found = sf.cross_validate(
        data, ["stitching", "stitching-varying"], leave_out=inner, metrics=("w2",)
    )
    (place,) = [place for place in found.places("w2") if place[2] is not None]
    return {method: found.value(method, "w2", place) for method in found.methods}


def growing(name: str, folder: Path) -> dict:
    """Counts that change, with and without a growth rate: masses, and W2 of held-out cells."""
    train, test = recorded(name, folder).split(0.8, key=0)
    row: dict = {"counts": (train.counts / train.counts[0]).tolist()}
    for label, growth in (("transport", None), ("growth", sf.Growth())):
        fit = sf.fit(train, sf.Stitching(growth=growth))
        scores = sf.evaluate(fit, test, metrics=("w2",))
        row |= {f"{label} {p}": scores.mean(p, "w2") for p in ("marginal", "one-step", "rollout")}
        if growth is not None:
            logits = np.asarray(fit.flow.curve.node_logits, np.float64)
            masses = np.log(np.exp(logits).sum(axis=1))
            nodes, when = fit.flow.curve.times, fit.flow.units.time_in(train.times)
            row["masses"] = np.exp(np.interp(when, nodes, masses - masses[0])).tolist()
    return row


STUDIES: dict[str, tuple[Callable[[str, Path], dict], list[str]]] = {
    "left out": (left_out, list(RECORDED)),
    "diagnosis": (diagnosis, ["ornstein-uhlenbeck", "wavy-valley", "cis", "chiral", "gom9"]),
    "choice": (choice, ["eb-leave-two-out"]),
    "growth": (growing, ["larry2d"]),
    "long rollout": (long_rollout, [name for name in POTENTIALS if name != "flat"]),
}


def table(rows: list[dict]) -> str:
    lines = []
    for study, (made, _) in STUDIES.items():
        own = [row for row in rows if row["study"] == study]
        names = [n for n in (own[0] if own else {}) if n not in ("study", "version", "words")]
        lines += [
            "",
            f"### {study.capitalize()}",
            "",
            f"{made.__doc__}",
            "",
            f"| {' | '.join(names)} |",
            "|---" * len(names) + "|",
        ]
        for row in own:
            cells = (row[n] for n in names)
            text = (_text(cell) for cell in cells)
            lines.append(f"| {' | '.join(text)} |")
    return "\n".join(lines)


def _text(cell: Any) -> str:
    if isinstance(cell, list):
        return ", ".join(map(_text, cell))
    return f"{cell:.3f}" if isinstance(cell, float) else "" if cell is None else str(cell)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--study", choices=STUDIES, action="append")
    chosen = parser.parse_args()
    keep_compilations()
    jobs = [(study, name) for study in chosen.study or STUDIES for name in STUDIES[study][1]]
    for study, name in tqdm(jobs, desc="predict", unit="task"):
        place = {"study": study, "task": name, "version": sf.__version__}
        if not any(place.items() <= row.items() for row in read_lines(LINES)):
            append_json(LINES, [{**place, **STUDIES[study][0](name, chosen.data)}])
    fill(ROOT / "docs" / "prediction.md", "tables: benchmarks/predict.py", table(read_lines(LINES)))


if __name__ == "__main__":
    main()
