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

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._parts import Part
from stitchflow._status import BadInput
from stitchflow._stitching import defaults
from stitchflow._stitching.shrinkage import is_few
from stitchflow._types import check_number
from stitchflow._weak_form.method import WeakFlow, WeakForm
from stitchflow._weak_form.rest import at_rest


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

    They do where the weak form knows all terms of the energy, its rounds have settled, its
    residuals are of the size of sampling noise, and whole snapshots, not only the averages that
    were fitted, arrive where the next ones were seen. Otherwise, as with few snapshots that are far
    apart, networks are trained. They also are where individuals are followed, whose paths tell more
    than averages do, and in many dimensions, where the weak form has too few functions.

    Arguments:
        misfit: the largest mean square of the weak form's residuals, in units of their noise.
        apart: the largest energy distance between carried individuals and those seen next, as a
            multiple of what individuals that are dealt out at random to the two show.

    >>> sf.Stitching(anchor=ByAverages(misfit=1.5)).anchor.misfit
    1.5
    """

    misfit: float = defaults.ANCHOR_MISFIT
    apart: float = defaults.ANCHOR_APART

    def __post_init__(self) -> None:
        check_number(self.misfit, "misfit", 0.0)
        check_number(self.apart, "apart", 0.0)

    def estimate(self, energy: Energy, data: Snapshots, units: Units) -> WeakFlow | None:
        pairs = energy.only(Interaction) or energy.only(VectorKernel)
        if units != data.units or data.paired or data.dim > defaults.ANCHOR_DIMENSIONS:
            return None
        if not (energy.needs_density or pairs):  # the residual reads nothing that is noisy
            return None
        if is_few(data) and at_rest(data):  # averages that do not change tell no speed
            return None
        try:
            method = WeakForm(energy)
        except BadInput:  # a term that averages do not tell
            return None
        # More individuals make what is not explained stand out more: a few show it at less cost.
        if not pairs and data.counts.max() > 2 * defaults.SCREENED:
            few = data.subsample(defaults.SCREENED, 0)
            if self._explained(method, few) is None:
                return None
        told = self._explained(method, data)
        # A ratio that is not a number, of individuals who were lost on the way, does not pass.
        return told if told is not None and arrival_ratio(told, data) <= self.apart else None

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


def arrival_ratio(flow: WeakFlow, data: Snapshots) -> float:
    """How far carried individuals are from those seen next, in units of chance.

    The energy distance between the two, summed over some gaps, is divided by its mean over random
    deals of all of them to two clouds. It is about one where both are draws of one population.

    Arguments:
        flow: what carries individuals.
        data: the snapshots.
    """
    rng = np.random.default_rng(0)
    counted = (int((data.cloud_weights(k) > 0).sum()) for k in range(len(data)))
    size = min(defaults.SCREENED, *counted)
    number = min(len(data) - 1, max(defaults.ANCHOR_GAPS, defaults.ANCHOR_INDIVIDUALS // size))
    gaps = np.unique(np.linspace(0, len(data) - 2, number).astype(int))
    seen, chance = 0.0, 0.0
    for k in gaps:
        x0, labels = data.cloud(k), None if data.groups is None else data.groups[data.slice(k)]
        when = data.times[k : k + 2]
        ends = np.asarray(
            flow.simulate(x0, when, weights=data.uneven_weights(k), groups=labels)[-1]
        )
        some = lambda x, k: x[rng.choice(len(x), size, False, data.cloud_weights(k) / len(x))]
        both = np.concatenate([some(ends, k), some(data.cloud(k + 1), k + 1)])
        far = np.sqrt(((both[:, None] - both[None]) ** 2).sum(axis=-1))
        seen += _energy_distance(far, np.arange(2 * size), size)
        deals = (rng.permutation(2 * size) for _ in range(defaults.ANCHOR_DEALS))
        chance += float(np.mean([_energy_distance(far, deal, size) for deal in deals]))
    return seen / max(chance, 1e-300)


def _energy_distance(far: np.ndarray, order: np.ndarray, size: int) -> float:
    """$2E|X-Y| - E|X-X'| - E|Y-Y'|$ where X are the first of an order and Y the others."""
    signs = np.ones(len(order))
    signs[order[size:]] = -1.0
    return float(-signs @ far @ signs) / size**2
