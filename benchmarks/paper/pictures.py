"""What a figure needs of a run, as small arrays kept beside its result lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._method.contract import Fit
from stitchflow.bench._runs import Prepared, Run
from stitchflow.bench._truth import curl
from stitchflow.metrics import pair_band

GRID = 70
Arrays = dict[str, np.ndarray]


def picture_path(folder: Path, run: Run) -> Path:
    kind = "-euler" if run.euler else ""
    return folder / f"{run.task}{kind}-{run.method}-{run.seed}.npz"


def picture_of(prepared: Prepared, fit: Fit) -> Arrays | None:
    """The arrays of this run's figure, or None where no figure shows it."""
    family = prepared.task.family
    draw = _FAMILIES.get(family)
    ours = prepared.run.method.startswith("stitching")  # figures show our own fits
    if draw is None or not ours or prepared.run.seed or prepared.run.euler:
        return None
    truth = prepared.problem.energy
    if truth is not None and fit.energy is not None and fit.energy.time_varying:
        return None  # a V(x, t) is no picture beside the static truth
    return {name: np.asarray(value, np.float32) for name, value in draw(prepared, fit).items()}


def write_picture(path: Path, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)  # pyright: ignore


def read_picture(path: Path) -> Arrays | None:
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def _some(data: Snapshots, n: int, times: list[int] | None = None) -> np.ndarray:
    """(time, n, dim): a few individuals of each time."""
    rng = np.random.default_rng(0)
    chosen = range(len(data)) if times is None else times
    return np.stack([data.cloud(k)[rng.choice(len(data.cloud(k)), n)] for k in chosen])


def _plane(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, second = (np.linspace(a, b, GRID) for a, b in zip(low[:2], high[:2], strict=True))
    points = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
    return first, second, points


def _on(energy: Energy, points: np.ndarray, t: float | None = None) -> np.ndarray:
    return np.asarray(energy.potential(points, t)).reshape(GRID, GRID)


def _truth(prepared: Prepared) -> Energy:
    energy = prepared.problem.energy
    assert energy is not None
    return energy


def _energy(fit: Fit) -> Energy:
    assert fit.energy is not None
    return fit.energy


def _synthetic(prepared: Prepared, fit: Fit) -> Arrays:
    low, high = np.full(2, -4.0), np.full(2, 4.0)
    first, second, points = _plane(low, high)
    clouds = _some(prepared.problem.train, 150)
    if prepared.problem.train.paired:
        clouds = prepared.problem.train.paths[:, :150]
    return {
        "first": first,
        "second": second,
        "learned": _on(_energy(fit), points),
        "true": _on(_truth(prepared), points),
        "clouds": clouds,
    }


def _wavy_valley(prepared: Prepared, fit: Fit) -> Arrays:
    train, curve, units = prepared.problem.train, fit.flow.fitted_curve, _energy(fit).units
    assert curve is not None
    assert units is not None
    margin = np.array([0.5, 0.8])
    first, second, points = _plane(train.x.min(axis=0) - margin, train.x.max(axis=0) + margin)
    paths = np.asarray(units.space_out(curve.positions))
    return {
        "first": first,
        "second": second,
        "learned": _on(_energy(fit), points),
        "true": _on(_truth(prepared), points),
        "clouds": train.paths,
        "times": train.times,
        "paths": paths,
    }


def _embryoid(prepared: Prepared, fit: Fit) -> Arrays:
    data = prepared.problem.test
    times = np.arange(data.times[0], data.times[-1] + 0.25, 0.5)
    low, high = np.percentile(data.x[:, :2], [0.5, 99.5], axis=0)
    pad = 0.15 * (high - low)
    first, second, plane = _plane(low - pad, high + pad)
    points = np.tile(data.x.mean(axis=0), (len(plane), 1))
    points[:, :2] = plane
    energy = _energy(fit)
    at = times if energy.time_varying else times[:1]
    return {
        "first": first,
        "second": second,
        "times": times,
        "learned": np.stack([_on(energy, points, float(t)) for t in at]),
        "sampled": np.asarray(fit.flow.sample(times, 300, key=0))[:, :, :2],
        "observed": _some(data, 300)[:, :, :2],
        "observed_times": data.times,
    }


def _cis(prepared: Prepared, fit: Fit) -> Arrays:
    test = prepared.problem.test
    shown = [int(k) for k in np.linspace(0, len(test) - 1, 8).round()]
    first, second, points = _plane(test.x.min(axis=0) - 0.3, test.x.max(axis=0) + 0.3)
    low, high = pair_band(test.cloud(len(test) // 2))
    r = np.linspace(0.0, 1.3 * high, 200)
    return {
        "first": first,
        "second": second,
        "learned": _on(_energy(fit), points),
        "true": _on(_truth(prepared), points),
        "times": test.times[shown],
        "observed": _some(test, 150, shown),
        "sampled": np.asarray(fit.flow.sample(test.times[shown], 150, key=0)),
        "r": r,
        "learned_w": np.asarray(_energy(fit).interaction(r)),
        "true_w": np.asarray(_truth(prepared).interaction(r)),
        "band": np.array([low, high]),
    }


def _chiral(prepared: Prepared, fit: Fit) -> Arrays:
    test = prepared.problem.test
    wanted = [0.0, 50.0, 100.0, 200.0, 400.0, 600.0, 800.0]
    shown = [int(np.abs(test.times - t).argmin()) for t in wanted]
    axis = np.linspace(-4.0, 4.0, 40)
    z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    kernels = {}
    for name, energy in (("learned", _energy(fit)), ("true", _truth(prepared))):
        kernels[f"{name}_kernel"] = np.asarray(energy.kernel(z)).reshape(40, 40, 2)
        kernels[f"{name}_curl"] = curl(energy, z).reshape(40, 40)
    return {
        "axis": axis,
        "times": test.times[shown],
        "observed": _some(test, 250, shown),
        "sampled": np.asarray(fit.flow.sample(test.times[shown], 250, key=0)),
        **kernels,
    }


def _double_well(prepared: Prepared, fit: Fit) -> Arrays:
    train = prepared.problem.train
    x = np.linspace(-11.0, 11.0, 300)
    times = np.linspace(0.0, 4.0, 60)
    bins = np.linspace(-11.0, 11.0, 89)
    sampled = np.asarray(fit.flow.sample(times, 2000, key=0))[:, :, 0]
    density = [np.histogram(cloud, bins, density=True)[0] for cloud in sampled]
    rng = np.random.default_rng(0)
    some = rng.permutation(len(train.x))[:1500]
    return {
        "x": x,
        "learned": np.asarray(_energy(fit).potential(x[:, None])),
        "true": np.asarray(_truth(prepared).potential(x[:, None])),
        "times": times,
        "bins": bins,
        "density": np.stack(density),
        "observed_t": train.times[train.index[some]],
        "observed_x": train.x[some, 0],
        "support": np.percentile(train.x, [0.5, 99.5]),
    }


_FAMILIES: dict[str, Callable[[Prepared, Fit], Arrays]] = {
    "synthetic-paired": _synthetic,
    "synthetic-unpaired": _synthetic,
    "wavy-valley": _wavy_valley,
    "eb": _embryoid,
    "cis": _cis,
    "chiral": _chiral,
    "doublewell": _double_well,
}
