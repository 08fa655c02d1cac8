"""Turning settings into JSON and models into named arrays, and back, without executing anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from stitchflow._data.units import Units
from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term, ready, with_fields
from stitchflow._measure.kde import KDE, Cloud
from stitchflow._parts import (
    PACKAGE,
    alike,
    built_in,
    described,
    is_built_in,
    is_own,
    made,
    name_of,
    same_name,
)
from stitchflow._status import BadInput
from stitchflow._types import check_number

# The largest allowed difference between the stored pushes and those of an energy that is supplied
# again, as a share of the largest. Another order of summation on another machine changes them by
# less, and another constant in a function by more.
CLOSE = 1e-3


def units_from(stored: dict[str, Any]) -> Units:
    """The units that `dataclasses.asdict` described as `stored`."""
    return dataclasses.replace(Units(**stored), centre=tuple(stored["centre"]))


def packed_method(method: Any, energy: Energy) -> dict[str, Any]:
    """The header entries of a method and of the energy it learned; arrays are stored separately."""
    return {
        "settings": described(method, leave_out=("energy",)),
        "energy": terms_of(energy),
        "units": dataclasses.asdict(ready(energy.units)),
    }


def unpacked_method(
    kind: type, packed: Any, given: Energy | None = None, where: str = ""
) -> tuple[Any, Energy]:
    """The method that `packed_method` described, and its energy with parameters.

    Arguments:
        kind: the class of the method.
        packed: the method's `Packed`.
        given: an energy that supplies the user's own functions; None where `packed.parts` or the
            package has all of them.
        where: the path of the energy in the model whose arrays were stored.
    """
    header, entries, parts = packed.header, packed.header["energy"], packed.parts
    energy = energy_from(entries, parts, given)
    ready = ready_energy(energy, entries, units_from(header["units"]))
    ready = with_arrays(ready, packed.arrays, where)
    check_pushes(ready, entries)
    method = made(header["settings"], parts, kind)
    if any(field.name == "energy" for field in dataclasses.fields(method)):
        method = dataclasses.replace(method, energy=energy)
    return method, ready


def plan_of(method: Any) -> dict[str, Any]:
    """Everything that distinguishes `method` from another, for checkpoints, runs and results.

    Classes of this package have their bare names here, under which results are stored already.
    """
    found = described(method, code=True, leave_out=("energy",))
    settings = {"name": method.name, **_bare(found)}
    energy = getattr(method, "energy", None)
    if isinstance(energy, Energy):
        settings["energy"] = [_plan_of_term(term) for term in energy.terms]
    return settings


def _plan_of_term(term: Term) -> list[Any]:
    known = [repr(term), described(term.settings)["mapping"]]
    return [*known, described(term, code=True)] if holds_code(term) else known


def _bare(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_bare(value) for value in entry]
    if not isinstance(entry, dict):
        return entry
    bare = {key: _bare(value) for key, value in entry.items()}
    if "class" in bare:
        bare["class"] = bare["class"].removeprefix(f"{PACKAGE}.")
    return bare


def own_functions(term: Term) -> dict[str, Any]:
    """The user's own functions that a term holds, by the names of its fields."""
    values = {name: getattr(term, name) for name in term.__dataclass_fields__}
    return {name: value for name, value in values.items() if is_own(value)}


def holds_code(term: Term) -> bool:
    """Whether a term contains code, which files never store."""
    return not is_built_in(type(term)) or bool(own_functions(term))


def terms_of(energy: Energy) -> list[dict[str, Any]]:
    """What each term of an energy was made from, as plain JSON; arrays are stored separately.

    For a term that cannot be stored completely, `pushes` records its effect on a few fixed points.
    """
    entries = []
    for term in energy.terms:
        reach = getattr(term, "reach", None)
        entry = {
            "class": name_of(type(term)),
            "settings": described(term.settings)["mapping"],
            "functions": {n: name_of(value) for n, value in own_functions(term).items()},
            "reach": reach if isinstance(reach, float) else None,
        }
        if holds_code(term):
            entry["pushes"] = pushes(term, energy.units)
        entries.append(entry)
    return entries


def energy_from(
    entries: list[dict[str, Any]], parts: Mapping[str, Any], given: Energy | None = None
) -> Energy:
    """The energy that `terms_of` described, without parameters.

    Arguments:
        entries: one description for each term.
        parts: the user's own classes and functions by name.
        given: an energy to use instead, if it has the described terms; otherwise an error is
            raised. None makes the terms from classes of this package and from `parts`.
    """
    if given is None:
        return Energy(tuple(_term_from(entry, parts) for entry in entries))
    if len(given.terms) != len(entries):
        raise BadInput(f"energy should have {len(entries)} terms, got {given!r}")
    for term, entry in zip(given.terms, entries, strict=True):
        own, stored = described(term.settings)["mapping"], entry["settings"]
        # Settings that only one of them has come from another version, or have no effect.
        differ = any(name in stored and not alike(own[name], stored[name]) for name in own)
        known = is_built_in(type(term)) and bool(own_functions(term)) != bool(entry["functions"])
        if not same_name(name_of(type(term)), entry["class"]) or differ or known:
            words = f"energy should have {entry['class']} with {stored | entry['functions']}"
            raise BadInput(f"{words}, got {term!r} with {own}")
    return given


