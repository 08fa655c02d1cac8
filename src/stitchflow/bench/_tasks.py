"""The tasks of the benchmark: data, the physics a method may be told, and what is scored.

The physics of a task is the form of its energy (no entropy where there is no noise, an interaction
where particles attract each other) and never a tuned setting. All other settings are the defaults
of a method.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from stitchflow import datasets
from stitchflow._data.scaling import UnitTime
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.networks import PlainNetwork
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._judging.protocols import Protocol
from stitchflow._measure.widths import FreeKernel
from stitchflow._method.contract import Method
from stitchflow._method.flow import Flow
from stitchflow._objective.intervals import Trapezoid
from stitchflow._objective.residual import VelocityResidual
from stitchflow._status import BadInput
from stitchflow._stitching.published import HIDDEN, published_potential, published_rule
from stitchflow.bench._forces import Square, Within
from stitchflow.bench._oracle import Oracle
from stitchflow.bench._truth import Band, Recovery
from stitchflow.metrics import DISTANCES

OBSERVED = (Protocol.MARGINAL, Protocol.ONE_STEP, Protocol.ROLLOUT)
UNSEEN = (Protocol.INTERPOLATE,)
BOTH = (*OBSERVED, *UNSEEN)
LEFT_OUT = (1.0, 2.0, 3.0)  # one at a time, of the five times of EB
MARGINALS = ("quadratic", "styblinski_tang", "bohachevsky", "wavy_plateau", "oakley_ohagan")


@dataclass(frozen=True)
class Problem:
    """The data of a task.

    Arguments:
        train: the individuals to learn from.
        test: the individuals to be judged by.
        energy: the true energy; None where it is unknown.
        oracle: the flow of the true energy, which gives the floors; None where it is unknown.
    """

    train: Snapshots
    test: Snapshots
    energy: Energy | None = None
    oracle: Flow | None = None  # the flow of the true energy

    @property
    def fingerprint(self) -> str:
        """A short hash of all individuals."""
        data = self.train.fingerprint + self.test.fingerprint
        return hashlib.sha256(data.encode()).hexdigest()[:16]

    @staticmethod
    def simulated(parts: datasets.Simulated, population: Snapshots | None = None) -> Problem:
        """A problem with the true energy as the oracle.

        Arguments:
            parts: training and test individuals and the energy.
            population: the individuals that the oracle draws from; None takes the training
                individuals.
        """
        population = parts.train if population is None else population
        return Problem(*parts, Oracle(parts.energy, population))


@dataclass(frozen=True)
class Task:
    """One line of `stitchflow bench --list`.

    Arguments:
        name: how the task is called.
        load: makes the problem from a seed and from whether data move by Euler steps.
        energy: makes the form of the energy that a method is told.
        family: the group of tasks with which it is reported.
        protocols: what is asked of a fit.
        metrics: the distances of its scores.
        seeds: how many seeds the study of the paper runs; 0 for tasks that are not the paper's.
        simulated_by_euler: whether `--euler` is supported.
        recovery: how the learned energy is compared with the true one.
        published: the settings of the paper's run of this task.

    >>> TASKS["chiral"].family
    'chiral'
    """

    name: str
    load: Callable[[int, bool], Problem]
    energy: Callable[[], Energy]
    family: str
    protocols: tuple[str, ...] = OBSERVED
    metrics: tuple[str, ...] = ("w1", "w2")
    seeds: int = 1
    simulated_by_euler: bool = False  # whether `--euler` is supported
    recovery: type[Recovery] = field(default=Recovery)
    published: Mapping[str, Any] = field(default_factory=dict)

    def problem(self, seed: int, euler: bool = False) -> Problem:
        """The data for a `seed`; recorded data are the same for all seeds."""
        if euler and not self.simulated_by_euler:
            raise BadInput(f"--euler: the data of {self.name} is not simulated by an ODE")
        return self.load(seed, euler)

    def suit(self, method: Method, data: Snapshots, euler: bool = False) -> Method:
        """The `method`, told the form of this task's energy."""
        method = method.learning(self.energy()).as_published(self.published)
        return method.by_euler_steps(data) if euler else method


