"""Individuals known by what was measured of them: who was trained on is found in any copy."""

import hashlib

import numpy as np
import pandas as pd
import pytest

import stitchflow as sf
from stitchflow._data import content as _content
from stitchflow._data.content import DOUBLE, SINGLE, among, marks, precision_of
from stitchflow._storage import run_folder as _run_folder
from stitchflow._storage.run_data import open_run
from test_cli import N, T, X, no_compilation_cache, refused, stitchflow, values, write
from test_cli import rows_of as lines_of

assert no_compilation_cache  # a fixture of every test here


@pytest.fixture(scope="module")
def made(tmp_path_factory, no_compilation_cache):
    """A run of the quickest method beside its data."""
    folder = tmp_path_factory.mktemp("content")
    data = write(folder / "data.npz")
    assert stitchflow("fit", data, "--out", folder / "run", "--method", "nearest").code == 0
    return folder / "run"


def scored(run, path, folder):
    """The scores of a run on a file, and what was said on stderr."""
    lines = folder / f"{path.name}.json"
    code, _, err = stitchflow("evaluate", run, "--data", path, "--json", lines)
    assert code == 0, err
    return values(lines_of(lines)), err


def copies(folder):
    """The training file once more, in other formats, orders and precisions."""
    frame = pd.DataFrame({"t": T, "a": X[:, 0], "b": X[:, 1]})
    order = np.random.default_rng(1).permutation(len(X))
    np.savez_compressed(folder / "packed.npz", x=X, t=T)
    write(folder / "order.npz", x=X[order], t=T[order])
    write(folder / "single.npz", x=X.astype(np.float32), t=T.astype(int))
    frame.to_csv(folder / "copy.csv", index=False)
    frame.astype(np.float32).to_csv(folder / "single.csv", index=False)
    frame.iloc[order].to_parquet(folder / "copy.parquet")
    return sorted(folder.iterdir())


def test_a_copy_of_the_training_file_scores_whom_the_file_itself_does(made, tmp_path):
    """The mean one-step score of every copy is that of the individuals held out, and no other."""
    expected, _ = scored(made, made.parent / "data.npz", tmp_path)
    (folder := tmp_path / "copies").mkdir()
    for path in (files := copies(folder)):
        found, err = scored(made, path, tmp_path)
        assert err == ""
        assert [row[:3] for row in found] == [row[:3] for row in expected], path
        # Draws follow the order of rows; of 4 individuals a time nobody is left to chance.
        both = [(a[3], b[3]) for a, b in zip(found, expected, strict=True) if a[1] == "w1"]
        np.testing.assert_allclose(*np.transpose(both), rtol=1e-5, err_msg=str(path))
    assert len(files) == 6


def test_individuals_of_other_files_that_were_trained_on_are_left_out(made, tmp_path):
    with np.load(made / "split.npz") as split:
        train, test = split["train"], split["test"]
    # Some that were trained on, half of those held out, and as many new ones, in any order.
    rows = np.random.default_rng(0).permutation(np.concatenate([train[::3], test[::2]]))
    fresh = np.tile([[50.0, 0.0]], (4, 1))
    x, t = np.concatenate([X[rows], fresh]), np.concatenate([T[rows], np.unique(T)])
    mixed, err = scored(made, write(tmp_path / "mixed.npz", x=x, t=t), tmp_path)
    count = f"{len(train[::3])} of the {len(x)} individuals of {tmp_path / 'mixed.npz'}"
    assert (
        err == f"stitchflow: note: {made} was trained on {count}; they are left out of the scores\n"
    )
    kept = ~np.isin(np.concatenate([rows, -np.ones(4, int)]), train)
    alone, err = scored(made, write(tmp_path / "alone.npz", x=x[kept], t=t[kept]), tmp_path)
    assert err == ""
    assert mixed == alone
    message = refused("evaluate", made, "--data", write(tmp_path / "a.npz", x=X[train], t=T[train]))
    assert f"{made} was trained on every individual of {tmp_path / 'a.npz'}" in message


def as_of_version_0_1_0(run):
    """A run as that version wrote it: it knows its data by the hash of the file alone."""
    fit = sf.load(run)
    split = _run_folder.read_split(run, fit.source)
    old = _run_folder.Split(split.train, split.test)
    raw = (run.parent / "data.npz").read_bytes()
    del fit.source["content"]
    fit.source |= {"sha256": hashlib.sha256(raw).hexdigest()}
    fit.source |= {"split_sha256": _run_folder.write_split(run, old)}
    fit.save(run, overwrite=True)
    with np.load(run / "split.npz") as stored:
        assert set(stored.files) == {"train", "test", "precision"}


