"""The contract of methods: made from settings, fitted to snapshots, with a flow as the result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

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
from stitchflow._status import BadInput, BadInputType, NotAvailable, Status
from stitchflow._training.checkpoint import Checkpoint
from stitchflow._training.history import StageHistory
from stitchflow._training.optimise import Optimum
from stitchflow._types import KeyLike


@dataclass
class Fit:
    """A fitted model: the flow and the energy, and how the fit ended.

    `sf.fit` returns it, and `sf.load` reads it from a directory.

    Attributes:
        method: the settings, with every choice made.
        flow: samples, simulates, and gives densities and velocities.
        energy: what was learned, in the user's units; None for methods without one.
        status: how the fit ended, in a sentence.
        history: one `StageHistory` for each stage, with the loss and its parts over the steps.
        steps: the number of steps over all stages.
        seconds: how long the fit took.
        seed: the key of the fit, if it was an integer; None otherwise.
        data: the snapshots that were fitted; None for a loaded fit.
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
        """The fit to `data` that an optimiser found; an integer `key` is kept as the seed."""
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
            rows.append(("energy", f"{self.energy!r}, {self._noise(self.energy)}"))
        for stage in self.history:
            where = f", {stage.name}" if len(self.history) > 1 else ""
            last = ((name, v[-1]) for name, v in stage.parts.items() if len(v))
            rows.extend((f"{name}{where}", f"{value:.4g}") for name, value in last)
        rows.append(("data", repr(self.data)) if self.data else ("times", f"{len(self.times)}"))
        return table(f"Fit by {self.method.name}", rows)

    @property
    def uncertainty(self) -> Any:
        """Standard errors of the energy; `NotAvailable` for methods without them.

        `potential(x, t)`, `force(x, t)`, `interaction(r)`, `kernel(r)`, `field(x)`, `growth(x)` and
        `beta` are each a `Spread` of a mean and a standard deviation, in the user's units.
        """
        return self.flow.uncertainty

    def summary(self) -> str:
        """A few lines for a terminal: method, status, energy and the last values of the loss."""
        lines = [f"{self.method.name}: {self.status} in {self.seconds:.1f} s"]
        if self.energy is not None:
            lines.append(f"energy: {self.energy!r}, {self._noise(self.energy)}")
        for stage in self.history:
            where = f"{stage.name}: " if len(self.history) > 1 else ""
            last = (f"{name} {v[-1]:.4g}" for name, v in stage.items() if name != "step")
            lines.append(where + ", ".join(last))
        if self.data is not None:
            lines.append(f"data: {self.data!r}")
        return "\n".join(lines)

    def _noise(self, energy: Energy) -> str:
        """The coefficient of the entropy, with its standard error where the method has one."""
        try:
            error = f" ± {self.uncertainty.beta.sd:.2g}"
        except NotAvailable:
            error = ""
        return f"beta = {energy.beta:.4g}{error}"

    def save(self, path: Any, *, overwrite: bool = False) -> None:
        """Write the fit to a directory, which `stitchflow.load` opens.

        Arguments:
            path: the directory; it is made if it does not exist. A directory with other files than
                those of a run is refused.
            overwrite: whether a run that is already there is replaced; otherwise it is an error.
        """
        from stitchflow._storage.save import (
            save,  # `save.py` imports this module
        )

        save(self, path, overwrite=overwrite)


class Packed(NamedTuple):
    """What a method writes into a run directory: plain JSON and plain arrays, never code.

    Arguments:
        header: entries that JSON can hold.
        arrays: the arrays of the model by name.
        parts: the user's own classes and functions by name, which were supplied to open the run.

    >>> Packed({"degree": 2}, {"coefficients": np.zeros(3)}).parts
    mappingproxy({})
    """

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]
    parts: Mapping[str, Any] = MappingProxyType({})


# Every method of this package by its name on the command line and in tables. Users may add their
# own methods.
METHODS: dict[str, Callable[[], Method]] = {}