def _term_from(entry: dict[str, Any], parts: Mapping[str, Any]) -> Term:
    kind, functions = built_in(entry["class"], Term), entry["functions"]
    # The constructor of a user's own class decides which functions are required.
    own = functions.values() if kind else [entry["class"]]
    if missing := [name for name in own if name not in parts]:
        raise BadInput(
            f"the fit's energy holds a function of your own ({', '.join(missing)}), which is never "
            "stored: pass the same energy again by energy=..., or what it is made of by parts="
            f"{{{', '.join(f'{name!r}: ...' for name in missing)}}}"
        )
    kind = parts[entry["class"]] if kind is None else kind
    if isinstance(kind, Term):
        return energy_from([entry], parts, Energy((kind,))).terms[0]
    held = {field: parts[name] for field, name in functions.items() if name in parts}
    return kind(**made({"mapping": entry["settings"]}, parts), **held)


def ready_energy(energy: Energy, entries: list[dict[str, Any]], units: Units) -> Energy:
    """The energy with parameters of the right shapes, to be filled by `with_arrays`.

    Arguments:
        energy: the terms without parameters.
        entries: their stored descriptions, which hold the reach of pair terms.
        units: the units of the fit.
    """
    ready = energy.init(np.eye(2, units.dim), units, jax.random.key(0))
    terms = tuple(
        term
        if entry["reach"] is None
        else with_fields(term, reach=check_number(entry["reach"], "reach", 0.0, open_low=True))
        for term, entry in zip(ready.terms, entries, strict=True)
    )
    return Energy(terms, units)


def pushes(term: Term, units: Units | None) -> list[float | None]:
    """The effect of a term on a few fixed points, each along a fixed direction (internal units).

    Arguments:
        term: a term with parameters.
        units: its units, which hold the dimension.
    """
    units = ready(units)
    rng = np.random.default_rng(0)
    x, along = (jnp.asarray(rng.normal(size=(2, 6, units.dim)), float) for _ in range(2))
    field = jax.vmap(lambda c: KDE.uniform(c).field(c))(x)
    cloud, times = Cloud(x, jnp.full(x.shape[:2], 1.0 / 6.0)), jnp.asarray([0.25, 0.75], float)
    found = (Energy((term,)).gradient(x, times, cloud, field) * along).sum(axis=-1)
    return [value if np.isfinite(value) else None for value in np.ravel(found).tolist()]


def check_pushes(energy: Energy, entries: list[dict[str, Any]]) -> None:
    """Refuse functions whose effect differs from that of the fitted ones.

    Arguments:
        energy: the energy with parameters, with the functions that the user has supplied.
        entries: the stored descriptions of its terms.
    """
    for term, entry in zip(energy.terms, entries, strict=True):
        if entry.get("pushes") is None:
            continue
        stored, found = (
            np.array([np.nan if value is None else float(value) for value in values])
            for values in (entry["pushes"], pushes(term, energy.units))
        )
        size = np.max(np.abs(stored), initial=0.0, where=np.isfinite(stored))
        if not np.allclose(stored, found, rtol=CLOSE, atol=CLOSE * size, equal_nan=True):
            raise BadInput(
                f"{entry['class']} does not do what the fitted one did, so its functions or "
                f"constants are others: pushes of {stored[:3]} were stored, got {found[:3]}"
            )


def upgraded(header: dict[str, Any]) -> dict[str, Any]:
    """A header of format 1 or 2 in format 3: full names of classes, settings of terms separate."""
    if header.get("format") == 3:
        return header
    own = {"class", "function", "reach"}
    terms = [
        {
            "class": _named(entry["class"], Term),
            "settings": {key: value for key, value in entry.items() if key not in own},
            "functions": {"function": "a function without a name"} if entry["function"] else {},
            "reach": entry["reach"],
        }
        for entry in header.get("energy", ())
    ]
    settings = _full(header.get("settings", {}))
    return header | {"settings": settings} | ({"energy": terms} if "energy" in header else {})


def _named(name: Any, base: type) -> Any:
    full = f"{PACKAGE}.{name}"
    return full if built_in(full, base) else name


def _full(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    named = {key: _full(value) for key, value in entry.items()}
    return named | {"class": f"{PACKAGE}.{named['class']}"} if "class" in named else named


def named_arrays(model: Any) -> dict[str, np.ndarray]:
    """The floating-point arrays of a model by their path."""
    arrays = eqx.filter(model, eqx.is_inexact_array)
    leaves = jax.tree_util.tree_leaves_with_path(arrays)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def with_arrays(model: Any, arrays: dict[str, np.ndarray], where: str = "") -> Any:
    """The model with its float arrays replaced by stored ones of the same names and shapes.

    Arguments:
        model: a model of the right structure.
        arrays: the stored arrays by name.
        where: the path of this model in the one that was stored.
    """
    params, static = eqx.partition(model, eqx.is_inexact_array)
    leaves, shape = jax.tree_util.tree_flatten_with_path(params)
    found = []
    for path, leaf in leaves:
        name = where + jax.tree_util.keystr(path)
        array = stored(arrays, name)
        if array.shape != leaf.shape:
            raise BadInput(f"{name} should have shape {leaf.shape}, got {array.shape}")
        found.append(array)
    return eqx.combine(shape.unflatten(found), static)


def stored(arrays: dict[str, np.ndarray], name: str) -> jax.Array:
    """The one of `arrays` called `name`, which must hold real numbers."""
    if name not in arrays:
        raise BadInput(f"the stored model lacks {name}")
    if arrays[name].dtype.kind != "f":
        raise BadInput(f"{name} should hold real numbers, got {arrays[name].dtype}")
    return jnp.asarray(arrays[name])
