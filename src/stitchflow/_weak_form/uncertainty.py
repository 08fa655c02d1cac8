"""Standard errors of the energy from the covariance of its coefficients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stitchflow._data.units import Units
from stitchflow._method.spread import Spread
from stitchflow._status import BadInput
from stitchflow._types import as_cloud, check_number
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Splines
from stitchflow._weak_form.carry import Drift


@dataclass(frozen=True)
class Uncertainty:
    """How well the data determine an energy: every answer is a `Spread` in the user's units.

    V is compared in the gauge of the fit: its mean over all individuals is zero, and W goes to zero
    beyond its range. Errors hold if the model does and describe the noise of the data; where the
    data say nothing they are those of the prior, whose size the data chose.

    Arguments:
        drift: the functions of the energy.
        c: their coefficients.
        log_beta: the logarithm of beta in internal units; None without noise.
        root: a factor of the covariance of coefficients and log beta, (f + 1, u).
        centre: the mean of the functions of V over all individuals, (f,).
        units: the units of the fit.
    """

    drift: Drift
    c: np.ndarray
    log_beta: float | None
    root: np.ndarray
    centre: np.ndarray
    units: Units

    def up_to_a_factor(self) -> Uncertainty:
        """The same where one factor of V, W and beta together is unknown, as at rest."""
        together = constants.UNKNOWN_FACTOR * np.append(self.c, 1.0)
        return replace(self, root=np.column_stack([self.root, together]))

    def _spread(self, rows: np.ndarray, part: slice, scale: float) -> Spread:
        """Mean and error of linear functions `rows` (..., f) of a part of the coefficients."""
        mean = rows @ self.c[part]
        sd = np.sqrt(((rows @ self.root[:-1][part]) ** 2).sum(axis=-1))
        return Spread(mean * scale, sd * scale)

    def _potential_part(self, x: Any, t: float | None) -> tuple[np.ndarray, np.ndarray]:
        if self.drift.bumps is None:
            raise BadInput("this energy has no potential")
        if t is None and self.drift.powers > 1:
            raise BadInput("t is needed: the potential of this energy varies in time")
        points = as_cloud(x, "x", self.units.dim).astype(np.float64)
        points = (points - np.asarray(self.units.centre)) / self.units.length
        time = 0.0 if t is None else float(self.units.time_in(check_number(t, "t")))
        return points, self.drift.waves(time)

    @property
    def potential_count(self) -> int:
        """The number of coefficients of V, which come before those of the pair terms."""
        return 0 if self.drift.bumps is None else self.drift.bumps.count * self.drift.powers

    def potential(self, x: Any, t: float | None = None) -> Spread:
        """V at points.

        Arguments:
            x: points in the user's units, (m, d).
            t: the time of a potential that varies in time; else None.

        Returns:
            Mean and standard error, (m,) each.
        """
        return self._spread(self.rows(x, t), slice(0, self.potential_count), self.units.energy)

    def rows(self, x: Any, t: float | None = None) -> np.ndarray:
        """V at points in internal units, as a linear function of its coefficients, (m, f)."""
        points, waves = self._potential_part(x, t)
        assert self.drift.bumps is not None
        values = self.drift.bumps.values(points) - self.centre
        return (waves[:, None] * values[:, None, :]).reshape(len(points), -1)

    def force(self, x: Any, t: float | None = None) -> Spread:
        """The force, minus the gradient of V, at points.

        Arguments:
            x: points in the user's units, (m, d).
            t: the time of a potential that varies in time; else None.

        Returns:
            Mean and standard error of each component, (m, d) each.
        """
        points, waves = self._potential_part(x, t)
        assert self.drift.bumps is not None
        slopes = -self.drift.bumps.slopes(points)
        rows = (waves[:, None] * slopes[:, :, None, :]).reshape(*points.shape, -1)
        return self._spread(rows, slice(0, self.potential_count), self.units.speed)

    def pair_part(self, kind: str) -> tuple[Splines, slice] | None:
        """The splines of a pair term and the place of their coefficients; None without it."""
        first = self.potential_count
        for push in self.drift.pairs:
            part = slice(first, first + push.splines.count)
            if push.kind == kind:
                return push.splines, part
            first = part.stop
        return None

    def interaction(self, r: Any) -> Spread:
        """W at distances.

        Arguments:
            r: distances in the user's units, (m,).

        Returns:
            Mean and standard error, (m,) each.
        """
        found = self.pair_part("interaction")
        if found is None:
            raise BadInput("this energy has no interaction")
        distances = np.atleast_1d(np.asarray(r, np.float64)) / self.units.length
        rows = found[0].rows(distances)
        return self._spread(rows, found[1], self.units.energy)

    def kernel(self, r: Any) -> Spread:
        """K at displacements.

        Arguments:
            r: displacements in the user's units, (m, d).

        Returns:
            Mean and standard error of each component, (m, d) each.
        """
        z = as_cloud(r, "r", self.units.dim).astype(np.float64) / self.units.length
        size = np.sqrt((z**2).sum(axis=1)) + 1e-12
        rows = np.zeros((*z.shape, len(self.c)))
        for kind in ("radial", "turning"):
            found = self.pair_part(kind)
            if found is None:
                continue
            e = z / size[:, None]
            e = np.stack([-e[:, 1], e[:, 0]], axis=1) if kind == "turning" else e
            rows[:, :, found[1]] = e[:, :, None] * found[0].rows(size)[:, None, :]
        if not rows.any() and not any(p.kind != "interaction" for p in self.drift.pairs):
            raise BadInput("this energy has no vector kernel")
        return self._spread(rows, slice(None), self.units.speed)

    @property
    def beta(self) -> Spread:
        """The coefficient of the entropy; zero without an error where there is none."""
        if self.log_beta is None:
            return Spread(np.zeros(()), np.zeros(()))
        beta = np.exp(self.log_beta) * self.units.energy
        return Spread(np.asarray(beta), np.asarray(beta * np.sqrt((self.root[-1] ** 2).sum())))
