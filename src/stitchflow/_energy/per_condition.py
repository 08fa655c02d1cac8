"""A term of the energy that differs between conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.conditions import place_of
from stitchflow._data.units import Units
from stitchflow._energy.networks import Declared
from stitchflow._energy.terms import Term, with_fields
from stitchflow._measure.kde import Cloud, Field
from stitchflow._parts import built_in, constructor_defaults, name_of
from stitchflow._status import BadInput, BadInputType


class PerCondition(Term):
    r"""What each condition adds to the terms that all conditions share.

    Beside a shared potential $V$, the potential of condition $c$ is $V + V_c$ with deviations that
    sum to zero, $\sum_c V_c = 0$. They are shrunk towards zero by the evidence: where the data ask
    for no difference, there is none. Conditions are told with the data
    (`Snapshots.from_table(..., conditions=)`).

    `fit.energy` is what all conditions share, and `fit.energy.of("knock-out")` what moves the
    individuals of one of them. `sf.WeakForm` learns a `PerCondition(Potential())`.

    Arguments:
        term: the kind of term that deviates, such as `Potential()`.
        labels: the names of the conditions; none before a fit.

    >>> sf.Potential() + PerCondition(sf.Potential()) + sf.Entropy()
    Potential(V(x)) + PerCondition(Potential(V(x))) + Entropy(beta=auto, learn=True)
    """

    sees_others: ClassVar[bool] = False
    term: Term
    labels: tuple[str, ...] = eqx.field(static=True)
    deviations: tuple[Term, ...]

    def __init__(self, term: Term | Mapping[str, Any], labels: tuple[str, ...] = ()):
        if isinstance(term, Mapping):  # as `settings` describes it
            kind = built_in(term["class"], Term)
            if kind is None:
                raise BadInput(f"PerCondition: {term['class']} is no term of this package")
            term = kind(**term["settings"])
        if not isinstance(term, Term) or isinstance(term, PerCondition):
            raise BadInputType(f"PerCondition takes a term such as Potential(), got {term!r}")
        if term.reads_density:
            raise BadInput(f"PerCondition: noise and terms of the density are shared, got {term!r}")
        self.term, self.labels, self.deviations = term, tuple(map(str, labels)), ()

    def __repr__(self) -> str:
        return f"PerCondition({self.term!r})"

    @property
    def time_varying(self) -> bool:  # pyright: ignore
        return self.term.time_varying

    @property
    def settings(self) -> dict[str, Any]:
        own = {"class": name_of(type(self.term)), "settings": self.term.settings}
        return {"term": own, "labels": self.labels}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        own = settings["term"]["mapping"]
        kind = built_in(own["class"], Term)
        if kind is None:
            return Declared(0)
        told = constructor_defaults(kind) | own["settings"]["mapping"]
        each, count = kind.declared_numbers(told, dim), len(settings["labels"])
        return Declared(count * each.made, count * each.kept)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> PerCondition:
        if not self.labels:
            raise BadInput(f"energy: only WeakForm learns {self!r}; use method=WeakForm(...)")
        keys = jax.random.split(key, len(self.labels))
        return self.with_deviations(tuple(self.term.init(cloud, units, k) for k in keys))

    def with_deviations(self, deviations: tuple[Term, ...]) -> PerCondition:
        """The same with what each condition adds, in the order of the labels."""
        return with_fields(self, deviations=deviations)

    def of(self, condition: Any) -> Term:
        """What one condition adds to what all share; an unknown condition is refused."""
        return self.deviations[place_of(condition, self.labels)]

    # Deviations sum to zero: what all conditions share has none of them.

    def gradient(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d"]:
        return jnp.zeros_like(x)

    def first_variation(
        self, x: Array, t: Array, cloud: Cloud, field: Field
    ) -> Float[Array, "s m"]:
        return jnp.zeros(x.shape[:2], x.dtype)

    def local(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m"]:
        return jnp.zeros(x.shape[:2], x.dtype)
