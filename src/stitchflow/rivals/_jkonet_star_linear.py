"""JKOnet* with an energy linear in its parameters: one least-squares problem, no training."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.features import FeatureEntropy, FeatureInteraction, FeaturePotential
from stitchflow._energy.pair_terms import Interaction
from stitchflow._energy.terms import Entropy, Potential, with_fields
from stitchflow._measure.kde import Cloud
from stitchflow._method.driven import Driven
from stitchflow._status import Status
from stitchflow._training.history import StageHistory
from stitchflow._training.optimise import Optimum
from stitchflow._types import check_count, check_number
from stitchflow.rivals._jko import Marginals, origins

BLOCK = 2**23  # numbers of the design matrix held at once


@dataclass(frozen=True)
class JKOnetStarLinear(Driven):
    r"""The first-order condition of a JKO step, solved for the coefficients of fixed features.

    With $V = \sum_j c_j\phi_j$ (and likewise $W$ and $\beta$) the condition is linear,

    $$\min_c \sum_k \tau_k\,E_{\gamma_k}\Big|\frac{x_{k+1} - x_k}{\tau_k}
      + \sum_j c_j\nabla\phi_j(x_{k+1})\Big|^2 + \text{ridge}\,|Dc|^2,$$

    with $\gamma_k$ the optimal plan between neighbours and $D$ the sizes of the features. Features
    are powers of coordinates, products of two coordinates and Gaussian bumps; they are not chosen
    by the data. V is extrapolated by its powers, of which those above the second may fall and carry
    individuals to infinity. A negative beta is set to zero. As in `JKOnetStar`, paths between
    snapshots are straight lines.

    Reference: Terpin, Lanzetti, Gadea and Doerfler, "Learning Diffusion at Lightspeed", NeurIPS
    2024.

    Arguments:
        centres: the number of bumps, at random individuals.
        degree: the highest power of a coordinate.
        time_degree: the highest power of the time, which is that of the middle of a step; 0 makes V
            independent of time.
        entropy: whether beta is solved for as well; otherwise there is no noise.
        interaction: whether a radial W is solved for as well.
        ridge: the weight of the penalty on the coefficients.
        individuals: the largest number of each snapshot that is matched.

    >>> JKOnetStarLinear(entropy=True).energy_form.needs_density
    True
    """

    name = "jkonet-star-linear"

    centres: int = 200
    degree: int = 2
    time_degree: int = 0
    entropy: bool = False
    interaction: bool = False
    ridge: float = 1e-2
    individuals: int = 1500

    def __post_init__(self) -> None:
        for name, least in (("centres", 1), ("degree", 1), ("time_degree", 0), ("individuals", 2)):
            check_count(getattr(self, name), name, least)
        check_number(self.ridge, "ridge", 0.0, open_low=True)

    def learning(self, physics: Energy) -> JKOnetStarLinear:
        if not physics.only(Potential):
            return self
        return replace(
            self,
            time_degree=2 if physics.time_varying else 0,
            entropy=bool(physics.only(Entropy)),
            interaction=bool(physics.only(Interaction)),
        )

    @property
    def energy_form(self) -> Energy:
        """The terms whose coefficients are solved for."""
        sizes = {"centres": self.centres, "degree": self.degree, "time_degree": self.time_degree}
        terms = [FeaturePotential(**sizes)]
        terms += [FeatureInteraction()] if self.interaction else []
        entropy = FeatureEntropy()  # pyright: ignore[reportCallIssue]
        return Energy((*terms, entropy) if self.entropy else tuple(terms))

    def learn(self, data: Snapshots, key: Array, progress: bool, checkpoint: Any) -> Optimum:
        start, units = time.perf_counter(), data.units
        energy = self.energy_form.init_for(data, key)
        some = data.subsample(self.individuals, key)
        marginals = Marginals.of(some, units, energy.needs_density)
        came = origins(some, units)
        squares, products, total = normal_equations(energy, marginals, came)
        solution = ridge_solution(squares, products, self.ridge)
        if energy.needs_density and solution[-1] <= 0.0:  # a negative diffusion is not possible
            energy = Energy(energy.terms[:-1], units)
            squares, products = squares[:-1, :-1], products[:-1]
            solution = ridge_solution(squares, products, self.ridge)
        left = total - 2.0 * products @ solution + solution @ squares @ solution
        return Optimum(
            with_coefficients(energy, solution),
            [StageHistory(self.name, {"step": np.array([1]), "loss": np.array([left])})],
            Status(True, f"solved for {len(solution)} coefficients"),
            1,
            time.perf_counter() - start,
        )


def normal_equations(
    energy: Energy, marginals: Marginals, came: Float[Array, "s n d"]
) -> tuple[np.ndarray, np.ndarray, float]:
    """A'A, A'b and b'b of the weighted least-squares problem A c = b over all steps.

    Arguments:
        energy: terms with features.
        marginals: the snapshots.
        came: where the individuals of each later snapshot came from.
    """
    squares = products = np.zeros(())
    total = 0.0
    gaps, n, d = came.shape
    width = sum(part.shape[-1] for part in eqx.filter_eval_shape(_designs, energy, marginals, 0, 0))
    partners = n if energy.only(Interaction) else 1  # a pair term is evaluated at all pairs
    block = min(n, max(1, BLOCK // (width * max(d, partners))))
    for k in range(gaps):
        tau = float(marginals.gaps[k])
        way = np.asarray(marginals.points[k + 1] - came[k], np.float64) / tau
        mass = np.sqrt(tau * np.asarray(marginals.weights[k + 1], np.float64))[:, None]
        for first in range(0, n, block):
            rows = np.minimum(np.arange(first, first + block), n - 1)
            # Rows beyond the last have no weight; they keep the shape, so that it is compiled once.
            root = np.where((np.arange(first, first + block) < n)[:, None], mass[rows], 0.0)
            parts = _designs(energy, marginals, jnp.asarray(k), jnp.asarray(rows))
            design = np.concatenate([np.asarray(part[0], np.float64) for part in parts], axis=-1)
            a = (root[:, :, None] * design).reshape(-1, width)
            b = (-root * way[rows]).reshape(-1)
            squares, products = squares + a.T @ a, products + a.T @ b
            total += float(b @ b)
    return squares, products, total


@eqx.filter_jit
def _designs(energy: Energy, marginals: Marginals, k: Any, rows: Any) -> list[Array]:
    """The gradients of each term's features at some individuals of the end of step k."""
    rows, here = jnp.atleast_1d(rows), marginals
    cloud = Cloud(here.points[k + 1][None], here.weights[k + 1][None])
    field = jax.tree.map(lambda a: a[k + 1][rows][None], here.field)
    middle = (0.5 * (here.times[k] + here.times[k + 1]))[None]
    x = here.points[k + 1][rows][None]
    return [term.design(x, middle, cloud, field) for term in energy.terms]  # pyright: ignore


def ridge_solution(squares: np.ndarray, products: np.ndarray, ridge: float) -> np.ndarray:
    """The coefficients of a ridge regression, penalised by the sizes of their features.

    Arguments:
        squares: A'A.
        products: A'b.
        ridge: the weight of the penalty.
    """
    sizes = np.sqrt(np.maximum(np.diag(squares), 1e-12 * np.diag(squares).max() + 1e-300))
    scaled = squares / np.outer(sizes, sizes) + ridge * np.eye(len(sizes))
    return np.linalg.solve(scaled, products / sizes) / sizes


def with_coefficients(energy: Energy, solution: np.ndarray) -> Energy:
    """The energy with the coefficients of a `solution`, in the order of its terms."""
    terms, first = [], 0
    for term in energy.terms:
        if term.diffusion is not None:
            terms.append(term.with_diffusion(float(solution[-1])))
            continue
        features: Any = getattr(term, "function")  # noqa: B009
        count = features.coefficients.shape[0]
        own = jnp.asarray(solution[first : first + count], float)
        function = eqx.tree_at(lambda f: f.coefficients, features, own)
        terms.append(with_fields(term, function=function))
        first += count
    return Energy(tuple(terms), energy.units)
