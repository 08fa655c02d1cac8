"""What a run directory holds: which files are its own, which model is whole, what a kill left.

A process may be killed between any two calls of the system, so every change of a directory has one
moment at which it takes place, and what was under way is finished or dropped by the next writer.

- A model is saved by two renames. It is there once the first is done: until the second is, its
  header is whole under its partial name and names the hash of the arrays.
- A run that replaces another is there once its plan is whole under its partial name: until that is
  renamed, after everything of the old run is removed, the old run's files mean nothing.
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

# Format 2 seals the header with its own hash. Format 3 names classes in full, holds the names and
# settings of parts of the user's own, and tells what the energy's functions do.
FORMAT, READ = 3, (1, 2, 3)
HEADER, ARRAYS = "header.json", "arrays.npz"
PLAN, SPLIT = "plan.json", "split.npz"
REPORT = "report.html"
CHECKPOINT = "checkpoint.npz"
CHECKPOINTS = (CHECKPOINT, "checkpoint-energy.npz", "checkpoint-curve.npz")
# In the order in which a run that is replaced is removed: without a header there is no model.
FILES = (HEADER, ARRAYS, SPLIT, REPORT, *CHECKPOINTS, PLAN)


def _old_partial_of(path: Path) -> Path:
    """The partial name that version 0.1.0 gave a file."""
    return path.with_name(path.name + ".partial")


NAMINGS = (partial_of, _old_partial_of)


class Model(NamedTuple):
    """A header and the arrays it names by their hash, as found in two files."""

    header: dict[str, Any]
    arrays: bytes
    places: tuple[Path, Path]


def whole_model(folder: Path) -> Model:
    """The model of a run, from wherever a save has brought it; an error names the damage."""
    told: ValueError | None = None
    for header, arrays in _places(folder):
        try:
            return _model(folder, header, arrays)
        except ValueError as error:
            told = told or error  # the finished names come first and are what users know
    assert told is not None
    raise told


def _places(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Where header and arrays may be: saved, saved but for a rename, saved but for both."""
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
    """The header in a file, checked for its format and against its own hash."""
    header = read_json(path)
    found = header.get("format") if isinstance(header, dict) else type(header).__name__
    check_format(found, str(path))
    if header.pop("sha256", None) != (seal(header) if found != 1 else None):
        raise BadInput(f"{path} does not match its own hash: the run is damaged")
    return header


def check_format(found: Any, place: str) -> None:
    if found not in READ:
        listed = f"{', '.join(map(str, READ[:-1]))} and {READ[-1]}"
        raise BadInput(f"{place} has format {found!r}; this version reads {listed}")


def seal(header: dict[str, Any]) -> str:
    """The hash of what a header says, however it is laid out."""
    return sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()


def stored_plan(folder: Path) -> dict[str, Any] | None:
    """What the run here was asked to do, by the latest plan that is whole; None without one."""
    latest = partial_of(folder / PLAN)
    path = latest if _is_plan(latest) else folder / PLAN
    if not path.is_file():
        return None
    if not isinstance(plan := read_json(path), dict):
        raise BadInput(f"{path} is not the plan of a run: it holds a {type(plan).__name__}")
    return plan


def check_free(folder: Path, overwrite: bool, named: str, how: str) -> None:
    """Refuse a folder that holds a run, unless it is to be replaced, or anything that is no run's.

    `named` and `how` say in the caller's words which folder it is and what would replace the run.
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
    """Whether there is something to lose: a run that was begun, or a model under any name."""
    if (folder / PLAN).exists() or (folder / HEADER).exists():
        return True
    with suppress(ValueError):
        whole_model(folder)
        return True
    return False


def _of_others(folder: Path) -> list[str]:
    """Names in a folder that this package did not write; names alone do not make a run."""
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
    """Whether a file is whole JSON with these entries; of an object cut short nothing can be."""
    try:
        found = read_json(path)
    except ValueError:
        return False
    return isinstance(found, dict) and set(keys) <= set(found)


def begin(folder: Path, plan: dict[str, Any]) -> None:
    """Start a run; whatever run was here before is gone. For the holder of the folder's lock."""
    write_partial(folder / PLAN, json.dumps(plan, indent=1).encode())
    _replace_run(folder)


def _replace_run(folder: Path) -> None:
    """Bring the plan that is whole under its partial name into force."""
    plan = folder / PLAN
    for name in FILES[: FILES.index(PLAN)]:
        for path in (folder / name, *(partial(folder / name) for partial in NAMINGS)):
            path.unlink(missing_ok=True)
    os.replace(partial_of(plan), plan)


def settle(folder: Path) -> None:
    """Finish or drop what a killed process began. For the holder of the folder's lock."""
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


def clear_checkpoints(folder: Path) -> None:
    """Remove what only an unfinished fit needs."""
    for name in CHECKPOINTS:
        (folder / name).unlink(missing_ok=True)
