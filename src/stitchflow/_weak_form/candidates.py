"""The terms that a model may have or not: their priors, and typical ways in which they act."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block
from stitchflow._weak_form.drift_parts import Drift, Landscape, PairPart
from stitchflow._weak_form.growing import Growing
from stitchflow._weak_form.turning import Turning


class Term(StrEnum):
    """A term of a model."""

    POTENTIAL = "potential"
    ENTROPY = "entropy"
    TIME = "time-varying potential"
    INTERACTION = "interaction"
    TURNING = "turning part"
    GROWTH = "growth"


@dataclass(frozen=True)
class Candidate:
    """One way in which a term may enter: the blocks of its prior.

    Arguments:
        blocks: the blocks.
        level: how many times `constants.NATS` of evidence they have to be worth.
    """

    blocks: tuple[Block, ...]
    level: int = 0


def term_of(part: object, first: bool) -> Term:
    """The term that a part of a drift describes.

    Arguments:
        part: the part.
        first: whether it is the first part, which is V; another landscape is how V varies in time.
    """
    if isinstance(part, Landscape):
        return Term.POTENTIAL if first else Term.TIME
    if isinstance(part, PairPart):
        return Term.INTERACTION
    return Term.GROWTH if isinstance(part, Growing) else Term.TURNING


def candidates(
    drift: Drift, widths: tuple[float, ...], ranges: tuple[float, ...]
) -> dict[Term, tuple[Candidate, ...]]:
    """The ways in which each term may enter; beta is a coefficient after those of the drift.

    Arguments:
        drift: the functions of all terms.
        widths: the widths of functions of pairs.
        ranges: the ranges over which W may fall to zero.
    """
    count, found = drift.count + 1, {}
    beta = np.zeros((count, 1))
    beta[-1] = 1.0
    for k, (part, own) in enumerate(drift.each()):
        term, ways = term_of(part, k == 0), part.blocks(widths, ranges)
        placed = lambda some, own=own: tuple(block.placed(own.start, count) for block in some)
        if term is Term.INTERACTION:
            found[term] = tuple(Candidate(placed(blocks)) for blocks in ways.values())
            continue
        (blocks,) = ways.values()
        if term is Term.TIME:  # its part without time is V's
            blocks = blocks[len(part.bumps.blocks()) :]
        levels = sorted({block.spare for block in blocks})
        found[term] = tuple(
            Candidate(placed([b for b in blocks if b.spare <= level]), level - levels[0])
            for level in levels
        )
    found[Term.ENTROPY] = (Candidate((Block("beta", beta),)),)
    return {term: ways for term, ways in found.items() if ways}


def shapes(drift: Drift, term: Term) -> list[np.ndarray]:
    """Typical ways in which a term would act, as coefficients with that of beta last, (f + 1,).

    They are a force that is linear in space and in time, a smooth W of every range, a turn of every
    plane as a whole, a rate that is linear or of second degree, and beta itself.
    """
    count, found = drift.count + 1, []

    def add(first: int, values: np.ndarray) -> None:
        shape = np.zeros(count)
        shape[first : first + len(values)] = values
        found.append(shape)

    for k, (part, own) in enumerate(drift.each()):
        if term is not term_of(part, k == 0):
            continue
        if term is Term.TIME and part.powers > 1:
            for j in range(part.bumps.powers):
                add(own.start + part.bumps.count + j, np.ones(1))
        elif term is Term.INTERACTION:
            for span in constants.RANGES:
                add(own.start, np.exp(-0.5 * (part.splines.knots / span) ** 2))
        elif term is Term.TURNING and isinstance(part, Turning):
            for j in range(len(part.planes)):
                add(own.start + j * part.each, np.ones(1))
        elif term is Term.GROWTH:
            for j in range(part.bumps.powers):
                add(own.start + j, np.ones(1))
    if term is Term.ENTROPY:
        add(count - 1, np.ones(1))
    return found
