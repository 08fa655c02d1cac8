"""What the loop showed on the way: one history for each stage of a fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

# Columns that are no part of the objective.
BOOKKEEPING = ("step", "loss", "gradient")


class StageHistory(Mapping[str, np.ndarray]):
    """The loss of one stage at every look of the host, as named columns of equal length.

    `step` counts the steps of the stage; `loss`, its parts and the norm of its `gradient` are
    means since the look before.

    Arguments:
        name: of the stage, such as `stitching` or `consistency`.
        columns: the values at the looks by name.
        begins: how many steps of the fit were done before this stage.

    >>> StageHistory("stitching", {"step": np.array([20, 40]), "loss": np.array([2.0, 1.0])})
    StageHistory('stitching', 2 looks: step, loss)
    """

    def __init__(self, name: str, columns: Mapping[str, np.ndarray], begins: int = 0):
        self.name, self.columns, self.begins = name, dict(columns), begins

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        looks = len(next(iter(self.columns.values()), ()))
        return f"StageHistory({self.name!r}, {looks} looks: {', '.join(self.columns)})"

    @property
    def parts(self) -> dict[str, np.ndarray]:
        """The columns that the loss is made of."""
        return {name: values for name, values in self.items() if name not in BOOKKEEPING}

    @property
    def steps(self) -> np.ndarray:
        """The step of each look, counted from the beginning of the fit."""
        return self.begins + self["step"] if "step" in self else np.arange(0)


def in_a_row(stages: Iterable[StageHistory]) -> list[StageHistory]:
    """Stages that follow each other, each with the steps done before it."""
    found, done = [], 0
    for stage in stages:
        found.append(StageHistory(stage.name, stage.columns, done))
        done += int(stage["step"][-1]) if len(stage.get("step", ())) else 0
    return found
