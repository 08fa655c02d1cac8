"""Which spare blocks and which range of pair terms the evidence asks for."""

from __future__ import annotations

import numpy as np

from stitchflow._weak_form import constants
from stitchflow._weak_form.bases import Block
from stitchflow._weak_form.evidence import Equations, Posterior, solve

# By how many spare blocks are used, and by the range of pair terms; the simplest first.
Priors = dict[tuple[int, float], list[Block]]


class Stages:
    """Spare blocks are allowed one after the other, each once those before it have settled.

    At a start from nothing they would explain what is only the error of the start. Blocks that are
    used `first` are the other way round: without them rounds would lead to a compromise of
    populations that move differently, so that they are left out, if at all, after these rounds.

    Arguments:
        priors: the prior for every choice.
    """

    def __init__(self, priors: Priors):
        levels = sorted({level for level, _ in priors})
        early = max((b.spare for blocks in priors.values() for b in blocks if b.first), default=0)
        upwards = [{low for low in levels if low <= level} for level in levels]
        self.stages = [s for s in upwards if early in s] if early else upwards
        if early and {early} not in self.stages:
            self.stages = [{early}, *self.stages]
        self.priors, self.number, self.rounds = priors, len(self.stages), 0

    @property
    def allowed(self) -> Priors:
        """The priors that may be chosen now."""
        return {key: blocks for key, blocks in self.priors.items() if key[0] in self.stages[0]}

    def ended(self, still: bool, most: int) -> bool:
        """Whether the last stage has ended; a stage that has is followed by the next.

        Arguments:
            still: whether the last round moved the estimate by less than its error.
            most: the largest number of rounds of the last stage.
        """
        self.rounds += 1
        if len(self.stages) == 1:
            return still or self.rounds >= most
        if still or self.rounds >= constants.FULL_ROUNDS:
            self.stages, self.rounds = self.stages[1:], 0
        return False


def shortest(
    equations: Equations,
    priors: Priors,
    learn_beta: bool,
    strengths: dict[tuple[int, float], np.ndarray],
    fixed: bool,
) -> tuple[tuple[int, float], dict[tuple[int, float], Posterior]]:
    """The shortest range of pair terms whose evidence is within three nats of the best, and all.

    Likewise, blocks that are spare are left out unless they gain as much, and three nats more for
    each kind of them.

    Evidence hardly depends on a range beyond the true one, because V takes over what W loses. The
    shortest one therefore fixes the gauge, and it does not jump between rounds.

    Arguments:
        equations: the rows.
        priors: the prior for every range, shortest first.
        learn_beta: whether beta is free.
        strengths: the precisions of the blocks to start from, for each range that has them.
        fixed: whether they stay as they are.
    """
    found = {
        span: solve(equations, blocks, learn_beta, strengths.get(span), fixed)
        for span, blocks in priors.items()
    }
    worth = {key: p.evidence - constants.NATS * key[0] for key, p in found.items()}
    best = max(worth.values())
    return next(span for span in found if worth[span] >= best - constants.NATS), found


def other_ranges(
    chosen: tuple[int, float], found: dict[tuple[int, float], Posterior]
) -> tuple[float, np.ndarray]:
    """The probability of the chosen range, and what the others add to the covariance.

    Evidence hardly tells ranges apart between which V and W differ by a bowl, so that an error
    given one range is too small. The covariance is that of all ranges together, each with the
    probability that its evidence gives it, around the estimate of the chosen one.

    Arguments:
        chosen: the chosen range.
        found: the solution for every range.

    Returns:
        The probability, and a factor of what is added, (f + 1, u).
    """
    same = {key: p for key, p in found.items() if key[0] == chosen[0]}
    best = max(p.evidence for p in same.values())
    sizes = {key: float(np.exp(p.evidence - best)) for key, p in same.items()}
    own, total = found[chosen], sum(sizes.values())
    columns = [np.zeros((len(own.mean) + 1, 0))]
    for key, p in same.items():
        share = sizes[key] / total
        if key != chosen and share > constants.NEGLIGIBLE:
            apart = np.append(p.mean - own.mean, p.step - own.step)
            columns.append(np.sqrt(share) * np.column_stack([p.root, apart]))
    return sizes[chosen] / total, np.concatenate(columns, axis=1)
