"""The result of `select`: which terms the data support, in rows and in sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._judging.scores import as_text
from stitchflow._objective.growth import Growth
from stitchflow._status import BadInput, require
from stitchflow._weak_form import constants
from stitchflow._weak_form.candidates import Term

# Nats of evidence that a term has to be worth: without it the data are then twenty times less
# probable, as for the further blocks of the weak form.
ASKED = 3.0
# That of terms whose forces are gradients: they stand in for what a V of few functions and the
# first order miss, an interaction to 19 nats in 14 simulated data sets without one, a potential
# that varies in time to 12 in 19. Chosen after a look at these (docs/identify.md).
GRADIENTS, FIRM = (Term.INTERACTION, Term.TIME), 20.0
# The share of all forces below which a term is not claimed: V is a sum of so few functions that it
# may miss as much, and another term then stands in for it.
SMALL = 0.1
# The share of all forces from which a term would have been seen, where it is said to be absent.
LARGE = 0.5
UNLIMITED = 100.0  # a share from which any amount may be missed

NAMES = {
    Term.ENTROPY: "random motion (entropy)",
    Term.TIME: "a potential that varies in time",
    Term.INTERACTION: "an interaction",
    Term.TURNING: "a turning part",
    Term.GROWTH: "growth",
}
ALIKE = {
    Term.ENTROPY: "near equilibrium the size of the noise cannot be told",
    Term.INTERACTION: "in a population that stays centred, attraction and a bowl look alike",
    Term.TURNING: "a round, centred population looks the same however fast it turns",
    Term.GROWTH: "growth in place and motion look alike where populations hardly move",
}


@dataclass(frozen=True)
class Support:
    """What the data say about one term.

    Arguments:
        term: "entropy", "time-varying potential", "interaction", "turning part" or "growth".
        supported: True, False, or None where the data cannot tell.
        gain: by which share the term lowers the squared error of predictions of what was left out,
            in units of the noise; None where it was not scored.
        low: the lower end of its 90 % interval.
        high: the upper end.
        evidence: the logarithm of how much more probable the data are with the term.
        share: what the term does, as a share of all forces; of growth its root mean square over
            the whole time, of the entropy the share of beta.
        missed: the share that the term could have and be missed, with 5 % probability; None where
            any amount could.
        unseen: what the predictions are of, "individuals" or "times".
        reason: why it was not scored, or why the data cannot tell.
    """

    term: str
    supported: bool | None = None
    gain: float | None = None
    low: float | None = None
    high: float | None = None
    evidence: float | None = None
    share: float | None = None
    missed: float | None = None
    unseen: str = ""
    reason: str = ""

    @staticmethod
    def judged(
        term: str,
        *,
        gain: float,
        low: float,
        high: float,
        evidence: float,
        share: float,
        error: float,
        unseen: str,
    ) -> Support:
        """The verdict on a term from its scores and the standard error of its typical shapes."""
        finite = np.isfinite([gain, low, high, evidence, share]).all()
        reach = constants.NINETY * error
        missed = reach if reach < UNLIMITED else None
        if not finite:
            return Support(term, reason="its equations have no solution")
        row = Support(term, False, gain, low, high, evidence, share, missed, unseen)
        asked, better = evidence > ASKED, low > 0.0
        if asked and better and share > SMALL:
            if Term(term) in GRADIENTS and evidence < FIRM:
                return row.untold(f"below {FIRM:g} nats a V that is too coarse explains it as well")
            return replace(row, supported=True)
        if asked and share > SMALL:
            return row.untold(f"the evidence asks for it, but unseen {unseen} do not")
        if missed is None or share + missed > LARGE:
            return row.untold(ALIKE.get(Term(term), "the data are too few"))
        return row

    def untold(self, reason: str) -> Support:
        """The same without an answer."""
        return replace(self, supported=None, reason=reason)

    @property
    def sentence(self) -> str:
        """The verdict in words, with its numbers."""
        name = NAMES[Term(self.term)]
        if self.gain is None or self.low is None or self.high is None:
            said = "not supported" if self.supported is False else "cannot tell"
            return f"{name}: {said}, because {self.reason}"
        gain, low, high = (100.0 * value for value in (self.gain, self.low, self.high))
        verb = "improves" if gain >= 0.0 else "worsens"
        turned = (low, high) if gain >= 0.0 else (-high, -low)
        scored = (
            f"{name} {verb} the prediction of unseen {self.unseen} by {abs(gain):.1f} %, interval "
            f"{turned[0]:.1f} to {turned[1]:.1f}"
        )
        if self.supported:
            return f"{scored}: supported{self._size()}"
        if self.supported is None:
            missed = "any amount" if self.missed is None else self._amount(self.missed)
            return f"{scored}: cannot tell, {self.reason} ({missed} may be missed)"
        seen = self._amount((self.share or 0.0) + (self.missed or 0.0))
        return f"{scored}: not supported ({seen} would have been seen)"

    def _size(self) -> str:
        if self.term == Term.ENTROPY or self.share is None:
            return ""
        return f", it is {self._amount(self.share)}"

    def _amount(self, share: float) -> str:
        """A share in words."""
        if self.term == Term.GROWTH:
            return f"a rate of {share:.2g} over the whole time"
        if share > 10.0:
            return "more than ten times all forces"
        return f"{100.0 * share:.0f} % of {'beta' if self.term == Term.ENTROPY else 'all forces'}"


class Selection(list[Support]):
    """Which terms the data support: rows that print as a table, an energy, and sentences.

    Arguments:
        rows: the rows, each a `Support`.
        energy_of: the sum of the terms that rows support.
        kind: who is seen at the times.
        misfit: the mean square of the residuals with all terms, where noise alone gives one; None
            where nothing could be estimated.
        note: what else has to be said.
    """

    def __init__(
        self,
        rows: list[Support],
        energy_of: Callable[[list[Support]], Energy],
        kind: str = "",
        misfit: float | None = None,
        note: str = "",
    ):
        super().__init__(rows)
        self.energy, self.kind, self.misfit = energy_of(rows), kind, misfit
        self.note = note

    def __getitem__(self, name: Any) -> Any:
        """The row of a term by its name, or by its place."""
        if not isinstance(name, str):
            return super().__getitem__(name)
        for row in self:
            if row.term == name:
                return row
        raise BadInput(f"the terms are {', '.join(row.term for row in self)}; got {name!r}")

    @property
    def growth(self) -> Growth | None:
        """`Growth()` where growth is supported, which is no term of an energy; else None."""
        return Growth() if self[str(Term.GROWTH)].supported else None

    @property
    def sentences(self) -> list[str]:
        """One sentence for each term, those that are supported first, and what is to be fitted."""
        order = {True: 0, False: 1, None: 2}
        rows = sorted(self, key=lambda row: order[row.supported])
        told = [f"{row.sentence[0].upper()}{row.sentence[1:]}." for row in rows]
        more = "" if self.growth is None else " with growth"
        last = f"The energy that the data support is {self.energy!r}{more}."
        return [*told, last, *([self.note] if self.note else [])]

    def to_dict(self) -> dict[str, Any]:
        """All rows and sentences as plain JSON."""
        return {"rows": [asdict(row) for row in self], "sentences": self.sentences}

    def to_pandas(self) -> Any:
        """A data frame with one row for each term."""
        return require("pandas", "data").DataFrame([asdict(row) for row in self])

    def __rich__(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.table import Table

        view = Table(box=box.SIMPLE_HEAD)
        view.add_column("term")
        for name in ("gain", "90 % interval", "evidence", "supported"):
            view.add_column(name, justify="right")
        said = {True: "yes", False: "no", None: "cannot tell"}
        for row in self:
            cells = ["-", "-", "-"]
            if row.gain is not None and row.low is not None and row.high is not None:
                ends = f"{100 * row.low:.1f} to {100 * row.high:.1f} %"
                cells = [f"{100 * row.gain:.1f} %", ends, f"{row.evidence:.1f}"]
            view.add_row(row.term, *cells, said[row.supported])
        return Group(view, *self.sentences)

    def __str__(self) -> str:
        return as_text(self, 100)

    __repr__ = __str__
