"""Terms that are linear in their coefficients, for energies found by least squares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.spatial import KDTree

from stitchflow._data.units import Units
from stitchflow._energy.networks import Declared, with_time
from stitchflow._energy.pair_terms import Interaction, reach_of
from stitchflow._energy.terms import Entropy, Positive, Potential, ready, with_fields
from stitchflow._measure.kde import Cloud, Field
from stitchflow._types import check_count

MOST_PRODUCTS = 10  # dimensions up to which products of two coordinates are features


class Features(eqx.Module):
    """A linear combination of fixed features of a point.

    The features are powers of each coordinate, products of two coordinates (in at most ten
    dimensions) and Gaussian bumps, each multiplied by powers of the time. The last coordinate of
    the input is the time where `time_degree` is positive.

    Arguments:
        coefficients: one for each feature.
        centres: the centres (c, d) of the bumps.
        width: the standard deviation of every bump.
        degree: the highest power of a coordinate.
        time_degree: the highest power of the time; 0 for features that do not depend on it.
    """

    coefficients: Float[Array, " f"]
    centres: Float[Array, "c d"]
    width: Float[Array, ""]
    degree: int = eqx.field(static=True)
    time_degree: int = eqx.field(static=True, default=0)

    @staticmethod
    def at(centres: np.ndarray, width: float, degree: int, time_degree: int = 0) -> Features:
        """Features with bumps at `centres` and all coefficients zero."""
        c, d = centres.shape
        products = d * (d - 1) // 2 if d <= MOST_PRODUCTS else 0
        count = (degree * d + products + c) * (time_degree + 1)
        where = jnp.asarray(centres, float)
        return Features(jnp.zeros(count), where, jnp.asarray(width, float), degree, time_degree)

    def basis(self, x: Float[Array, " i"]) -> Float[Array, " f"]:
        """The value of every feature at one point."""
        d = self.centres.shape[1]
        place = x[:d]
        powers = [place**p for p in range(1, self.degree + 1)]
        rows, columns = np.triu_indices(d, 1) if d <= MOST_PRODUCTS else ([], [])
        products = place[np.asarray(rows, int)] * place[np.asarray(columns, int)]
        squares = ((place[None, :] - self.centres) ** 2).sum(axis=1)
        found = jnp.concatenate([*powers, products, jnp.exp(-0.5 * squares / self.width**2)])
        if not self.time_degree:
            return found
        waves = [x[d] ** p for p in range(self.time_degree + 1)]
        return jnp.concatenate([found * wave for wave in waves])

    def __call__(self, x: Float[Array, "*m i"]) -> Float[Array, "*m 1"]:
        flat = x.reshape(-1, x.shape[-1])
        values = jax.vmap(lambda p: self.basis(p) @ self.coefficients)(flat)
        return values.reshape(*x.shape[:-1], 1)


class FeaturePotential(Potential):
    r"""$V(x, t) = \sum_j c_j\phi_j(x, t)$ with fixed features and free coefficients.

    Arguments:
        centres: the number of bumps, which are placed at random individuals.
        degree: the highest power of a coordinate.
        time_degree: the highest power of the time; 0 makes V independent of time.
    """

    centres: int = eqx.field(static=True)
    degree: int = eqx.field(static=True)
    time_degree: int = eqx.field(static=True)

    def __init__(self, *, centres: int = 200, degree: int = 4, time_degree: int = 0):
        super().__init__(time_varying=check_count(time_degree, "time_degree", 0) > 0)
        self.centres = check_count(centres, "centres")
        self.degree, self.time_degree = check_count(degree, "degree"), time_degree

    @property
    def settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("centres", "degree", "time_degree")}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        """The numbers of the features, without a few products of coordinates."""
        centres, degree = (check_count(settings[name], name) for name in ("centres", "degree"))
        waves = check_count(settings["time_degree"], "time_degree", 0) + 1
        return Declared(0, centres * dim + (degree * dim + centres) * waves)

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> FeaturePotential:
        rng = np.random.default_rng(0)
        places = np.resize(cloud[rng.permutation(len(cloud))], (self.centres, cloud.shape[1]))
        features = Features.at(places, _spacing(places), self.degree, self.time_degree)
        return with_fields(self, function=features, coefficient=Positive.of(1.0, self.learn))

    def design(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d f"]:
        """The gradient of every feature: `gradient` is this times the coefficients."""
        features, d = ready(self.function), x.shape[-1]
        slopes = jax.vmap(jax.vmap(jax.jacfwd(features.basis)))
        if not self.time_varying:
            return slopes(x).swapaxes(2, 3)
        when = jnp.broadcast_to(t[:, None], x.shape[:2])
        return slopes(with_time(x, when))[..., :d].swapaxes(2, 3)


class FeatureInteraction(Interaction):
    r"""$W(r) = \sum_j c_j\psi_j(r)$ with fixed features of the distance and free coefficients.

    Arguments:
        centres: the number of bumps, placed evenly from zero to the largest distance in the data.
    """

    centres: int = eqx.field(static=True)

    def __init__(self, *, centres: int = 12):
        super().__init__(radial=True)
        self.centres = check_count(centres, "centres", 2)

    @property
    def settings(self) -> dict[str, Any]:
        return {"centres": self.centres}

    @classmethod
    def declared_numbers(cls, settings: Mapping[str, Any], dim: int) -> Declared:
        return Declared(0, 2 * check_count(settings["centres"], "centres"))

    def init(self, cloud: np.ndarray, units: Units, key: Array) -> FeatureInteraction:
        places = np.linspace(0.0, 1.0, self.centres)[:, None]
        features = Features.at(places, 1.5 / self.centres, 2)
        coefficient = Positive.of(1.0, self.learn)
        fields = {"function": features, "coefficient": coefficient, "reach": reach_of(cloud)}
        return with_fields(self, **fields)

    def design(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d f"]:
        """The gradient of every feature: `gradient` is this times the coefficients."""
        features = ready(self.function)

        def push(coefficients: Array) -> Array:
            own = eqx.tree_at(lambda f: f.coefficients, features, coefficients)
            return with_fields(self, function=own).gradient(x, t, cloud, field)

        return jax.jacfwd(push)(jnp.zeros_like(features.coefficients))


class FeatureEntropy(Entropy):
    """The entropy as one more feature, whose coefficient is beta.

    Arguments:
        beta: as in `Entropy`.
        learn: as in `Entropy`.
    """

    def design(self, x: Array, t: Array, cloud: Cloud, field: Field) -> Float[Array, "s m d f"]:
        """The score: `gradient` is beta times this."""
        return field.score[..., None]


def _spacing(places: np.ndarray) -> float:
    """A width at which each bump overlaps about as many others as a grid point has neighbours.

    A single bump is as wide as the data.
    """
    if len(places) == 1:
        return 1.0
    neighbours = min(2 * places.shape[1], len(places) - 1)
    far = KDTree(places).query(places, neighbours + 1)[0][:, -1]
    return max(1.5 * float(np.median(far)), 1e-3)
