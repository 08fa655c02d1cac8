"""What a report says, gathered from a fit and the individuals held out from it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._data.advice import advice
from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.packing import plan_of
from stitchflow._energy.pair_terms import Interaction, VectorKernel
from stitchflow._energy.terms import Entropy, InternalEnergy, Potential, Term
from stitchflow._energy.vector_field import VectorField
from stitchflow._judging.diagnose import diagnose
from stitchflow._judging.diagnosis import Carried, Diagnosis
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.judge import MOST
from stitchflow._judging.protocols import PROTOCOLS, Protocol
from stitchflow._judging.scores import Scores, in_words
from stitchflow._judging.trivial import baselines
from stitchflow._method.contract import Fit
from stitchflow._status import ExtrapolationWarning, NotAvailable
from stitchflow._stitching.ensemble import Ensemble
from stitchflow._storage.save import versions as installed
from stitchflow.report._line_charts import Chart, energy_charts, history_charts
from stitchflow.report._scene import scene
from stitchflow.report._verdict import Finding, findings, row_of, support, worst_time
from stitchflow.rivals import Nearest

MOST_TIMES = 15  # of more times, some are scored, and none as neighbours of each other
SHOWN = 300  # held-out individuals of each time in the picture
FEW = 50

# What each kind of term is called, the more special kinds first.
TERMS: tuple[tuple[type[Term], str], ...] = (
    (Potential, "a landscape V(x)"),
    (Interaction, "an interaction W between individuals"),
    (VectorKernel, "a turning interaction K"),
    (VectorField, "a turning field"),
    (Entropy, "random motion"),
    (InternalEnergy, "crowding"),
)


@dataclass(frozen=True)
class Line:
    """One line of the table: the score of each method at one place, None where there is none."""

    protocol: str
    time: float | None
    values: tuple[float | None, ...]
    floor: float | None
    note: str = ""


@dataclass(frozen=True)
class Contents:
    """Everything on the page but how it looks."""

    facts: list[tuple[str, str]]
    findings: list[Finding]
    methods: list[str]
    means: list[Line]
    lines: list[Line]
    scored: str
    diagnosis: Diagnosis | None
    charts: list[Chart]
    energy: list[Chart]
    scene: dict[str, Any]
    settings: list[tuple[str, str]]
    versions: dict[str, str | None]
    warnings: list[str]


def gather(
    fit: Fit | Ensemble,
    test: Snapshots | None,
    versions: dict[str, str | None] | None = None,
    warned: Sequence[str] = (),
    members: Ensemble | None = None,
) -> Contents:
    """Scores, diagnosis and pictures of a fit."""
    first = fit.members[0] if isinstance(fit, Ensemble) else fit
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ExtrapolationWarning)  # `_concerns` says it
        test = None if test is None or not len(test.x) else test
        table = {} if test is None else _scores(first, test)
        diagnosis = _diagnosis(fit, test, table)
        if diagnosis is not None and members is not None:
            diagnosis = replace(diagnosis, spread=members.spread())
        pictures = scene(first, None if test is None else test.subsample(SHOWN))
    own, *_ = table.values() if table else [Scores()]
    others = dict(list(table.items())[1:])
    lines = _lines(table)
    sentences = [*warned, *_concerns(first, test, diagnosis)]
    return Contents(
        facts=_facts(first, diagnosis),
        findings=[*findings(own, others, diagnosis), *_supported(first)],
        methods=list(table),
        means=[line for line in lines if line.time is None],
        lines=[line for line in lines if line.time is not None],
        scored=_scored(test),
        diagnosis=diagnosis,
        charts=history_charts(first),
        energy=energy_charts(members or fit, first.data),
        scene=pictures,
        settings=flattened(plan_of(first.method)),
        versions=installed() if versions is None else versions,
        warnings=[*sentences, *dict.fromkeys(str(w.message) for w in caught)],
    )


def _scores(fit: Fit, test: Snapshots) -> dict[str, Scores]:
    """W1 of the fit and of the trivial methods, at `MOST_TIMES` times at most.

    Up to that many times these are the numbers of `stitchflow evaluate`.
    """
    protocols = PROTOCOLS
    if len(test) > MOST_TIMES:
        kept = np.unique(np.linspace(0, len(test) - 1, MOST_TIMES).round().astype(int))
        test = test.keep_times(test.times[kept])
        protocols = tuple(p for p in PROTOCOLS if not p.judged.neighbours)
    own = evaluate(fit, test, metrics=("w1",), protocols=protocols)
    return {fit.method.name: own, **baselines(fit.data, test)} if own else {}


def _scored(test: Snapshots | None) -> str:
    """Which individuals the scores are of, in words."""
    if test is None:
        return ""
    most = f"at most {MOST:,} individuals of each time" if test.counts.max() > MOST else ""
    some = f"{MOST_TIMES} of the {len(test)} times" if len(test) > MOST_TIMES else ""
    return ", ".join(part for part in (some, most) if part)


def _diagnosis(
    fit: Fit | Ensemble, test: Snapshots | None, table: dict[str, Scores]
) -> Diagnosis | None:
    """The diagnosis, whose W1 after one gap is that of the table where the table has it."""
    carried = None
    if Nearest.name in table:
        two = (next(iter(table.values())), table[Nearest.name])
        rows = [row_of(scores, Protocol.ONE_STEP) for scores in two]
        values = [row.value for row in rows if row is not None]
        carried = Carried(*values) if len(values) == 2 else None
    try:
        return diagnose(fit, test=test, one_step=carried)
    except NotAvailable:
        return None


def _supported(fit: Fit) -> list[Finding]:
    """Which terms the data support, where that was asked before the fit."""
    stored = fit.source.get("selection")
    return [] if stored is None else [support(stored)]


def _lines(table: dict[str, Scores]) -> list[Line]:
    found = [{(r.protocol, r.time): r for r in rows} for rows in table.values()]
    places = found[0] if found else {}
    value = lambda rows, place: rows[place].value if place in rows else None
    note = lambda place: "" if place[1] is not None else _about_mean(table, place[0])
    return [
        Line(*place, tuple(value(rows, place) for rows in found), row.floor, note(place))
        for place, row in places.items()
    ]


def _about_mean(table: dict[str, Scores], protocol: str) -> str:
    """Which times a mean is of, and which time is far worse than it."""
    own = next(iter(table.values()))
    times = own.averaged(protocol)
    said = f"mean over t = {in_words(times)}" if len(times) > 1 else f"t = {in_words(times)}"
    bad = worst_time(own, protocol)
    return said if bad is None else f"{said}; {bad.said}"


def _facts(fit: Fit, diagnosis: Diagnosis | None) -> list[tuple[str, str]]:
    facts = [("Method", fit.method.name)]
    if fit.energy is not None:
        facts.append(("What was learned", in_plain_words(fit.energy)))
        strength = f"beta = {fit.energy.beta:.3g}{_interval(diagnosis)}"
        facts.append(("Random motion", strength if fit.energy.beta else "none"))
    if fit.data is not None:
        facts.append(("Trained on", f"{len(fit.data.x):,} individuals"))
    facts.append(("Dimensions", str(fit.flow.dim)))
    listed = ", ".join(f"{t:g}" for t in fit.times[:8])
    more = f", ... ({len(fit.times)} in all)" if len(fit.times) > 8 else ""
    facts.append(("Times", listed + more))
    if "path" in fit.source:
        facts.append(("Data", Path(fit.source["path"]).name))
    facts.append(("Training time", f"{fit.seconds:.1f} s, {fit.steps:,} steps"))
    if fit.seed is not None:
        facts.append(("Seed", str(fit.seed)))
    return facts


def in_plain_words(energy: Energy) -> str:
    """The terms of an energy without its settings, which are among the details."""
    named = [
        next((name for kind, name in TERMS if isinstance(t, kind)), type(t).__name__)
        for t in energy.terms
    ]
    if energy.time_varying:
        named = [name.replace("V(x)", "V(x, t) that changes in time") for name in named]
    *most, last = dict.fromkeys(named)
    return f"{', '.join(most)} and {last}" if most else last


def _interval(diagnosis: Diagnosis | None) -> str:
    """The 90 % interval of beta, where the standard errors are the fit's own."""
    found = None if diagnosis is None else diagnosis.identifiability
    beta = None if found is None or found.estimated else found.term("beta")
    return (
        "" if beta is None else f", 90 % interval {beta.interval[0]:.3g} to {beta.interval[1]:.3g}"
    )


