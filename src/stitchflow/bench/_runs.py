"""One run of the benchmark: from task, method and seed to rows of scores."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from stitchflow._energy.packing import plan_of
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.protocols import Protocol
from stitchflow._judging.scores import Row
from stitchflow._method.contract import Fit, Method, method_named
from stitchflow._status import BadInput, ExtrapolationWarning
from stitchflow._stitching.stitching import fit
from stitchflow.bench._tasks import TASKS, Problem, Task
from stitchflow.bench._truth import compare_beta, compare_energies, compare_moments


@dataclass(frozen=True)
class Run:
    """One run of the benchmark: a method, a task and a seed.

    Arguments:
        task: a name in `TASKS`.
        method: a name in `METHODS`.
        seed: the seed of the data, where they are simulated, and of the fit.
        euler: whether the data move by one explicit Euler step per gap, for tasks that support it.

    >>> print(Run("cis", seed=1))
    cis stitching seed 1
    """

    task: str
    method: str = "stitching"
    seed: int = 0
    euler: bool = False

    def __str__(self) -> str:
        return f"{self.task}{' --euler' if self.euler else ''} {self.method} seed {self.seed}"

    def prepare(self) -> Prepared:
        """Load the data and make all choices of the method; unknown names are refused here."""
        if self.task not in TASKS:
            near = [name for name in TASKS if name.startswith(self.task.split("-")[0])]
            listed = ", ".join(near or list(TASKS)[:3]) + ", ..."
            raise BadInput(f"TASK {self.task!r} is not in `stitchflow bench --list`: {listed}")
        task, chosen = TASKS[self.task], method_named(self.method, "--method")
        start = time.perf_counter()
        problem = _problem(self.task, self.seed, self.euler)
        method = task.suit(chosen, problem.train, self.euler).resolved(problem.train)
        if self.euler:  # data of Euler steps do not follow a flow
            task = replace(task, protocols=(Protocol.MARGINAL,))
        return Prepared(self, task, problem, method, time.perf_counter() - start)


@lru_cache(maxsize=1)  # consecutive runs often use the same data
def _problem(task: str, seed: int, euler: bool) -> Problem:
    return TASKS[task].problem(seed, euler)


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to be carried out.

    Arguments:
        run: which run it is.
        task: its task.
        problem: the data.
        method: the method, with every choice made.
        seconds: how long the preparation took.
    """

    run: Run
    task: Task
    problem: Problem
    method: Method
    seconds: float

    @property
    def identity(self) -> dict[str, Any]:
        """What must agree for a stored result to be used in place of this run."""
        from stitchflow import __version__

        plan = json.dumps(plan_of(self.method), sort_keys=True, default=repr).encode()
        return {
            "task": self.run.task,
            "method": self.run.method,
            "seed": self.run.seed,
            "euler": self.run.euler,
            "version": __version__,
            "settings": hashlib.sha256(plan).hexdigest()[:16],
            "data": self.problem.fingerprint,
        }

    def carry_out(self, progress: bool = False) -> tuple[Fit, list[dict[str, Any]]]:
        """Fit and score; returns the fit and one dictionary for each score."""
        start = time.perf_counter()
        result = fit(self.problem.train, self.method, self.run.seed, progress=progress)
        trained = time.perf_counter() - start
        rows = list(self.scores(result))
        times = {
            "seconds_train": trained,
            "seconds_total": self.seconds + time.perf_counter() - start,
            "steps": result.steps,
        }
        identity = self.identity
        return result, [{**identity, **asdict(row), **times} for row in rows]

    def scores(self, result: Fit) -> Iterable[Row]:
        """The rows of all scores of a fit."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExtrapolationWarning)
            yield from evaluate(
                result,
                self.problem.test,
                metrics=self.task.metrics,
                protocols=self.task.protocols,
                oracle=self.problem.oracle,
            )
        yield from compare_moments(result, self.problem.test)
        if self.problem.energy is not None and result.energy is not None:
            recovery = self.task.recovery(
                result.energy, self.problem.energy, self.problem.train, self.problem.test
            )
            yield from compare_energies(recovery)
            yield from compare_beta(result, self.problem.energy)


def is_done(identity: dict[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Whether `rows` contain results of the same version, settings and data as `identity`."""
    return any(all(row.get(k) == v for k, v in identity.items()) for row in rows)
