"""Run directories: a JSON header and one file of arrays, without pickle or other code."""

from __future__ import annotations

import io
import json
import platform
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._energy.energy import Energy
from stitchflow._energy.packing import upgraded
from stitchflow._energy.terms import Term
from stitchflow._files.archive import Archive
from stitchflow._files.whole import only_writer, write_together
from stitchflow._method.contract import METHODS, Fit, Method, Packed
from stitchflow._parts import PACKAGE, built_in, constructor_defaults, handed, name_of, same_name
from stitchflow._status import BadInput, BadInputType, Status
from stitchflow._storage.run_state import (
    ARRAYS,
    FORMAT,
    HEADER,
    check_free,
    seal,
    settle,
    whole_model,
)
from stitchflow._training.history import StageHistory, in_a_row

UNSTORED = 2**24  # numbers that declared networks may have without being stored
_PACKAGES = ("stitchflow", "jax", "equinox", "optax", "diffrax", "numpy", "scipy", "POT")


def save(fit: Fit, path: Any, *, overwrite: bool = False) -> None:
    """Write a fit to a directory.

    The directory is created, or is empty, or holds a run and nothing else, so that no other file is
    lost.

    Arguments:
        fit: what to store.
        path: the directory.
        overwrite: whether a run that is already there is replaced; otherwise it is an error.
    """
    folder = Path(path)
    check = lambda: check_free(folder, overwrite, str(folder), "overwrite=True to replace it")
    check()
    contents = _contents(fit, folder)  # before the folder is made: this may fail
    folder.mkdir(parents=True, exist_ok=True)
    with only_writer(folder):
        check()  # another process may have written since
        settle(folder)
        write_together(contents)


def write_run(fit: Fit, folder: Path) -> None:
    """Write the two files of a `fit` into `folder`. The folder's lock must be held."""
    write_together(_contents(fit, folder))


def _contents(fit: Fit, folder: Path) -> dict[Path, bytes]:
    """The two files of a fit, in the order in which they are renamed."""
    header, arrays = plain(fit)
    content = packed(arrays)
    header["arrays_sha256"] = sha256(content).hexdigest()
    header["sha256"] = seal(header)
    text = json.dumps(header, indent=1).encode()
    # The header contains the hash of the arrays and is renamed last, which completes the run.
    return {folder / ARRAYS: content, folder / HEADER: text}


def load(
    path: Any,
    *,
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
) -> Fit:
    """Open a saved run. A run holds no code, so the user's own functions are passed again.

    Arguments:
        path: the directory that `Fit.save` or `stitchflow fit` wrote.
        energy: the energy of the fit, if it contains functions of your own. None is enough if it
            does not, or if `parts` has them.
        parts: your own classes and functions by name, as the error that asks for them says, such as
            `{"lab.Capped": Capped}`. Their settings come from the run.

    >>> fit = sf.load("runs/embryo")  # doctest: +SKIP
    """
    if not isinstance(parts, Mapping | None):
        raise BadInputType(f"parts must map names to classes or functions, got {parts!r}")
    folder = Path(path)
    found = whole_model(folder)
    try:
        arrays = Archive(found.arrays).all()
    except ValueError as error:
        raise BadInput(f"{folder / ARRAYS} cannot be read: {error}") from None
    try:
        return from_plain(found.header, arrays, energy, parts)
    except ValueError as error:
        raise BadInput(f"{folder / HEADER}: {error}") from None


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as the content of an `.npz` file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # pyright: ignore
    return buffer.getvalue()


