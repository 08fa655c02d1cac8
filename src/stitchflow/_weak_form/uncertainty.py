"""Standard errors of the energy from the covariance of its coefficients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stitchflow._data.conditions import place_of
from stitchflow._data.units import Units
from stitchflow._method.spread import Spread
from stitchflow._status import BadInput
from stitchflow._types import as_cloud, check_number
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Bumps, Splines
from stitchflow._weak_form.deviation import deviating, shared_drift, to_shared
from stitchflow._weak_form.drift_parts import Drift, Landscape, PairPart
from stitchflow._weak_form.growing import Growing
from stitchflow._weak_form.turning import Straight, Turning


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
        lead: the directions that the functions are of, as columns; None for all coordinates.
    """

    drift: Drift
    c: np.ndarray
    log_beta: float | None
    root: np.ndarray
    centre: np.ndarray
    units: Units
    lead: np.ndarray | None = None

    def up_to_a_factor(self) -> Uncertainty:
        """The same where one factor of V, W and beta together is unknown, as at rest."""
        together = constants.UNKNOWN_FACTOR * np.append(self.c, 1.0)
        return replace(self, root=np.column_stack([self.root, together]))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions that the energy tells apart; none where it does not."""
        found = deviating(self.drift)
        return () if found is None else found[0].labels

    def of(self, condition: Any) -> Uncertainty:
        """The standard errors of the energy of one condition.

        Arguments:
            condition: its label; an unknown one is refused.
        """
        return self._mapped(self.shares_of(condition), 1.0)

    def difference(self, a: Any, b: Any) -> Uncertainty:
        """The standard errors of V of condition `a` minus V of condition `b`.

        `beta`, and every term that all conditions share, is zero in it.
        """
        return replace(self._mapped(self.shares_of(a) - self.shares_of(b), 0.0), log_beta=None)

    def shares_of(self, condition: Any) -> np.ndarray:
        """How much of each free deviation a condition has, (conditions - 1,)."""
        label, found = place_of(condition, self.conditions), deviating(self.drift)
        assert found is not None
        return found[0].contrasts[label]

    def _mapped(self, shares: np.ndarray, shared: float) -> Uncertainty:
        """The same for a sum of deviations and of what all conditions share."""
        change = to_shared(self.drift, shares, shared)
        root = np.concatenate([change @ self.root[:-1], self.root[-1:]])
        return replace(self, drift=shared_drift(self.drift), c=change @ self.c, root=root)

    def _spread(self, rows: np.ndarray, part: slice, scale: float) -> Spread:
        """Mean and error of linear functions `rows` (..., f) of a part of the coefficients."""
        mean = rows @ self.c[part]
        sd = np.sqrt(((rows @ self.root[:-1][part]) ** 2).sum(axis=-1))
        return Spread(mean * scale, sd * scale)

    def _points(self, x: Any) -> np.ndarray:
        points = as_cloud(x, "x", self.units.dim).astype(np.float64)
        inside = (points - np.asarray(self.units.centre)) / self.units.length
        return inside if self.lead is None else inside @ self.lead

    def _potential_part(self, t: float | None) -> tuple[Bumps, np.ndarray, slice]:
        """The functions of V, the polynomials of time that multiply them, and their place."""
        found = [(part, own) for part, own in self.drift.each() if type(part) is Landscape]
        if not found:
            raise BadInput("this energy has no potential")
        (part, own) = found[0]
        if t is None and part.powers > 1:
            raise BadInput("t is needed: the potential of this energy varies in time")
        time = 0.0 if t is None else float(self.units.time_in(check_number(t, "t")))
        return part.bumps, part.waves(time), own

    def potential(self, x: Any, t: float | None = None) -> Spread:
        """V at points.

        Arguments:
            x: points in the user's units, (m, d).
            t: the time of a potential that varies in time; else None.

        Returns:
            Mean and standard error, (m,) each.
        """
        return self._spread(self.rows(x, t), self._potential_part(t)[2], self.units.energy)

    def rows(self, x: Any, t: float | None = None) -> np.ndarray:
        """V at points in internal units, as a linear function of its coefficients, (m, f)."""
        (bumps, waves, _), points = self._potential_part(t), self._points(x)
        values = bumps.values(points) - self.centre
        return (waves[:, None] * values[:, None, :]).reshape(len(points), -1)

    def force(self, x: Any, t: float | None = None) -> Spread:
        """The force, minus the gradient of V, at points.

        Arguments:
            x: points in the user's units, (m, d).
            t: the time of a potential that varies in time; else None.

        Returns:
            Mean and standard error of each component, (m, d) each.
        """
        return self._spread(self.force_rows(x, t), self._potential_part(t)[2], self.units.speed)

    def force_rows(self, x: Any, t: float | None = None) -> np.ndarray:
        """The force in internal units, as a linear function of V's coefficients, (m, d, f)."""
        (bumps, waves, _), points = self._potential_part(t), self._points(x)
        slopes = -bumps.slopes(points)
        return (waves[:, None] * slopes[:, :, None, :]).reshape(*points.shape, -1)

    @property
    def potential_count(self) -> int:
        """The number of coefficients of V, which come before all others."""
        landscape = self.drift.landscape
        return 0 if landscape is None else landscape.count

    def _pair_part(self, kind: str) -> tuple[Any, slice] | None:
        found = (own for own in self.drift.only(PairPart) if own[0].kind == kind)
        return next(found, None)

    def pair_part(self, kind: str) -> tuple[Splines, slice] | None:
        """The splines of a pair term and the place of their coefficients; None without it."""
        found = self._pair_part(kind)
        return None if found is None else (found[0].splines, found[1])

    def interaction(self, r: Any) -> Spread:
        """W at distances, or at displacements where W is not radial.

        Arguments:
            r: distances in the user's units, (m,), or displacements, (m, d).

        Returns:
            Mean and standard error, (m,) each.
        """
        directed, found = self._pair_part("displacement"), self._pair_part("interaction")
        if directed is not None:
            push, part = directed
            z = as_cloud(r, "r", self.units.dim).astype(np.float64) / self.units.length
            return self._spread(push.values(z), part, self.units.energy)
        if found is None:
            raise BadInput("this energy has no interaction")
        distances = np.atleast_1d(np.asarray(r, np.float64)) / self.units.length
        rows = found[0].splines.rows(distances)
        return self._spread(rows, found[1], self.units.energy)

    def field(self, x: Any) -> Spread:
        """The velocity of a `VectorField` at points.

        Arguments:
            x: points in the user's units, (m, d).

        Returns:
            Mean and standard error of each component, (m, d) each.
        """
        points, rows = self._points(x), []
        for part, own in [*self.drift.only(Straight), *self.drift.only(Turning)]:
            rows.append((-part.features(points, 0.0, points), own))
        if not rows:
            raise BadInput("this energy has no vector field")
        whole = np.zeros((*points.shape, len(self.c)))
        for row, own in rows:
            whole[..., own] = row
        return self._spread(whole, slice(None), self.units.speed)

    def growth(self, x: Any) -> Spread:
        """The rate of birth minus death at points, whose mean over all individuals is zero.

        Arguments:
            x: points in the user's units, (m, d).

        Returns:
            Mean and standard error per unit of time, (m,) each.
        """
        found = self.drift.only(Growing)
        if not found:
            raise BadInput("it was fitted without growth")
        return self._spread(
            found[0][0].values(self._points(x)), found[0][1], 1.0 / self.units.duration
        )

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
            found = self._pair_part(kind)
            if found is None:
                continue
            e = z / size[:, None]
            e = np.stack([-e[:, 1], e[:, 0]], axis=1) if kind == "turning" else e
            rows[:, :, found[1]] = e[:, :, None] * found[0].splines.rows(size)[:, None, :]
        if not {"radial", "turning"} & {push.kind for push in self.drift.pairs}:
            raise BadInput("this energy has no vector kernel")
        return self._spread(rows, slice(None), self.units.speed)

    @property
    def beta(self) -> Spread:
        """The coefficient of the entropy; zero without an error where there is none.

        It is the logarithm of beta whose error is known. Where that is large, the interval is not
        symmetric, and the standard error is the one that reaches its upper 90 % limit.
        """
        if self.log_beta is None:
            return Spread(np.zeros(()), np.zeros(()))
        beta, error = np.exp(self.log_beta) * self.units.energy, np.sqrt((self.root[-1] ** 2).sum())
        upper = np.expm1(min(constants.NINETY * error, constants.UNLIMITED))
        return Spread(np.asarray(beta), np.asarray(beta * upper / constants.NINETY))
