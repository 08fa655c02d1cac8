"""What `diagnose` says of simulated populations whose answer is known.

Each data set has 200 individuals at five times in two dimensions, nobody seen twice. A fifth is
held out, the default method is fitted to the rest, and the verdict is noted. `make verdicts` adds
what is missing to `results/verdicts.jsonl`, one line a data set, and writes the table of
`docs/prediction.md`. The goals: of 20 sets of noise at most one is called a gradient flow, and of
20 Ornstein-Uhlenbeck processes at most two are not.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from tqdm import tqdm

import stitchflow as sf
from marked_pages import ROOT, fill
from paper.tables import markdown
from stitchflow._command.fit_file import keep_compilations
from stitchflow._files.lines import append_json, read_lines

LINES = ROOT / "results" / "verdicts.jsonl"
N, TIMES = 200, np.linspace(0.0, 1.0, 5)


def noise(rng: np.random.Generator) -> list[np.ndarray]:
    """Normal, the same at all times."""
    return [rng.normal(size=(N, 2)) for _ in TIMES]


def relaxing(rng: np.random.Generator, width: float = 1.0) -> list[np.ndarray]:
    """Ornstein-Uhlenbeck over one relaxation time, 3 spreads off, as wide as at equilibrium."""
    spread = np.sqrt(1.0 + (width**2 - 1.0) * np.exp(-2.0 * TIMES))
    means = 3.0 * np.exp(-TIMES)
    pairs = zip(means, spread, strict=True)
    return [[mean, 0.0] + s * rng.normal(size=(N, 2)) for mean, s in pairs]


def spreading(rng: np.random.Generator) -> list[np.ndarray]:
    """Ornstein-Uhlenbeck over one relaxation time, 3 spreads off, a tenth as wide at first."""
    return relaxing(rng, 0.1)


def growing(rng: np.random.Generator) -> list[np.ndarray]:
    """Two fixed clusters, of which one grows from 20 to 80 % of the population."""
    ones = [rng.random(N) < share for share in np.linspace(0.2, 0.8, len(TIMES))]
    return [6.0 * one[:, None] * [1.0, 0.0] + 0.5 * rng.normal(size=(N, 2)) for one in ones]


def shuffled(rng: np.random.Generator) -> list[np.ndarray]:
    """Ornstein-Uhlenbeck with its times in random order."""
    clouds = relaxing(rng)
    return [clouds[k] for k in rng.permutation(len(TIMES))]


def turning(rng: np.random.Generator) -> list[np.ndarray]:
    """A bowl that turns: drift -x / 2 and three radians on the way, from off its centre."""
    clouds = []
    for t in TIMES:
        x = [2.0, 0.0] + 0.3 * rng.normal(size=(N, 2))
        c, s = np.cos(3.0 * t), np.sin(3.0 * t)
        x = np.exp(-0.5 * t) * x @ np.array([[c, s], [-s, c]])
        clouds.append(x + np.sqrt(0.1 * (1.0 - np.exp(-t))) * rng.normal(size=(N, 2)))
    return clouds


# What is simulated, and how often.
KINDS: dict[str, tuple[Callable[[np.random.Generator], list[np.ndarray]], int]] = {
    "noise": (noise, 20),
    "relaxing": (relaxing, 20),
    "spreading": (spreading, 5),
    "growing": (growing, 5),
    "shuffled": (shuffled, 5),
    "turning": (turning, 5),
}


def one(kind: str, seed: int) -> dict:
    """The verdict on one data set, and what it rests on."""
    number = list(KINDS).index(kind)
    data = sf.Snapshots.from_arrays(KINDS[kind][0](np.random.default_rng([number, seed])), TIMES)
    train, test = data.split(0.8, key=seed)
    start = time.perf_counter()
    fit = sf.fit(train, key=seed, progress=False)
    found = sf.diagnose(fit, test=test, key=seed)
    return {**found.to_dict(), "seconds": time.perf_counter() - start}


def outcome(row: dict) -> str:
    if row["is_gradient_flow"] is not None:
        return "a gradient flow" if row["is_gradient_flow"] else "not one"
    first = row["sentences"][0]
    words = {"no motion": "no motion beyond", "in place": "nobody needs to have moved"}
    return next((name for name, said in words.items() if said in first), "cannot tell")


def table(rows: list[dict]) -> str:
    names = ["a gradient flow", "not one", "no motion", "in place", "cannot tell"]
    lines = []
    for kind, (made, _) in KINDS.items():
        found = [outcome(row) for row in rows if row["kind"] == kind]
        what = (made.__doc__ or "").split("\n")[0].rstrip(".")
        lines.append([what, str(len(found)), *(str(found.count(name)) for name in names)])
    return markdown(["population", "sets", *names], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, action="append")
    chosen = parser.parse_args()
    keep_compilations()
    # One of each kind in turn, so that a study that was stopped says something of all.
    jobs = [(seed, kind) for kind in chosen.kind or KINDS for seed in range(KINDS[kind][1])]
    for seed, kind in tqdm(sorted(jobs), desc="verdicts", unit="set"):
        place = {"kind": kind, "seed": seed, "version": sf.__version__}
        if not any(place.items() <= row.items() for row in read_lines(LINES)):
            append_json(LINES, [{**place, **one(kind, seed)}])
    text = table(read_lines(LINES))
    fill(ROOT / "docs" / "prediction.md", "table: benchmarks/verdicts.py", text)
    print(text)


if __name__ == "__main__":
    main()