def _concerns(fit: Fit, test: Snapshots | None, diagnosis: Diagnosis | None) -> list[str]:
    """Warnings that belong on the page."""
    sentences = []
    if not fit.status.ok:
        sentences.append(f"The fit did not end well: {fit.status}.")
    if fit.data is not None and fit.data.counts.min() < FEW:
        k = int(fit.data.counts.argmin())
        sentences.append(
            f"Only {fit.data.counts[k]} individuals were trained on at t = {fit.data.times[k]:g}: "
            "whatever is said of that time is said of few."
        )
    if fit.data is not None:
        sentences.extend(f"{words[0].upper()}{words[1:]}." for words in advice(fit.data))
    if test is not None and test.times[-1] > fit.times[-1]:
        sentences.append(
            f"Nothing after t = {fit.times[-1]:g} was trained on: what is shown there is "
            "extrapolated with the learned dynamics."
        )
    pairs = () if fit.energy is None else fit.energy.only(Interaction)
    if any(term.learn for term in pairs) and "selection" not in fit.source:
        sentences.append(
            "W was learned because the energy has this term. `stitchflow select` says whether the "
            "data support it, and `stitchflow fit --select` asks before it fits."
        )
    if diagnosis is not None and diagnosis.suggests_growth:
        sentences.append(
            "The number of individuals changes over time. It is read as sampling; where it "
            "measures the population's size, fit with growth."
        )
    if diagnosis is not None and diagnosis.time_varying:
        sentences.append("V(x, t) changes in time: it explains any smooth motion, so judge by W1.")
    return sentences


def flattened(entry: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as `part.name` and their values in words."""
    found: list[tuple[str, str]] = []
    for name, value in entry.items():
        if isinstance(value, dict):
            found.append((f"{before}{name}", str(value.get("class", ""))))
            rest = {n: v for n, v in value.items() if n != "class"}
            found.extend(flattened(rest, f"{before}{name}."))
        elif name == "energy":
            found.extend((f"energy.{term}", str(settings)) for term, settings in value)
        elif name != "class":
            word = f"{value:.6g}" if isinstance(value, float) else str(value)
            found.append((f"{before}{name}", word))
    return found
