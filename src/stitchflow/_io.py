"""Run directories: a JSON header and one file of arrays, no pickle, nothing that executes."""

from __future__ import annotations

import io
import json
import platform
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._archive import Archive
from stitchflow._energy import Energy
from stitchflow._files import PARTIAL, read_file, read_json, write_together
from stitchflow._method import Fit, Packed
from stitchflow._methods import METHODS
from stitchflow._status import Status

# Format 2 seals the header with its own hash; files of format 1 are read too.
FORMAT, READ = 2, (1, 2)
HEADER, ARRAYS = "header.json", "arrays.npz"
UNSTORED = 2**22  # widths may be declared of networks that a term does without
_PACKAGES = ("stitchflow", "jax", "equinox", "optax", "diffrax", "numpy", "scipy", "POT")


def save(fit: Fit, path: Any, *, overwrite: bool = False) -> None:
    """Write `fit` to the directory `path`; an existing run is only replaced when asked."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; a run is saved as a directory")
    if (folder / HEADER).exists() and not overwrite:
        raise ValueError(f"{folder} already holds a run; pass overwrite=True to replace it")
    folder.mkdir(parents=True, exist_ok=True)
    header, arrays = plain(fit)
    content = packed(arrays)
    header["arrays_sha256"] = sha256(content).hexdigest()
    header["sha256"] = _seal(header)
    text = json.dumps(header, indent=1).encode()
    # The header names the arrays' hash and is renamed last: a run is complete once it is there.
    write_together({folder / ARRAYS: content, folder / HEADER: text})


def load(path: Any, *, energy: Energy | None = None) -> Fit:
    """Open a saved run. `energy` is needed only where it held functions of your own."""
    folder = Path(path)
    header, content = read_header(folder), read_file(folder / ARRAYS)
    found, cut_short = sha256(content).hexdigest(), folder / (HEADER + PARTIAL)
    if found != header.get("arrays_sha256") and cut_short.is_file():
        header = _read_header(cut_short)  # killed between the renames of arrays and header
    if found != header.get("arrays_sha256"):
        raise ValueError(f"{folder / ARRAYS} does not match its header: the run is damaged")
    try:
        arrays = Archive(content).all()
    except ValueError as error:
        raise ValueError(f"{folder / ARRAYS} cannot be read: {error}") from None
    try:
        return from_plain(header, arrays, energy)
    except ValueError as error:
        raise ValueError(f"{folder / HEADER}: {error}") from None


def packed(arrays: dict[str, np.ndarray]) -> bytes:
    """Named arrays as the content of an `.npz`."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # pyright: ignore
    return buffer.getvalue()


def plain(fit: Fit) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A fit as JSON and named arrays; what was fitted to is known by its fingerprint alone."""
    packed = fit.method.pack(fit)
    history = {f"history/{name}": values for name, values in fit.history.items()}
    data = None if fit.data is None else fit.data.fingerprint
    header = {
        "format": FORMAT,
        "method": fit.method.name,
        "status": {"ok": fit.status.ok, "message": fit.status.message},
        "steps": fit.steps,
        "seconds": fit.seconds,
        "seed": fit.seed,
        "times": fit.times.tolist(),
        "data": {"fingerprint": data, **fit.source},
        "versions": versions(),
        **packed.header,
    }
    return header, packed.arrays | history


def from_plain(
    header: dict[str, Any], arrays: dict[str, np.ndarray], energy: Energy | None = None
) -> Fit:
    """The fit that `plain` described, or a `ValueError` about what is wrong with it."""
    history = {n.split("/", 1)[1]: a for n, a in arrays.items() if n.startswith("history/")}
    model = {n: a for n, a in arrays.items() if not n.startswith("history/")}
    try:
        _check_sizes(header, sum(array.size for array in model.values()))
        for name, array in model.items():
            if array.dtype.kind == "f" and np.isnan(array).any():
                raise ValueError(f"the stored {name} holds NaN")
        kind = METHODS[header["method"]]()
        method, flow, energy = type(kind).unpack(Packed(header, model), energy)
        return Fit(
            method=method,
            flow=flow,
            energy=energy,
            status=Status(bool(header["status"]["ok"]), str(header["status"]["message"])),
            history=history,
            steps=int(header["steps"]),
            seconds=float(header["seconds"]),
            seed=header["seed"],
            times=np.asarray(header["times"], float),
            source={k: v for k, v in header["data"].items() if k != "fingerprint"},
        )
    except ValueError:
        raise
    except Exception as error:  # what a hostile header may hold has no end
        raise ValueError(f"not a valid run header: {error!r}") from None


def _check_sizes(entry: Any, stored: int) -> None:
    """No network that a header declares may be far larger than the arrays that should fill it."""
    for name, value in entry.items() if isinstance(entry, dict) else enumerate(entry):
        if name == "hidden" and isinstance(value, list):
            largest = max((a * b for a, b in pairwise(value)), default=max(value, default=0))
            if largest > max(stored, UNSTORED):
                raise ValueError(f"it declares layers {value} and stores {stored} numbers")
        elif isinstance(value, (dict, list)):
            _check_sizes(value, stored)


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a run, checked for its format and against its own hash."""
    if not (folder / HEADER).is_file():
        raise ValueError(f"{folder} is not a finished run: it has no {HEADER}")
    return _read_header(folder / HEADER)


def _read_header(path: Path) -> dict[str, Any]:
    header = read_json(path)
    found = header.get("format") if isinstance(header, dict) else type(header).__name__
    check_format(found, str(path))
    if header.pop("sha256", None) != (_seal(header) if found != 1 else None):
        raise ValueError(f"{path} does not match its own hash: the run is damaged")
    return header


def check_format(found: Any, place: str) -> None:
    if found not in READ:
        listed = " and ".join(map(str, READ))
        raise ValueError(f"{place} has format {found!r}; this version reads {listed}")


def _seal(header: dict[str, Any]) -> str:
    """The hash of what a header says, however it is laid out."""
    return sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def versions() -> dict[str, str | None]:
    """The packages that numbers hang on, as installed."""
    return {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
