"""The loss of a fit over its steps: one history for each stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

# Columns that are no part of the objective.
BOOKKEEPING = ("step", "loss", "gradient")


class StageHistory(Mapping[str, np.ndarray]):
    """The loss of one stage over its steps, as named columns of equal length.

    The loss is read about a hundred times in a fit, which is called a look. `step` counts the steps
    of the stage; `loss`, its parts and the norm of its `gradient` are means since the look before.

    Arguments:
        name: of the stage, such as `stitching` or `consistency`.
        columns: the values at the looks by name.
        begins: how many steps of the fit were done before this stage.

    Examples:
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
        """The columns that the loss is computed from, by name."""
        return {name: values for name, values in self.items() if name not in BOOKKEEPING}

    @property
    def steps(self) -> np.ndarray:
        """The step of each look, counted from the beginning of the fit."""
        return self.begins + self["step"] if "step" in self else np.arange(0)


def in_a_row(stages: Iterable[StageHistory]) -> list[StageHistory]:
    """Stages that follow each other, each with the number of steps done before it.

    Arguments:
        stages: histories in the order in which the stages were run.

    Returns:
        The same histories with `begins` set.
    """
    found, done = [], 0
    for stage in stages:
        found.append(StageHistory(stage.name, stage.columns, done))
        done += int(stage["step"][-1]) if len(stage.get("step", ())) else 0
    return found
