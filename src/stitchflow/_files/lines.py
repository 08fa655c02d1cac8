"""Result files: one JSON object a line, appended in one write and read as far as it is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def append_json(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One JSON object a line, added in one write: a kill leaves all of these lines or none.

    A full disk may cut them short, which is said.
    """
    lines = "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        while lines:
            lines = lines[os.write(descriptor, lines) :]
        os.fsync(descriptor)
    except OSError as error:
        raise OSError(f"{path} is cut short: it cannot be written ({error.strerror})") from None
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All complete lines of a results file; the last one may have been cut by a kill."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows
