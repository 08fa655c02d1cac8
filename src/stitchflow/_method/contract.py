"""The contract of every method: built from settings, fitted to snapshots, answered by a flow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stitchflow._data.advice import advice
from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.networks import Declared
from stitchflow._html import table
from stitchflow._measure.curve import Curve
from stitchflow._method.flow import Flow
from stitchflow._parts import PACKAGE
from stitchflow._status import BadInput, BadInputType, Status
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.history import StageHistory
from stitchflow._training.optimise import Optimum
from stitchflow._types import KeyLike


@dataclass
class Fit:
    """A fitted model: what it answers with, how it got there, how it ended.

    Attributes:
        method: the settings, with every choice made.
        flow: samples, simulates, and knows densities and velocities.
        energy: what was learned, in the user's units; None for methods without one.
        status: how the fit ended, in a sentence.
        history: one `StageHistory` for each stage: the loss and its parts at every look.
        steps: how many there were, over all stages.
        seconds: how long it took.
        seed: the key, where it was an integer.
        data: what was fitted; None for a loaded fit.
        times: the times of that data.
        source: where the data came from, for runs of the command line.
    """

    method: Method
    flow: Flow
    energy: Energy | None
    status: Status
    history: list[StageHistory]
    steps: int
    seconds: float
    seed: int | None = None
    data: Snapshots | None = field(default=None, repr=False)
    times: np.ndarray = field(default_factory=lambda: np.empty(0))
    source: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.data is not None:
            self.times = self.data.times

    @staticmethod
    def of(
        optimum: Optimum,
        method: Method,
        flow: Flow,
        energy: Energy | None,
        data: Snapshots,
        key: KeyLike = None,
    ) -> Fit:
        """What an optimiser found, as a fit to `data`; an integer key is kept as the seed."""
        return Fit(
            method,
            flow,
            energy,
            optimum.status,
            optimum.history,
            optimum.steps,
            optimum.seconds,
            seed=int(key) if isinstance(key, (int, np.integer)) else None,
            data=data,
        )

    def __repr__(self) -> str:
        return f"Fit({self.method.name}: {self.status})"

    def _repr_html_(self) -> str:
        rows = [("ended", str(self.status)), ("took", f"{self.seconds:.1f} s, {self.steps} steps")]
        if self.energy is not None:
            rows.append(("energy", f"{self.energy!r}, beta = {self.energy.beta:.4g}"))
        for stage in self.history:
            where = f", {stage.name}" if len(self.history) > 1 else ""
            last = ((name, v[-1]) for name, v in stage.parts.items() if len(v))
            rows.extend((f"{name}{where}", f"{value:.4g}") for name, value in last)
        rows.append(("data", repr(self.data)) if self.data else ("times", f"{len(self.times)}"))
        return table(f"Fit by {self.method.name}", rows)

    def summary(self) -> str:
        """A few lines for a terminal: method, energy, end, time."""
        lines = [f"{self.method.name}: {self.status} in {self.seconds:.1f} s"]
        if self.energy is not None:
            lines.append(f"energy: {self.energy!r}, beta = {self.energy.beta:.4g}")
        for stage in self.history:
            where = f"{stage.name}: " if len(self.history) > 1 else ""
            last = (f"{name} {v[-1]:.4g}" for name, v in stage.items() if name != "step")
            lines.append(where + ", ".join(last))
        if self.data is not None:
            lines.append(f"data: {self.data!r}")
        return "\n".join(lines)

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Write a directory that `stitchflow.load` opens without anything else."""
        from stitchflow._storage.save import (
            save,  # saving knows every method; methods need not know it
        )

        save(self, path, overwrite=overwrite)


class Packed(NamedTuple):
    """What a method writes into a run directory: plain JSON and plain arrays, never code.

    `parts` are those of the user's own, by name, that were handed over to open it again.
    """

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    parts: Mapping[str, Any] = MappingProxyType({})


# Every method of this package by the name it has on the command line and in tables. Methods of
# one's own may be added.
METHODS: dict[str, Callable[[], Method]] = {}


class Method(ABC):
    """A way to explain snapshots: built from settings, fitted by `stitchflow.fit`.

    A subclass has a `name`, under which the command line, the tables and run files know it, and
    says how it is fitted, stored and loaded. Whatever else it can do it says by overriding the
    methods below, so that nobody has to ask of which class a method is.
    """

    name: str

    def __init_subclass__(cls, **settings: Any) -> None:
        """Every named method of this package is in `METHODS` by being written."""
        super().__init_subclass__(**settings)
        if cls.__module__.startswith(f"{PACKAGE}."):
            METHODS.update(cls.by_name())

    @classmethod
    def by_name(cls) -> Mapping[str, Callable[[], Method]]:
        """What makes this method with its defaults, by name; some have several of them."""
        name = cls.__dict__.get("name")
        return {name: cls} if isinstance(name, str) else {}

    @abstractmethod
    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        """Fit to validated snapshots of two times or more."""

    def advice(self, data: Snapshots) -> list[str]:
        """What to mind about the data before it is fitted."""
        return advice(data)

    def resolved(self, data: Snapshots) -> Method:
        """These settings with every choice made that was left to the data."""
        return self

    def describe(self, data: Snapshots) -> str:
        """One line of what a fit to this data would use."""
        return self.name

    def learning(self, physics: Energy) -> Method:
        """This method, set to learn an energy of this form where it learns one at all."""
        return self

    def by_euler_steps(self, data: Snapshots) -> Method:
        """This method for data that moved by one explicit Euler step a gap, if it can follow."""
        return self

    def with_settings(self, settings: Mapping[str, Any], **terms: bool) -> Method:
        """This method with settings of the command line, and terms of its energy chosen."""
        if settings or any(terms.values()):
            raise BadInput(f"--method {self.name} has no settings and no energy to choose")
        return self

    def start_of(self, data: Snapshots, units: Units, key: KeyLike) -> Curve | None:
        """The curve a fit would start from, which no energy has bent yet, if there is one."""
        return None

    def fit_on(
        self,
        devices: Sequence[Any],
        data: Snapshots,
        key: KeyLike,
        progress: bool,
        checkpoint: Checkpoint | None = None,
    ) -> Fit:
        """One fit shared by several devices."""
        raise BadInputType(f"devices: {self.name} cannot share a fit among several devices")

    def fit_together(
        self, data: Snapshots, parts: Sequence[Snapshots], key: KeyLike, progress: bool
    ) -> list[Fit]:
        """A fit to each of `parts`, reweighted copies of `data`: the members of an ensemble."""
        raise BadInputType(f"ensembles are made of Stitching, got {type(self).__name__}")

    @abstractmethod
    def pack(self, fit: Fit) -> Packed:
        """A fit of this method as JSON and arrays."""

    @classmethod
    @abstractmethod
    def unpack(
        cls, packed: Packed, energy: Energy | None = None
    ) -> tuple[Method, Flow, Energy | None]:
        """Method, flow and energy from `pack`; `energy` supplies functions of the user's own."""

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        """How many numbers a fit of these stored settings would hold beside its energy."""
        return Declared.networks(settings, dim)


def method_named(name: str, argument: str = "method") -> Method:
    """A method with its defaults by its name, or an error that lists the names there are."""
    if name not in METHODS:
        raise BadInput(f"{argument} must be one of {', '.join(METHODS)}; got {name!r}")
    return METHODS[name]()
