"""What moves individuals: a sum of parts, each linear in coefficients of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.growing import Growing
from stitchflow._weak_form.neighbours import Geometry, Neighbours
from stitchflow._weak_form.place import Place as Place

Ranged = dict[float, list[Block]]  # blocks of a prior by the range of W; 0 where there is none


class Part(ABC):
    """A summand of the drift, a sum of known functions times coefficients."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of coefficients."""

    def under(self, condition: int) -> Part:
        """This part for the individuals of one condition, by its number."""
        return self

    @abstractmethod
    def slope(self, place: Place, c: np.ndarray) -> np.ndarray:
        """Minus the drift of all copies of the individuals, (copies, n, d)."""

    @abstractmethod
    def bend(self, place: Place, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`slope`, and its derivative by the individual's own place, (copies, n, d, d)."""

    @abstractmethod
    def features(self, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        """The derivative of `slope` by the coefficients, (n, d, count).

        Arguments:
            x: individuals, (n, d).
            t: the time.
            pushes: the push of every function on every individual, (n, d, count), for pairs.
        """

    @abstractmethod
    def gather(self, a: np.ndarray, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        """Sums over individuals of covectors `a`, (d, p, n), times `features`, (p, count)."""

    @abstractmethod
    def blocks(self, widths: tuple[float, ...], ranges: tuple[float, ...]) -> Ranged:
        """The prior of the coefficients.

        Arguments:
            widths: the widths of functions of pairs.
            ranges: the ranges over which W may fall to zero; empty where any may.
        """


@dataclass(frozen=True)
class Landscape(Part):
    """The potential V, which may vary in time.

    Arguments:
        bumps: the functions of V.
        powers: the number of Legendre polynomials of time that multiply each of them.
        sized: whether the evidence decides on the size of coordinates and products, too, so that V
            is zero where nothing moves beyond chance. Beside a beta that is learned they are free:
            what pulls V down would pull beta with it.
    """

    bumps: Bumps
    powers: int = 1
    sized: bool = False

    @property
    def count(self) -> int:
        return self.bumps.count * self.powers

    def waves(self, t: float) -> np.ndarray:
        """The polynomials of time at t in [0, 1]."""
        return np.polynomial.legendre.legvander(np.atleast_1d(2.0 * t - 1.0), self.powers - 1)[0]

    def _at(self, t: float, c: np.ndarray) -> np.ndarray:
        return self.waves(t) @ c.reshape(self.powers, -1)

    def slope(self, place: Place, c: np.ndarray) -> np.ndarray:
        bells = place.bells(self.bumps)
        return self.bumps.slope(place.flat, self._at(place.t, c), bells).reshape(place.x.shape)

    def bend(self, place: Place, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bent = self.bumps.hessian(place.flat, self._at(place.t, c), place.bells(self.bumps))
        return self.slope(place, c), bent.reshape(*place.x.shape, place.x.shape[2])

    def features(self, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        slopes = self.bumps.slopes(x)
        return np.concatenate([slopes * wave for wave in self.waves(t)], axis=2)

    def gather(self, a: np.ndarray, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        sums = self.bumps.gather(a, x)
        return np.concatenate([sums * wave for wave in self.waves(t)], axis=1)

    def blocks(self, widths: tuple[float, ...], ranges: tuple[float, ...]) -> Ranged:
        found = []
        for wave in range(self.powers):
            for block in self.bumps.blocks():
                own = block.placed(wave * self.bumps.count, self.count, f"V({wave}) ")
                found.append(replace(own, flat=block.flat and wave == 0 and not self.sized))
        return {0.0: found}


class PairPart(Part):
    """A push of pairs: the sum over the others of a function of the displacement."""

    kind: str

    @property
    @abstractmethod
    def step(self) -> float:
        """The length over which the push changes."""

    @abstractmethod
    def force(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        """Minus the drift that the second of each pair gives the first, (p, d)."""

    @abstractmethod
    def each_push(self, near: Geometry) -> np.ndarray:
        """The push of every function on every individual, (n, d, count)."""

    @abstractmethod
    def over_pairs(self, near: Geometry, covectors: np.ndarray) -> np.ndarray:
        """Sums over pairs of covectors (p, d) times the force of every function, (count,)."""

    @abstractmethod
    def jacobian(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        """The derivative of each individual's push by its own place, (n, d, d)."""

    def push(self, near: Geometry, c: np.ndarray) -> np.ndarray:
        """The push with coefficients `c`, (n, d)."""
        return near.total(self.force(near, c), -1.0)

    def slope(self, place: Place, c: np.ndarray) -> np.ndarray:
        out = np.zeros(place.x.shape)
        for k, near in place.populations(self.step):
            out[k] = self.push(near, c)
        return out

    def bend(self, place: Place, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bent = np.zeros((*place.x.shape, place.x.shape[2]))
        for k, near in place.populations(self.step):
            bent[k] = self.jacobian(near, c)
        return self.slope(place, c), bent

    def pushes(self, place: Place) -> np.ndarray:
        """The push of every function on every copy of the individuals, (copies, n, d, count)."""
        out = np.zeros((*place.x.shape, self.count))
        for k, near in place.populations(self.step):
            out[k] = self.each_push(near)
        return out

    def features(self, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        return pushes

    def gather(self, a: np.ndarray, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        return sum((a[k] @ pushes[:, k] for k in range(x.shape[1])), np.zeros(()))


@dataclass(frozen=True)
class Drift:
    """What happens to individuals, up to coefficients: those of each part, then those of growth.

    Arguments:
        parts: what moves them.
        growth: the rate at which they multiply; None where they do not.
    """

    parts: tuple[Part, ...]
    growth: Growing | None = None

    def under(self, condition: int | None) -> Drift:
        """What moves the individuals of one condition, with the same coefficients."""
        if condition is None:
            return self
        return replace(self, parts=tuple(part.under(condition) for part in self.parts))

    @property
    def moving(self) -> int:
        """The number of coefficients of what moves individuals."""
        return sum(part.count for part in self.parts)

    @property
    def count(self) -> int:
        """The number of all coefficients."""
        return self.moving + (0 if self.growth is None else self.growth.count)

    def each(self) -> Iterator[tuple[Any, slice]]:
        """Every part, and growth after them, with the place of its coefficients."""
        first = 0
        for part in (*self.parts, *(() if self.growth is None else (self.growth,))):
            yield part, slice(first, first + part.count)
            first += part.count

    def only(self, kind: type) -> list[tuple[Any, slice]]:
        """The parts of a kind, with the places of their coefficients."""
        return [(part, place) for part, place in self.each() if isinstance(part, kind)]

    @property
    def landscape(self) -> Landscape | None:
        """The part of V."""
        return next((part for part, _ in self.only(Landscape)), None)

    @property
    def pairs(self) -> tuple[PairPart, ...]:
        """The pushes of pairs."""
        return tuple(part for part, _ in self.only(PairPart))

    def slope(self, x: np.ndarray, t: float, c: np.ndarray, near: Neighbours | None) -> np.ndarray:
        """Minus the drift of several copies of the individuals, (copies, n, d)."""
        place, out = Place(x, t, near), np.zeros(x.shape)
        for part, own in self.only(Part):
            out += part.slope(place, c[own])
        return out

    def bend(
        self, x: np.ndarray, t: float, c: np.ndarray, near: Neighbours | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`slope`, its derivative by the individual's own place, and the features of pairs.

        Their shapes are (copies, n, d), (copies, n, d, d) and (copies, n, d, features of pairs).
        """
        place, slope, bent = Place(x, t, near), np.zeros(x.shape), np.zeros((*x.shape, x.shape[2]))
        for part, own in self.only(Part):
            more = part.bend(place, c[own])
            slope, bent = slope + more[0], bent + more[1]
        pushes = [part.pushes(place) for part in self.pairs]
        return slope, bent, np.concatenate([np.zeros((*x.shape, 0)), *pushes], axis=3)

    def _with_pushes(self, pushes: np.ndarray) -> Iterator[tuple[Part, np.ndarray]]:
        """Every part with its own features of pairs."""
        first = 0
        for part in self.parts:
            count = part.count if isinstance(part, PairPart) else 0
            yield part, pushes[..., first : first + count]
            first += count

    def features(self, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        """The derivative of `slope` by the coefficients, (n, d, f), with the `pushes` of pairs."""
        still = np.zeros((*x.shape, self.count - self.moving))
        found = [part.features(x, t, own) for part, own in self._with_pushes(pushes)]
        return np.concatenate([*found, still], axis=2)

    def gather(self, a: np.ndarray, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        """Sums over individuals of covectors times `features`, (p, f).

        Arguments:
            a: the covectors, (d, p, n).
            x: the individuals, (n, d).
            t: the time.
            pushes: the features of pairs, (n, d, features of pairs).
        """
        still = np.zeros((a.shape[1], self.count - self.moving))
        found = [part.gather(a, x, t, own) for part, own in self._with_pushes(pushes)]
        return np.concatenate([*found, still], axis=1)
