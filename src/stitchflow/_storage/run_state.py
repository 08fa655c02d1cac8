"""The files of a run directory: which belong to it, which model is complete, what a kill left.

A process may be killed between any two system calls. Every change of a directory therefore takes
effect at one moment, and the next writer completes or discards an unfinished change.

- A model is saved by two renames and takes effect with the first one. Until the second, its header
  is complete under its partial name and contains the hash of the arrays.
- A run that replaces another takes effect once its plan is complete under its partial name. All
  files of the old run are removed before the plan is renamed; until then they have no meaning.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from stitchflow._files.whole import LOCK, partial_of, read_file, read_json, write_partial
from stitchflow._status import BadInput

# Format 2 adds a hash of the header. Format 3 stores full names of classes, names and settings of
# the user's own parts, and the effect of the energy's functions at a few points.
FORMAT, READ = 3, (1, 2, 3)
HEADER, ARRAYS = "header.json", "arrays.npz"
PLAN, SPLIT = "plan.json", "split.npz"
REPORT = "report.html"
MEMBERS = "ensemble.npz"  # further fits, to bootstraps of the data
CHECKPOINT = "checkpoint.npz"
CHECKPOINTS = (CHECKPOINT, "checkpoint-energy.npz", "checkpoint-curve.npz")
# In the order in which a replaced run is removed: without its header there is no model.
FILES = (HEADER, ARRAYS, SPLIT, REPORT, MEMBERS, *CHECKPOINTS, PLAN)


def _old_partial_of(path: Path) -> Path:
    """The partial name of a file in version 0.1.0."""
    return path.with_name(path.name + ".partial")


NAMINGS = (partial_of, _old_partial_of)


class Model(NamedTuple):
    """A header and the arrays whose hash it contains.

    Arguments:
        header: the content of the header.
        arrays: the content of the file of arrays.
        places: the two files in which they were found.
    """

    header: dict[str, Any]
    arrays: bytes
    places: tuple[Path, Path]


def whole_model(folder: Path) -> Model:
    """The model of the run in `folder`, from any stage of a save; an error describes the damage."""
    told: ValueError | None = None
    for header, arrays in _places(folder):
        try:
            return _model(folder, header, arrays)
        except ValueError as error:
            told = told or error  # the first error concerns the final names, which users know
    assert told is not None
    raise told


def _places(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Where header and arrays may be: saved, saved except for one rename, except for both."""
    header, arrays = folder / HEADER, folder / ARRAYS
    yield header, arrays
    for partial in NAMINGS:
        yield partial(header), arrays
        yield partial(header), partial(arrays)


def _model(folder: Path, header: Path, arrays: Path) -> Model:
    if not header.is_file():
        raise BadInput(f"{folder} is not a finished run: it has no {HEADER}")
    told, content = read_header(header), read_file(arrays)
    if sha256(content).hexdigest() != told.get("arrays_sha256"):
        raise BadInput(f"{arrays} does not match its header: the run is damaged")
    return Model(told, content, (header, arrays))


def read_header(path: Path) -> dict[str, Any]:
    """The header in the file `path`, checked for its format and against its own hash."""
    header = read_json(path)
    found = header.get("format") if isinstance(header, dict) else type(header).__name__
    check_format(found, str(path))
    if header.pop("sha256", None) != (seal(header) if found != 1 else None):
        raise BadInput(f"{path} does not match its own hash: the run is damaged")
    return header


def check_format(found: Any, place: str) -> None:
    """Refuse a format `found` in the file `place` that this version cannot read."""
    if found not in READ:
        listed = f"{', '.join(map(str, READ[:-1]))} and {READ[-1]}"
        raise BadInput(f"{place} has format {found!r}; this version reads {listed}")


def seal(header: dict[str, Any]) -> str:
    """The hash of the content of a `header`, independent of its layout."""
    return sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def stored_plan(folder: Path) -> dict[str, Any] | None:
    """The plan of the run in `folder`, the latest that is complete; None without one."""
    latest = partial_of(folder / PLAN)
    path = latest if _is_plan(latest) else folder / PLAN
    if not path.is_file():
        return None
    if not isinstance(plan := read_json(path), dict):
        raise BadInput(f"{path} is not the plan of a run: it holds a {type(plan).__name__}")
    return plan


