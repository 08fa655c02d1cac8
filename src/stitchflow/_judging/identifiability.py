"""How far data determine the terms of an energy: the result, in numbers and in sentences."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

# Standard errors relative to the estimate. Below the first the 90 % interval is within a third of
# it; above the second it reaches from a fifth to nearly twice, so that even the sign may be wrong.
SHARP, ROUGH = 0.2, 0.5
# A term that is not told from zero, but whose error is below this share of all forces, is small.
SMALL = 0.1
NINETY = 1.645  # standard errors on each side of a 90 % interval
UNLIMITED = 10.0  # an error of more than this many sizes is no limit

GAUGE = (
    "By convention V has mean zero over the individuals and W goes to zero far away: no data tell "
    "these constants."
)
FORCES = {
    "V": "the force of V on the individuals",
    "W": "the force of W between pairs",
    "K": "the velocity K between pairs",
    "beta": "beta",
}


@dataclass(frozen=True)
class Determined:
    """How far one term is determined.

    Arguments:
        term: "V", "W", "K" or "beta".
        size: the estimate in the user's units: of V the root mean square of the force over the
            individuals, of W and K that of W' and K over the distances of pairs; or beta.
        error: the standard error of the same.
        whole: the root mean square of all forces on an individual; None for beta.

    >>> from stitchflow._judging.identifiability import Determined
    >>> Determined("V", 2.0, 0.2, 2.0).level
    'determined'
    """

    term: str
    size: float
    error: float
    whole: float | None = None

    @property
    def share(self) -> float:
        """The standard error relative to the estimate; of beta, that of its logarithm."""
        return self.error / max(self.size, 1e-300)

    @property
    def level(self) -> str:
        """`determined`, `roughly determined`, `small` or `not determined`."""
        if self.share < SHARP:
            return "determined"
        if self.share < ROUGH:
            return "roughly determined"
        little = self.whole is not None and self.size + self.error < SMALL * self.whole
        return "small" if little else "not determined"

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % interval of beta, which is one of its logarithm."""
        factor = float(np.exp(np.minimum(NINETY * self.share, 700.0)))
        return self.size / factor, self.size * factor

    @property
    def sentence(self) -> str:
        if self.level == "small":
            share = 100.0 * (self.size + NINETY * self.error) / (self.whole or 1.0)
            return f"{self.term} is small: {FORCES[self.term]} is below {share:.0f} % of all forces"
        if self.term == "beta":
            low, high = self.interval
            by = " by these data" if self.level == "not determined" else ""
            return (
                f"beta is {self.level}{by}: {self.size:.3g}, 90 % interval {low:.2g} to {high:.2g}"
            )
        if self.level == "not determined":
            return (
                f"{self.term} is not determined by these data: {FORCES[self.term]} is "
                f"{self.size:.2g} ± {self.error:.2g}"
            )
        known = f"{FORCES[self.term]} is known to {100.0 * self.share:.0f} %"
        return f"{self.term} is {self.level}: {known}"


@dataclass(frozen=True)
class Direction:
    """A joint change of several terms, and how far the data let it go.

    Arguments:
        name: "attraction or a bowl", "a common factor", or the term that changes most.
        error: one standard error in this direction with all else fixed, so that it is at least as
            large where other things change as well. Of the common factor it is that of its
            logarithm, else the change of the forces relative to all forces.
        amount: of "attraction or a bowl", the standard error of a in V + a|x|^2 with W - a r^2, in
            the user's units; None for others.
        parts: how far each term changes: its forces relative to all forces, and log beta.
    """

    name: str
    error: float
    amount: float | None = None
    parts: tuple[tuple[str, float], ...] = ()

    @property
    def determined(self) -> bool:
        """Whether the standard error is below half of the size."""
        return self.error < ROUGH

    @property
    def sentence(self) -> str:
        if self.name == BOWL:
            said = (
                f"attraction or a bowl: V + a|x|² with W − a r² is told from V and W beyond "
                f"a = {self.amount:.2g} (one standard error, all else fixed), {_of_all(self.error)}"
            )
            open_end = "; how much of the pull is V's and how much W's is then a convention"
            return said if self.determined else said + open_end
        if self.name == FACTOR:
            if self.determined:
                known = f"{max(100.0 * self.error, 0.1):.2g} %, all else fixed"
                return f"the common factor of all forces and beta is known to {known}"
            return (
                "V, W and beta by a common factor would look the same, as at rest: their ratios "
                f"are told, their size is known to a factor of {np.exp(min(self.error, 9.0)):.2g}"
            )
        return f"{self.name}, {_of_all(self.error)}"


