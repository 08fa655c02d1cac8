"""What the weak form cannot learn, and the sentences that say so."""

from __future__ import annotations

from typing import Any

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._energy.vector_field import VectorField
from stitchflow._objective.growth import Growth
from stitchflow._status import BadInput, BadInputType

LEARNED = (Potential, Entropy, Interaction, VectorKernel, VectorField)


def check_term(term: Term) -> None:
    """Refuse a `term` that is not linear in unknown coefficients, or not known to be."""
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


def check_data(energy: Energy, growth: Growth | None, data: Snapshots) -> None:
    """Refuse data that cannot tell the terms."""
    directed = [term for term in energy.only(Interaction) if not term.radial]
    if directed and data.dim > 3:
        raise BadInput(
            "energy: WeakForm learns an Interaction that is not radial in one to three dimensions, "
            f"got {data.dim}"
        )
    if growth is not None and data.paired:
        raise BadInput("growth: individuals that are followed do not divide; leave out their ids")