def test_a_run_of_version_0_1_0_is_protected_where_its_file_is_at_hand(tmp_path):
    data, run = write(tmp_path / "data.npz"), tmp_path / "run"
    assert stitchflow("fit", data, "--out", run, "--method", "nearest").code == 0
    expected, _ = scored(run, data, tmp_path)
    as_of_version_0_1_0(run)
    assert scored(run, data, tmp_path / "..")[0] == expected
    (copied := tmp_path / "copied").mkdir()
    np.savez_compressed(copied / "packed.npz", x=X, t=T)
    found, err = scored(run, copied / "packed.npz", copied)
    assert err.count("was trained on") <= 1
    assert found == expected
    data.unlink()
    (copied / "packed.npz.json").unlink()
    everybody, err = scored(run, copied / "packed.npz", copied)
    assert "keeps no record of whom it was trained on: all of" in err
    assert everybody != expected


def table(x, t):
    return sf.Snapshots.from_table(x, t)


def test_marks_follow_the_rows_of_a_file():
    """They see coordinates and time, and neither weights nor the order nor the kind of number."""
    whole = marks(table(X, T), SINGLE)
    assert len(np.unique(whole)) == len(X)
    order = np.random.default_rng(2).permutation(len(X))
    np.testing.assert_array_equal(marks(table(X[order], T[order]), SINGLE), whole[order])
    np.testing.assert_array_equal(marks(table(X.astype(np.float32), T), SINGLE), whole)
    later = marks(table(X, T + np.where(np.arange(len(X)) == 3, 1.0, 0.0)), SINGLE)
    assert np.flatnonzero(later != whole).tolist() == [3]
    turned = marks(table(X[:, ::-1], T), SINGLE)
    assert (turned != whole).all()
    zeros = [marks(table(np.full((4, 1), zero), np.arange(4)), DOUBLE) for zero in (0.0, -0.0)]
    np.testing.assert_array_equal(*zeros)


def test_marks_do_not_depend_on_blocks(monkeypatch):
    whole = marks(table(X, T), DOUBLE)
    monkeypatch.setattr(_content, "BLOCK", 7)
    np.testing.assert_array_equal(marks(table(X, T), DOUBLE), whole)


def test_individuals_that_single_precision_confuses_are_told_apart():
    assert precision_of(table(X, T)) == SINGLE
    assert precision_of(table(1e8 + X, T)) == DOUBLE
    assert precision_of(table(np.ones((4, 1)), 1.7e9 + np.arange(4))) == DOUBLE
    assert precision_of(table(np.ones((4, 1)), np.arange(4))) == SINGLE


def test_of_copies_as_many_are_known_as_there_were():
    here, known = np.array([5, 3, 5, 9, 5], np.uint64), np.array([5, 9, 5, 1], np.uint64)
    assert among(here, known).tolist() == [True, False, True, True, False]
    assert among(here, known[:0]).tolist() == [False] * 5
    assert among(here[:0], known).tolist() == []


def test_a_split_is_found_again_among_copies():
    x, t = np.repeat(X[:4], 3, axis=0), np.repeat([0.0, 1.0], 6)
    split = _run_folder.Split(np.arange(0, 12, 2), np.arange(1, 12, 2)).marked(table(x, t))
    assert split.found_in(table(x, t)) is split
    order = np.random.default_rng(3).permutation(12)
    found = split.found_in(table(x[order], t[order]))
    assert found.same_table(split)
    assert sorted([*found.train, *found.test]) == list(range(12))
    for part, name in ((found.train, split.train), (found.test, split.test)):
        np.testing.assert_array_equal(np.sort(found.marks[part]), np.sort(split.marks[name]))
    fewer = split.found_in(table(x[order[:5]], t[order[:5]]))
    assert not fewer.same_table(split)


def test_the_data_of_a_run_may_be_saved_again_in_its_place(tmp_path):
    data, run = write(tmp_path / "data.npz"), tmp_path / "run"
    assert stitchflow("fit", data, "--out", run, "--method", "nearest").code == 0
    before, test = open_run(run)
    order = np.random.default_rng(4).permutation(len(X))
    np.savez_compressed(data, x=X[order], t=T[order])
    after, again = open_run(run)
    for one, other in ((before.data, after.data), (test, again)):
        assert sorted(one.x[:, 0]) == sorted(other.x[:, 0])
        assert len(one.x) < len(X)
    assert len(test.x) == 4 * round(0.2 * N)
