"""The protocols: what a fit is asked about individuals it has not seen, one entry for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from stitchflow._judging.judge import Judge, Score
from stitchflow._method.flow import Flow

Leg = tuple[int, list[int]]  # the starting time of individuals, and the times they are carried to


@dataclass(frozen=True, kw_only=True)
class Way(ABC):
    """How a protocol is judged.

    Times are numbers of snapshots of `judge.test`, and scores and floors are given by the time they
    belong to. A time whose score is empty has none.

    Attributes:
        unseen: whether it asks about times that were not trained on.
        neighbours: whether it asks about times that follow each other directly. Such a protocol
            asks something else when some of the times are left out.
    """

    unseen: bool = False
    neighbours: bool = False

    @abstractmethod
    def scores(self, judge: Judge, flow: Flow) -> dict[int, Score]:
        """The scores of a flow by the number of the time."""

    @abstractmethod
    def floors(self, judge: Judge) -> dict[int, Score]:
        """What a perfect model is expected to score, by the number of the time."""


@dataclass(frozen=True)
class ByMarginals(Way):
    """Samples of the fitted curve are compared with the individuals of some times.

    The floor of a time is the score of other individuals of the same population.

    Arguments:
        times: the numbers of the times, given the judge.
        unseen: as in `Way`.
        neighbours: as in `Way`.
    """

    times: Callable[[Judge], list[int]]

    def scores(self, judge: Judge, flow: Flow) -> dict[int, Score]:
        return {k: judge.drawn(flow, k) for k in self.times(judge)}

    def floors(self, judge: Judge) -> dict[int, Score]:
        return {k: judge.floor(k) for k in self.times(judge)}


@dataclass(frozen=True)
class ByDynamics(Way):
    """Held-out individuals are carried to later times by the dynamics alone.

    The floor is the score of the oracle from the same starts. Without an oracle it is the score of
    other individuals, unless the starting individuals are followed by their ids: a perfect model
    may then come closer than other individuals do, and the floor is unknown.

    Arguments:
        legs: pairs of a starting time and the times to reach, given the judge.
        destination: completes the sentence "held-out individuals driven to ...".
        unseen: as in `Way`.
        neighbours: as in `Way`.
    """

    legs: Callable[[Judge], list[Leg]]
    destination: str

    def scores(self, judge: Judge, flow: Flow) -> dict[int, Score]:
        legs = self.legs(judge)
        return {k: score for leg in legs for k, score in judge.carried(flow, *leg)}

    def floors(self, judge: Judge) -> dict[int, Score]:
        if judge.oracle is not None:
            if self not in judge.floors:
                judge.floors[self] = self.scores(judge, judge.oracle)
            return judge.floors[self]
        pairs = ((start, k) for start, ends in self.legs(judge) for k in ends)
        return {k: {} if judge.followed(start, k) else judge.floor(k) for start, k in pairs}


class ByTruth(Way):
    """The learned energy is compared with the true one, which only the benchmark knows.

    `unseen` and `neighbours` are as in `Way`.
    """

    def scores(self, judge: Judge, flow: Flow) -> dict[int, Score]:
        return {}

    def floors(self, judge: Judge) -> dict[int, Score]:
        return {}


def _next_snapshot(judge: Judge) -> list[Leg]:
    return [(k, [after]) for k, after in zip(judge.seen[:-1], judge.seen[1:], strict=True)]


def _all_later_snapshots(judge: Judge) -> list[Leg]:
    return [(judge.seen[0], judge.seen[1:])] if len(judge.seen) > 1 else []


def _beyond_the_last(judge: Judge) -> list[Leg]:
    return [(judge.seen[-1], judge.beyond)] if judge.seen and judge.beyond else []


class Protocol(StrEnum):
    """A name, the question it stands for, and how the question is judged.

    A member is a string and equal to its name. Tables and the report list protocols in this order.
    Among questions about the dynamics a harder one follows an easier one, because the verdict of
    the report uses the last one that has a score.

    >>> Protocol("one-step").question
    'held-out individuals driven to the next snapshot'
    """

    _value_: str
    question: str
    judged: Way

    def __new__(cls, name: str, question: str, judged: Way) -> Protocol:
        member = str.__new__(cls, name)
        member._value_, member.question, member.judged = name, question, judged
        return member

    MARGINAL = (
        "marginal",
        "samples of the curve against held-out individuals",
        ByMarginals(lambda judge: judge.seen),
    )
    ONE_STEP = (
        "one-step",
        "held-out individuals driven to the next snapshot",
        ByDynamics(_next_snapshot, "the next snapshot", neighbours=True),
    )
    ROLLOUT = (
        "rollout",
        "driven from the first snapshot to all later ones",
        ByDynamics(_all_later_snapshots, "all later snapshots from the first one alone"),
    )
    INTERPOLATE = (
        "interpolate",
        "a time inside the range that was not trained on",
        ByMarginals(lambda judge: judge.between, unseen=True),
    )
    FORECAST = (
        "forecast",
        "a time after the last trained one",
        ByDynamics(_beyond_the_last, "a time after the last one it was trained on", unseen=True),
    )
    ENERGY = ("energy", "the learned energy against the true one", ByTruth())


# The default protocols of `evaluate`.
PROTOCOLS = tuple(protocol for protocol in Protocol if protocol is not Protocol.ENERGY)
