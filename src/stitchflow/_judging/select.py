"""Which terms of an energy do the data support? Scores on what is unseen, and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stitchflow._data.checks import check_data
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._energy.vector_field import VectorField
from stitchflow._judging.selection import ASKED, Selection, Support
from stitchflow._status import BadInput
from stitchflow._types import KeyLike
from stitchflow._weak_form import constants
from stitchflow._weak_form.candidates import Term
from stitchflow._weak_form.frame import Frame
from stitchflow._weak_form.nested import Kind, Nested, Solution
from stitchflow._weak_form.rest import at_rest

FOLDS = 5  # parts that are held out in turn
MOST = 20_000  # individuals of all times that are looked at
BASE = (Term.POTENTIAL, Term.ENTROPY)
ASKED_FOR = (Term.ENTROPY, Term.TIME, Term.INTERACTION, Term.TURNING, Term.GROWTH)


def select(data: Snapshots, key: KeyLike = 0) -> Selection:
    """Which terms the data support: a potential that varies in time, noise, W, turning, growth.

    A weak form with a static potential carries the individuals. To first order around it every
    term is linear, so that models with and without it are solved on the same averages. Each term
    is asked twice: how much more probable the data are with it (the evidence), and by how much it
    lowers the error of what was left out of the fit: individuals where they are followed, and the
    changes over some of the gaps between times elsewhere. Terms enter one after the other, the one
    with most evidence first, and each is judged beside all others that are supported.

    An interaction and a potential that varies in time are claimed with 20 nats of evidence only: in
    simulations V, which is a sum of few functions, let them stand in for what it missed.

    Arguments:
        data: snapshots of three or more times.
        key: a JAX key or an integer seed, which chooses what is left out together.

    Returns:
        A row for each term: its `gain` on what is unseen with an interval from `low` to `high`,
        and whether it is `supported`: True, False, or None where the data cannot tell. `.energy`
        has the terms to fit, `.sentences` say it in words.

    >>> found = sf.select(data)                                  # doctest: +SKIP
    >>> found.energy, found["interaction"].supported             # doctest: +SKIP
    """
    check_data(data)
    if len(data) < 3:
        raise BadInput(f"select needs three or more times, got {len(data)}")
    some, note = _leading(_some_of(data, key))
    try:
        judge, found = _judged(some, key)
        rest = at_rest(some)
        rows = [_row(judge, term, found, some, rest) for term in ASKED_FOR]
    except (BadInput, np.linalg.LinAlgError) as error:
        reason = str(error) if isinstance(error, BadInput) else "its equations have no solution"
        rows = [Support(str(term), reason=reason) for term in ASKED_FOR]
        return Selection(rows, energy_of, note=note)
    return Selection(rows, energy_of, str(judge.nested.kind), judge.nested.misfit, note)


def _some_of(data: Snapshots, key: KeyLike) -> Snapshots:
    """At most `MOST` individuals; those who are followed by ids stay whole."""
    if len(data.x) <= MOST:
        return data
    if data.paired:
        return data.split(MOST / len(data.x), key, by="id")[0]
    return data.subsample(max(MOST // len(data), 2), key)


def _leading(data: Snapshots) -> tuple[Snapshots, str]:
    """The data in the leading principal directions where there are many, and a note on it."""
    if data.dim <= constants.MOST_LEAD:
        return data, ""
    frame = Frame.of(data, constants.MOST_LEAD)
    note = f"Asked in the {constants.MOST_LEAD} leading of {data.dim} principal directions."
    return replace(data, x=frame.leading(data).astype(data.x.dtype)), note


def _paired(data: Snapshots) -> bool:
    """Whether anybody has others around."""
    within = np.zeros(len(data.x), int)
    if data.within is not None:
        within = np.unique(data.within, return_inverse=True)[1]
    return bool(np.bincount(within * len(data) + data.index).max() > 1)


def _row(judge: Judge, term: Term, found: tuple[Term, ...], data: Snapshots, rest: bool) -> Support:
    """The verdict on one term beside all others that were found."""
    if term not in judge.nested.terms:
        return _never(term, data, judge.nested.kind)
    others = tuple(other for other in found if other is not term)
    row = judge.score(others, term)
    if term is not Term.ENTROPY or row.supported:
        return row
    if rest:
        return row.untold("nothing changes beyond chance, which tells no rate")
    if judge.nested.kind is not Kind.OTHER and row.supported is False:
        return row.untold("averages hardly spread by it, but who is seen again fluctuates")
    return row


def _never(term: Term, data: Snapshots, kind: Kind) -> Support:
    """The answer on a term that these data cannot have."""
    if term is Term.GROWTH and kind is Kind.FOLLOWED:
        return Support(str(term), False, reason="everybody is seen at every time")
    if term is Term.GROWTH:
        return Support(str(term), False, reason="the same individuals are seen at every time")
    if term is Term.TURNING and data.dim == 1:
        return Support(str(term), False, reason="nothing can turn on a line")
    if term is Term.INTERACTION:
        return Support(str(term), False, reason="nobody has others around")
    return Support(str(term), reason="there are too few times")


def _judged(data: Snapshots, key: KeyLike) -> tuple[Judge, tuple[Term, ...]]:
    """The scores of all terms, and those that are supported.

    A field is cheap and lets the estimate tell whether the same individuals are seen again. Pairs
    take long. They are carried where the data cannot be explained without, and once more where an
    interaction was found: who is seen again is then told better.
    """
    asked, tries = Potential() + Entropy(), [Potential() + Entropy()]
    if _paired(data):
        asked = asked + Interaction()
    if data.dim > 1:
        asked = asked + VectorField(divergence_free=True)
        tries.insert(0, Potential() + Entropy() + VectorField(divergence_free=True))
    judge, carrying = _first((*tries, asked), asked, data, key)
    found = judge.found(BASE)
    if Term.INTERACTION in found and carrying is not asked:
        more = energy_of([Support(str(term), True) for term in found if term is not Term.TIME])
        try:
            again = Judge(Nested.of(more, asked, data, FOLDS, key))
        except (BadInput, np.linalg.LinAlgError):
            return judge, found
        return again, again.found(BASE)
    return judge, found


def _first(
    tries: Sequence[Energy], asked: Energy, data: Snapshots, key: KeyLike
) -> tuple[Judge, Energy]:
    """The equations around the first of some energies that explains the data."""
    failed: Exception = BadInput("no energy was tried")
    for carrying in tries:
        try:
            return Judge(Nested.of(carrying, asked, data, FOLDS, key)), carrying
        except (BadInput, np.linalg.LinAlgError) as error:
            failed = error
    raise failed


class Judge:
    """Scores of terms on the equations of all of them.

    Arguments:
        nested: the equations.
    """

    def __init__(self, nested: Nested):
        self.nested = nested
        self._all = nested.equations()
        self._without = [nested.equations(k) for k in range(len(nested.folds))]
        self._solved: dict[tuple[tuple[Term, ...], int | None], Solution] = {}

    def solved(self, terms: Sequence[Term], left_out: int | None = None) -> Solution:
        """A model with some terms, without the rows of a fold."""
        # The order in which ways to enter are chosen is that of the terms.
        key = (tuple(term for term in Term if term in terms), left_out)
        if key not in self._solved:
            equations = self._all if left_out is None else self._without[left_out]
            self._solved[key] = self.nested.solve(key[0], equations)
        return self._solved[key]

    def found(self, base: tuple[Term, ...]) -> tuple[Term, ...]:
        """The terms that are supported one after the other, most evidence first."""
        while True:
            rest = [t for t in self.nested.terms if t not in base]
            asking = [(self.evidence(base, term), term) for term in rest]
            asking = [(e, t) for e, t in asking if e > ASKED and self.score(base, t).supported]
            if not asking:
                return base
            base = (*base, max(asking)[1])

    def evidence(self, others: Sequence[Term], term: Term) -> float:
        """How much more probable the data are with a term, as a logarithm."""
        return self.solved([*others, term]).worth - self.solved(others).worth

    def score(self, others: Sequence[Term], term: Term) -> Support:
        """What a term is worth beside others."""
        less, more = [], []
        for k in range(len(self._without)):
            without, with_ = self.solved(others, k), self.solved([*others, term], k)
            # A row that others leave open tells little about a term, however large its error is.
            told = self.nested.told(without, k)
            less.append(told * self.nested.residuals(without, k) ** 2)
            more.append(told * self.nested.residuals(with_, k) ** 2)
        before, after = np.concatenate(less), np.concatenate(more)
        # Rows are independent of each other, so that they are the units of the interval.
        better, whole = before - after, before.sum()
        half = constants.NINETY * np.sqrt(len(better) * better.var()) / whole
        gain = better.sum() / whole
        # What other terms would do in its place is no part of it: a bowl of V for a wide W.
        with_, without = (self.solved(terms).posterior.mean for terms in ([*others, term], others))
        return Support.judged(
            str(term),
            gain=float(gain),
            low=float(gain - half),
            high=float(gain + half),
            evidence=self.evidence(others, term),
            share=self.nested.share(term, with_ - without),
            error=self.nested.missed(term, self.solved(others), self._all),
            unseen="individuals" if self.nested.kind is Kind.FOLLOWED else "times",
        )


def energy_of(rows: Sequence[Support]) -> Energy:
    """The sum of the terms that are supported; the noise stays unless it is not needed."""
    said = {row.term: row.supported for row in rows}
    energy = Energy((Potential(time_varying=said.get(Term.TIME) is True),))
    if said.get(Term.INTERACTION):
        energy = energy + Interaction()
    if said.get(Term.TURNING):
        energy = energy + VectorField(divergence_free=True)
    return energy if said.get(Term.ENTROPY) is False else energy + Entropy()
