"""A process may end between any two changes it makes to a run directory; no work is lost by it."""

import os
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from falling import falling
from stitchflow._command import fit_file as _runs
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table
from stitchflow._training.history import StageHistory

LOOKS = 2  # of each of three stages
DONE = []  # a look each, over all processes of a run


class Stopped(sf.Checkpoint):
    """A checkpoint of a fit that is told to stop before it begins."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.stopped.set()


class KilledError(BaseException):
    """The end of a process, which nothing in it may catch."""


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """What a killed process wrote is with the system, whether or not it has reached the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@contextmanager
def killed_at(k: int, monkeypatch):
    """End whatever runs just before its k-th change of a file; a file it writes is cut in half."""
    left = count(k, -1)

    def before(change, cut=None):
        def call(what, *rest, **more):
            if (cut or os.path.lexists(what)) and next(left) == 1:
                if cut:
                    cut(what)
                raise KilledError
            return change(what, *rest, **more)

        return call

    with monkeypatch.context() as patch:
        half = lambda file: os.ftruncate(file, os.fstat(file).st_size // 2)
        patch.setattr(os, "fsync", before(os.fsync, cut=half))
        for name in ("replace", "unlink"):
            patch.setattr(os, name, before(getattr(os, name)))
        yield


def staged(train, method, seed, *, progress, checkpoint):
    """A fit in three stages of two looks, each kept, whose numbers depend on every look."""
    result = sf.fit(train, method, seed, progress=False)
    total = jnp.asarray(float(seed))
    for stage in (checkpoint, checkpoint.following("energy"), checkpoint.following("curve")):
        stored = stage.read(total)
        total, looks = (total, 0) if stored is None else (stored[0], stored[1]["looks"])
        while looks < LOOKS:
            if checkpoint.stopped.is_set():
                result.status = sf.Status(False, "interrupted")
                break
            total, looks = 3.0 * total + looks + 1.0, looks + 1
            DONE.append(looks)
            stage.write(total, {"looks": looks})
    result.history = [StageHistory("nearest", {"total": np.asarray([total])})]
    return result


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A quick run of the command, with the directory it goes to."""
    monkeypatch.setattr(_runs, "fit", staged)
    data = falling()
    np.savez(tmp_path / "data.npz", x=data.x, t=data.times[data.index])
    file = read_table(tmp_path / "data.npz")

    def call(folder: Path, **asked):
        return _runs.fit_file(file, Columns(), sf.Nearest(), folder, progress=False, **asked)

    return call


def numbers(folder: Path) -> float:
    return float(sf.load(folder).history[0]["total"][0])


def check_finished(folder: Path, expected: float, *others: str) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {".lock", "plan.json", "split.npz", "arrays.npz", "header.json", *others}
    assert sf.load(folder).status.ok
    assert numbers(folder) == expected


def moments(work, tmp_path, monkeypatch, prepare=lambda folder: None):
    """Directories that the work was killed in, one for each change it makes."""
    for k in count(1):
        folder = tmp_path / f"run{k}"
        prepare(folder)
        DONE.clear()
        try:
            with killed_at(k, monkeypatch):
                work(folder)
        except KilledError:
            yield folder
            continue
        assert k > 3
        return


def go_on(run, folder: Path) -> None:
    """The command again: where no plan was written down yet there is nothing to go on with."""
    run(folder, resume=(folder / "plan.json").exists())


def test_a_run_killed_at_any_change_of_a_file_goes_on(run, tmp_path, monkeypatch):
    run(tmp_path / "whole")
    expected, killed = numbers(tmp_path / "whole"), 0
    check_finished(tmp_path / "whole", expected)
    for folder in moments(run, tmp_path, monkeypatch):
        killed += 1
        go_on(run, folder)
        check_finished(folder, expected)
        assert len(DONE) <= 3 * LOOKS + 1  # the look that was being written, at most, is repeated
        run(folder, resume=True)
        check_finished(folder, expected)
    # Plan, split, header, arrays and every look are written and renamed; three files are removed.
    assert killed == 2 * (4 + 3 * LOOKS) + 3


@pytest.mark.parametrize("again", [1, 3])
def test_a_resumed_run_killed_in_turn_goes_on(run, tmp_path, monkeypatch, again):
    run(tmp_path / "whole")
    expected = numbers(tmp_path / "whole")
    for folder in moments(run, tmp_path, monkeypatch):
        try:
            with killed_at(again, monkeypatch):
                go_on(run, folder)
        except KilledError:
            go_on(run, folder)
        run(folder, resume=True)
        check_finished(folder, expected)


def interrupt(run, monkeypatch, folder: Path) -> None:
    """A run that was stopped before its first look, and saved as that."""
    with monkeypatch.context() as patch:
        patch.setattr(_runs, "Checkpoint", Stopped)
        assert not run(folder).status.ok


def test_an_interrupted_run_killed_while_it_is_resumed_goes_on(run, tmp_path, monkeypatch):
    """Its header is of the interrupted model until the last rename."""
    run(tmp_path / "whole")
    expected = numbers(tmp_path / "whole")
    prepare = partial(interrupt, run, monkeypatch)
    for folder in moments(partial(run, resume=True), tmp_path, monkeypatch, prepare):
        assert numbers(folder) in (0.0, expected)
        for _ in range(2):
            run(folder, resume=True)
            check_finished(folder, expected)


def test_a_run_that_replaces_another_leaves_the_old_or_goes_on(run, tmp_path, monkeypatch):
    begin, replace = partial(run, seed=1), partial(run, seed=2, overwrite=True)
    begin(tmp_path / "old")
    replace(tmp_path / "new")
    old, new = numbers(tmp_path / "old"), numbers(tmp_path / "new")
    assert old != new

    def prepare(folder):
        begin(folder)
        (folder / "report.html").write_text("of the old run")

    outcomes = []
    for folder in moments(replace, tmp_path, monkeypatch, prepare):
        if not outcomes:  # the new plan was cut in half
            with pytest.raises(ValueError, match="was started with other data or settings"):
                run(folder, seed=2, resume=True)
            assert numbers(folder) == old
            begin(folder, resume=True)
            assert (folder / "report.html").exists()
            replace(folder)
        else:
            run(folder, seed=2, resume=True)
        check_finished(folder, new)
        outcomes.append(folder)
    assert len(outcomes) == 2 * (4 + 3 * LOOKS) + 3 + 4  # and four files of the old run are removed


def model(total: float) -> sf.Fit:
    """A fit that is known by a number."""
    fit = sf.fit(falling(), sf.Nearest(), progress=False)
    fit.history = [StageHistory("nearest", {"total": np.array([total])})]
    return fit


def test_a_save_killed_at_any_change_of_a_file_leaves_a_model(tmp_path, monkeypatch):
    old, new, found = model(1.0), model(2.0), []
    save = partial(new.save, overwrite=True)
    for folder in moments(save, tmp_path, monkeypatch, prepare=old.save):
        found.append(numbers(folder))
        save(folder)
        assert numbers(folder) == 2.0
        names = {path.name for path in folder.iterdir()}
        assert names == {".lock", "arrays.npz", "header.json"}
    assert found == [1.0, 1.0, 1.0, 2.0]  # two files are written, then two are renamed


def test_a_first_save_that_was_killed_is_there_once_both_files_are_written(tmp_path, monkeypatch):
    for k, folder in enumerate(moments(model(2.0).save, tmp_path, monkeypatch)):
        if k < 2:
            with pytest.raises(ValueError, match="is not a finished run"):
                sf.load(folder)
        else:
            assert numbers(folder) == 2.0
            with pytest.raises(ValueError, match="already holds a run"):
                model(1.0).save(folder)
        model(1.0).save(folder, overwrite=k >= 2)
        assert numbers(folder) == 1.0


@pytest.mark.parametrize("state", ["no header", "no file", "an old header"])
def test_what_the_version_before_left_is_brought_into_place(run, tmp_path, state):
    folder = tmp_path / "run"
    run(folder)
    expected = numbers(folder)
    (folder / "checkpoint.npz").write_bytes(b"PK")  # which is not read: the fit is over
    (folder / "notes.partial").write_text("mine")
    for name in ("header.json", "arrays.npz") if state == "no file" else ("header.json",):
        (folder / name).rename(folder / f"{name}.partial")
    if state == "an old header":
        model(1.0).save(tmp_path / "before")
        (tmp_path / "before" / "header.json").rename(folder / "header.json")
    assert numbers(folder) == expected
    for _ in range(2):
        run(folder, resume=True)
        check_finished(folder, expected, "notes.partial")
    assert (folder / "notes.partial").read_text() == "mine"


def test_ctrl_c_during_the_last_save_loses_nothing(run, tmp_path, monkeypatch):
    run(tmp_path / "whole")
    interrupt(run, monkeypatch, tmp_path / "run")
    rename = os.replace

    def interrupted(here, there):
        if Path(there).name == "header.json":
            raise KeyboardInterrupt
        rename(here, there)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "run", resume=True)
    looks = len(DONE)
    for _ in range(2):
        run(tmp_path / "run", resume=True)
        check_finished(tmp_path / "run", numbers(tmp_path / "whole"))
    assert len(DONE) == looks


def test_a_model_saved_over_a_run_is_not_taken_for_it(run, tmp_path):
    run(tmp_path / "run")
    sf.fit(falling(), sf.Nearest(), progress=False).save(tmp_path / "run", overwrite=True)
    with pytest.raises(ValueError, match="a model of other data was saved to"):
        run(tmp_path / "run", resume=True)
