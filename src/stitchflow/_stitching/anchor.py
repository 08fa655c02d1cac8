"""Where averages over individuals tell the energy, it is theirs, and the curve is fitted under it.

A residual reads the score of a kernel density, or pair forces of a sampled cloud. The errors of
both enter squared, and pull V, W and beta towards zero together while the curve still looks right.
The weak form (`_weak_form/`) has neither in it. Where it explains the averages of the data to
within their noise, nothing is left for a network to learn: on the double wells and on the ring of
`docs/decisions.md#anchor`, a network that starts at its estimate and is trained on the residual as
well ends further from the truth.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._parts import Part
from stitchflow._status import BadInput
from stitchflow._stitching import defaults
from stitchflow._types import check_number
from stitchflow._weak_form.method import WeakFlow, WeakForm


@dataclass(frozen=True)
class Anchor(Part):
    """A rule for what is known of the energy before the curve is fitted."""

    @abstractmethod
    def estimate(self, energy: Energy, data: Snapshots, units: Units) -> WeakFlow | None:
        """An energy that is known, with its standard errors; None where networks have to learn it.

        Arguments:
            energy: the terms to be learned.
            data: the snapshots.
            units: the internal units of the fit.
        """


@dataclass(frozen=True)
class NoAnchor(Anchor):
    """Networks learn the energy, whatever averages tell: the paper's choice.

    >>> sf.Stitching.paper().anchor
    NoAnchor()
    """

    def estimate(self, energy: Energy, data: Snapshots, units: Units) -> WeakFlow | None:
        return None


@dataclass(frozen=True)
class ByAverages(Anchor):
    """The energy is the weak form's where the averages of the data tell it. The default.

    They do where the weak form knows all terms of the energy, its rounds have settled, and its
    residuals are of the size of sampling noise. Otherwise, as with few snapshots that are far
    apart, networks are trained; also where individuals are followed, whose paths tell more than
    averages do.

    Arguments:
        misfit: the largest mean square of the weak form's residuals, in units of their noise.

    >>> sf.Stitching(anchor=ByAverages(misfit=1.5)).anchor.misfit
    1.5
    """

    misfit: float = defaults.ANCHOR_MISFIT

    def __post_init__(self) -> None:
        check_number(self.misfit, "misfit", 0.0)

    def estimate(self, energy: Energy, data: Snapshots, units: Units) -> WeakFlow | None:
        pairs = energy.only(Interaction) or energy.only(VectorKernel)
        if units != data.units or data.paired or not (energy.needs_density or pairs):
            return None  # without a score and without pair forces a residual has no such errors
        try:
            method = WeakForm(energy)
        except BadInput:  # a term that averages do not tell
            return None
        # More individuals make what is not explained stand out more: a few show it at less cost.
        if not pairs and data.counts.max() > 2 * defaults.SCREENED:
            few = data.subsample(defaults.SCREENED, 0)
            if self._explained(method, few) is None:
                return None
        return self._explained(method, data)

    def _explained(self, method: WeakForm, data: Snapshots) -> WeakFlow | None:
        """The flow of a weak form that explains the averages of `data`; None of one that fails."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = method.fit(data, 0, False)
        flow = found.flow
        assert isinstance(flow, WeakFlow)
        assert flow.misfit is not None
        explained = flow.misfit <= self.misfit and flow.settled
        return flow if found.status.ok and explained else None
