"""Files that are written whole or not at all, and folders that have one writer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

PARTIAL, LOCK = ".partial", ".lock"


def read_file(path: Path) -> bytes:
    """The content of a regular file: a device or a pipe in its place would never end."""
    if not path.is_file():
        raise ValueError(f"{path} cannot be read: no such file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """What a JSON file says, or one sentence that names it."""
    try:
        return json.loads(read_file(path))
    except RecursionError:
        raise ValueError(f"{path} is not JSON: it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not JSON: it is not text") from None


def write_atomically(path: Path, content: bytes) -> None:
    """All of `content` or nothing, whatever happens on the way."""
    write_together({path: content})


def write_together(contents: dict[Path, bytes]) -> None:
    """Files that belong together: all are on disk under partial names before the first is renamed.

    A process killed between two renames leaves the rest complete, under their partial names.
    """
    partials = {path: path.with_name(path.name + PARTIAL) for path in contents}
    writing = next(iter(contents))
    try:
        for writing, content in contents.items():
            # What a killed process left there, or a link that leads somewhere else.
            partials[writing].unlink(missing_ok=True)
            with open(partials[writing], "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for writing, partial in partials.items():
            os.replace(partial, writing)
    except OSError as error:
        for partial in partials.values():
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        reason = error.strerror or error
        raise OSError(f"{writing} cannot be written ({reason}); what was there is kept") from None


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Refuse a second process that writes to `folder`; the lock ends with the process."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with open(folder / LOCK, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"{folder} is being written by another process") from None
        except OSError:
            pass  # a file system without locks
        yield
