"""The directory of a run: the split, what may be overwritten, and where a fit resumes."""

from __future__ import annotations

import hashlib
import json
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stitchflow._data.content import SINGLE, among, marks, precision_of
from stitchflow._data.snapshots import Snapshots
from stitchflow._files.archive import Archive
from stitchflow._files.whole import read_file, write_atomically
from stitchflow._reading.tables import DataFile
from stitchflow._status import BadInput, naming
from stitchflow._storage.run_state import FILES, SPLIT, check_free, stored_plan
from stitchflow._storage.save import packed
from stitchflow._training.checkpoint import Checkpoint


@dataclass(frozen=True)
class Split:
    """Row numbers of a data file: training individuals and held-out individuals.

    Arguments:
        train: the rows that were trained on.
        test: the rows that are held out.
        marks: a hash of the content of every row, by which individuals are found in a copy of the
            file with another format or order; None for runs of version 0.1.0.
        precision: the bytes of a number in the hashes: 4 for single precision, 8 for double.
    """

    train: np.ndarray
    test: np.ndarray
    marks: np.ndarray | None = None
    precision: int = SINGLE

    @staticmethod
    def of(file: DataFile, hold_out: Sequence[float], fraction: float, seed: int) -> Split:
        """The split that the file itself declares, or a random one.

        Arguments:
            file: the data.
            hold_out: times whose individuals are all held out.
            fraction: the share of individuals that is held out at random.
            seed: the seed of the random split.
        """
        data = file.snapshots
        assert data.rows is not None
        if file.train_rows is not None:
            train = file.train_rows
            test = np.setdiff1d(data.rows, train) if file.test_rows is None else file.test_rows
        elif file.test_rows is not None:
            train, test = np.setdiff1d(data.rows, file.test_rows), file.test_rows
        elif fraction == 0:
            train, test = data.rows, data.rows[:0]
        else:
            with naming(f"--test-fraction {fraction:g}"):
                parts = data.split(1.0 - fraction, key=seed)
            train, test = (np.asarray(part.rows) for part in parts)
        with naming(f"{file.path}: --hold-out"):
            held = np.isin(data.index, [data.at(t) for t in hold_out])
        hidden = data.rows[held]
        return Split(np.setdiff1d(train, hidden), np.union1d(test, hidden)).marked(data)

    def marked(self, data: Snapshots) -> Split:
        """The same rows, with marks of the content of the table `data` whose rows they count."""
        precision = precision_of(data)
        return replace(self, marks=marks(data, precision), precision=precision)

    def found_in(self, data: Snapshots) -> Split | None:
        """The same individuals by the row numbers of another table, as far as they occur in it."""
        if self.marks is None:
            return None
        here = marks(data, self.precision)
        if np.array_equal(here, self.marks):
            return self
        trained = among(here, self.marks[self.train])
        rest = np.flatnonzero(~trained)
        held = rest[among(here[rest], self.marks[self.test])]
        return replace(self, train=np.flatnonzero(trained), test=held, marks=here)

    def same_table(self, other: Split) -> bool:
        """Whether both splits count the rows of one table, in any order."""
        assert self.marks is not None
        assert other.marks is not None
        return np.array_equal(np.sort(self.marks), np.sort(other.marks))


def check_run(
    out: Path, file: DataFile, plan: dict[str, Any], resume: bool = False, overwrite: bool = False
) -> None:
    """Refuse to replace a run without permission, and the data file in any case.

    Arguments:
        out: the directory of the run.
        file: the data that will be fitted.
        plan: what the run is about to do.
        resume: whether an unfinished run with the same plan is to be continued.
        overwrite: whether a run in the directory may be replaced.
    """
    if any((out / name).exists() and (out / name).samefile(file.path) for name in FILES):
        raise BadInput(f"--out {out} would overwrite {file.path}, which is to be read")
    if not resume:
        check_free(out, overwrite, f"--out {out}", "--overwrite or --resume")
        return
    with naming("--resume"):
        before = stored_plan(out)
    if before is None:
        raise BadInput(f"--resume: {out} holds no run to resume")
    rest = lambda of: {name: value for name, value in of.items() if name != "data"}
    same_settings = rest(before) == json.loads(json.dumps(rest(plan)))
    if not same_settings or not same_data(before.get("data"), plan["data"], file):
        raise BadInput(f"--resume: {out} was started with other data or settings")


def same_data(before: Any, now: dict[str, Any], file: DataFile) -> bool:
    """Whether two records describe the same individuals with the same training part.

    Arguments:
        before: the stored record; those of version 0.1.0 contain the hash of the file only.
        now: the record of the present run.
        file: the present data file.
    """
    if not isinstance(before, dict):
        return False
    content = ("content", "train")
    if all(name in before for name in content):
        return all(before[name] == now[name] for name in content)
    same_columns = before.get("columns") == json.loads(json.dumps(now["columns"]))
    return same_columns and before.get("sha256") == file.sha256


def write_split(out: Path, split: Split) -> str:
    """Write the rows of a `split` into the directory `out`; returns the hash of the file."""
    content = packed({name: part for name, part in asdict(split).items() if part is not None})
    write_atomically(out / SPLIT, content)
    return hashlib.sha256(content).hexdigest()


def read_split(run: Path, source: dict[str, Any]) -> Split:
    """The rows that were trained on and held out, checked against the run's header.

    Arguments:
        run: the directory of the run.
        source: what its header records about the data.
    """
    path = run / SPLIT
    try:
        content = read_file(path)
        found = hashlib.sha256(content).hexdigest()
        if source.get("split_sha256", found) != found:  # runs of format 1 store no hash
            raise BadInput("it does not match the run's header")
        stored = Archive(content)
        split = Split(stored["train"], stored["test"])
        if "marks" in stored.names:
            split = replace(split, marks=stored["marks"], precision=int(stored["precision"]))
        return split
    except ValueError as error:
        raise BadInput(f"{path}: cannot be read ({error})") from None


@contextmanager
def stopping(checkpoint: Checkpoint) -> Iterator[None]:
    """End the fit of `checkpoint` at its next look at the loss on SIGINT or SIGTERM.

    A second signal ends it at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives signals
        return
    heard = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
    heard = {kind: own for kind, own in heard.items() if own not in (None, signal.SIG_IGN)}

    def stop(*_: Any) -> None:
        checkpoint.stopped.set()
        print("stitchflow: stopping; once more stops at once", file=sys.stderr)
        for kind in heard:
            signal.signal(kind, signal.default_int_handler)

    try:
        for kind in heard:
            signal.signal(kind, stop)
        yield
    finally:
        for kind, handler in heard.items():
            signal.signal(kind, handler)
