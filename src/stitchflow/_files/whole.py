"""Files that are written whole or not at all, and folders that have one writer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stitchflow._status import BadInput

LOCK = ".lock"
KEPT = "what was there is kept"


def partial_of(path: Path) -> Path:
    """Where `path` is written before it is renamed: a name that only this package gives a file."""
    return path.with_name(f".stitchflow-{path.name}.partial")


def read_file(path: Path) -> bytes:
    """The content of a regular file: a device or a pipe in its place would never end."""
    if not path.is_file():
        raise BadInput(f"{path} cannot be read: no such file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """What a JSON file says, or one sentence that names it."""
    try:
        return json.loads(read_file(path))
    except RecursionError:
        raise BadInput(f"{path} is not JSON: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadInput(f"{path} is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path} is not JSON: it is not text") from None


def write_atomically(path: Path, content: bytes) -> None:
    """All of `content` or nothing, whatever happens on the way."""
    write_together({path: content})


def write_together(contents: dict[Path, bytes]) -> None:
    """Files that belong together: all are on disk under partial names before the first is renamed.

    A process killed between two renames leaves the rest complete, under their partial names; so
    does a system that refuses to rename the second of two.
    """
    first, *others = contents
    try:
        for path, content in contents.items():
            write_partial(path, content)
        with _naming(first, KEPT):
            os.replace(partial_of(first), first)
    except OSError:
        for path in contents:
            with suppress(OSError):
                partial_of(path).unlink(missing_ok=True)
        raise
    for path in others:
        with _naming(path, f"all of it is in {partial_of(path)}"):
            os.replace(partial_of(path), path)


def write_partial(path: Path, content: bytes) -> None:
    """All that is to be in `path`, on disk under its partial name."""
    partial = partial_of(path)
    with _naming(path, KEPT):
        # What a killed process left there, or a link that leads somewhere else.
        partial.unlink(missing_ok=True)
        with open(partial, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


@contextmanager
def _naming(path: Path, what_is_left: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{path} cannot be written ({reason}); {what_is_left}") from None


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Refuse a second process that writes to `folder`; the lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    path = folder / LOCK
    try:
        file = open(path, "ab", opener=_not_following)  # noqa: SIM115
    except OSError:
        if path.is_symlink():
            raise BadInput(f"{path} is a link; a lock is a file of the folder itself") from None
        raise
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{folder} is being written by another process") from None
        except OSError:
            pass  # a file system without locks
        yield


def _not_following(path: str, flags: int) -> int:
    """Open a file itself: neither what a link leads to, nor a pipe that nobody reads from."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