BOWL, FACTOR = "attraction or a bowl", "a common factor"


def _of_all(error: float) -> str:
    if error > UNLIMITED:
        return f"more than {UNLIMITED:g} times all forces"
    return f"{error:.1f} times all forces" if error >= 1 else f"{100.0 * error:.2g} % of all forces"


@dataclass(frozen=True)
class Shown:
    """A term, and how it changes by one standard error in the least determined direction.

    Arguments:
        term: "V" or "W".
        at: places along the longest axis of the data for V, distances for W.
        estimate: the value there.
        change: what is added by one standard error.
    """

    term: str
    at: tuple[float, ...]
    estimate: tuple[float, ...]
    change: tuple[float, ...]


@dataclass(frozen=True)
class Identifiability:
    """How far the data determine an energy; `sf.diagnose(fit, data).identifiability`.

    Standard errors are the larger ones of two: those of the fit, and those that remain where W and
    K may have any range and be as strong as all forces. Smoothness is assumed in both.

    Arguments:
        terms: every term of the energy.
        directions: joint changes that often cannot be told, and how far they go.
        least: the least determined direction of all.
        shown: what V and W look like along it.
        reach: the largest distance of pairs from which W is told; None without W or K.
        reason: why nothing can be told; empty where something can.
        estimated: whether the energy was estimated anew, because the fit has no standard errors.

    >>> print(sf.Identifiability(reason="there is no data"))
    What the data determine: cannot tell, there is no data.
    """

    terms: tuple[Determined, ...] = ()
    directions: tuple[Direction, ...] = ()
    least: Direction | None = None
    shown: tuple[Shown, ...] = ()
    reach: float | None = None
    reason: str = ""
    estimated: bool = False

    def term(self, name: str) -> Determined | None:
        """One of the terms, or None where the energy has no such term.

        Arguments:
            name: "V", "W", "K" or "beta".
        """
        return next((found for found in self.terms if found.term == name), None)

    def direction(self, name: str) -> Direction | None:
        """One of the named directions, or None where the energy has no such direction.

        Arguments:
            name: "attraction or a bowl" or "a common factor".
        """
        return next((found for found in self.directions if found.name == name), None)

    @property
    def determined(self) -> bool | None:
        """Whether every term and direction is at least roughly determined; None if unknown."""
        if self.reason:
            return None
        fair = all(found.level != "not determined" for found in self.terms)
        return fair and all(found.determined for found in self.directions)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The terms, the directions, the least determined one, and what is assumed."""
        if self.reason:
            return (f"What the data determine: cannot tell, {self.reason}.",)
        lines = [_sentence(found.sentence for found in self.terms)]
        if self.directions:
            lines.append(_sentence(found.sentence for found in self.directions))
        if self.least is not None:
            lines.append(self._about_least(self.least))
        lines.append(GAUGE)
        beyond = "" if self.reach is None else f" and pairs farther apart than {self.reach:.3g}"
        lines.append(f"Places where nobody was{beyond} follow from the smoothness assumed.")
        if self.estimated:
            lines.append(
                "The fit has no standard errors: these are of a weak form of the same terms."
            )
        return tuple(lines)

    def _about_least(self, least: Direction) -> str:
        forces = [f"{name} by {_of_all(part)}" for name, part in least.parts if name != "beta"]
        noise = [
            f"beta by a factor of {np.exp(p):.2g}" for name, p in least.parts if name == "beta"
        ]
        return (
            f"Least determined is {least.name}: one standard error changes "
            f"{' and '.join([', '.join(forces), *noise])}."
        )

    def to_dict(self) -> dict[str, Any]:
        """All numbers, with words and sentences, as plain JSON."""
        plain = asdict(self)
        for entry, found in zip(plain["terms"], self.terms, strict=True):
            entry |= {"share": found.share, "level": found.level}
        return plain | {"determined": self.determined, "sentences": list(self.sentences)}

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def _sentence(parts: Any) -> str:
    """Clauses as one sentence."""
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
