"""Run directories: a JSON header and one file of arrays, no pickle, nothing that executes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._energy import Energy
from stitchflow._method import Fit, Packed
from stitchflow._methods import METHODS
from stitchflow._status import Status

FORMAT = 1
HEADER, ARRAYS = "header.json", "arrays.npz"
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
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # pyright: ignore
    header["arrays_sha256"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    # The header names the arrays' hash and is written last: a run is complete once it is there.
    write_atomically(folder / ARRAYS, buffer.getvalue())
    write_atomically(folder / HEADER, json.dumps(header, indent=1).encode())


def load(path: Any, *, energy: Energy | None = None) -> Fit:
    """Open a saved run. `energy` is needed only where it held functions of your own."""
    folder = Path(path)
    header, raw = read_header(folder), _read(folder / ARRAYS)
    if hashlib.sha256(raw).hexdigest() != header.get("arrays_sha256"):
        raise ValueError(f"{folder / ARRAYS} does not match its header: the run is damaged")
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError) as error:
        raise ValueError(f"{folder / ARRAYS} cannot be read: {error}") from None
    try:
        return from_plain(header, arrays, energy)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{folder / HEADER} is not a valid run header: {error!r}") from None


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
    """The fit that `plain` described."""
    history = {n.split("/", 1)[1]: a for n, a in arrays.items() if n.startswith("history/")}
    model = {n: a for n, a in arrays.items() if not n.startswith("history/")}
    kind = METHODS[header["method"]]()
    method, flow, energy = type(kind).unpack(Packed(header, model), energy)
    return Fit(
        method=method,
        flow=flow,
        energy=energy,
        status=Status(**header["status"]),
        history=history,
        steps=int(header["steps"]),
        seconds=float(header["seconds"]),
        seed=header["seed"],
        times=np.asarray(header["times"], float),
        source={k: v for k, v in header["data"].items() if k != "fingerprint"},
    )


def read_header(folder: Path) -> dict[str, Any]:
    """The header of a run, checked for its format."""
    if not (folder / HEADER).is_file():
        raise ValueError(f"{folder} is not a finished run: it has no {HEADER}")
    try:
        header = json.loads(_read(folder / HEADER))
    except ValueError as error:
        raise ValueError(f"{folder / HEADER} is not JSON: {error}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        found = header.get("format") if isinstance(header, dict) else type(header).__name__
        raise ValueError(f"{folder / HEADER} has format {found!r}; this version reads {FORMAT}")
    return header


def write_atomically(path: Path, content: bytes) -> None:
    """All of `content` or nothing, whatever happens on the way."""
    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def versions() -> dict[str, str | None]:
    """The packages that numbers hang on, as installed."""
    return {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
