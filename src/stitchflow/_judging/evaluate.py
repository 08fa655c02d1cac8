"""Scores on held-out individuals: every method is judged by the same protocols."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.judge import Judge, Score
from stitchflow._judging.protocols import PROTOCOLS, Protocol
from stitchflow._judging.scores import Row, Scores
from stitchflow._method.contract import Fit
from stitchflow._method.flow import Flow
from stitchflow._status import BadInput, BadInputType, NotAvailable
from stitchflow._types import KeyLike, as_key
from stitchflow.metrics import DISTANCES
from stitchflow.tracking import tqdm


def evaluate(
    fit: Fit,
    test: Snapshots,
    *,
    metrics: Sequence[str] = tuple(DISTANCES),
    protocols: Sequence[str] = PROTOCOLS,
    key: KeyLike = 0,
    oracle: Flow | None = None,
    progress: bool = False,
) -> Scores:
    """Score a fit on individuals it has not seen.

    Times the fit was trained on are judged by `marginal`, `one-step` and `rollout`; other times by
    `interpolate` within its range and by `forecast` after it. A protocol that the method does not
    support has no rows. Weighted individuals are compared as weighted measures.

    The floor of a score is what a perfect model is expected to score: the distance of as many
    training individuals of the same time, or of two halves of a time that was not trained on.
    Individuals that are followed by their ids start where they were observed, and a perfect model
    may carry them closer than other individuals are. For such a `test`, the floors of `one-step`,
    `rollout` and `forecast` are known only with an `oracle`.

    Arguments:
        fit: the fit.
        test: held-out individuals, at any times.
        metrics: the distances to compute, names in `stitchflow.metrics.DISTANCES`; all by default.
        protocols: what is asked of the fit; all by default.
        key: a JAX key or an integer seed; the same key gives all methods the same draws.
        oracle: the flow of the true energy, if it is known, which is judged as the fit is and gives
            the floors. It is also used where there are too few other individuals.
        progress: whether a progress bar is shown.

    Returns:
        A list of rows that prints as a table.

    >>> scores = sf.evaluate(fit, test, metrics=("w1",))      # doctest: +SKIP
    >>> scores.mean("one-step")                               # doctest: +SKIP
    """
    if not isinstance(test, Snapshots):
        raise BadInputType(f"test must be Snapshots, got {type(test).__name__}")
    if test.dim != fit.flow.dim:
        raise BadInput(f"test must have {fit.flow.dim} dimensions, got {test.dim}")
    if oracle is not None and not isinstance(oracle, Flow):
        raise BadInputType(f"oracle must be a Flow or None, got {type(oracle).__name__}")
    check_names("metrics", metrics, DISTANCES)
    check_names("protocols", protocols, PROTOCOLS)
    judge = Judge(fit.data, fit.times, test, tuple(metrics), as_key(key), oracle)
    rows = Scores()
    rows.start = float(judge.times[0])
    for name in tqdm(protocols, desc="evaluate", disable=not progress, leave=False):
        try:
            scores = Protocol(name).judged.scores(judge, fit.flow)
        except NotAvailable:
            continue
        least = floors(judge, name) if scores else {}
        found = _by_place(judge, scores).items()
        rows.extend(Row(str(name), *place, value, least.get(place)) for place, value in found)
    return rows


def check_names(argument: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse names that are not known.

    Arguments:
        argument: how the message calls the argument.
        given: the names.
        known: the names that there are.
    """
    if isinstance(given, str):
        raise BadInput(f"{argument} must be a list of names, got the text {given!r}")
    for name in given:
        if name not in known:
            raise BadInput(f"{argument} must be among {', '.join(known)}; got {name!r}")


def floors(judge: Judge, protocol: str) -> dict[tuple[str, float | None], float]:
    """The known floors of a `protocol` by metric and time, where None is the mean over times.

    `judge` holds the individuals.
    """
    return _by_place(judge, Protocol(protocol).judged.floors(judge))


def _by_place(judge: Judge, scores: dict[int, Score]) -> dict[tuple[str, float | None], float]:
    """Scores by metric and time, and their mean if every time has one."""
    times, found = judge.test.times, {}
    # The first observed time is the start of every simulation and not part of the mean.
    later = [k for k in scores if times[k] > judge.times[0]]
    for metric in judge.metrics:
        known = {k: score[metric] for k, score in scores.items() if metric in score}
        found |= {(metric, float(times[k])): value for k, value in known.items()}
        if later and len(known) == len(scores):
            found[metric, None] = float(np.mean([known[k] for k in later]))
    return found
