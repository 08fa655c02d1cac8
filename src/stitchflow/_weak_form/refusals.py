"""What the weak form cannot learn, and the sentences that say so."""

from __future__ import annotations

from typing import Any

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.per_condition import PerCondition
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._energy.vector_field import VectorField
from stitchflow._objective.growth import Growth
from stitchflow._status import BadInput, BadInputType

LEARNED = (Potential, Entropy, Interaction, VectorKernel, VectorField, PerCondition)


def check_term(term: Term) -> None:
    """Refuse a `term` that is not linear in unknown coefficients, or not known to be."""
    if isinstance(term, PerCondition):
        check_term(term.term)
        if not isinstance(term.term, Potential):
            raise BadInput(f"energy: WeakForm learns PerCondition(Potential()), got {term!r}")
    if term.reads_density and not isinstance(term, Entropy):
        raise BadInput(
            f"energy: WeakForm cannot learn {term!r}: it reads the density, which averages do not "
            "have"
        )
    if type(term) not in LEARNED or getattr(term, "function", None) is not None:
        raise BadInput(f"energy: WeakForm cannot learn {term!r}")
    if isinstance(term, VectorField) and term.time_varying:
        raise BadInput(f"energy: WeakForm learns a field that does not vary in time, got {term!r}")
    if isinstance(term, Entropy) and not term.learn and term.start is None:
        raise BadInput("energy: Entropy(learn=False) needs a beta")


def check_growth(growth: Any) -> None:
    """Refuse what is not a rate that averages can tell."""
    if growth is None:
        return
    if not isinstance(growth, Growth):
        raise BadInputType(f"growth must be a Growth or None, got {growth!r}")
    if growth.prior is not None:
        raise BadInput("growth: WeakForm learns the rate from averages alone, without a prior")


def check_conditions(energy: Energy, data: Snapshots | None = None) -> None:
    """Refuse deviations of conditions without a potential that they share, or without conditions.

    Arguments:
        energy: the terms.
        data: the snapshots; None before there are any.
    """
    for term in energy.only(PerCondition):
        shared = energy.only(Potential)
        if not shared:
            raise BadInput(f"energy: {term!r} stands beside a shared Potential(), got {energy!r}")
        if term.time_varying and not shared[0].time_varying:
            raise BadInput(f"energy: {term!r} varies in time and {shared[0]!r} beside it does not")
        if data is not None and len(data.condition_names) < 2:
            listed = ", ".join(data.condition_names) or "none"
            raise BadInput(
                f"energy: {term!r} needs data of two conditions or more, got {listed}; name them "
                "by Snapshots.from_table(..., conditions=...) or --condition-key"
            )


def check_data(energy: Energy, growth: Growth | None, data: Snapshots) -> None:
    """Refuse data that cannot tell the terms."""
    check_conditions(energy, data)
    directed = [term for term in energy.only(Interaction) if not term.radial]
    if directed and data.dim > 3:
        raise BadInput(
            "energy: WeakForm learns an Interaction that is not radial in one to three dimensions, "
            f"got {data.dim}"
        )
    if growth is not None and data.paired:
        raise BadInput("growth: individuals that are followed do not divide; leave out their ids")
