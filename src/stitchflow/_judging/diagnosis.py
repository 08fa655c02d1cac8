"""The result of a diagnosis: its numbers, its verdict, and two sentences to quote."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from stitchflow._judging.change import MOST_GAINED, Change
from stitchflow._judging.identifiability import Identifiability

# A population is called a gradient flow if a static energy explains at least the first share of the
# motion and a rotating field removes at most the second share of the rest. It is called no gradient
# flow if the 90 % interval of the rotating field's share lies above the third.
EXPLAINED, REMOVED, TURNS = 0.8, 0.1, 0.05

# Two betas whose explained shares of the motion differ by less are not distinguished.
ALIKE = 0.02

GROWING = 1.5  # a change of counts that is reported


class Carried(NamedTuple):
    """W1 of held-out individuals after one gap.

    Arguments:
        energy: carried by the energy.
        standing_still: left where they are.
    """

    energy: float
    standing_still: float


@dataclass(frozen=True)
class Diagnosis:
    """The numbers of `diagnose`, and sentences to quote, which `str` returns.

    What is told on a curve (the first four, `profile` and `beta_interval`) is None or empty for
    methods without one.

    Arguments:
        explained: the share of the curve's motion that a static energy explains, the fitted one or,
            if that varies in time, the best one. It has no meaning without motion.
        dissipation: the loss of energy along the curve over that of a gradient flow; 1 for one.
        non_gradient: the share of the residual, on stretches of time that are left out, that a
            divergence-free field removes in addition to a potential. It is computed on paths that
            no energy has acted on; a residual below 5 % of the motion counts as 5 %.
        non_gradient_interval: its 90 % interval.
        profile: pairs of a beta and the share explained on left-out stretches with V fitted to it.
        beta: the fitted coefficient of the entropy.
        beta_interval: the betas that explain at least nearly as much as the fitted one; None
            without an entropy.
        spread: the relative spread of V, force and velocity over the members of an ensemble; empty
            for a single fit.
        masses: the counts of the snapshots relative to the first.
        time_varying: whether the fitted potential varies in time.
        change: the p-values of "the population rests" (`rest`) and "proportions change, but nobody
            moves" (`in_place`); None without individuals.
        one_step: W1 of held-out individuals after one gap, carried by the `energy` and
            `standing_still`; None without held-out individuals.
        identifiability: how far the data determine each term, and which joint change least.

    >>> Diagnosis(0.9, 1.0, 0.0, (0.0, 0.02)).is_gradient_flow is None  # nothing shows motion
    True
    """

    explained: float | None = None
    dissipation: float | None = None
    non_gradient: float | None = None
    non_gradient_interval: tuple[float, float] | None = None
    profile: tuple[tuple[float, float], ...] = ()
    beta: float = 0.0
    beta_interval: tuple[float, float] | None = None
    spread: dict[str, float] = field(default_factory=dict)
    masses: tuple[float, ...] = ()
    time_varying: bool = False
    change: Change | None = None
    one_step: Carried | None = None
    identifiability: Identifiability | None = None

    @property
    def moved(self) -> bool:
        """Whether the snapshots show motion: more than sampling noise and growth in place."""
        return self.change is not None and self.change.moved

    @property
    def predicts(self) -> bool | None:
        """Whether the energy predicts held-out individuals better than no motion, or None."""
        return None if self.one_step is None else self.one_step.energy < self.one_step[1]

    @property
    def is_gradient_flow(self) -> bool | None:
        """True, False, or None where the data do not decide.

        Without motion the data never decide. True also requires that the energy predicts held-out
        individuals better than no motion.
        """
        if not self.moved or self.explained is None:
            return None
        assert self.non_gradient is not None
        assert self.non_gradient_interval is not None
        if self.non_gradient_interval[0] > TURNS:
            return False
        explains = self.explained >= EXPLAINED and self.non_gradient <= REMOVED
        return True if explains and self.predicts else None

    @property
    def sentences(self) -> tuple[str, str]:
        """Two sentences on the verdict and on its certainty."""
        parts = [*self._about_energy(), *self._about_certainty()]
        second = "; ".join(parts)
        return self._verdict(), f"{second[0].upper()}{second[1:]}."

    def _verdict(self) -> str:
        if self.change is None:
            return (
                "Whether this is a gradient flow cannot be told: no individuals were at hand in "
                "which to look for motion."
            )
        if not self.change.changed:
            return (
                "There is no motion beyond sampling noise: individuals of one and the same "
                f"population differ as much between times (p = {self.change.rest:.2g}), so the "
                "data cannot tell whether this is a gradient flow."
            )
        if not self.change.moved:
            return (
                "Proportions change, but nobody needs to have moved: growth in place, nowhere "
                f"more than {MOST_GAINED:g} times that of elsewhere, explains the snapshots as "
                f"well (p = {self.change.in_place:.2g}), so the data cannot tell whether this is "
                "a gradient flow."
            )
        if self.explained is None:
            return (
                "The population moves; whether by a gradient flow was not tested, since the method "
                "has no curve."
            )
        return f"{self._shares()}: {self._reason()}."

    def _shares(self) -> str:
        assert self.explained is not None
        assert self.non_gradient is not None
        assert self.non_gradient_interval is not None
        energy = "The fitted energy explains none of the fitted motion"
        if self.explained > 0.0:
            energy = f"A static energy explains {100.0 * self.explained:.0f} % of the fitted motion"
        low, high = (max(100.0 * end, 0.0) for end in self.non_gradient_interval)
        share = 100.0 * self.non_gradient
        turning = f"{share:.0f} % of the rest" if share >= 0.5 else "none of the rest"
        return (
            f"{energy}, and a rotating field would remove {turning} (90 % interval "
            f"{low:.0f} to {high:.0f} %)"
        )

    def _reason(self) -> str:
        verdict = self.is_gradient_flow
        if verdict is not None:
            return (
                "this is consistent with a gradient flow"
                if verdict
                else "part of the motion is not a gradient flow"
            )
        if self.one_step is None:
            return (
                "whether this is a gradient flow cannot be told, since there is no score of "
                "held-out individuals by which to compare the energy with standing still"
            )
        if not self.predicts:
            return (
                "whether this is a gradient flow cannot be told, since the energy does not carry "
                "held-out individuals nearer to the next snapshot than standing still does"
            )
        return "the data leave open whether this is a gradient flow"

    def _about_energy(self) -> list[str]:
        if not self.moved:
            only = "only the ratio of V to beta can be told from a population at rest"
            unsure = "V and beta describe motion that need not have taken place"
            still = self.change is not None and not self.change.changed
            return [] if self.change is None else [only if still else unsure]
        parts = []
        if self.dissipation is not None:
            parts = [
                "along the fitted motion the energy decreases at "
                f"{100.0 * self.dissipation:.0f} % of the rate of an exact gradient flow"
            ]
        if self.one_step is not None:
            parts.append(
                f"held-out individuals carried to the next snapshot land at W1 = "
                f"{self.one_step.energy:.3g}, where standing still gives "
                f"{self.one_step.standing_still:.3g}"
            )
        return [*parts, *self._about_beta()]

    def _about_beta(self) -> list[str]:
        if self.beta_interval is None:
            return []
        low, high = self.beta_interval
        best, most = max(self.profile, key=lambda entry: entry[1])
        open_end = " or more" if high == self.profile[-1][0] else ""
        said = f"the strength of random motion was fitted as beta = {self.beta:.3g}"
        if low == high:
            return [f"{said}, and other values that were tried explain the motion less well"]
        said += (
            f", and any value from {low:.3g} to {high:.3g}{open_end} explains the motion as well"
        )
        if most > dict(self.profile)[self.beta] + ALIKE:
            said += f" or better ({best:.3g} best)"
        return [said]

    def _about_certainty(self) -> list[str]:
        parts = ["one fit cannot say how far V would differ with other data"]
        told = None if self.identifiability is None else self.identifiability.term("V")
        if told is not None:
            parts = [told.sentence]
        if self.spread:
            share = 100.0 * self.spread["force"]
            parts = [f"the force differs by {share:.0f} % between members"]
        if self.suggests_growth:
            parts.append(
                f"{self._about_counts()}; if that is how the population grew, and not how many "
                "were sampled, consider growth"
            )
        return parts

    def _about_counts(self) -> str:
        """How far the numbers of individuals differ between the times."""
        least, most = min(self.masses), max(self.masses)
        last = self.masses[-1]
        if last == most:
            return f"the last snapshot has {last:.2g} times as many individuals as the first"
        if last == least:
            return f"the last snapshot has {last:.0%} as many individuals as the first"
        return f"the largest snapshot has {most / least:.2g} times as many individuals as the least"

    @property
    def suggests_growth(self) -> bool:
        """Whether counts change by more than a factor of 1.5, so that `Growth` may help."""
        masses = np.asarray(self.masses)
        return bool(len(masses)) and bool(masses.max() / masses.min() > GROWING)

    def to_dict(self) -> dict[str, Any]:
        """All fields, the verdict and the sentences as plain numbers and texts, for JSON."""
        named = {name: getattr(self, name) for name in ("change", "one_step")}
        plain = {name: None if entry is None else entry._asdict() for name, entry in named.items()}
        found = self.identifiability
        plain["identifiability"] = None if found is None else found.to_dict()
        verdict = {"is_gradient_flow": self.is_gradient_flow, "sentences": list(self.sentences)}
        return {**asdict(self), **plain, **verdict}

    def __str__(self) -> str:
        more = () if self.identifiability is None else self.identifiability.sentences
        return "\n".join((*self.sentences, *more))

    __repr__ = __str__


def as_good(profile: list[tuple[float, float]], beta: float) -> tuple[float, float] | None:
    """The range of betas that explain at least nearly as much as the fitted one, which is in it.

    Arguments:
        profile: pairs of a beta and the share that it explains.
        beta: the fitted one.
    """
    if not profile:
        return None
    least = dict(profile)[beta] - ALIKE
    good = [other for other, share in profile if share >= least]
    return min(good), max(good)
