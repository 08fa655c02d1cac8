"""A field that turns: velocities without divergence, which no potential has."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Potential
from stitchflow._energy.vector_field import VectorField
from stitchflow._status import BadInput
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.drift_parts import Landscape, Part, Place, Ranged


class Straight(Landscape):
    """The part of a field that is a gradient, where no potential takes it."""

    @property
    def turns(self) -> np.ndarray:
        """The matrix before the gradient of each stream, (1, d, d)."""
        return -np.eye(self.bumps.dim)[None]

    def streams(self, c: np.ndarray) -> np.ndarray:
        """The coefficients of each stream, (1, f)."""
        return c[None]


@dataclass(frozen=True)
class Turning(Part):
    r"""$u = \sum_{a<b} J_{ab}\nabla\psi_{ab}$, where $J_{ab}$ turns the plane of two coordinates.

    The divergence of each summand is zero. A constant velocity is a gradient as well: next to a
    potential it belongs to V, and u has the mean zero over all individuals.

    Arguments:
        bumps: the functions that every $\psi$ is made of.
        powers: the combinations of their powers that are used, (powers, m).
        offset: the mean gradient of every function of $\psi$, which is taken off, (d, m + j).
    """

    bumps: Bumps
    powers: np.ndarray
    offset: np.ndarray

    @staticmethod
    def of(bumps: Bumps, x: np.ndarray, alone: bool) -> Turning:
        """A field for individuals at `x`, (n, d).

        Next to a potential only |x|^2 / 2 is used of the powers, whose field is A x with an
        antisymmetric A: the fields of all others are gradients.

        Arguments:
            bumps: the functions.
            x: individuals in internal units.
            alone: whether there is no potential.
        """
        square = np.zeros((bumps.powers, 1))
        i, j = np.triu_indices(bumps.dim)
        square[bumps.dim :][i == j] = 0.5
        powers = np.eye(bumps.powers) if alone else square
        blank = np.zeros((bumps.dim, powers.shape[1] + len(bumps.widths)))
        field = Turning(bumps, powers, blank)
        if alone:
            return field
        return Turning(bumps, powers, field.gradients(x).mean(axis=0))

    @property
    def planes(self) -> list[tuple[int, int]]:
        """The pairs of coordinates."""
        return list(combinations(range(self.bumps.dim), 2))

    @property
    def turns(self) -> np.ndarray:
        """The matrix before the gradient of each stream, (planes, d, d)."""
        out = np.zeros((len(self.planes), self.bumps.dim, self.bumps.dim))
        for k, (a, b) in enumerate(self.planes):
            out[k, a, b], out[k, b, a] = -1.0, 1.0
        return out

    @property
    def each(self) -> int:
        """The number of functions of each plane."""
        return self.offset.shape[1]

    @property
    def count(self) -> int:
        return self.each * len(self.planes)

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """The gradients of the functions of one plane at points, (n, d, m + j)."""
        slopes, powers = self.bumps.slopes(x), self.bumps.powers
        some = slopes[..., :powers] @ self.powers
        return np.concatenate([some, slopes[..., powers:]], axis=2) - self.offset

    def streams(self, c: np.ndarray) -> np.ndarray:
        r"""The coefficients of each $\psi$ in all functions of `bumps`, (planes, f)."""
        own, m = c.reshape(len(self.planes), self.each), self.powers.shape[1]
        out = np.concatenate([own[:, :m] @ self.powers.T, own[:, m:]], axis=1)
        out[:, : self.bumps.dim] -= own @ self.offset.T
        return out

    def features(
        self, x: np.ndarray, t: float = 0.0, pushes: np.ndarray | None = None
    ) -> np.ndarray:
        gradients = self.gradients(x)
        out = np.zeros((*x.shape, self.count))
        for k, (a, b) in enumerate(self.planes):
            own = slice(k * self.each, (k + 1) * self.each)
            out[:, a, own], out[:, b, own] = gradients[:, b], -gradients[:, a]
        return out

    def gather(self, a: np.ndarray, x: np.ndarray, t: float, pushes: np.ndarray) -> np.ndarray:
        found, powers = [], self.bumps.powers
        for i, j in self.planes:
            turned = np.zeros_like(a)
            turned[j], turned[i] = a[i], -a[j]
            sums = self.bumps.gather(turned, x)
            own = np.concatenate([sums[:, :powers] @ self.powers, sums[:, powers:]], axis=1)
            found.append(own - turned.sum(axis=2).T @ self.offset)
        return np.concatenate(found, axis=1)

    def slope(self, place: Place, c: np.ndarray) -> np.ndarray:
        bells, out = place.bells(self.bumps), np.zeros(place.flat.shape)
        for (a, b), stream in zip(self.planes, self.streams(c), strict=True):
            gradient = self.bumps.slope(place.flat, stream, bells)
            out[:, a] += gradient[:, b]
            out[:, b] -= gradient[:, a]
        return out.reshape(place.x.shape)

    def bend(self, place: Place, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bells, d = place.bells(self.bumps), place.x.shape[2]
        bent = np.zeros((len(place.flat), d, d))
        for (a, b), stream in zip(self.planes, self.streams(c), strict=True):
            hessian = self.bumps.hessian(place.flat, stream, bells)
            bent[:, a] += hessian[:, b]
            bent[:, b] -= hessian[:, a]
        return self.slope(place, c), bent.reshape(*place.x.shape, d)

    def blocks(self, widths: tuple[float, ...], ranges: tuple[float, ...]) -> Ranged:
        """One size for the powers and one for the bumps of each width, in all planes alike."""
        every, m = np.eye(len(self.planes)), self.powers.shape[1]
        found = [Block("field, powers", np.kron(every, np.eye(self.each)[:, :m]), spare=1)]
        for block in self.bumps.blocks()[1:]:
            bent = block.factor[self.bumps.powers :]
            own = np.concatenate([np.zeros((m, bent.shape[1])), bent])
            found.append(Block(f"field, {block.name}", np.kron(every, own), spare=2))
        return {0.0: found}


def turning_bumps(tests: Bumps, x: np.ndarray) -> Bumps:
    """The functions of a field in the dimension of points `x`.

    In the plane they are those of V without the narrowest, in space some wide ones, and none in
    more dimensions, where the field is linear.
    """
    if tests.dim == 2:
        return tests.wider(constants.TURNING_FINEST)
    if tests.dim == 3:
        return Bumps.for_points(x, (float(tests.widths.max()),), constants.TURNING_BUMPS)
    return Bumps(np.zeros((0, tests.dim)), np.zeros(0))


def field_parts(energy: Energy, tests: Bumps, some: np.ndarray) -> tuple[Part, ...]:
    """The parts of an energy's `VectorField`.

    Next to a potential the field has no divergence, because V explains whatever has one. A free
    field by itself is a gradient and a field without divergence (Helmholtz).

    Arguments:
        energy: the terms.
        tests: the functions of V.
        some: individuals near which functions are placed, (n, d).
    """
    terms = energy.only(VectorField)
    if not terms:
        return ()
    free = not terms[0].divergence_free and not energy.only(Potential)
    if tests.dim == 1:
        if not free:
            raise BadInput(f"energy: on a line {terms[0]!r} has nothing to learn beside a gradient")
        return (Straight(tests),)
    alone = not free and not energy.only(Potential)
    turning = Turning.of(turning_bumps(tests, some), some, alone)
    return (Straight(tests), turning) if free else (turning,)