class Method(ABC):
    """A way to explain snapshots, made from settings and fitted by `stitchflow.fit`.

    A subclass has a `name`, under which the command line, tables and run files know it, and defines
    `fit`, `pack` and `unpack`. Further abilities, such as several devices or ensembles, are
    declared by overriding the methods below, so that callers do not need to test for classes.
    """

    name: str
    setting_names: ClassVar[tuple[str, ...]] = ()  # for `--set`; empty for those of stitching

    def __init_subclass__(cls, **settings: Any) -> None:
        """Enter every named method of this package in `METHODS`."""
        super().__init_subclass__(**settings)
        if cls.__module__.startswith(f"{PACKAGE}."):
            METHODS.update(cls.by_name())

    @classmethod
    def by_name(cls) -> Mapping[str, Callable[[], Method]]:
        """Functions that make this method with its defaults, by name; some methods have several."""
        name = cls.__dict__.get("name")
        return {name: cls} if isinstance(name, str) else {}

    @abstractmethod
    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        """Fit to validated snapshots of two or more times; users call `stitchflow.fit`.

        Arguments:
            data: the snapshots.
            key: a JAX key or an integer seed.
            progress: whether a progress bar is shown.
            checkpoint: where the state is kept on disk, if it is; None otherwise.
        """

    def advice(self, data: Snapshots) -> list[str]:
        """Warnings about `data` before it is fitted, one sentence each."""
        return advice(data)

    def resolved(self, data: Snapshots) -> Method:
        """These settings with every choice made that was left to the data."""
        return self

    def describe(self, data: Snapshots) -> str:
        """One line on what a fit to `data` would use."""
        return self.name

    def learning(self, physics: Energy) -> Method:
        """This method, set to learn an energy of the form `physics` if it learns an energy."""
        return self

    def by_euler_steps(self, data: Snapshots) -> Method:
        """This method for data that moved by one explicit Euler step per gap, if possible."""
        return self

    def as_published(self, experiment: Mapping[str, Any]) -> Method:
        """This method with the settings of a published run, if it is the published method.

        Arguments:
            experiment: the settings by name.
        """
        return self

    def with_settings(self, settings: Mapping[str, Any], **terms: bool) -> Method:
        """This method with settings and energy terms of the command line.

        Arguments:
            settings: values by the name of the setting.
            terms: which terms of the energy are learned, by name.
        """
        if settings or any(terms.values()):
            raise BadInput(f"--method {self.name} has no settings and no energy to choose")
        return self

    def start_of(self, data: Snapshots, units: Units, key: KeyLike) -> Curve | None:
        """The curve from which a fit starts, before an energy acts on it; None without one."""
        return None

    def fit_on(
        self,
        devices: Sequence[Any],
        data: Snapshots,
        key: KeyLike,
        progress: bool,
        checkpoint: Checkpoint | None = None,
    ) -> Fit:
        """One fit that is shared by several devices; the other arguments are those of `fit`."""
        raise BadInputType(f"devices: {self.name} cannot share a fit among several devices")

    def fit_together(
        self, data: Snapshots, parts: Sequence[Snapshots], key: KeyLike, progress: bool
    ) -> list[Fit]:
        """A fit to each of `parts`, reweighted copies of `data`: the members of an ensemble."""
        raise BadInputType(f"ensembles are made of Stitching, got {type(self).__name__}")

    @abstractmethod
    def pack(self, fit: Fit) -> Packed:
        """A fit of this method as JSON and arrays, for `Fit.save`."""

    @classmethod
    @abstractmethod
    def unpack(
        cls, packed: Packed, energy: Energy | None = None
    ) -> tuple[Method, Flow, Energy | None]:
        """Method, flow and energy from `pack`; `energy` supplies the user's own functions."""

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        """How many numbers a fit with these stored settings would hold beside its energy."""
        return Declared.networks(settings, dim)


def method_named(name: str, argument: str = "method") -> Method:
    """The method called `name` with its defaults; an error lists the names that exist.

    `argument` is how the message calls the argument that was wrong.
    """
    if name not in METHODS:
        raise BadInput(f"{argument} must be one of {', '.join(METHODS)}; got {name!r}")
    return METHODS[name]()
