"""Turning settings into JSON and models into named arrays, and back, without executing anything."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stitchflow import _consistency, _divergence, _growth, _intervals, _residual
from stitchflow._density_residual import DensityResidual
from stitchflow._dissipation import DissipationResidual
from stitchflow._energy import Energy
from stitchflow._feature_terms import FeatureEntropy, FeatureInteraction, FeaturePotential
from stitchflow._optimise import Optimiser
from stitchflow._pair_terms import Interaction, VectorKernel
from stitchflow._spline import Spline
from stitchflow._terms import Entropy, Potential, Term, changed
from stitchflow._types import check_number
from stitchflow._units import Units
from stitchflow._vector_field import VectorField

# The metadata of a setting that is left out while it is None: stored results of methods that did
# not have it yet still stand for those that do.
LATER = {"left out while None": True}

# Only these classes are ever made from a file.
CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        Optimiser,
        _consistency.Consistency,
        _growth.Growth,
        Spline,
        _residual.VelocityResidual,
        _residual.Mixed,
        DensityResidual,
        DissipationResidual,
        _intervals.Forward,
        _intervals.Backward,
        _intervals.Midpoint,
        _intervals.Trapezoid,
        _divergence.KL,
        _divergence.ScoreMatching,
        _divergence.DenoisingScoreMatching,
        _divergence.MMD,
        _divergence.SinkhornDivergence,
    )
}

TERMS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Potential,
        Entropy,
        Interaction,
        VectorKernel,
        VectorField,
        FeaturePotential,
        FeatureInteraction,
        FeatureEntropy,
    )
}


def units_from(stored: dict[str, Any]) -> Units:
    """The units that `dataclasses.asdict` described."""
    return dataclasses.replace(Units(**stored), centre=tuple(stored["centre"]))


def settings_of(part: Any, leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a settings object as plain JSON; functions are left out."""
    entry: dict[str, Any] = {"class": type(part).__name__}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if value is None and field.metadata == LATER:
            continue
        if field.name in leave_out or (callable(value) and type(value).__name__ not in CLASSES):
            continue
        entry[field.name] = settings_of(value) if type(value).__name__ in CLASSES else value
    return entry


def plan_of(method: Any) -> dict[str, Any]:
    """Every setting of a method, to tell whether a run is resumed with the same ones."""
    settings = {"name": method.name, **settings_of(method, leave_out=("energy",))}
    energy = getattr(method, "energy", None)
    if isinstance(energy, Energy):
        settings["energy"] = [[repr(term), term.settings] for term in energy.terms]
    return settings


def settings_from(kind: type, entry: dict[str, Any]) -> Any:
    """The settings object of class `kind` that `settings_of` described."""
    values = {}
    names = {field.name for field in dataclasses.fields(kind)}
    for name, value in entry.items():
        if name == "class":
            continue
        if name not in names:
            raise ValueError(f"{kind.__name__} has no setting {name!r}")
        if isinstance(value, dict):
            inner = CLASSES.get(value.get("class", ""))
            if inner is None:
                raise ValueError(f"unknown part {value.get('class')!r} for {name}")
            value = settings_from(inner, value)
        # JSON has no tuples.
        values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def terms_of(energy: Energy) -> list[dict[str, Any]]:
    """What each term of an energy was made from, as plain JSON; arrays are stored apart."""
    entries = []
    for term in energy.terms:
        own = getattr(term, "units", None) is not None  # only known functions keep units
        entry = {"class": type(term).__name__, "function": own, **term.settings}
        entries.append({**entry, "reach": getattr(term, "reach", None)})
    return entries


def energy_from(entries: list[dict[str, Any]]) -> Energy:
    """The energy that `terms_of` described, without parameters."""
    return Energy(tuple(_term_from(entry) for entry in entries))


def ready_energy(energy: Energy, entries: list[dict[str, Any]], units: Units) -> Energy:
    """The energy with parameters of the right shapes, to be filled by `with_arrays`."""
    ready = energy.init(np.eye(2, units.dim), units, jax.random.key(0))
    terms = tuple(
        term
        if entry["reach"] is None
        else changed(term, reach=check_number(entry["reach"], "reach", 0.0, open_low=True))
        for term, entry in zip(ready.terms, entries, strict=True)
    )
    return Energy(terms, units)


def _term_from(entry: dict[str, Any]) -> Term:
    if entry["function"] or entry["class"] not in TERMS:
        raise ValueError(
            f"the fit's energy holds a function of your own ({entry['class']}), which is never "
            "stored: pass the same one again by energy=..."
        )
    extra = {k: v for k, v in entry.items() if k not in ("class", "function", "reach")}
    return TERMS[entry["class"]](**{k: tuple(v) if k == "hidden" else v for k, v in extra.items()})


def named_arrays(model: Any) -> dict[str, np.ndarray]:
    """The float arrays of a model by their path."""
    arrays = eqx.filter(model, eqx.is_inexact_array)
    leaves = jax.tree_util.tree_leaves_with_path(arrays)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def with_arrays(model: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The model with its float arrays replaced by stored ones of the same names and shapes."""
    params, static = eqx.partition(model, eqx.is_inexact_array)
    leaves, shape = jax.tree_util.tree_flatten_with_path(params)
    found = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        array = stored(arrays, name)
        if array.shape != leaf.shape:
            raise ValueError(f"{name} should have shape {leaf.shape}, got {array.shape}")
        found.append(array)
    return eqx.combine(shape.unflatten(found), static)


def stored(arrays: dict[str, np.ndarray], name: str) -> jax.Array:
    """One of the stored arrays, which must be of real numbers."""
    if name not in arrays:
        raise ValueError(f"the stored model lacks {name}")
    if arrays[name].dtype.kind != "f":
        raise ValueError(f"{name} should hold real numbers, got {arrays[name].dtype}")
    return jnp.asarray(arrays[name])