def _potential() -> Energy:
    return Energy((Potential(),))


def _diffusion() -> Energy:
    return Potential() + Entropy()


def _varying() -> Energy:
    return Potential(time_varying=True) + Entropy()


def _interacting() -> Energy:
    return Potential() + Interaction() + Entropy()


def _kernel() -> Energy:
    return Energy((VectorKernel(),))


def _synthetic(name: str, paired: bool, seed: int, euler: bool) -> Problem:
    parts = datasets.synthetic(name, paired=paired, euler=euler, key=seed)
    # Data of one Euler step per gap do not follow the flow of the energy: there is no oracle.
    return Problem(*parts) if euler else Problem.simulated(parts)


def _wavy_valley(tilt: float, beta: float, n: int, seed: int, euler: bool) -> Problem:
    return Problem.simulated(datasets.wavy_valley(tilt=tilt, beta=beta, n=n, key=seed))


def _embryoid(seed: int, euler: bool) -> Problem:
    return Problem(*datasets.embryoid())


def _embryoid_without(times: list[float], seed: int, euler: bool) -> Problem:
    """All cells of the other times for training; all cells of `times` for scores."""
    parts = datasets.embryoid()
    x = np.concatenate([part.x for part in parts])
    t = np.concatenate([part.times[part.index] for part in parts])
    cells = Snapshots.from_table(x, t)
    return Problem(cells.drop_times(times), cells.keep_times(times))


def _cis(seed: int, euler: bool) -> Problem:
    """Split by particle; ids serve for the split and the scores, and training has none."""
    parts = datasets.cis()
    return Problem.simulated(parts._replace(train=replace(parts.train, ids=None)))


def _chiral(seed: int, euler: bool) -> Problem:
    return Problem.simulated(datasets.chiral_recorded())


def _chiral_dense(seed: int, euler: bool) -> Problem:
    """1,601 snapshots for training, every fiftieth for scores."""
    train, test, energy = datasets.chiral(key=seed)
    judged = test.keep_times(test.times[::50])
    return Problem.simulated(datasets.Simulated(train, judged, energy))


def _chiral_all(seed: int, euler: bool) -> Problem:
    """Nobody is hidden; every fiftieth snapshot of another simulation for scores."""
    train, test, energy = datasets.chiral(split=False, key=seed)
    judged = test.keep_times(test.times[::50])
    return Problem.simulated(datasets.Simulated(train, judged, energy))


def _three_marginals(name: str, seed: int, euler: bool) -> Problem:
    return Problem.simulated(datasets.three_marginals(name, key=seed))


def _populations(model: str, dt: float, seed: int, euler: bool) -> Problem:
    """100 snapshots for training, ten of other populations for scores."""
    train, test, energy = datasets.populations(model, dt=dt, key=seed)
    judged = test.keep_times(test.times[::11])
    return Problem.simulated(datasets.Simulated(train, judged, energy))


def _line_wells(regime: str, seed: int, euler: bool) -> Problem:
    """The oracle draws from as many individuals as are scored, also where training has only ten."""
    everybody = datasets.line_wells("dense", key=seed).train
    return Problem.simulated(datasets.line_wells(regime, key=seed), everybody)


