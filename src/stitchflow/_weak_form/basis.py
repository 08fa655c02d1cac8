"""What V, W and K are made of, and the prior of all coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Potential
from stitchflow._parts import Part
from stitchflow._status import BadInput
from stitchflow._types import check_number
from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block, Bumps, Splines
from stitchflow._weak_form.choices import Priors
from stitchflow._weak_form.displacement import DisplacementPush
from stitchflow._weak_form.drift_parts import Drift, PairPart
from stitchflow._weak_form.moments import Window
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.round_bumps import RoundBumps
from stitchflow._weak_form.whole_populations import Populations


@dataclass(frozen=True)
class Basis(Part):
    """What V, W and K are made of, in units of the data's length (`Snapshots.units`).

    V is a sum of powers of first and second degree and of one Gaussian process for each width. W
    and K are splines of the distance with one Gaussian process for each width. The evidence decides
    how large each of them is; a width that does not help gets the size zero.

    Arguments:
        widths: the widths of the Gaussian bumps of V, widest first; None chooses them by the
            dimension. Widths that would need more than `bumps` functions are left out.
        bumps: the largest number of bumps of all widths together. There are also no more than a
            third of the numbers that describe a snapshot.
        pair_widths: the widths of the functions of a distance.
        ranges: the ranges over which W may fall to zero, shortest first. The shortest one that
            the evidence does not reject is taken.
        powers: the number of polynomials of time of a potential that varies in time.

    >>> sf.Basis(widths=(1.0, 0.5)).widths
    (1.0, 0.5)
    """

    widths: tuple[float, ...] | None = None
    bumps: int = constants.MOST_BUMPS
    pair_widths: tuple[float, ...] = constants.PAIR_WIDTHS
    ranges: tuple[float, ...] = constants.RANGES
    powers: int = constants.TIME_POWERS

    def __post_init__(self) -> None:
        for name in ("widths", "pair_widths", "ranges"):
            for value in getattr(self, name) or ():
                check_number(value, name, 0.0, open_low=True)
        if not self.pair_widths or not self.ranges or self.widths == ():
            raise BadInput("widths, pair_widths and ranges must have at least one entry")

    def powers_in(self, windows: int) -> int:
        """The number of polynomials of time that so many windows can tell apart."""
        return max(1, min(self.powers, windows - 1))


FOR_POPULATIONS = Basis(
    constants.POPULATION_WIDTHS,
    constants.POPULATION_BUMPS,
    constants.POPULATION_PAIR_WIDTHS,
    constants.POPULATION_RANGES,
)


def for_populations(crowd: Populations, some: np.ndarray, basis: Basis) -> RoundBumps:
    """The functions of V where populations are followed as wholes."""
    apart = np.linalg.norm(some - some.mean(axis=0), axis=1)
    core = some[apart <= np.quantile(apart, constants.CORE)]
    widths, most = basis.widths or constants.POPULATION_WIDTHS, min(basis.bumps, crowd.told)
    return RoundBumps.around(some, Bumps.for_points(core, widths, most), crowd.told)


def pair_pushes(
    energy: Energy, found: list[Window], basis: Basis, most: int = constants.MOST_KNOTS
) -> tuple[PairPart, ...]:
    """The pushes of pairs that an energy has, up to the largest distance in the data.

    Arguments:
        energy: the terms.
        found: the windows of the data.
        basis: what functions of a distance are made of.
        most: the largest number of knots.
    """
    apart = []
    for w in found[:: max(1, len(found) // 20)]:
        if w.near is not None:
            apart.append(w.x[w.near.first] - w.x[w.near.second])
    if not apart:
        raise BadInput("energy: pair terms need populations of two or more individuals")
    z = np.concatenate(apart)
    far = float(np.quantile(np.sqrt((z**2).sum(axis=1)), constants.FARTHEST))
    reach, dim = constants.REACH * far, z.shape[1]
    count = int(np.clip(np.ceil(reach / (constants.KNOTS * min(basis.pair_widths))), 8, most))
    pushes: list[PairPart] = []
    for term in energy.only(Interaction):
        if term.radial:
            pushes.append(PairPush(Splines(reach, count, True), "interaction"))
        else:
            envelope = constants.DISPLACEMENT_REACH * max(basis.ranges)
            alone = not energy.only(Potential)
            some = z[np.random.default_rng(0).permutation(len(z))[: constants.MOST_POINTS]]
            end = reach if alone else min(reach, envelope)
            pushes.append(DisplacementPush.of(some, basis.pair_widths, end))
    if energy.only(VectorKernel):
        free = Splines(reach, count, False)
        # Next to an interaction the radial part of K would be the same thing twice.
        pushes += [] if pushes else [PairPush(free, "radial")]
        pushes += [PairPush(free, "turning")] if dim == 2 else []
    if not pushes:
        raise BadInput("energy: outside the plane a VectorKernel beside an Interaction is nothing")
    return tuple(pushes)


def priors_of(drift: Drift, basis: Basis) -> Priors:
    """The prior of all coefficients: without and with spare blocks, for every range of W."""
    ranges = basis.ranges if drift.landscape is not None else ()
    choices: dict[float, list[Block]] = {0.0: []}
    for part, own in drift.each():
        blocks = {
            span: [block.placed(own.start, drift.count) for block in some]
            for span, some in part.blocks(basis.pair_widths, ranges).items()
        }
        # One part at most has several ranges.
        choices = {max(a, b): x + y for a, x in choices.items() for b, y in blocks.items()}
    found: Priors = {}
    for level in sorted({block.spare for blocks in choices.values() for block in blocks}):
        for span, blocks in choices.items():
            found[level, span] = [block for block in blocks if block.spare <= level]
    return found
