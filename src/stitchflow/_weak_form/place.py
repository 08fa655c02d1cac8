"""Individuals at a time, with what the parts of a drift share there."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.neighbours import Geometry, Neighbours


class Place:
    """Copies of all individuals at a time, and what the parts of a drift share there.

    Arguments:
        x: places, (copies, n, d).
        t: the time, in [0, 1].
        near: who acts on whom; None where nobody does.
    """

    def __init__(self, x: np.ndarray, t: float, near: Neighbours | None):
        self.x, self.t, self.near = x, t, near
        self.flat = x.reshape(-1, x.shape[2])
        self._bells: dict[int, np.ndarray] = {}

    def bells(self, bumps: Bumps) -> np.ndarray:
        """The bumps at all places."""
        if id(bumps) not in self._bells:
            self._bells[id(bumps)] = bumps.bells(self.flat)
        return self._bells[id(bumps)]

    def populations(self, step: float) -> list[tuple[int | slice, Geometry]]:
        """The copies and the geometry of the population that acts on them.

        Where copies lie close together compared with the finest `step` of a push, one population
        stands for all: the difference is of second order in the noise, and of none on average over
        two copies.
        """
        if self.near is None:
            return []
        fine = constants.ONE_POPULATION * step
        return self._together if len(self.x) > 1 and self._apart < fine else self._each

    @cached_property
    def _apart(self) -> float:
        return float(np.abs(self.x - self.x.mean(axis=0)).mean())

    @cached_property
    def _together(self) -> list[tuple[int | slice, Geometry]]:
        assert self.near is not None
        return [(slice(None), Geometry.at(self.near, self.x.mean(axis=0)))]

    @cached_property
    def _each(self) -> list[tuple[int | slice, Geometry]]:
        assert self.near is not None
        return [(k, Geometry.at(self.near, x)) for k, x in enumerate(self.x)]