def plain(fit: Fit) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fit as JSON and named arrays; of its data only the fingerprint is stored."""
    packed = fit.method.pack(fit)
    for name, array in packed.arrays.items():
        _check_finite(name, array)  # `load` would refuse it
    history = {
        f"history/{name}" + (f"/{k}" if k > 1 else ""): values
        for k, stage in enumerate(fit.history, 1)
        for name, values in stage.items()
    }
    data = None if fit.data is None else fit.data.fingerprint
    header = {
        "format": FORMAT,
        "method": fit.method.name,
        "class": name_of(type(fit.method)),
        "status": {"ok": fit.status.ok, "message": fit.status.message},
        "steps": fit.steps,
        "seconds": fit.seconds,
        "seed": fit.seed,
        "stages": [stage.name for stage in fit.history],
        "times": fit.times.tolist(),
        "data": {"fingerprint": data, **fit.source},
        "versions": versions(),
        **packed.header,
    }
    return header, packed.arrays | history


def from_plain(
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
) -> Fit:
    """The fit that `plain` described; an error explains what is wrong with it.

    Arguments:
        header: the JSON.
        arrays: the named arrays.
        energy: as in `load`.
        parts: as in `load`.
    """
    energy = Energy((energy,)) if isinstance(energy, Term) else energy
    model = {n: a for n, a in arrays.items() if not n.startswith("history/")}
    try:
        header, parts = upgraded(header), parts or {}
        kind = _method_of(header, parts)
        _check_sizes(header, kind, sum(array.size for array in model.values()))
        for name, array in model.items():
            _check_finite(name, array)
        method, flow, energy = kind.unpack(Packed(header, model, parts), energy)
        return Fit(
            method=method,
            flow=flow,
            energy=energy,
            status=Status(bool(header["status"]["ok"]), str(header["status"]["message"])),
            history=_history(header, arrays),
            steps=int(header["steps"]),
            seconds=float(header["seconds"]),
            seed=header["seed"],
            times=np.asarray(header["times"], float),
            source={k: v for k, v in header["data"].items() if k != "fingerprint"},
        )
    except ValueError:
        raise
    except Exception as error:  # a damaged header may hold anything
        raise BadInput(f"not a valid run header: {error!r}") from None


def _history(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[StageHistory]:
    """Columns `history/loss`, `history/loss/2` and so on, as one history for each stage.

    Runs of version 0.1.0 do not store the names of their stages.
    """
    stages: dict[int, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        if not name.startswith("history/"):
            continue
        if array.dtype.kind not in "iuf" or array.ndim != 1:
            words = name.removeprefix("history/")
            raise BadInput(f"the stored history of {words} is not a column of numbers")
        column, _, number = name.removeprefix("history/").rpartition("/")
        later = bool(column) and number.isdigit()
        stages.setdefault(int(number) if later else 1, {})[column if later else number] = array
    names = header.get("stages", [header["method"], *(f"stage {k}" for k in sorted(stages)[1:])])
    ordered = [stages[number] for number in sorted(stages)]
    return in_a_row(StageHistory(str(n), c) for n, c in zip(names, ordered, strict=True))


def _method_of(header: dict[str, Any], parts: Mapping[str, Any]) -> type[Method]:
    """The class of the method: the one of that name, unless the run was made by another class."""
    name = header["method"]
    known = type(METHODS[name]()) if name in METHODS else None
    stored = header.get("class", None if known is None else name_of(known))  # absent before 3
    if known is not None and same_name(name_of(known), stored):
        return known
    if stored is None or stored.startswith(f"{PACKAGE}."):
        raise BadInput(f"not a valid run header: {stored} is no method called {name!r}")
    own = handed(stored, parts)
    if not (isinstance(own, type) and issubclass(own, Method)):
        raise BadInput(f"parts: {stored} must be the class of a method, got {own!r}")
    return own


def _check_finite(name: str, array: np.ndarray) -> None:
    """Refuse NaN and infinity, except infinite bounds and the logarithm of a zero coefficient."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    end = name.rpartition(".")[2]
    allowed = {"most_bandwidth": np.inf, "raw": -np.inf}.get(end, 0.0)
    if not (np.isfinite(array) | (array == allowed)).all():
        raise BadInput(f"the model's {name} holds NaN or infinity")


def _check_sizes(header: dict[str, Any], method: type[Method], stored: int) -> None:
    """Refuse a header that declares a model far larger than the stored arrays."""
    dim = len(header["units"]["centre"]) if "units" in header else 0
    parts: list[tuple[Any, Any]] = [(method, header.get("settings", {}))]
    # The size of the user's own parts is not checked.
    entries = (entry for entry in header.get("energy", ()) if not entry["functions"])
    parts += [(built_in(entry["class"], Term), entry["settings"]) for entry in entries]
    known = [
        (kind, constructor_defaults(kind) | settings)
        for kind, settings in parts
        if kind is not None
    ]
    declared = [kind.declared_numbers(settings, dim) for kind, settings in known]
    made = dim + len(header.get("knots", ())) ** 2 + sum(part.made for part in declared)
    kept = sum(part.kept for part in declared)
    if made > UNSTORED + 4 * stored or kept > stored:
        raise BadInput(f"it declares a model of {made + kept:,} numbers, stores {stored:,}")


def versions() -> dict[str, str | None]:
    """The installed versions of the packages on which numbers depend."""
    return {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
