"""Is this population driven by an energy, what do the data determine, and how certain is that?

Additional fields are linear combinations of fixed waves, so that they are least-squares problems
with a unique solution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Potential
from stitchflow._judging.change import change
from stitchflow._judging.diagnosis import Carried, Diagnosis, as_good
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.identify import identifiability
from stitchflow._judging.on_curve import dissipation, draw_from, profile_of, without
from stitchflow._judging.protocols import Protocol
from stitchflow._judging.regression import Regression
from stitchflow._measure.curve import Curve
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput, BadInputType, NotAvailable, Status
from stitchflow._stitching.ensemble import Ensemble
from stitchflow._types import KeyLike, as_key, as_rng
from stitchflow.rivals._nearest import Nearest, NearestFlow

# A residual below this share of the motion counts as this much: it needs no explanation.
SMALL = 0.05
CARRIED_TIMES = 15  # times at which held-out individuals start


def diagnose(
    fit: Fit | Ensemble,
    data: Snapshots | None = None,
    *,
    test: Snapshots | None = None,
    one_step: Carried | None = None,
    key: KeyLike = 0,
) -> Diagnosis:
    """Test whether the fitted population is driven by an energy, and what the data determine.

    Three questions come first: whether the snapshots differ by more than sampling noise, whether
    growth in place could have changed them as much, and whether the energy carries held-out
    individuals nearer to the next snapshot than no motion at all.

    Rotation is then looked for on paths through matched individuals, because the fitted curve was
    already drawn towards a gradient flow. A time-varying potential explains any smooth curve and is
    replaced here by the best static one.

    `identifiability` says how far the data determine V, W, K and beta, and which joint change of
    them can be told least. A method without standard errors is helped by a `WeakForm` of the same
    terms, which takes some seconds.

    Arguments:
        fit: a fit with an energy, or an ensemble, whose first member is examined and whose spread
            over all members is reported. What is told on a curve is left out where there is none.
        data: the individuals to look for rotation in; None takes those of the fit. A loaded fit has
            none, and its fitted curve is used instead.
        test: individuals that the fit has not seen. Without them no population is called a gradient
            flow.
        one_step: their W1 after one gap, if it was computed already; None computes it.
        key: a JAX key or an integer seed.

    Returns:
        The numbers, two sentences to quote, and those on what the data determine.

    >>> print(sf.diagnose(fit, test=test))                    # doctest: +SKIP
    """
    spread: dict[str, float] = {}
    if isinstance(fit, Ensemble):
        fit, spread = fit.members[0], fit.spread()
    energy = fit.energy
    if energy is None or energy.units is None:
        raise NotAvailable(fit.method.name, "diagnose", "it has no energy")
    for name, given in (("data", data), ("test", test)):
        if given is not None and not isinstance(given, Snapshots):
            raise BadInputType(f"{name} must be Snapshots, got {type(given).__name__}")
        if given is not None and given.dim != fit.flow.dim:
            raise BadInput(f"{name} must have {fit.flow.dim} dimensions, got {given.dim}")
    data = fit.data if data is None else data
    seen = _everybody(data, test)
    return Diagnosis(
        **_on_curve(fit, energy, data, key),
        beta=energy.beta,
        spread=spread,
        masses=() if data is None else tuple((data.counts / data.counts[0]).tolist()),
        time_varying=energy.time_varying,
        change=None if seen is None else change(seen, key),
        one_step=after_one_gap(fit, test, key) if one_step is None and test else one_step,
        identifiability=identifiability(fit, data),
    )


def _on_curve(fit: Fit, energy: Energy, data: Snapshots | None, key: KeyLike) -> dict[str, Any]:
    """What is told on the fitted curve, as fields of a `Diagnosis`; nothing without a curve."""
    curve = fit.flow.fitted_curve
    if curve is None:
        return {}
    draws = draw_from(curve, energy, as_key(key))
    regression = Regression.of(draws.x, draws.mass, as_rng(key))
    motion = regression.squares(regression.pick(draws.velocity)).sum()
    if energy.time_varying:
        rest = without(energy, Potential, curve, draws)
        target = regression.pick(-(draws.velocity + rest))
        left = regression.residuals(target, regression.gradients)
    else:
        left = regression.squares(regression.pick(draws.velocity + draws.gradient))
    untouched = curve
    if data is not None:
        assert energy.units is not None
        untouched = fit.method.start_of(data, energy.units, key) or curve
    removed, interval = non_gradient(untouched, energy, key)
    profile = profile_of(regression, curve, energy, draws, motion)
    return {
        "explained": float(1.0 - left.sum() / motion),
        "dissipation": dissipation(curve, energy, draws),
        "non_gradient": removed,
        "non_gradient_interval": interval,
        "profile": tuple(profile),
        "beta_interval": as_good(profile, energy.beta),
    }


def _everybody(data: Snapshots | None, test: Snapshots | None) -> Snapshots | None:
    """Training and held-out individuals in one table; ids are kept if all are followed."""
    if data is None or test is None or data.paired:
        return test if data is None else data
    parts = (data, test)
    return Snapshots.from_table(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.times[part.index] for part in parts]),
        weights=np.concatenate([part.weights for part in parts]),
    )


def after_one_gap(fit: Fit, test: Snapshots, key: KeyLike) -> Carried | None:
    """W1 after one gap with the fit and without motion, both scored by `evaluate`.

    Arguments:
        fit: the fit.
        test: held-out individuals; with many times only some of them are used.
        key: the random key.

    Returns:
        Both distances, or None where there is no score.
    """
    kept = np.unique(np.linspace(0, len(test) - 1, CARRIED_TIMES).round().astype(int))
    test = test.keep_times(test.times[kept])
    still = Fit(Nearest(), NearestFlow(test), None, Status(True, ""), [], 0, 0.0, times=fit.times)
    ask = {"metrics": ("w1",), "protocols": (Protocol.ONE_STEP,), "key": key}
    try:
        return Carried(
            *(evaluate(one, test, **ask).mean(Protocol.ONE_STEP) for one in (fit, still))
        )
    except KeyError:  # no such time, or individuals were carried to infinity
        return None


def non_gradient(curve: Curve, energy: Energy, key: KeyLike) -> tuple[float, tuple[float, float]]:
    """The share of the residual that divergence-free fields remove in addition to a potential.

    V is fitted again, without the stretch of time on which it is judged: a flexible V explains
    every path that never returns to a place, but not the next path.

    Arguments:
        curve: the paths.
        energy: its potential is replaced by the fitted one; other terms are kept.
        key: the random key.

    Returns:
        The share and its 90 % interval.
    """
    draws = draw_from(curve, energy, as_key(key))
    regression = Regression.of(draws.x, draws.mass, as_rng(key))
    motion = regression.squares(regression.pick(draws.velocity)).sum()
    target = regression.pick(-(draws.velocity + without(energy, Potential, curve, draws)))
    both = np.concatenate([regression.gradients, regression.rotations], axis=2)
    alone = regression.residuals(target, regression.gradients)
    return regression.removed(alone, regression.residuals(target, both), SMALL * motion)
