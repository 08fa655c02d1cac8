"""What the numbers mean, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from stitchflow._judging.diagnosis import Diagnosis
from stitchflow._judging.protocols import ByDynamics, Protocol
from stitchflow._judging.scores import Row, Scores, in_words
from stitchflow.rivals import Nearest, OTLinear

# Times the floor: as good as other individuals of the same populations, and near to it.
AS_GOOD, NEAR = 1.15, 1.5

# Straight lines are beaten, or met as far as such scores are known: their draws differ by as much.
AS_LINES = 1.05

GOOD, FAIR, POOR, OPEN = "good", "fair", "poor", "open"  # how a finding is coloured

YES, NEARLY, NO, CANNOT_TELL = "yes", "nearly", "no", "cannot tell"
PREDICTS = "predicts"
STILL = "no better than standing still"
LINES = "worse than straight lines"

# Where the protocols that ask about the dynamics carry individuals to, the hardest question first.
DESTINATIONS: dict[str, str] = {
    protocol: protocol.judged.destination
    for protocol in reversed(Protocol)
    if isinstance(protocol.judged, ByDynamics)
}


@dataclass(frozen=True)
class Finding:
    """The answer to one question: a badge, how it is coloured, and a sentence or two."""

    question: str
    mark: str
    badge: str
    sentence: str


class Worst(NamedTuple):
    """The time of the worst score relative to its floor, where that is far worse than usual.

    Arguments:
        time: the time.
        ratio: its score over its floor.
        said: a clause about it.
    """

    time: float
    ratio: float
    said: str


def findings(
    scores: Scores, baselines: dict[str, Scores], diagnosis: Diagnosis | None
) -> list[Finding]:
    """Four questions: does it fit, does it predict, is it a gradient flow, is it determined?"""
    return [
        fits(scores),
        predicts(scores, baselines),
        gradient_flow(diagnosis),
        certainty(diagnosis),
    ]


def row_of(scores: Scores, protocol: str, time: float | None = None) -> Row | None:
    """The score at a time by W1, or the mean over times."""
    for row in scores:
        if (row.protocol, row.metric, row.time) == (protocol, "w1", time):
            return row
    return None


def worst_time(scores: Scores, protocol: str) -> Worst | None:
    """The worst time of a protocol, also the first one, if it is far from its floor.

    A mean leaves out the first time and hides a bad time among good ones.
    """
    rows = [row for row in scores if (row.protocol, row.metric) == (protocol, "w1")]
    known = {r.time: r.value / max(r.floor, 1e-300) for r in rows if r.time is not None and r.floor}
    mean = row_of(scores, protocol)
    if len(known) < 2 or mean is None or not mean.floor:
        return None
    time = max(known, key=lambda t: known[t])
    if known[time] <= max(NEAR, 1.3 * mean.value / mean.floor):
        return None
    said = f"worst at t = {time:g}, with {known[time]:.1f} times the floor of that time"
    return Worst(time, known[time], said)


def fits(scores: Scores) -> Finding:
    question, row = "Does the curve match the data?", row_of(scores, Protocol.MARGINAL)
    if row is None or row.floor is None:
        return Finding(question, OPEN, CANNOT_TELL, "No held-out individuals were at hand to tell.")
    ratio = row.value / max(row.floor, 1e-300)
    words = {
        GOOD: "about as close as other individuals of the same populations are",
        FAIR: "close, but other individuals of the same populations are closer",
        POOR: "clearly farther than other individuals of the same populations are",
    }
    mark = GOOD if ratio <= AS_GOOD else FAIR if ratio <= NEAR else POOR
    badge = {GOOD: YES, FAIR: NEARLY, POOR: NO}[mark]
    sentence = (
        f"Samples of the fitted curve are at a distance (W1) of {row.value:.3g} from held-out "
        f"individuals{_over(scores, Protocol.MARGINAL)}, {ratio:.2f} times the floor of "
        f"{row.floor:.3g}: {words[mark]}."
    )
    worst = worst_time(scores, Protocol.MARGINAL)
    if worst is not None:
        sentence += f" It is {worst.said}."
        if mark != POOR:
            mark, badge = FAIR, f"{badge}, but not at t = {worst.time:g}"
    return Finding(question, mark, badge, sentence)


def predicts(scores: Scores, baselines: dict[str, Scores]) -> Finding:
    """The hardest protocol there are scores of, against standing still and straight lines."""
    question = "Does the energy predict where individuals go?"
    for protocol in DESTINATIONS:
        row, still, lines = (
            None if part is None else row_of(part, protocol)
            for part in (scores, baselines.get(Nearest.name), baselines.get(OTLinear.name))
        )
        if row is not None and still is not None:
            break
    else:
        return Finding(question, OPEN, CANNOT_TELL, "Nothing was held out that could tell.")
    mark, badge = _predicted(row, still.value, None if lines is None else lines.value)
    sentences = [_carried(scores, row, still.value, None if lines is None else lines.value)]
    if badge == CANNOT_TELL:
        sentences.append("Standing still is that close too, so there is no motion to predict.")
    behind = _times_behind(scores, baselines[Nearest.name], protocol)
    if behind and badge == PREDICTS:
        mark, badge = FAIR, f"{badge}, but not at t = {in_words(behind)}"
    if behind and badge != STILL:
        sentences.append(f"At t = {in_words(behind)} standing still is closer.")
    sentences += _other_questions(scores, baselines[Nearest.name], protocol)
    return Finding(question, mark, badge, " ".join(sentences))


def _predicted(row: Row, still: float, lines: float | None) -> tuple[str, str]:
    """Colour and badge of a mean score beside those of the trivial methods."""
    near = row.floor is not None and row.value <= AS_GOOD * row.floor
    if near and row.floor is not None and still <= AS_GOOD * row.floor and row.value < still:
        return OPEN, CANNOT_TELL
    if row.value >= still:
        return POOR, STILL
    if lines is not None and row.value > AS_LINES * lines and not near:
        return FAIR, LINES
    return GOOD, PREDICTS


def _carried(scores: Scores, row: Row, still: float, lines: float | None) -> str:
    parts = [f"standing still gives {still:.3g}"]
    if lines is not None:
        parts.append(f"straight lines {lines:.3g}")
    if row.floor is not None:
        best = ", about what the fit reaches" if row.value <= AS_GOOD * row.floor else ""
        parts.append(f"and a perfect model about {row.floor:.3g}{best}")
    return (
        f"Held-out individuals that the energy carries to {DESTINATIONS[row.protocol]} arrive at a "
        f"distance (W1) of {row.value:.3g} from those observed there"
        f"{_over(scores, row.protocol)}; {', '.join(parts)}."
    )


def _over(scores: Scores, protocol: str) -> str:
    """Which times a mean is taken over."""
    times = scores.averaged(protocol)
    if len(times) > 1:
        return f", in the mean over t = {in_words(times)}"
    return f" at t = {times[0]:g}" if times else ""


def _times_behind(scores: Scores, still: Scores, protocol: str) -> list[float]:
    """Times at which standing still is closer than the fit."""
    found = []
    for t in scores.averaged(protocol):
        own, other = row_of(scores, protocol, t), row_of(still, protocol, t)
        if own is not None and other is not None and own.value > other.value:
            found.append(t)
    return found


def _other_questions(scores: Scores, still: Scores, asked: str) -> list[str]:
    """Easier questions about the dynamics that the fit answers no better than standing still."""
    sentences = []
    for protocol, where in DESTINATIONS.items():
        own, other = row_of(scores, protocol), row_of(still, protocol)
        if protocol != asked and own is not None and other is not None and own.value >= other.value:
            pair = f"({own.value:.3g}, standing still {other.value:.3g})"
            sentences.append(f"Carried to {where}, they are no closer than standing still {pair}.")
    return sentences


def gradient_flow(diagnosis: Diagnosis | None) -> Finding:
    question = "Is it a gradient flow?"
    if diagnosis is None:
        words = "This method has no energy that could be tested."
        return Finding(question, OPEN, CANNOT_TELL, words)
    verdict = diagnosis.is_gradient_flow
    mark = {True: GOOD, False: POOR, None: OPEN}[verdict]
    badge = {True: YES, False: NO, None: CANNOT_TELL}[verdict]
    return Finding(question, mark, badge, diagnosis.sentences[0])


def certainty(diagnosis: Diagnosis | None) -> Finding:
    question = "Do the data determine the energy?"
    if diagnosis is None:
        words = "One fit of this method cannot say."
        return Finding(question, OPEN, CANNOT_TELL, words)
    words, spread = diagnosis.sentences[1], diagnosis.spread.get("force")
    found = diagnosis.identifiability
    if spread is None and found is not None and found.determined is not None:
        levels = {term.level for term in found.terms}
        sharp = levels <= {"determined", "small"}
        mark = POOR if not found.determined else GOOD if sharp else FAIR
    elif spread is None:
        hint = " Several bootstrapped fits would say more: `stitchflow fit --ensemble 8`."
        return Finding(question, OPEN, CANNOT_TELL, words + hint)
    else:
        mark = GOOD if spread < 0.2 else FAIR if spread < 0.5 else POOR
    badge = {GOOD: YES, FAIR: "roughly", POOR: NO}[mark]
    return Finding(question, mark, badge, words)


def support(selection: dict[str, Any]) -> Finding:
    """Which terms the data support, from what `stitchflow fit --select` has stored."""
    answers = {row["term"]: row["supported"] for row in selection["rows"]}
    found = [term for term, supported in answers.items() if supported]
    open_ = [term for term, supported in answers.items() if supported is None]
    badge = ", ".join(found) if found else "a landscape alone"
    mark = OPEN if open_ else GOOD
    return Finding(
        "Which terms do the data support?", mark, badge, " ".join(selection["sentences"])
    )
