"""What differs between two conditions, and how sure that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, t

from stitchflow._data.conditions import place_of
from stitchflow._judging.scores import as_text
from stitchflow._method.contract import Fit
from stitchflow._method.spread import Spread
from stitchflow._status import BadInput, NotAvailable, require
from stitchflow._weak_form.contrast import Contrast, contrast
from stitchflow._weak_form.method import WeakFlow, WeakForm

LEVEL = 0.9  # of the intervals
MOST = 1000  # individuals at whose places conditions are compared
LARGE = 0.5  # of the shared force: a difference below it is one that could have been missed
SURE = 0.975  # two-sided 5 %, for a difference to hold across replicates: its direction is free


@dataclass(frozen=True)
class Difference:
    """One way in which two conditions differ.

    Arguments:
        quantity: what is compared: `force` along a dimension, `speed`, or `size`, the root mean
            square of the difference of forces as a share of that of the shared force.
        dimension: the dimension of a force; None elsewhere.
        value: the first condition minus the second, the mean over the individuals of both.
        low: the lower end of the 90 % interval.
        high: its upper end.
    """

    quantity: str
    dimension: int | None
    value: float
    low: float
    high: float


class Comparison(list[Difference]):
    """What differs between two conditions: rows that print as a table, and an answer in words.

    Arguments:
        rows: the rows, each a `Difference`.
        conditions: the names of the two conditions.
        differs: whether they differ: True, False, or None where the data cannot tell.
        sentences: the answer and what it rests on.
        contrast: the estimate behind it.
    """

    def __init__(
        self,
        rows: list[Difference],
        conditions: tuple[str, str],
        differs: bool | None,
        sentences: list[str],
        contrast: Contrast,
    ):
        super().__init__(rows)
        self.conditions, self.differs, self.sentences = conditions, differs, sentences
        self._contrast = contrast

    @property
    def replicated(self) -> bool:
        """Whether intervals come from resampling groups, rather than individuals alone."""
        return self._contrast.freedom > 0

    def potential(self, x: Any) -> Spread:
        """V of the first condition minus V of the second at points, with a standard error.

        Arguments:
            x: points (m, d). The mean of the difference over all individuals is zero.
        """
        known, groups = self._contrast.of(*self.conditions)
        return _wider(known.potential(x), known.rows(x) @ groups * known.units.energy)

    def force(self, x: Any) -> Spread:
        """The force of the first condition minus that of the second at points `x` (m, d)."""
        return force_difference(self._contrast, self.conditions, x)

    @property
    def multiple(self) -> float:
        """How many standard errors a 90 % interval reaches to each side."""
        return reach_of(self._contrast)

    def to_pandas(self) -> Any:
        """A data frame with one row for each quantity."""
        return require("pandas", "data").DataFrame([asdict(row) for row in self])

    def __rich__(self) -> Any:
        from rich.table import Table

        view = Table(title=" against ".join(self.conditions), caption=" ".join(self.sentences))
        for name in ("quantity", "difference", "90 % interval"):
            view.add_column(name, justify="left" if name == "quantity" else "right")
        for row in self:
            along = "" if row.dimension is None else f" along {row.dimension}"
            interval = f"{row.low:.3g} to {row.high:.3g}"
            view.add_row(f"{row.quantity}{along}", f"{row.value:.3g}", interval)
        return view

    def __str__(self) -> str:
        return as_text(self, 100)

    __repr__ = __str__


def compare(fit: Fit, a: Any, b: Any) -> Comparison:
    """Compare the energies of two conditions of one fit.

    The fit has a `PerCondition` term, and every quantity is that of `a` minus that of `b`. Where
    each condition has several groups, intervals come from leaving out one group after the other;
    otherwise they describe the draw of individuals alone, which is said. The conditions differ
    (`differs` is True) where the evidence asks for landscapes of their own and the difference
    holds across groups; they do not (False) where it does not ask and a difference of half of the
    shared force would have been seen.

    Arguments:
        fit: a fit of `sf.WeakForm` with a `PerCondition` term.
        a: the label of a condition.
        b: the label of another.

    Returns:
        Rows with intervals; `.differs`, `.sentences`, and `.potential(x)`, `.force(x)` with the
        difference at points.

    >>> found = sf.compare(fit, "treated", "control")      # doctest: +SKIP
    >>> found.differs, found.sentences[0]                  # doctest: +SKIP
    """
    flow, method = fit.flow, fit.method
    if not isinstance(flow, WeakFlow) or not isinstance(method, WeakForm) or not flow.conditions:
        reason = "it has one energy for all conditions; fit WeakForm with a PerCondition term"
        reason += " (--method weak-form --set conditions=true)"
        raise NotAvailable(method.name, "compare", reason)
    for label in (a, b):
        place_of(label, flow.conditions)
    pair = (str(a), str(b))
    if pair[0] == pair[1]:
        raise BadInput(f"a and b must be two conditions, got {pair[0]!r} twice")
    found = contrast(method, flow)
    data, rng = flow.data, np.random.default_rng(0)
    x = data.x[rng.permutation(len(data.x))[:MOST]]
    asked = bool(np.any(flow.uncertainty.difference(*pair).c))
    rows, told, holds = _rows(found, pair, x)
    missed = _missed(found, pair, x)
    differs = _answer(asked, holds, missed)
    return Comparison(rows, pair, differs, _sentences(pair, differs, asked, found, told), found)


def force_difference(found: Contrast, pair: tuple[str, str], x: Any) -> Spread:
    """The difference of forces at points with the larger of both standard errors, (m, d)."""
    known, groups = found.of(*pair)
    slopes = known.force_rows(x)
    return _wider(known.force(x), slopes @ groups * known.units.speed)


def _wider(spread: Spread, groups: np.ndarray) -> Spread:
    """A spread whose standard error is not below that of resampled groups, (..., parts)."""
    return Spread(spread.mean, np.maximum(spread.sd, np.sqrt((groups**2).sum(axis=-1))))


def reach_of(found: Contrast) -> float:
    """The multiple of a standard error that an interval of `LEVEL` reaches to each side."""
    tail = 0.5 + 0.5 * LEVEL
    return float(t.ppf(tail, found.freedom) if found.freedom else norm.ppf(tail))


def _rows(
    found: Contrast, pair: tuple[str, str], x: np.ndarray
) -> tuple[list[Difference], float, bool]:
    """The rows, how large the difference is, and whether it holds across groups."""
    known, groups = found.of(*pair)
    slopes, speed = known.force_rows(x), known.units.speed
    force, shared = known.force(x).mean, found.known.force(x).mean
    reach, scale = reach_of(found), float(np.sqrt((shared**2).sum(axis=1).mean()))

    def row(name: str, dimension: int | None, one: np.ndarray, value: float) -> Difference:
        """A row whose derivative by the coefficients is `one`, (f',)."""
        errors = [one @ known.root[:-1], one @ groups]
        half = reach * speed * float(np.sqrt(max((e**2).sum() for e in errors)))
        return Difference(name, dimension, value, value - half, value + half)

    rows = [
        row("force", k, slopes[:, k].mean(axis=0), float(force[:, k].mean()))
        for k in range(x.shape[1])
    ]
    own = [found.known.of(name).force(x).mean for name in pair]
    sizes = [np.sqrt((each**2).sum(axis=1)) for each in own]
    middle = own[0] / sizes[0][:, None] + own[1] / sizes[1][:, None]
    along = 0.5 * np.einsum("md,mdf->f", middle, slopes) / len(x)
    rows.append(row("speed", None, along, float((sizes[0] - sizes[1]).mean())))
    size = float(np.sqrt((force**2).sum(axis=1).mean()))
    along = np.einsum("md,mdf->f", force / max(size, 1e-300), slopes) / len(x)
    last = row("size", None, along / scale, size / scale)
    rows.append(Difference("size", None, last.value, max(last.low, 0.0), last.high))
    by_groups = speed * float(np.sqrt(((along @ groups) ** 2).sum()))
    holds = not found.freedom or size > t.ppf(SURE, found.freedom) * by_groups
    return rows, size / scale, bool(holds)


def _missed(found: Contrast, pair: tuple[str, str], x: np.ndarray) -> float:
    """The difference that could be missed, as a share of the shared force."""
    error = found.unseen(*pair).force(x).sd
    shared = (found.known.force(x).mean ** 2).sum(axis=1).mean()
    return float(norm.ppf(0.5 + 0.5 * LEVEL) * np.sqrt((error**2).sum(axis=1).mean() / shared))


def _answer(asked: bool, holds: bool, most: float) -> bool | None:
    """Whether conditions differ; None where replicates disagree or little could have been seen."""
    if asked:
        return True if holds else None
    return False if most < LARGE else None


def _sentences(
    pair: tuple[str, str], differs: bool | None, asked: bool, found: Contrast, size: float
) -> list[str]:
    a, b = pair
    if differs:
        amount = f"forces differ by {size:.0%} of the shared one"
        first = f"{a} and {b} have landscapes of their own: {amount}."
    elif asked:
        first = f"{a} and {b} move differently, but not beyond what groups of one condition do."
    elif differs is None:
        first = f"nothing says that {a} and {b} differ, but half of the force could be missed."
    else:
        first = f"{a} and {b} share one landscape as far as the data tell."
    if found.freedom:
        return [first, "Intervals come from leaving out one group after the other."]
    return [
        first,
        "Some condition has no replicates: intervals describe the draw of individuals alone, and "
        "any two dishes or donors may differ as much.",
    ]
