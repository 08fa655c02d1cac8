"""The contract of every method: built from settings, fitted to snapshots, answered by a flow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stitchflow._data.advice import advice, from_middle
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._html import table
from stitchflow._measure.curve import CLOSEST
from stitchflow._method.flow import Flow
from stitchflow._status import Status
from stitchflow._training.optimise import Optimum
from stitchflow._types import KeyLike, rows_named

SMALLEST = 1e-15  # unit of length or time; squares and their quotients must stay in float32
# Columns of a history that are no part of the objective.
BOOKKEEPING = ("step", "loss", "gradient")


@dataclass
class Fit:
    """A fitted model: what it answers with, how it got there, how it ended.

    Attributes:
        method: the settings, with every choice made.
        flow: samples, simulates, and knows densities and velocities.
        energy: what was learned, in the user's units; None for methods without one.
        status: how the fit ended, in a sentence.
        history: each part of the loss at every look, and the steps of the looks; those of a
            second stage end in `/2`, and so on.
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
    history: dict[str, np.ndarray]
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

    @property
    def stages(self) -> list[dict[str, np.ndarray]]:
        """`history` stage by stage; steps are counted from the beginning of the fit."""
        found: dict[int, dict[str, np.ndarray]] = {}
        for name, values in self.history.items():
            part, _, number = name.rpartition("/")
            later = bool(part) and number.isdigit()
            stage = found.setdefault(int(number) if later else 1, {})
            stage[part if later else name] = values
        stages, done = [found[number] for number in sorted(found)], 0
        for stage in stages:
            if len(stage.get("step", ())):
                stage["step"] = done + stage["step"]
                done = stage["step"][-1]
        return stages

    def __repr__(self) -> str:
        return f"Fit({self.method.name}: {self.status})"

    def _repr_html_(self) -> str:
        rows = [("ended", str(self.status)), ("took", f"{self.seconds:.1f} s, {self.steps} steps")]
        if self.energy is not None:
            rows.append(("energy", f"{self.energy!r}, beta = {self.energy.beta:.4g}"))
        for k, stage in enumerate(self.stages, 1):
            where = f", stage {k}" if len(self.stages) > 1 else ""
            parts = (n for n, v in stage.items() if n not in BOOKKEEPING and len(v))
            rows.extend((f"{name}{where}", f"{stage[name][-1]:.4g}") for name in parts)
        rows.append(("data", repr(self.data)) if self.data else ("times", f"{len(self.times)}"))
        return table(f"Fit by {self.method.name}", rows)

    def summary(self) -> str:
        """A few lines for a terminal: method, energy, end, time."""
        lines = [f"{self.method.name}: {self.status} in {self.seconds:.1f} s"]
        if self.energy is not None:
            lines.append(f"energy: {self.energy!r}, beta = {self.energy.beta:.4g}")
        for k, stage in enumerate(self.stages, 1):
            where = f"stage {k}: " if len(self.stages) > 1 else ""
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


class Method(ABC):
    """A way to explain snapshots. `name` is its word on the command line."""

    name: str

    @abstractmethod
    def fit(self, data: Snapshots, key: KeyLike, progress: bool, checkpoint: Any = None) -> Fit:
        """Fit to validated snapshots of two times or more."""

    def advice(self, data: Snapshots) -> list[str]:
        """What to mind about the data before it is fitted."""
        return advice(data)

    def told(self, physics: Energy) -> Method:
        """This method, set to learn an energy of this form where it learns one at all."""
        return self

    @abstractmethod
    def pack(self, fit: Fit) -> Packed:
        """A fit of this method as JSON and arrays."""

    @classmethod
    @abstractmethod
    def unpack(
        cls, packed: Packed, energy: Energy | None = None
    ) -> tuple[Method, Flow, Energy | None]:
        """Method, flow and energy from `pack`; `energy` supplies functions of the user's own."""


def check_data(data: Any) -> Snapshots:
    """What every method needs of its data, said before any compute."""
    if not isinstance(data, Snapshots):
        raise TypeError(f"data must be Snapshots, got {type(data).__name__}")
    if len(data) < 2:
        raise ValueError(f"a fit needs two times or more, got {len(data)}: {data.times.tolist()}")
    if float(np.ptp(data.x, axis=0).max()) == 0.0:
        raise ValueError("all individuals are at the same point: there is nothing to fit")
    _check_outliers(data)
    units = data.units
    sizes = {"space": units.length, "time": units.duration, "energy": units.energy**0.5}
    for name, size in sizes.items():
        if not SMALLEST < size < 1.0 / SMALLEST:
            raise ValueError(
                f"the data's unit of {name} would be {size:.3g}, which float32 has no room for: "
                "measure x and t in other units"
            )
    gaps = np.diff(data.times) / units.duration
    if gaps.min() < CLOSEST:
        k = int(gaps.argmin())
        raise ValueError(
            f"the times {data.times[k]:.12g} and {data.times[k + 1]:.12g} are less than a "
            "millionth of the whole range apart: give them one time"
        )
    _check_spread(data)
    return data


def _check_outliers(data: Snapshots) -> None:
    """Refuse individuals so far away that float32 cannot tell the others apart beside them.

    One such individual would set the unit of length, in which all others are at one place. The
    usual distance is a median, which outliers do not move, over those who are not exactly in the
    middle: half of the individuals or more may be copies of each other.
    """
    away = from_middle(data)
    usual = float(np.median(away[away > 0.0]))
    far = np.flatnonzero(CLOSEST * away > usual)
    if far.size:
        rows = np.sort(far if data.rows is None else data.rows[far])
        raise ValueError(
            f"x has outliers in {rows_named(rows)}, {away.max():.2g} from the middle of the data "
            f"where others are usually {usual:.2g} from it: beside more than a million times that "
            "distance float32 cannot tell the others apart, so correct those rows or leave them out"
        )


def _check_spread(data: Snapshots) -> None:
    """Refuse data that shows no population: one individual a time, or everybody at one place."""
    present = (data.cloud(k)[data.cloud_weights(k) > 0] for k in range(len(data)))
    widest = max(float(cloud.std(axis=0, dtype=np.float64).max()) for cloud in present)
    if widest < CLOSEST * data.units.length:
        raise ValueError(
            "no time shows two individuals at different places (less than a millionth of the "
            "data's whole spread apart is one place): a fit needs populations, so give "
            "neighbouring times one time until each shows several individuals"
        )
