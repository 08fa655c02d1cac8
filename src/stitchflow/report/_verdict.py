"""What the numbers mean, in plain words."""

from __future__ import annotations

from dataclasses import dataclass

from stitchflow._judging.diagnosis import Diagnosis
from stitchflow._judging.protocols import ByDynamics, Protocol
from stitchflow._judging.scores import Row, Scores
from stitchflow._judging.trivial import TRIVIAL
from stitchflow.rivals import Nearest

# Times the floor: as good as other individuals of the same populations, and near to it.
AS_GOOD, NEAR = 1.15, 1.5

GOOD, FAIR, POOR, OPEN = "good", "fair", "poor", "open"

# Where the protocols that ask about the dynamics carry individuals to, the hardest question first.
DESTINATIONS: dict[str, str] = {
    protocol: protocol.judged.destination
    for protocol in reversed(Protocol)
    if isinstance(protocol.judged, ByDynamics)
}


@dataclass(frozen=True)
class Finding:
    """The answer to one question: a mark and a sentence or two."""

    question: str
    mark: str
    sentence: str


def findings(
    scores: Scores, baselines: dict[str, Scores], diagnosis: Diagnosis | None
) -> list[Finding]:
    """Four questions: does it fit, does it predict, is it a gradient flow, how sure is that?"""
    return [
        fits(scores),
        predicts(scores, baselines),
        gradient_flow(diagnosis),
        certainty(scores, diagnosis),
    ]


def mean_of(scores: Scores, protocol: str) -> Row | None:
    for row in scores:
        if (row.protocol, row.metric, row.time) == (protocol, "w1", None):
            return row
    return None


def fits(scores: Scores) -> Finding:
    question, row = "Does the curve match the data?", mean_of(scores, Protocol.MARGINAL)
    if row is None or row.floor is None:
        return Finding(question, OPEN, "No held-out individuals were at hand to tell.")
    ratio = row.value / max(row.floor, 1e-300)
    words = {
        GOOD: "about as close as other individuals of the same populations come",
        FAIR: "close, but other individuals of the same populations come closer",
        POOR: "clearly farther than other individuals of the same populations",
    }
    mark = GOOD if ratio <= AS_GOOD else FAIR if ratio <= NEAR else POOR
    sentence = (
        f"Samples of the fitted curve are at a distance (W1) of {row.value:.3g} from held-out "
        f"individuals, {ratio:.2f} times the floor of {row.floor:.3g}: {words[mark]}."
    )
    return Finding(question, mark, sentence)


def predicts(scores: Scores, baselines: dict[str, Scores]) -> Finding:
    """The hardest protocol there are scores of, against the better of the trivial methods."""
    question = "Does the energy predict where individuals go?"
    row, others = None, {}
    for protocol in DESTINATIONS:
        row = mean_of(scores, protocol)
        others = {n: r for n, s in baselines.items() if (r := mean_of(s, protocol)) is not None}
        if row is not None and others:
            break
    if row is None or not others:
        return Finding(question, OPEN, "Nothing was held out that could tell.")
    best = min(others, key=lambda name: others[name].value)
    rival = others[best].value
    change = 100.0 * (1.0 - row.value / max(rival, 1e-300))
    near = row.floor is not None and row.value <= AS_GOOD * row.floor
    mark = GOOD if change > 0.0 or near else FAIR if change > -15.0 else POOR
    # This holds also near the floor, because those who do not move at all come as near.
    if Nearest.name in others and row.value >= others[Nearest.name].value:
        mark = POOR
    than = f"{abs(change):.0f} % {'closer' if change >= 0.0 else 'farther'} than"
    floor = "" if row.floor is None else f"; the floor is {row.floor:.3g}"
    if near:
        floor = f"; that is about the floor of {row.floor:.3g}, which no model is expected to beat"
    sentence = (
        f"Held-out individuals driven to {DESTINATIONS[row.protocol]} "
        f"land at W1 = {row.value:.3g}, {than} the best trivial method "
        f"({TRIVIAL.get(best, best)}, {rival:.3g}){floor}."
    )
    return Finding(question, mark, sentence)


def gradient_flow(diagnosis: Diagnosis | None) -> Finding:
    question = "Is it a gradient flow?"
    if diagnosis is None:
        return Finding(question, OPEN, "This method has no energy on a curve that could be tested.")
    mark = {True: GOOD, False: POOR, None: OPEN}[diagnosis.is_gradient_flow]
    return Finding(question, mark, diagnosis.sentences[0])


def certainty(scores: Scores, diagnosis: Diagnosis | None) -> Finding:
    question = "How sure is all this?"
    if diagnosis is None:
        return Finding(question, OPEN, "One fit of this method cannot say.")
    spread = diagnosis.spread.get("force")
    found = diagnosis.identifiability
    if spread is None and found is not None and found.determined is not None:
        levels = {term.level for term in found.terms}
        sharp = levels <= {"determined", "small"}
        mark = POOR if not found.determined else GOOD if sharp else FAIR
        return Finding(question, mark, diagnosis.sentences[1])
    if spread is None:
        hint = " Several bootstrapped fits would say more: sf.fit_ensemble(data)."
        return Finding(question, OPEN, diagnosis.sentences[1] + hint)
    mark = GOOD if spread < 0.2 else FAIR if spread < 0.5 else POOR
    return Finding(question, mark, diagnosis.sentences[1])
