"""Charts: the loss over the fit, scores of cross-validation."""

from __future__ import annotations

from typing import Any

from stitchflow._judging.crossval import CrossValidation
from stitchflow._method.contract import Fit
from stitchflow._status import BadInput
from stitchflow.pl._axes import MARKERS, PALETTE, axes, category_colours, legend_beside


def history(fit: Fit, *, ax: Any = None) -> Any:
    """Draw the parts of the objective over the fit, the divergence left and the residual right.

    Stages are drawn one after another, with a grey line where one begins; the axis names them.
    In the stage that trains the energy alone the curve is fixed, and the energy's predictions are
    compared with the data instead (`consistency`, on the right). Other methods have a single loss.

    Arguments:
        fit: a fit with a history.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.history(fit)        # doctest: +SKIP
    """
    if not fit.history:
        raise BadInput(f"{fit.method.name} has no history to draw")
    ax = axes(ax)
    ax.set_title("loss history")
    ax.set_xlabel(_steps(fit))
    for stage in fit.history[1:]:
        ax.axvline(stage.begins, color="0.8", lw=1)
    if not any("residual" in stage for stage in fit.history):
        _over_stages(ax, fit, "loss", color=PALETTE[0])
        ax.set_ylabel("loss")
        return ax
    twin = ax.twinx()
    _over_stages(ax, fit, "divergence", color=PALETTE[0])
    _over_stages(twin, fit, "residual", color=PALETTE[1], ls="--")
    _over_stages(twin, fit, "consistency", color=PALETTE[2], ls=":")
    ax.set_ylabel("divergence", color=PALETTE[0])
    compared = any("consistency" in stage for stage in fit.history)
    parts = "residual (dashed), consistency (dotted)" if compared else "residual"
    twin.set_ylabel(parts, color=PALETTE[1])
    twin.set_yscale("log")
    return ax


def _steps(fit: Fit) -> str:
    """The name of the axis of steps, which says where later stages begin."""
    begins = [f"{stage.name} from {stage.begins}" for stage in fit.history[1:]]
    return "step" + (f"\n({', '.join(begins)})" if begins else "")


def _over_stages(ax: Any, fit: Fit, part: str, **look: Any) -> None:
    """One line for each stage that has this part of the objective."""
    for stage in fit.history:
        if part in stage:
            # A stage of a single look at the loss is a point, which a line would not show.
            marker = "." if len(stage.steps) == 1 else None
            ax.plot(stage.steps, stage[part], marker=marker, **look)


def cross_validation(scores: CrossValidation, *, metric: str | None = None, ax: Any = None) -> Any:
    """Draw the scores of every method on all data left out, with the floor as a grey bar.

    The floor is what other individuals of the same population score.

    Arguments:
        scores: the result of `cross_validate`.
        metric: the name of a distance among `scores.metrics`; None means the first of them.
        ax: the Matplotlib Axes to draw on; None makes a new figure.

    Returns:
        The Axes.

    Examples:
        >>> sf.pl.cross_validation(sf.cross_validate(data), metric="w2")        # doctest: +SKIP
    """
    metric = scores.metrics[0] if metric is None else metric
    if metric not in scores.metrics:
        raise BadInput(f"metric must be among {', '.join(scores.metrics)}; got {metric!r}")
    ax, places = axes(ax), [p for p in scores.places(metric) if p[2] is not None]
    colours = category_colours(len(scores.methods))
    for i, method in enumerate(scores.methods):
        values = [scores.value(method, metric, place) for place in places]
        known = [(j, value) for j, value in enumerate(values) if value is not None]
        shift = 0.6 * (i / max(len(scores.methods) - 1, 1) - 0.5)
        at, look = [j + shift for j, _ in known], MARKERS[i % len(MARKERS)]
        ax.plot(at, [v for _, v in known], look, color=colours[i], label=method, ms=5)
    for j, place in enumerate(places):
        floor = scores.floor(metric, place)
        if floor is not None:
            label = "floor" if j == 0 else None
            ax.hlines(floor, j - 0.4, j + 0.4, color="0.5", lw=3, alpha=0.6, label=label)
    ax.set_xticks(range(len(places)), [f"{out}\n{protocol}" for out, protocol, _ in places])
    ax.tick_params(axis="x", labelsize="small")
    ax.set_xlabel("left out")
    ax.set_ylabel(metric)
    ax.set_ylim(bottom=0.0)
    legend_beside(ax)
    return ax