def check_free(folder: Path, overwrite: bool, named: str, how: str) -> None:
    """Refuse a folder that holds a run, or files that are not part of a run.

    Arguments:
        folder: the directory.
        overwrite: whether a run may be replaced.
        named: how the message calls the folder.
        how: how the message says that the run can be replaced.
    """
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{named} is a file; a run is a directory")
    if not overwrite and _holds_run(folder):
        raise BadInput(f"{named} already holds a run; pass {how}")
    if others := _of_others(folder):
        listed = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
        words = f"{named} holds {listed}, which is not of a run"
        raise BadInput(f"{words}; name a new folder, an empty one or that of a run")


def _holds_run(folder: Path) -> bool:
    """Whether the folder contains a run that was begun, or a model under any name."""
    if (folder / PLAN).exists() or (folder / HEADER).exists():
        return True
    with suppress(ValueError):
        whole_model(folder)
        return True
    return False


def _of_others(folder: Path) -> list[str]:
    """Names in a folder that this package did not write; a name alone does not prove a run."""
    if not folder.is_dir():
        return []
    own = {partial_of(folder / name).name for name in FILES}
    header, plan = folder / HEADER, folder / PLAN
    headers = (header, *(partial(header) for partial in NAMINGS))
    plans = (plan, *(partial(plan) for partial in NAMINGS))
    if any(map(_is_header, headers)) or any(map(_is_plan, plans)):
        own |= {*FILES, *(_old_partial_of(folder / name).name for name in FILES)}
    found = {path.name: path.lstat() for path in folder.iterdir()}
    if (lock := found.get(LOCK)) and stat.S_ISREG(lock.st_mode) and not lock.st_size:
        own.add(LOCK)
    return sorted(n for n, entry in found.items() if n not in own or stat.S_ISDIR(entry.st_mode))


def _is_header(path: Path) -> bool:
    return _says(path, "format", "method")


def _is_plan(path: Path) -> bool:
    return _says(path, "data", "method", "seed")


def _says(path: Path, *keys: str) -> bool:
    """Whether a file is complete JSON with these entries; a truncated object is not valid JSON."""
    try:
        found = read_json(path)
    except ValueError:
        return False
    return isinstance(found, dict) and set(keys) <= set(found)


def begin(folder: Path, plan: dict[str, Any]) -> None:
    """Start a run with this `plan` and remove any earlier one. The folder's lock must be held."""
    write_partial(folder / PLAN, json.dumps(plan, indent=1).encode())
    _replace_run(folder)


def _replace_run(folder: Path) -> None:
    """Remove the files of the old run and rename the complete plan from its partial name."""
    plan = folder / PLAN
    for name in FILES[: FILES.index(PLAN)]:
        for path in (folder / name, *(partial(folder / name) for partial in NAMINGS)):
            path.unlink(missing_ok=True)
    os.replace(partial_of(plan), plan)


def settle(folder: Path) -> None:
    """Complete or discard what a killed process began. The folder's lock must be held."""
    if _is_plan(partial_of(folder / PLAN)):
        _replace_run(folder)
    with suppress(ValueError):
        header, arrays = whole_model(folder).places
        for path, place in ((arrays, folder / ARRAYS), (header, folder / HEADER)):
            if path != place:
                os.replace(path, place)
    for name in FILES:
        for partial in NAMINGS:
            partial(folder / name).unlink(missing_ok=True)


def can_resume(folder: Path) -> bool:
    """Whether `folder` has the state of a fit that was stopped."""
    return any((folder / name).exists() for name in CHECKPOINTS)


def clear_checkpoints(folder: Path) -> None:
    """Remove from `folder` the files that only an unfinished fit needs."""
    for name in CHECKPOINTS:
        (folder / name).unlink(missing_ok=True)
