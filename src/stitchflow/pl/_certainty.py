"""The energy with its uncertainty: V along a line, W over distance, and what is determined."""

from __future__ import annotations

from typing import Any

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._judging.bands import Band, interaction_band, potential_band
from stitchflow._judging.diagnosis import Diagnosis
from stitchflow._judging.identifiability import ROUGH, SHARP, Identifiability
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput
from stitchflow._stitching.ensemble import Ensemble
from stitchflow.pl._axes import PALETTE, axes, legend_beside

ENDS = (0.01, 10.0)  # of the axis of relative standard errors


def section(
    fit: Fit | Ensemble, data: Snapshots | None = None, *, t: float | None = None, ax: Any = None
) -> Any:
    """Draw V along the longest axis of the data, with its 90 % band where one is known.

    The range in which 98 % of the individuals lie is shaded; outside of it V is assumed to be
    smooth, and nothing else is known. V has mean zero over the individuals.

    Arguments:
        fit: a fit with an energy, or an ensemble. Fits by `WeakForm` and ensembles have a band.
        data: the snapshots that determine the axis; None means `fit.data`.
        t: the time of a potential that varies in time; None means the middle observed time.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.section(fit, data)        # doctest: +SKIP
    """
    first = fit.members[0] if isinstance(fit, Ensemble) else fit
    data = first.data if data is None else data
    if data is None:
        raise BadInput("data is needed: its longest axis is where V is drawn")
    found = potential_band(fit, data, t, 200)
    ax = axes(ax)
    _draw(ax, found, "V", "98 % of data")
    ax.set_xlabel("dimension 1" if data.dim == 1 else "along the longest axis of the data")
    ax.set_ylabel("V")
    ax.set_title("potential")
    return ax


def interaction(fit: Fit, data: Snapshots | None = None, *, ax: Any = None) -> Any:
    """Draw the learned interaction W over distance, with its 90 % band where one is known.

    W is zero far away. The range in which 90 % of the pair distances lie is shaded. Outside of it
    there are few pairs of individuals to determine W.

    Arguments:
        fit: a fit whose energy contains an `Interaction`. Fits by `WeakForm` have a band.
        data: the snapshots whose pair distances, at the middle time and within groups, are shaded;
            None means `fit.data`.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.interaction(fit)        # doctest: +SKIP
    """
    data = fit.data if data is None else data
    if fit.energy is None:
        raise BadInput(f"{fit.method.name} has no energy to draw")
    if data is None:
        raise BadInput("data is needed: its pair distances show where W is known")
    found = interaction_band(fit, data)
    ax = axes(ax)
    _draw(ax, found, "W", "90 % of pairs")
    ax.set_xlabel("distance r")
    ax.set_ylabel("W(r)")
    ax.set_title("interaction")
    return ax


def _draw(ax: Any, found: Band, name: str, seen: str) -> None:
    """The line and its band, over the shaded range that was seen."""
    ax.axvspan(*found.seen, color="0.9", label=seen)
    if found.known:
        look = {"color": PALETTE[0], "alpha": 0.3, "lw": 0, "label": "90 % band"}
        ax.fill_between(found.at, found.low, found.high, **look)
        # A band that is open is cut, so that the line can still be seen.
        room = 1.5 * max(float(np.ptp(found.value)), 1e-300)
        low, high = float(found.value.min()) - room, float(found.value.max()) + room
        ax.set_ylim(max(low, float(found.low.min())), min(high, float(found.high.max())))
    ax.plot(found.at, found.value, color=PALETTE[0], label=name)
    legend_beside(ax)


def identifiability(diagnosis: Diagnosis, *, ax: Any = None) -> Any:
    """Draw the relative standard error of each term, and along directions that are hard to tell.

    Terms left of 0.2 are determined, up to 0.5 roughly; beyond, the sign may be wrong.

    Arguments:
        diagnosis: what `sf.diagnose` returned.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.identifiability(sf.diagnose(fit, data))        # doctest: +SKIP
    """
    found = _told(diagnosis)
    bars = [(term.term, term.share) for term in found.terms]
    bars += [(way.name.replace(" or ", "\nor "), way.error) for way in found.directions]
    ax = axes(ax)
    ax.axvspan(ENDS[0], SHARP, color=PALETTE[2], alpha=0.15, lw=0)
    ax.axvspan(SHARP, ROUGH, color=PALETTE[5], alpha=0.15, lw=0)
    ax.axvspan(ROUGH, ENDS[1], color=PALETTE[1], alpha=0.15, lw=0)
    for k, (_, share) in enumerate(bars):
        colour = PALETTE[0] if k < len(found.terms) else PALETTE[6]
        ends = np.clip([ENDS[0], share], *ENDS)
        ax.plot(ends, [k, k], color=colour, lw=6, solid_capstyle="butt")
    ax.set_yticks(range(len(bars)), [name for name, _ in bars])
    ax.set_ylim(len(bars) - 0.5, -0.5)
    ax.set_xscale("log")
    ax.set_xlim(*ENDS)
    ax.set_xlabel("standard error / size")
    ax.set_ylabel("term or direction")
    ax.set_title("what the data determine")
    return ax


def least_determined(diagnosis: Diagnosis, term: str | None = None, *, ax: Any = None) -> Any:
    """Draw V or W, and how far the least determined direction changes it.

    The dashed lines are one standard error (SE) away. All lines within the shading, moved together
    with the other term and beta, explain the data nearly as well.

    Arguments:
        diagnosis: what `sf.diagnose` returned.
        term: "V", along the longest axis of the data, or "W"; None means the first there is.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.least_determined(sf.diagnose(fit, data), "W")        # doctest: +SKIP
    """
    found = _told(diagnosis)
    shown = {entry.term: entry for entry in found.shown}
    if not shown or (term is not None and term not in shown):
        raise BadInput(f"term must be one of {', '.join(shown) or 'none'}; got {term!r}")
    entry = next(iter(shown.values())) if term is None else shown[term]
    at, estimate, change = (np.array(v) for v in (entry.at, entry.estimate, entry.change))
    ax = axes(ax)
    for sign, label in ((1.0, "1 SE more"), (-1.0, "1 SE less")):
        look = {"color": PALETTE[1], "lw": 1, "ls": "--" if sign > 0 else ":", "label": label}
        ax.plot(at, estimate + sign * change, **look)
    ax.fill_between(at, estimate - change, estimate + change, color=PALETTE[1], alpha=0.2, lw=0)
    ax.plot(at, estimate, color=PALETTE[0], label=entry.term)
    ax.set_xlabel("distance r" if entry.term == "W" else "along the longest axis of the data")
    ax.set_ylabel(entry.term)
    name = "" if found.least is None else f":\n{found.least.name}"
    ax.set_title(f"least determined{name}")
    legend_beside(ax)
    return ax


def _told(diagnosis: Diagnosis) -> Identifiability:
    found = diagnosis.identifiability
    if found is None or not found.terms:
        reason = "nothing was told" if found is None else found.reason
        raise BadInput(f"diagnosis has no standard errors to draw: {reason}")
    return found
