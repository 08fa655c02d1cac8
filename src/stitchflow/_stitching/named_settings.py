"""Settings by name, as texts: `--set residual.ridge=2` on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from stitchflow._energy.energy import Energy
from stitchflow._energy.pair_terms import Interaction
from stitchflow._energy.terms import Entropy, Potential
from stitchflow._measure.spline import Spline
from stitchflow._objective.consistency import Consistency
from stitchflow._objective.growth import Growth
from stitchflow._objective.residual import VelocityResidual
from stitchflow._status import BadInput, naming
from stitchflow._training.optimise import Optimiser

# Parts with settings of their own; growth and curve are absent until one of theirs is set.
PARTS: dict[str, Any] = {
    "residual": VelocityResidual,
    "consistency": Consistency,
    "growth": Growth,
    "optimiser": Optimiser,
    "curve": Spline,
}
CODE = ("scheme", "prior", "transform")  # objects and functions, for which there is no text
SETTINGS = (
    *("particles", "nodes", "batch", "learn_particles", "learn_weights", "learn_bandwidth"),
    *("beta", "hidden"),
    *(f"{part}.{f.name}" for part in PARTS for f in fields(PARTS[part]) if f.name not in CODE),
)
SHORT = {name: f"residual.{name}" for name in ("alpha", "weight", "kinetic")}
SHORT |= {
    name: f"optimiser.{name}" for name in ("steps", "learning_rate", "final", "clip", "patience")
}


def with_settings(
    method: Any,
    settings: Mapping[str, Any],
    *,
    time_varying: bool = False,
    interaction: bool = False,
    no_entropy: bool = False,
) -> Any:
    """A method of stitching with the energy's terms and single settings chosen."""
    settings = dict(settings)
    (potential,) = method.energy.only(Potential)
    varying = time_varying or potential.time_varying
    hidden = settings.pop("hidden", potential.hidden)
    network = potential.network
    energy = Energy((Potential(hidden=hidden, time_varying=varying, network=network),))
    beta = settings.pop("beta", None)
    if not no_entropy:
        energy = energy + Entropy(beta)
    elif beta is not None:
        raise BadInput("--set beta needs the entropy that --no-entropy removes")
    if interaction:
        energy = energy + Interaction(network=network)
    method = replace(method, energy=energy)
    for key, value in settings.items():
        method = _with_setting(method, SHORT.get(key, key), value)
    return method


def _with_setting(method: Any, key: str, value: Any) -> Any:
    part, _, name = key.rpartition(".")
    with naming(f"--set {key}"):
        if not part:
            return replace(method, **{name: value})
        before = getattr(method, part) or PARTS[part]()
        return replace(method, **{part: replace(before, **{name: value})})


def parse_settings(pairs: Sequence[str], names: Sequence[str] = ()) -> dict[str, Any]:
    """`KEY=VALUE` texts as numbers, booleans or widths such as 64,64.

    Arguments:
        pairs: the texts.
        names: the settings that there are, if they are not those of stitching.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key or not text:
            raise BadInput(f"--set takes KEY=VALUE, got {pair!r}")
        if key not in (names or (*SETTINGS, *SHORT)):
            listed = ", ".join(names or SETTINGS)
            raise BadInput(f"--set {key}: no such setting; there are {listed}")
        widths = key.rpartition(".")[2] == "hidden"
        try:
            value = json.loads(f"[{text}]" if widths else text)
        except ValueError:
            raise BadInput(f"--set {key}: {text!r} is not a number") from None
        settings[key] = tuple(value) if widths else value
    return settings
