"""The terms of the fitted energy from the coefficients of a drift."""

from __future__ import annotations

import numpy as np

from stitchflow._energy.per_condition import PerCondition
from stitchflow._energy.terms import Term
from stitchflow._weak_form.bases import Bumps
from stitchflow._weak_form.deviation import deviating
from stitchflow._weak_form.displacement import DisplacementPush
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.fitted import BumpPotential, SplineInteraction, SplineKernel
from stitchflow._weak_form.fitted_direct import BumpField, BumpInteraction
from stitchflow._weak_form.fitted_framed import FramedPotential
from stitchflow._weak_form.fitted_round import RoundPotential
from stitchflow._weak_form.frame import FramedBumps
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.round_bumps import RoundBumps
from stitchflow._weak_form.turning import Straight, Turning


def fitted_terms(drift: Drift, c: np.ndarray, centre: np.ndarray) -> list[Term]:
    """The terms that move individuals.

    Arguments:
        drift: what they are made of.
        c: the coefficients.
        centre: the mean of the functions of V over all individuals, where V has its zero.
    """
    terms: list[Term] = []
    for part, own in drift.each():
        if type(part) is Landscape:
            terms.append(_potential(part, c[own], centre))
        if isinstance(part, PairPush) and part.kind == "interaction":
            splines = part.splines
            term = SplineInteraction(knots=splines.count)
            terms.append(term.of(splines.unfold(c[own]), splines.reach))
        if isinstance(part, DisplacementPush):
            term = BumpInteraction(bumps=part.count)
            terms.append(term.of(c[own], part.bumps.centres, part.bumps.widths))
    kernels = {p.kind: (p.splines, c[own]) for p, own in drift.only(PairPush)}
    kernels.pop("interaction", None)
    if kernels:
        splines = next(iter(kernels.values()))[0]
        radial, turning = (
            splines.unfold(kernels[k][1]) if k in kernels else np.zeros(splines.count + 5)
            for k in ("radial", "turning")
        )
        terms.append(SplineKernel(knots=splines.count).of(radial, turning, splines.reach))
    return terms + _field(drift, c) + _per_condition(drift, c, centre)


def _potential(part: Landscape, c: np.ndarray, centre: np.ndarray) -> BumpPotential:
    bumps, rows = part.bumps, c.reshape(part.powers, -1)
    if isinstance(bumps, FramedBumps):
        framed = FramedPotential(bumps=len(bumps.widths), powers=part.powers, lead=bumps.led.dim)
        return framed.of(rows, -rows @ centre, bumps.centres, bumps.widths, bumps.axes)
    if isinstance(bumps, RoundBumps):
        splines, own = bumps.splines, bumps.led.count
        around = RoundPotential(bumps=len(bumps.widths), knots=splines.count)
        return around.of(
            *(rows[:, :own], -rows @ centre, bumps.centres, bumps.widths),
            *(splines.unfold(rows[0, own:]), bumps.middle, np.asarray(splines.reach)),
        )
    potential = BumpPotential(bumps=len(bumps.widths), powers=part.powers)
    return potential.of(rows, -rows @ centre, bumps.centres, bumps.widths)


def _per_condition(drift: Drift, c: np.ndarray, centre: np.ndarray) -> list[Term]:
    """What each condition adds to V, in the functions of V."""
    landscape, found = drift.landscape, deviating(drift)
    if landscape is None or found is None:
        return []
    deviation, own = found
    each = [deviation.under(k).own(c[own]) for k in range(len(deviation.labels))]
    within = deviation.within(landscape)
    terms = tuple(_potential(landscape, within @ coefficients, centre) for coefficients in each)
    blank = BumpPotential(bumps=terms[0].bumps, powers=terms[0].powers)
    return [PerCondition(blank, deviation.labels).with_deviations(terms)]


def _field(drift: Drift, c: np.ndarray) -> list[Term]:
    """The field as one sum over streams, each of which has bumps of its own."""
    bumps: list[Bumps] = []
    rows: list[np.ndarray] = []
    turns: list[np.ndarray] = []
    for part, own in [*drift.only(Straight), *drift.only(Turning)]:
        for stream, turn in zip(part.streams(c[own]), part.turns, strict=True):
            bumps.append(part.bumps)
            rows.append(stream)
            turns.append(turn)
    if not rows:
        return []
    powers, d = bumps[0].powers, bumps[0].dim
    sizes = [len(b.widths) for b in bumps]
    coefficients = np.zeros((len(rows), powers + sum(sizes)))
    for k, row in enumerate(rows):
        first = powers + sum(sizes[:k])
        coefficients[k, :powers] = row[:powers]
        coefficients[k, first : first + sizes[k]] = row[powers:]
    centres = np.concatenate([b.centres for b in bumps]).reshape(-1, d)
    widths = np.concatenate([b.widths for b in bumps])
    field = BumpField(bumps=len(widths), streams=len(rows))
    return [field.of(coefficients, centres, widths, np.stack(turns))]