# The settings of the published runs, where they are not those of `Stitching.paper` (paper, apps. E
# to H; the authors' configuration files where the text is silent).
_CELLS = {"batch": 256, "scaling": UnitTime(), "optimiser": published_rule(10_000)}
_POTENTIALS = {
    "particles": 1000,
    "learn_weights": False,
    "optimiser": published_rule(2000),
}
_RING = {
    "energy": published_potential(last_layer=0.0)
    + Interaction(hidden=HIDDEN, network=PlainNetwork(last_layer=0.0))
    + Entropy(),
    "learn_weights": False,
    "optimiser": published_rule(1000),
}
_CHIRAL = {"particles": 200, "learn_weights": False, "optimiser": published_rule(1000)}
_WELLS = {"optimiser": published_rule(2000)}
_VALLEY = {
    "energy": published_potential() + Entropy(0.05),
    "particles": 20,
    "learn_weights": False,
    "kernel": FreeKernel(width=0.5),
    "residual": VelocityResidual(Trapezoid(), alpha=0.5, weight=0.05, ridge=0.0, widening=1.0),
    "optimiser": published_rule(10_000),
}


def _all_tasks() -> list[Task]:
    wavy = {"energy": _diffusion, "recovery": Band, "seeds": 3, "family": "wavy-valley"}
    wavy |= {"published": _VALLEY}
    tasks = [
        Task("wavy-valley", partial(_wavy_valley, 0.3, 0.00625, 40), **wavy),
        Task("wavy-valley-code", partial(_wavy_valley, 0.5, 0.00625**2, 80), **wavy),
    ]
    for name in datasets.POTENTIALS:
        for paired in (True, False):
            kind = "paired" if paired else "unpaired"
            tasks.append(
                Task(
                    f"synthetic-{name}-{kind}",
                    partial(_synthetic, name, paired),
                    _potential,
                    family=f"synthetic-{kind}",
                    metrics=("w1",),
                    simulated_by_euler=True,
                    published=_POTENTIALS,
                )
            )
    cells = {"family": "eb", "seeds": 5, "metrics": ("w1",), "published": _CELLS}
    gaps = {"family": "eb-gaps", "seeds": 5, "metrics": ("w2",), "protocols": UNSEEN}
    gaps |= {"published": _CELLS}
    two = partial(_embryoid_without, [1.0, 3.0])
    chiral = {"family": "chiral", "published": _CHIRAL}
    tasks += [
        Task("eb-full", _embryoid, _diffusion, **cells),
        Task("eb-full-varying", _embryoid, _varying, **cells),
        Task("eb-leave-two-out", two, _diffusion, **gaps),
        Task("eb-leave-two-out-varying", two, _varying, **gaps),
        Task("cis", _cis, _interacting, "cis", metrics=tuple(DISTANCES), published=_RING),
        Task("chiral", _chiral, _kernel, **chiral),
        Task("chiral-dense", _chiral_dense, _kernel, **chiral),
    ]
    unseen = {"family": "eb-loo", "metrics": ("w1",), "protocols": UNSEEN}
    for t in LEFT_OUT:  # one fit each; the score is the mean of the three
        load = partial(_embryoid_without, [t])
        tasks.append(Task(f"eb-loo-{t:g}", load, _diffusion, **unseen))
        tasks.append(Task(f"eb-loo-{t:g}-varying", load, _varying, **unseen))
    apart = {"seeds": 0, "metrics": ("w1",)}
    close = {"family": "three-marginals", "recovery": Square, **apart}
    many = {"family": "populations", "recovery": Within, **apart}
    tasks.append(Task("chiral-all", _chiral_all, _kernel, family="chiral-all", **apart))
    for name in MARGINALS:
        load = partial(_three_marginals, name)
        tasks.append(Task(f"three-marginals-{name}", load, _diffusion, **close))
    for ending, dt in (("", 0.01), ("-coarse", 0.1)):
        for model in ("A", "E"):
            load = partial(_populations, model, dt)
            tasks.append(Task(f"populations-{model}{ending}", load, _interacting, **many))
    for regime in ("dense", "terminal", "trickle"):
        load = partial(_line_wells, regime)
        name = f"doublewell-{regime}"
        tasks.append(Task(name, load, _diffusion, "doublewell", BOTH, published=_WELLS))
    return tasks


TASKS: dict[str, Task] = {task.name: task for task in _all_tasks()}
