"""Where the nodes of a curve lie in time."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from stitchflow._measure.curve import CLOSEST
from stitchflow._parts import Part
from stitchflow._stitching import defaults


@dataclass(frozen=True)
class Spacing(Part):
    """A rule for the times of the nodes; subclasses define `times`."""

    @abstractmethod
    def times(self, observed: np.ndarray, nodes: int, action: np.ndarray) -> np.ndarray:
        """The times of about `nodes` nodes.

        Arguments:
            observed: the observed times, which increase.
            nodes: how many nodes were asked for.
            action: squared distance over duration of each gap.

        Returns:
            The times, from the first observed one to the last.
        """


@dataclass(frozen=True)
class ByAction(Spacing):
    """A node at every observed time, and more where individuals move fast. The default.

    >>> ByAction().times(np.array([0.0, 1.0, 2.0]), 5, np.array([1.0, 1.0])).tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """

    def times(self, observed: np.ndarray, nodes: int, action: np.ndarray) -> np.ndarray:
        return node_times(observed, nodes, action)


@dataclass(frozen=True)
class Even(Spacing):
    """Nodes at equal distances, wherever the observed times are: the paper's choice.

    >>> Even().times(np.array([0.0, 1.0, 4.0]), 3, np.array([1.0, 1.0])).tolist()
    [0.0, 2.0, 4.0]
    """

    def times(self, observed: np.ndarray, nodes: int, action: np.ndarray) -> np.ndarray:
        return np.linspace(observed[0], observed[-1], nodes)


def node_times(observed: np.ndarray, nodes: int, action: np.ndarray | None = None) -> np.ndarray:
    """About `nodes` times over the observed range, each observation on a node where they fit.

    Every gap gets at least one interval, and otherwise intervals in proportion to the mean of its
    share of the time and its share of the `action` (squared distance over duration, one value for
    each gap), because fast stretches need fine nodes. With more observations than about half the
    nodes, observations fall between nodes.
    """
    observed = np.asarray(observed, float)
    gaps = np.diff(observed)
    share = gaps / gaps.sum()
    if action is not None and action.sum() > 0:
        moved = defaults.NODES_BY_ACTION
        share = (1.0 - moved) * share + moved * action / action.sum()
    if len(observed) > nodes / 2 + 1:
        passed = np.concatenate([[0.0], np.cumsum(share)])
        return np.interp(np.linspace(0.0, 1.0, nodes), passed / passed[-1], observed)
    most = np.maximum(1, gaps / gaps.sum() / CLOSEST)
    counts = np.clip(np.round(share * (nodes - 1)), 1, most).astype(int)
    pieces = [
        np.linspace(a, b, c, endpoint=False)
        for a, b, c in zip(observed[:-1], observed[1:], counts, strict=True)
    ]
    return np.concatenate([*pieces, observed[-1:]])
