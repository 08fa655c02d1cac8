"""The state of a fit on disk, from which the same fit continues to the same numbers."""

from __future__ import annotations

import io
import json
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stitchflow._files.archive import Archive
from stitchflow._files.whole import read_file, write_atomically
from stitchflow._status import BadInput


class Checkpoint:
    """A file with the state of the training loop, from which an interrupted fit continues.

    Hand it to `fit(checkpoint=...)`. The file is replaced atomically, and where it exists already
    the fit continues from it. The state determines everything that follows, so that a resumed fit
    gives the same numbers. A file of another fit (other data, settings or key) raises an error.

    Arguments:
        path: the file, such as `run/state.npz`. Later stages of a fit write files beside it.
        seconds: the shortest time between two writes.

    Attributes:
        stopped: an event; setting it ends the fit the next time its loss is read, with the best
            model so far.

    Examples:
        >>> state = sf.Checkpoint("state.npz", seconds=60.0)               # doctest: +SKIP
        >>> fit = sf.fit(data, checkpoint=state)                           # doctest: +SKIP
    """

    def __init__(self, path: Path, seconds: float = 15.0):
        self.path, self.seconds = Path(path), seconds
        self.owner, self.stopped = "", threading.Event()
        self._last = time.monotonic()

    def following(self, name: str) -> Checkpoint:
        """The checkpoint of a later part of the same fit, in a file beside this one.

        Arguments:
            name: what is added to the name of the file.

        Returns:
            A checkpoint that shares `stopped` with this one.
        """
        return self._like(self.path.with_stem(f"{self.path.stem}-{name}"), self.owner)

    def owned_by(self, *fit: Any) -> Checkpoint:
        """This checkpoint for one fit only: the state of another fit in the file is refused.

        Arguments:
            fit: what tells fits apart, such as the fingerprint of the data, the settings and the
                key.

        Returns:
            A checkpoint of the same file.
        """
        words = json.dumps(fit, sort_keys=True, default=repr)
        return self._like(self.path, sha256(words.encode()).hexdigest())

    def _like(self, path: Path, owner: str) -> Checkpoint:
        other = Checkpoint(path, self.seconds)
        other.owner, other.stopped = owner, self.stopped
        return other

    def due(self) -> bool:
        """Whether it is time to write again."""
        return time.monotonic() - self._last >= self.seconds

    def write(self, state: Any, notes: dict[str, Any]) -> None:
        """Write arrays and plain JSON in one file, completely or not at all.

        Arguments:
            state: a tree of arrays.
            notes: what JSON can store.
        """
        self._last = time.monotonic()
        leaves = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        buffer = io.BytesIO()
        words = json.dumps({**notes, "owner": self.owner})
        np.savez(buffer, **leaves, notes=np.array(words))  # pyright: ignore
        write_atomically(self.path, buffer.getvalue())

    def read(self, state: Any) -> tuple[Any, dict[str, Any]] | None:
        """Read what `write` has stored.

        Arguments:
            state: a tree of arrays of the shapes and types that are expected.

        Returns:
            The stored tree and its notes, or None where there is no file.
        """
        if not self.path.exists():
            return None
        leaves, shape = jax.tree.flatten(state)
        try:
            stored = Archive(read_file(self.path))  # not mapped: a checksum covers all of it
            notes = _notes(str(stored["notes"]))
            if not isinstance(notes, dict) or notes.pop("owner", None) != self.owner:
                raise BadInput("it belongs to another fit")
            found = [jnp.asarray(stored[f"leaf{i}"]) for i in range(len(leaves))]
            if any(
                a.shape != b.shape or a.dtype != b.dtype for a, b in zip(found, leaves, strict=True)
            ):
                raise BadInput("it belongs to a fit of another shape")
        except ValueError as error:
            raise BadInput(f"{self.path}: {error}; without this file the fit starts anew") from None
        return shape.unflatten(found), notes


def _notes(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise BadInput("its notes are nested too deeply") from None
