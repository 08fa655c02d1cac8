"""Does `sf.select` find the terms that are there, and no others? Lines in results, tables in docs.

`make supported` simulates data sets with and without an interaction, and with and without a part
that turns, and asks which of both they support. Settings are drawn at random by the seed. On the
first seeds thresholds were set; those from `UNTOUCHED` on were looked at once, with the thresholds.
It goes on where it stopped. `--draw` makes only the tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import stitchflow as sf
from marked_pages import ROOT, fill
from stitchflow._files.lines import append_json, read_lines

LINES, PAGE = ROOT / "results" / "select.jsonl", ROOT / "docs" / "identify.md"
UNTOUCHED, SEEDS = 16, 36  # of each case: the first seed that was kept aside, and their number
STEPS = 400  # of the whole time, at least, and as many of each gap
GAP_STEPS = 8


@dataclass(frozen=True)
class Setting:
    """One simulated population.

    Arguments:
        landscape: "bowl", "double well" or "ring".
        n: individuals of a snapshot.
        times: the number of snapshots.
        same: whether the same individuals are seen at all times, without their names.
        groups: the number of populations, at different places.
        strength: the mean size of the force of W, or of the velocity that turns, over that of V.
        attracts: whether W attracts.
        range_: the range of W over the width of the population.
        start: "round", "elongated" or "off-centre", or "spread" for interactions.
    """

    landscape: str
    n: int
    times: int
    same: bool
    groups: int
    strength: float
    attracts: bool = True
    range_: float = 0.5
    start: str = "spread"


def interacting(seed: int, there: bool) -> Setting:
    """A setting with or without an interaction."""
    rng = np.random.default_rng([seed, int(there)])
    same = bool(rng.random() < 0.6)
    return Setting(
        str(rng.choice(["bowl", "double well", "ring"])),
        int(rng.choice([100, 100, 200, 200, 300, 500] if same else [100, 200, 300])),
        int(rng.choice([10, 20, 50] if same else [5, 10, 15])),
        same,
        int(rng.choice([1, 1, 4, 10])),
        float(rng.choice([0.3, 0.5, 1.0])) if there else 0.0,
        bool(rng.random() < 0.5),
        float(rng.choice([0.3, 0.6, 1.0])),
    )


def turning(seed: int, there: bool, round_: bool = False) -> Setting:
    """A setting with or without a part that turns."""
    rng = np.random.default_rng([seed, 2 + int(there), int(round_)])
    # The same individuals, seen again, are never round to within the little noise of their motion.
    same = bool(rng.random() < 0.5) and not round_
    start = "round" if round_ else str(rng.choice(["elongated", "off-centre"]))
    return Setting(
        "round bowl",
        int(rng.choice([100, 200, 300, 500])),
        int(rng.choice([5, 10, 20])),
        same,
        1,
        float(rng.choice([0.5, 1.0, 2.0])) if there else 0.0,
        start=start,
    )


CASES = {
    "interaction": (lambda seed: interacting(seed, True), "interaction", True),
    "no interaction": (lambda seed: interacting(seed, False), "interaction", False),
    "turning": (lambda seed: turning(seed, True), "turning part", True),
    "no turning": (lambda seed: turning(seed, False), "turning part", False),
    "turning, round": (lambda seed: turning(seed, True, True), "turning part", None),
    "no turning, round": (lambda seed: turning(seed, False, True), "turning part", None),
}


def force_of(landscape: str, x: np.ndarray) -> np.ndarray:
    """Minus the gradient of V at (n, 2)."""
    if landscape == "bowl":
        return -x * np.array([1.0, 2.0])
    if landscape == "round bowl":
        return -x
    if landscape == "double well":
        return np.stack([-4.0 * x[:, 0] * (x[:, 0] ** 2 - 1.0), -2.0 * x[:, 1]], axis=1)
    return -2.0 * ((x**2).sum(axis=1, keepdims=True) - 1.0) * x


def pair_force(x: np.ndarray, codes: np.ndarray, span: float) -> np.ndarray:
    """The mean over a population of minus the gradient of -exp(-r^2 / 2 span^2) span."""
    out = np.zeros_like(x)
    for code in np.unique(codes):
        own = codes == code
        z = x[own, None] - x[None, own]
        bell = np.exp(-0.5 * (z**2).sum(axis=2) / span**2) / span
        out[own] = -(bell[:, :, None] * z).sum(axis=1) / own.sum()
    return out


def simulated(setting: Setting, seed: int) -> sf.Snapshots:
    """The snapshots of a setting."""
    rng, beta, total = np.random.default_rng([seed, 99]), 0.15, 1.5
    when = np.linspace(0.0, total, setting.times)
    codes = np.arange(setting.n) % setting.groups
    span = setting.range_ * 0.8

    def start() -> np.ndarray:
        x = rng.normal(size=(setting.n, 2))
        if setting.start == "round":
            return 1.2 * x
        if setting.start == "elongated":
            return x * np.array([1.5, 0.4])
        if setting.start == "off-centre":
            return 0.4 * x + np.array([1.5, 0.0])
        angle = 2.0 * np.pi * codes / setting.groups
        away = 0.8 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        alone = np.array([0.5, 0.0])
        return 0.7 * x + (away if setting.groups > 1 else alone)

    def drift(x: np.ndarray, size: float) -> np.ndarray:
        out = force_of(setting.landscape, x)
        if size and setting.start == "spread":
            out = out + size * pair_force(x, codes, span)
        elif size:
            out = out + size * np.stack([-x[:, 1], x[:, 0]], axis=1)
        return out

    def run(x: np.ndarray, last: int, size: float) -> list[np.ndarray]:
        path, each = [x], max(GAP_STEPS, STEPS // 4 // setting.times)
        h = (when[1] - when[0]) / each
        for _ in range(last):
            for _ in range(each):
                x = x + h * drift(x, size) + np.sqrt(2 * beta * h) * rng.normal(size=x.shape)
            path.append(x)
        return path

    size = setting.strength
    if size and setting.start == "spread":  # relative to V along the way that V alone leads
        probe = run(start(), setting.times - 1, 0.0)[:: max(1, setting.times // 5)]
        norm = lambda f: np.sqrt(np.mean([(f(x) ** 2).sum(axis=1).mean() for x in probe]))
        forces = norm(lambda x: force_of(setting.landscape, x))
        size *= forces / norm(lambda x: pair_force(x, codes, span))
        size *= 1.0 if setting.attracts else -1.0
    if setting.same:
        clouds = run(start(), setting.times - 1, size)
    else:
        clouds = [run(start(), k, size)[-1] for k in range(setting.times)]
    groups = [codes] * setting.times if setting.groups > 1 else None
    orders = [rng.permutation(setting.n) for _ in clouds]
    clouds = [cloud[order] for cloud, order in zip(clouds, orders, strict=True)]
    if groups is not None:
        groups = [codes[order] for order in orders]
    return sf.Snapshots.from_arrays(clouds, when, groups=groups)


def measured(case: str, seed: int) -> dict[str, Any]:
    """What `sf.select` says about one data set."""
    setting = CASES[case][0](seed)
    data = simulated(setting, seed)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.DataWarning)  # groups are at different places
        found = sf.select(data, key=seed)
    seconds = time.perf_counter() - began
    kept = ("supported", "gain", "low", "high", "evidence", "share", "missed", "reason")
    rows = {row.term: {name: getattr(row, name) for name in kept} for row in found}
    about = {"kind": found.kind, "misfit": found.misfit, "seconds": seconds}
    return {"case": case, "seed": seed, "setting": asdict(setting), "rows": rows, **about}


def verdicts(lines: list[dict[str, Any]], case: str) -> list[bool | None]:
    """The answers on the term of a case."""
    term = CASES[case][1]
    return [line["rows"][term]["supported"] for line in lines if line["case"] == case]


def table() -> str:
    """One row a case and half: how often the term was supported, not supported, and left open."""
    rows = [
        "| data sets | half | supported | not supported | cannot tell | other terms claimed | s |"
    ]
    rows.append("|" + "---|" * 7)
    for case, (_, term, _) in CASES.items():
        for half, aside in (("development", False), ("untouched", True)):
            own = (line for line in read_lines(LINES) if line["case"] == case)
            lines = [line for line in own if (line["seed"] >= UNTOUCHED) == aside]
            said = verdicts(lines, case)
            if not said:
                continue
            absent = (
                name
                for name in ("time-varying potential", "interaction", "turning part", "growth")
                if name != term
            )
            names = list(absent)
            claimed = sum(bool(x["rows"][name]["supported"]) for x in lines for name in names)
            counts = [sum(one is answer for one in said) for answer in (True, False, None)]
            cells = [case, half, *(f"{count} of {len(said)}" for count in counts)]
            cells += [f"{claimed} of {len(names) * len(lines)}"]
            cells += [f"{np.median([x['seconds'] for x in lines]):.0f}"]
            rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="data sets of each case")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so many")
    parser.add_argument("--draw", action="store_true", help="only the table")
    chosen, begin = parser.parse_args(), time.perf_counter()
    for seed in range(chosen.first, 0 if chosen.draw else chosen.seeds):
        done = {(line["case"], line["seed"]) for line in read_lines(LINES)}
        for case in CASES:
            # Of the round ones, half turn.
            skipped = (case == "turning, round" and seed % 4 < 2) or (
                case == "no turning, round" and seed % 4 >= 2
            )
            late = time.perf_counter() - begin > chosen.seconds
            if (case, seed) not in done and not skipped and not late:
                append_json(LINES, [measured(case, seed)])
    fill(PAGE, "supported: benchmarks/supported.py", table())
