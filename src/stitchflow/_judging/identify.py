"""From a fit and its data to what the data determine of the energy."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, Potential, Term
from stitchflow._judging.bands import longest_line
from stitchflow._judging.identifiability import (
    BOWL,
    FACTOR,
    Determined,
    Direction,
    Identifiability,
    Shown,
)
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput
from stitchflow._weak_form import constants
from stitchflow._weak_form.basis import Basis
from stitchflow._weak_form.information import Information
from stitchflow._weak_form.method import WeakFlow, WeakForm
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.rest import at_rest

MOST = 3_000  # individuals of all times that a new estimate is made from
MOST_DIMENSIONS = 10  # beyond, an estimate from averages takes longer than the fit
ALIKE = 0.9  # the squared cosine from which a direction has the name of another
POINTS = 60  # of a picture


def identifiability(fit: Fit, data: Snapshots | None = None) -> Identifiability:
    """How far data determine the energy of a fit.

    Arguments:
        fit: a fit with an energy. Where it has no standard errors of its own, the same terms are
            estimated by `WeakForm` from the data.
        data: the individuals; None takes those of the fit.

    Returns:
        The numbers and sentences, or the reason why nothing can be told.
    """
    try:
        form, weak, data, factor = _estimated(fit, data)
        flow = weak.flow
        assert isinstance(flow, WeakFlow)
        if not np.isfinite(flow.uncertainty.c).all():
            raise BadInput("the estimate of the energy is not finite")
        problem = Problem.of(form.energy, form.basis or Basis(), data)
        found = Information.of(problem, flow.uncertainty, factor)
    except BadInput as error:
        return Identifiability(reason=f"{error}")
    except np.linalg.LinAlgError:
        return Identifiability(reason="the equations of the weak form have no solution")
    learned = problem.learns_beta
    rest = learned and problem.crowd is None and at_rest(data)
    return _Look(found, data, rest).report(weak is not fit)


def _estimated(fit: Fit, data: Snapshots | None) -> tuple[WeakForm, Fit, Snapshots, float]:
    """The method, its fit, its data, and how many individuals there were for one of these."""
    flow, data = fit.flow, fit.data if data is None else data
    if isinstance(flow, WeakFlow) and isinstance(fit.method, WeakForm):
        data = flow.data if data is None else data
        if data.units == flow.units:
            return fit.method, fit, data, 1.0
    if data is None:
        raise BadInput("no individuals were at hand")
    if len(data) < 2:
        raise BadInput("one snapshot shows no change")
    if data.dim > MOST_DIMENSIONS:
        raise BadInput(f"{data.dim} dimensions are more than {MOST_DIMENSIONS}")
    assert fit.energy is not None
    method = WeakForm(_form(fit.energy))
    some = data if len(data.x) <= MOST else data.subsample(max(MOST // len(data), 2))
    return method, method.fit(some, 0, False), some, len(data.x) / len(some.x)


def _form(energy: Energy) -> Energy:
    """The terms of an energy as `WeakForm` learns them."""
    terms: list[Term] = []
    for term in energy.terms:
        learned = bool(getattr(term, "learn", False))
        if isinstance(term, Entropy):
            terms.append(Entropy(None if learned else energy.beta, learn=learned))
        elif isinstance(term, Potential) and learned:
            terms.append(Potential(time_varying=term.time_varying))
        elif isinstance(term, Interaction) and learned:
            terms.append(Interaction(radial=term.radial))
        elif isinstance(term, VectorKernel) and learned:
            terms.append(VectorKernel())
        else:
            raise BadInput(f"{term!r} is not of the terms that averages tell")
    return Energy(tuple(terms))


class _Look:
    """What is read from an `Information`.

    Arguments:
        found: the information.
        data: the individuals.
        rest: whether nothing changes beyond chance.
    """

    def __init__(self, found: Information, data: Snapshots, rest: bool):
        self.found, self.known, self.data, self.rest = found, found.known, data, rest
        self.parts = {"V": slice(0, self.known.potential_count)}
        for kind, name in (("interaction", "W"), ("radial", "K"), ("turning", "K")):
            pair = self.known.pair_part(kind)
            if pair is not None:
                first = self.parts[name].start if name in self.parts else pair[1].start
                self.parts[name] = slice(first, pair[1].stop)
        if not self.known.potential_count:
            del self.parts["V"]
        self.root = found.root
        if rest:
            factor = constants.UNKNOWN_FACTOR * np.append(self.known.c, 1.0)
            self.root = np.column_stack([self.root, factor])

    def report(self, estimated: bool) -> Identifiability:
        units, pairs = self.known.units, self.known.drift.only(PairPush)
        change, least = self.least()
        directions = (self.bowl(), self.common_factor())
        return Identifiability(
            terms=tuple(self.terms()),
            directions=tuple(found for found in directions if found is not None),
            least=least,
            shown=tuple(self.shown(change)),
            reach=pairs[0][0].splines.reach / constants.REACH * units.length if pairs else None,
            estimated=estimated,
        )

    def terms(self) -> list[Determined]:
        """The larger one of the fit's standard errors and those of the data, of every term."""
        found, speed = [], self.known.units.speed
        for name, part in self.parts.items():
            products = (self.found.push if name == "V" else self.found.pairs)[part, part]
            c = self.known.c[part]
            roots = (root[:-1][part] for root in (self.known.root, self.root))
            error = max(float(np.sqrt(max(((products @ r) * r).sum(), 0.0))) for r in roots)
            size = float(np.sqrt(max(c @ products @ c, 0.0)))
            found.append(Determined(name, size * speed, error * speed, self.found.size * speed))
        if self.known.log_beta is not None and (self.known.root[-1] ** 2).sum() > 0.0:
            beta = float(np.exp(self.known.log_beta) * self.known.units.energy)
            sd = max(float(np.sqrt((root[-1] ** 2).sum())) for root in (self.known.root, self.root))
            found.append(Determined("beta", beta, beta * sd))
        return found

    def bowl(self) -> Direction | None:
        """V + a|x|^2 with W - a r^2."""
        change = self.found.bowl()
        if change is None:
            return None
        amount = self.found.error(change)
        own = np.zeros_like(change)
        own[self.parts["V"]] = change[self.parts["V"]]
        error = amount * self.found.effect(own) / max(self.found.size, 1e-300)
        return Direction(BOWL, error, amount / self.known.units.duration)

    def common_factor(self) -> Direction | None:
        """V, W, K and beta by one factor."""
        change = self.found.common_factor()
        if change is None:
            return None
        error = self.found.error(change)
        return Direction(FACTOR, max(error, constants.UNKNOWN_FACTOR) if self.rest else error)

    def _products(self) -> np.ndarray:
        """The size of changes: squares of each term's relative effect, and of log beta."""
        products = np.zeros((len(self.known.c) + 1,) * 2)
        for part in self.parts.values():
            products[part, part] = self.found.push[part, part] / max(self.found.size**2, 1e-300)
        products[-1, -1] = 1.0
        return products

    def least(self) -> tuple[np.ndarray, Direction]:
        """The change of one standard error that is largest, and its name."""
        products = self._products()
        sizes, ways = np.linalg.eigh(self.root.T @ products @ self.root)
        change, size = self.root @ ways[:, -1], float(np.sqrt(max(sizes[-1], 0.0)))
        change = change * np.sign(change @ products @ np.append(self.known.c, 1.0) + 1e-300)
        shares = {n: change[p] @ products[p, p] @ change[p] for n, p in self.parts.items()}
        shares |= {"beta": change[-1] ** 2} if self.root[-1].any() else {}
        whole = max(sum(shares.values()), 1e-300)
        parts = tuple((n, float(np.sqrt(max(share, 0.0)))) for n, share in shares.items())
        name = max(parts, key=lambda part: part[1])[0]
        for other, way in ((BOWL, self.found.bowl()), (FACTOR, self.found.common_factor())):
            if way is not None:
                cosine = (way @ products @ change) ** 2 / (way @ products @ way)
                name = other if cosine > ALIKE * whole else name
        return change, Direction(name, size, None, parts)

    def shown(self, change: np.ndarray) -> list[Shown]:
        """V along the longest axis of the data, and W, with a change of coefficients."""
        found, units, known = [], self.known.units, self.known
        landscape = known.drift.landscape
        if landscape is not None and landscape.powers == 1:
            line, s, _ = longest_line(self.data, POINTS)
            rows = known.rows(line)
            values = (rows @ known.c[self.parts["V"]], rows @ change[self.parts["V"]])
            found.append(_shown("V", s, *(v * units.energy for v in values)))
        pair = known.pair_part("interaction")
        if pair is not None:
            r = np.linspace(0.0, pair[0].reach, POINTS)
            values = (pair[0].rows(r) @ known.c[pair[1]], pair[0].rows(r) @ change[pair[1]])
            found.append(_shown("W", r * units.length, *(v * units.energy for v in values)))
        return found


def _shown(term: str, *arrays: Any) -> Shown:
    return Shown(term, *(tuple(float(v) for v in array) for array in arrays))
