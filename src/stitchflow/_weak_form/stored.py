"""A drift as plain JSON and named arrays, for run directories, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from stitchflow._data.units import Units
from stitchflow._energy.packing import stored as stored_array
from stitchflow._status import BadInput
from stitchflow._weak_form.bases import Bumps, Splines
from stitchflow._weak_form.deviation import Deviation
from stitchflow._weak_form.displacement import DisplacementPush
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.frame import FramedBumps
from stitchflow._weak_form.growing import Growing
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.round_bumps import RoundBumps
from stitchflow._weak_form.turning import Straight, Turning
from stitchflow._weak_form.uncertainty import Uncertainty

KINDS = {
    kind.__name__: kind
    for kind in (
        *(Drift, Landscape, Straight, Turning, PairPush, DisplacementPush, Growing, Deviation),
        *(Bumps, FramedBumps, RoundBumps, Splines),
    )
}


def packed_drift(value: Any, arrays: dict[str, np.ndarray], name: str = "weak/drift") -> Any:
    """A drift, or a piece of one, as plain JSON.

    Arguments:
        value: what is described.
        arrays: its arrays are put here.
        name: the name of its arrays.
    """
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple):
        return [packed_drift(v, arrays, f"{name}/{k}") for k, v in enumerate(value)]
    if not dataclasses.is_dataclass(value):
        return value
    own = {
        f.name: packed_drift(getattr(value, f.name), arrays, f"{name}/{f.name}")
        for f in dataclasses.fields(value)
    }
    return {"class": type(value).__name__, **own}


def packed_uncertainty(known: Uncertainty, arrays: dict[str, np.ndarray]) -> Any:
    """Standard errors as plain JSON; their arrays are put into `arrays`."""
    arrays["weak/c"], arrays["weak/root"], arrays["weak/centre"] = known.c, known.root, known.centre
    if known.log_beta is not None:
        arrays["weak/log_beta"] = np.asarray(known.log_beta)
    if known.lead is not None:
        arrays["weak/lead"] = known.lead
    return packed_drift(known.drift, arrays)


def uncertainty_from(entry: Any, arrays: Mapping[str, np.ndarray], units: Units) -> Uncertainty:
    """What `packed_uncertainty` described as `entry`, in the `units` of the fit."""
    for name in ("weak/c", "weak/root", "weak/centre"):
        stored_array(dict(arrays), name)  # refuses a run that lacks it
    plain = lambda name: np.asarray(arrays[name], np.float64)
    return Uncertainty(
        drift_from(entry, arrays),
        plain("weak/c"),
        float(plain("weak/log_beta")) if "weak/log_beta" in arrays else None,
        plain("weak/root"),
        plain("weak/centre"),
        units,
        plain("weak/lead") if "weak/lead" in arrays else None,
    )


def drift_from(entry: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """What `packed_drift` described as `entry`, with its `arrays`."""
    if isinstance(entry, list):
        return tuple(drift_from(one, arrays) for one in entry)
    if not isinstance(entry, dict):
        return entry
    if "array" in entry:
        stored_array(dict(arrays), entry["array"])  # refuses a run that lacks it
        return np.asarray(arrays[entry["array"]], np.float64)
    kind = KINDS.get(entry.get("class", ""))
    if kind is None:
        raise BadInput(f"a weak form is made of {', '.join(KINDS)}, got {entry.get('class')!r}")
    own = {key: drift_from(value, arrays) for key, value in entry.items() if key != "class"}
    return kind(**own)
