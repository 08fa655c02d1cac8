r"""How much of an energy that few individuals taught is believed: what others of them say.

Networks that are trained on a few dozen individuals of each time learn where these happened to be,
and others that they carry then arrive further from the next snapshot than if they had stood still.
Some individuals are therefore held out of the fit, and the energy becomes $s\,F$ with the share
$s\le 1$ that carries them best. Every s is an energy of its own, with the same equilibrium; the
smaller it is, the slower everything moves, and $s\to 0$ is standing still.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.isolated import isolated
from stitchflow._data.observations import Observations
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction
from stitchflow._energy.terms import Entropy, Potential, ready
from stitchflow._objective.consistency import arrival_distances, energy_distance
from stitchflow._parts import Part
from stitchflow._stitching import defaults
from stitchflow._types import check_number
from stitchflow._weak_form.rest import at_rest


@dataclass(frozen=True)
class Shrinkage(Part):
    """A rule for how much of a learned energy is believed."""

    @abstractmethod
    def divided(self, energy: Energy, data: Snapshots) -> tuple[Snapshots, Snapshots | None]:
        """The individuals to train on, and those who are held out; None where nobody is.

        Arguments:
            energy: the terms to be learned.
            data: all individuals.
        """

    @abstractmethod
    def share(self, energy: Energy, data: Snapshots, held: Snapshots, key: Array) -> float:
        """The share of a learned energy that is believed, at most 1.

        Arguments:
            energy: the energy, with parameters.
            data: all individuals.
            held: those who were held out.
            key: the random key of the noise.
        """


@dataclass(frozen=True)
class NoShrinkage(Shrinkage):
    """Everybody is trained on, and the energy stays as it was learned: the paper's choice.

    >>> sf.Stitching.paper().shrinkage
    NoShrinkage()
    """

    def divided(self, energy: Energy, data: Snapshots) -> tuple[Snapshots, Snapshots | None]:
        return data, None

    def share(self, energy: Energy, data: Snapshots, held: Snapshots, key: Array) -> float:
        return 1.0


@dataclass(frozen=True)
class ByHeldOut(Shrinkage):
    """Of few individuals some are held out, and tell how much to believe. The default.

    They are carried over each gap and from the first snapshot on by several shares of the energy.
    Only shares that bring them nearer to those held out later than standing still are considered:
    of these the largest that is as good as the best to within one standard error of the gaps. The
    smallest share stands for none. It is also taken where the snapshots look like draws of their
    individuals at random, which tell no speed.

    A handful of individuals far from all others are not trained on, as V would dig a well for them.
    Nobody is held out where individuals are followed by ids or a term is given, where pairs act
    within groups, and where individuals multiply at a learned rate.

    Arguments:
        held: the share of each time's individuals that are held out, at most a half.

    >>> sf.Stitching(shrinkage=ByHeldOut(held=0.3)).shrinkage.held
    0.3
    """

    held: float = defaults.HELD_OUT

    def __post_init__(self) -> None:
        check_number(self.held, "held", 0.0, 0.5, open_low=True)

    def divided(self, energy: Energy, data: Snapshots) -> tuple[Snapshots, Snapshots | None]:
        # Pairs act within a population, and whoever is held out acts on those who are not.
        kinds = (
            (Potential, Entropy) if data.groups is not None else (Potential, Entropy, Interaction)
        )
        learned = all(isinstance(term, kinds) and term.learn for term in energy.terms)
        left = data.counts - np.maximum(1, np.round((1.0 - self.held) * data.counts))
        if not (is_few(data) and learned and energy.needs_density) or np.count_nonzero(left) < 2:
            return data, None
        shown, held = data.split(1.0 - self.held, key=0, by="individual")
        if len(held) < 2:  # in a bootstrap, those who were drawn may have no weight
            return data, None
        return shown.take(np.flatnonzero(~isolated(shown))), held

    def share(self, energy: Energy, data: Snapshots, held: Snapshots, key: Array) -> float:
        if at_rest(data):
            return defaults.SHARES[-1]
        seen = Observations.of(held, ready(energy.units))
        shares = jnp.asarray(defaults.SHARES, float)
        apart = np.asarray(_apart(energy, seen, shares, key), np.float64)
        apart = np.where(np.isfinite(apart), apart, np.inf)
        return defaults.SHARES[chosen(apart)]


def is_few(data: Snapshots) -> bool:
    """Whether the individuals of all times together are few, and not followed."""
    return data.ids is None and len(data.x) <= defaults.FEW_INDIVIDUALS


def chosen(apart: np.ndarray) -> int:
    """The row of the share to believe.

    Arguments:
        apart: distances of arrival (shares, entries), the shares decreasing; the last share stands
            for standing still.
    """
    totals = apart.sum(axis=1)
    better = np.flatnonzero(totals < totals[-1])
    if not len(better):
        return len(apart) - 1
    best = better[totals[better].argmin()]
    for row in better:
        further = apart[row] - apart[best]
        error = further.std(ddof=1) * len(further) ** 0.5
        if further.sum() <= error:
            return int(row)
    return int(best)


@eqx.filter_jit
def _apart(
    energy: Energy, seen: Observations, shares: Float[Array, " s"], key: Array
) -> Float[Array, "s e"]:
    """The distances of arrival of each share, averaged over some draws of the noise."""
    everybody = seen.weights.shape[1], len(seen), defaults.HELD_OUT_MOVES
    keys = jax.random.split(key, defaults.HELD_OUT_DRAWS)

    def one(share: Array, own: Array) -> Float[Array, " e"]:
        weaker = energy.times(share)
        return arrival_distances(weaker, seen, energy_distance, *everybody, own).reshape(-1)

    return jax.lax.map(lambda s: jax.vmap(partial(one, s))(keys).mean(axis=0), shares)
