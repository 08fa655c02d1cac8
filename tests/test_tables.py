"""Data files: what each kind holds, what each option means, and what is refused in one sentence."""

import re
import sys
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stitchflow as sf
from stitchflow._reading import formats
from stitchflow._reading.formats import Columns
from stitchflow._reading.frames import read_csv
from stitchflow._reading.tables import DataFile, read_table
from stitchflow.report._scene import labels

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
T = np.tile([2.0, 0.0, 0.5], N // 3)  # times in no order, so that rows have to be followed
W = RNG.uniform(1.0, 2.0, N)
ID = np.repeat(np.arange(N // 3), 3)
GROUP = np.array(["left", "right"] * (N // 2))
FRAME = pd.DataFrame(
    {"day": T, "a": X[:, 0], "b": X[:, 1], "mass": W, "cell": ID, "donor": GROUP, "T": T}
)
NAMED = {"time": "day", "weight": "mass", "id": "cell", "group": "donor"}


def npz(folder, **arrays):
    np.savez(folder / "data.npz", **{"x": X, "t": T} | arrays)
    return folder / "data.npz"


def table(folder, ending, frame=FRAME):
    path = folder / f"data.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    return path


def h5ad(folder, **obs):
    anndata = pytest.importorskip("anndata")
    frame = pd.DataFrame({"day": T, "mass": W, "cell": ID, "donor": GROUP} | obs)
    frame.index = [f"cell {i}" for i in range(N)]
    adata = anndata.AnnData(np.hstack([X, X, X]), obs=frame, obsm={"X_pca": X, "X_short": X[:, :1]})
    adata.write_h5ad(folder / "data.h5ad")
    return folder / "data.h5ad"


def check_rows(file: DataFile, x=X):
    """Every individual came with its own time."""
    data = file.snapshots
    np.testing.assert_allclose(data.x, x[data.rows])
    np.testing.assert_array_equal(data.times[data.index], T[data.rows])
    assert data.times.tolist() == [0.0, 0.5, 2.0]
    assert data.counts.tolist() == [4, 4, 4]


def check_labels(file: DataFile):
    data = file.snapshots
    assert data.ids.tolist() == ID[data.rows].tolist()
    assert data.groups.tolist() == GROUP[data.rows].tolist()
    for k in range(3):
        expected = W[data.rows[data.slice(k)]]
        np.testing.assert_allclose(data.cloud_weights(k), expected / expected.mean())


def test_an_npz_needs_x_and_t_only(tmp_path):
    file = read_table(npz(tmp_path))
    check_rows(file)
    assert file.snapshots.ids is None
    assert file.snapshots.groups is None
    assert (file.snapshots.weights == 1.0).all()
    assert file.train_rows is None
    assert file.test_rows is None


def test_an_npz_may_carry_weights_ids_and_groups(tmp_path):
    check_labels(read_table(npz(tmp_path, w=W, id=ID, group=GROUP)))


def test_the_arrays_of_an_npz_may_have_other_names(tmp_path):
    arrays = {"pca": X[:, ::-1], "day": T + 1, "mass": W, "cell": ID, "donor": GROUP}
    file = read_table(npz(tmp_path, **arrays), Columns(rep="pca", **NAMED))
    check_labels(file)
    np.testing.assert_array_equal(file.snapshots.x, X[file.snapshots.rows, ::-1])
    assert file.snapshots.times.tolist() == [1.0, 1.5, 3.0]


def test_one_column_of_numbers_is_one_dimension(tmp_path):
    assert read_table(npz(tmp_path, x=X[:, 0])).snapshots.dim == 1


@pytest.mark.parametrize("ending", ["csv", "parquet", "CSV"])
def test_a_table_takes_every_other_number_as_a_dimension(tmp_path, ending):
    path = table(tmp_path, ending.lower())
    path = path.rename(tmp_path / f"renamed.{ending}")
    file = read_table(path, Columns(**NAMED))
    assert file.snapshots.dim == 3  # a, b and T; the donor is text
    check_rows(file, np.column_stack([X, T]))
    check_labels(file)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_of_a_table_are_chosen_and_ordered(tmp_path, ending):
    file = read_table(table(tmp_path, ending), Columns(time="T", features=("b", "a")))
    check_rows(file, X[:, ::-1])


def test_names_of_a_table_may_be_numbers(tmp_path):
    path = table(tmp_path, "parquet", pd.DataFrame(np.column_stack([T, X])))
    check_rows(read_table(path, Columns(time="0")))


def test_a_table_without_time_key_has_its_time_in_t(tmp_path):
    frame = FRAME[["a", "b"]].assign(t=T)
    check_rows(read_table(table(tmp_path, "csv", frame)))


def test_an_h5ad_gives_its_principal_components(tmp_path):
    file = read_table(h5ad(tmp_path), Columns(**NAMED))
    check_rows(file)
    check_labels(file)


@pytest.mark.parametrize(("rep", "dim"), [("X_short", 1), ("short", 1), ("pca", 2), ("X", 6)])
def test_an_h5ad_gives_any_representation(tmp_path, rep, dim):
    assert read_table(h5ad(tmp_path), Columns(time="day", rep=rep)).snapshots.dim == dim


def test_a_drawing_as_coordinates_is_said(tmp_path):
    anndata = pytest.importorskip("anndata")
    frame = pd.DataFrame({"day": T}, index=[f"cell {i}" for i in range(N)])
    anndata.AnnData(X, obs=frame, obsm={"X_umap": X}).write_h5ad(tmp_path / "data.h5ad")
    with pytest.warns(sf.DataWarning, match=r"X_umap is made for drawing: .*X_pca"):
        read_table(tmp_path / "data.h5ad", Columns(time="day", rep="umap"))


@pytest.mark.parametrize("name", ["id", "cell_id", "trackID", "cell id", "barcode", "index"])
def test_names_are_no_coordinates(tmp_path, name):
    frame = FRAME[["day", "a", "b"]].assign(**{name: np.tile([7, 3, 12, 9], 3)})
    path = table(tmp_path, "csv", frame)
    words = f"column {name!r} looks like names or row numbers"
    refused(path, words, "--id-key", columns=Columns(time="day"))
    chosen = Columns(time="day", features=("a", name))
    assert read_table(path, chosen).snapshots.dim == 2  # what the user chose is not refused


def test_row_numbers_are_no_coordinates(tmp_path):
    path = table(tmp_path, "csv", FRAME[["day", "a", "b"]].assign(k=np.arange(5, 5 + N)))
    refused(path, "column 'k' looks like names or row numbers", columns=Columns(time="day"))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_numbers_as_coordinates_are_said(tmp_path, ending):
    frame = FRAME[["day", "a", "b"]].assign(plate=np.tile([1, 4, 2, 2], 3))
    with pytest.warns(sf.DataWarning, match="columns 'plate' hold whole numbers and are used as"):
        assert read_table(table(tmp_path, ending, frame), Columns(time="day")).snapshots.dim == 3


def test_an_h5ad_says_what_its_cells_are_called(tmp_path):
    file = read_table(h5ad(tmp_path), Columns(time="day"))
    part = file.at_rows(np.array([7, 2, 5])).subsample(9)
    assert labels(part) == [f"cell {row}" for row in part.rows]
    # For the eye only: they are no ids, and change no hash.
    assert part.ids is None
    assert replace(part, names=None).fingerprint == part.fingerprint
    named = read_table(h5ad(tmp_path), Columns(time="day", id="cell")).snapshots
    assert labels(named) == [str(ID[row]) for row in named.rows]


def test_times_of_an_h5ad_may_be_categories_of_numbers(tmp_path):
    path = h5ad(tmp_path, stage=pd.Categorical(T.astype(str)))
    check_rows(read_table(path, Columns(time="stage")))


def test_the_split_of_a_file_counts_its_rows(tmp_path):
    train, test = np.array([0, 1, 2, 9]), np.array([11, 3])
    file = read_table(npz(tmp_path, train_idx=train, test_idx=test))
    assert file.train_rows.tolist() == [0, 1, 2, 9]
    assert file.test_rows.tolist() == [11, 3]
    part = file.at_rows(file.test_rows)
    assert sorted(part.rows.tolist()) == [3, 11]
    np.testing.assert_array_equal(part.x, X[part.rows])
    np.testing.assert_array_equal(part.times[part.index], T[part.rows])


def test_rows_of_one_time_leave_that_time_only(tmp_path):
    part = read_table(npz(tmp_path, id=ID)).at_rows(np.flatnonzero(T == 0.5))
    assert part.times.tolist() == [0.5]
    assert part.ids.tolist() == [0, 1, 2, 3]


def test_the_hash_follows_the_content(tmp_path):
    first = read_table(npz(tmp_path))
    assert read_table(npz(tmp_path)).sha256 == first.sha256
    assert read_table(npz(tmp_path, x=X + 1)).sha256 != first.sha256


def refused(path, *words, columns=None):
    """The one sentence, which names the file."""
    with pytest.raises(ValueError, match=re.escape(str(path))) as error:
        read_table(path, columns)
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    refused(tmp_path / "gone.npz", "no such file")
    refused(tmp_path, "no such file")


@pytest.mark.parametrize(("name", "word"), [("data.txt", "'.txt'"), ("data", "without ending")])
def test_other_endings_are_refused_with_those_there_are(tmp_path, name, word):
    (tmp_path / name).write_text("0")
    refused(tmp_path / name, word, ".npz, .csv, .parquet, .h5ad")


def test_every_ending_is_in_the_help_and_on_the_first_page():
    page = (Path(__file__).parents[1] / "docs" / "index.md").read_text()
    for ending in (ending for known in formats.FORMATS for ending in known.endings):
        assert ending in formats.formats_in_words()
        assert f"`{ending}`" in page


def test_a_format_is_one_entry(tmp_path, monkeypatch):
    """An entry with its endings and its reader is read, listed in errors and in the help."""
    reader = partial(formats._table, partial(read_csv, separator="\t"))
    entry = formats.Format((".tabs", ".tabbed"), reader)
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, entry))
    FRAME.to_csv(tmp_path / "data.tabbed", sep="\t", index=False)
    file = read_table(tmp_path / "data.tabbed", Columns(**NAMED))
    check_rows(file, np.column_stack([X, T]))
    check_labels(file)
    (tmp_path / "data.txt").write_text("0")
    refused(tmp_path / "data.txt", "expected one of .npz, ", ", .h5ad", ", .tabs, .tabbed")
    assert ", .tabs, .tabbed, or .npz with x (individuals" in formats.formats_in_words()


@pytest.mark.parametrize("left", [0, 300, -30])
def test_a_truncated_npz_is_named(tmp_path, left):
    path = npz(tmp_path)
    path.write_bytes(path.read_bytes()[:left])
    refused(path, "not a readable .npz file")


def test_an_npz_with_damaged_arrays_is_named(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=X, t=T)
    raw = bytearray(path.read_bytes())
    raw[100:160] = b"\x77" * 60
    path.write_bytes(raw)
    refused(path, "not a readable .npz file")


def test_text_or_a_single_array_is_not_an_npz(tmp_path):
    path = tmp_path / "data.npz"
    path.write_text("x,t\n0,1\n")
    refused(path, "not a readable .npz file")
    with open(path, "wb") as file:
        np.save(file, X)
    refused(path, "not a readable .npz file")


@pytest.mark.parametrize("key", ["x", "t", "id", "train_idx"])
def test_pickled_objects_are_refused(tmp_path, key):
    refused(npz(tmp_path, **{key: np.array([{}] * N, object)}), "pickled objects")


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ({"rep": "pca"}, "pca"),
        ({"time": "day"}, "day"),
        ({"weight": "mass"}, "mass"),
        ({"id": "cell"}, "cell"),
        ({"group": "donor"}, "donor"),
    ],
)
def test_a_missing_array_is_named_beside_those_there_are(tmp_path, columns, key):
    refused(npz(tmp_path), f"no array {key!r}", "holds x, t", columns=Columns(**columns))


def test_an_npz_has_no_columns_to_choose(tmp_path):
    refused(npz(tmp_path), "--columns", columns=Columns(features=("a",)))


@pytest.mark.parametrize("name", ["train_idx", "test_idx"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([0, N], f"row numbers below {N}, got 0..{N}"),
        ([-1, 3], f"row numbers below {N}, got -1..3"),
        ([0.0, 1.0], "a list of row numbers, got float64 (2,)"),
        ([True] * N, "a list of row numbers, got bool"),
        ([[0], [1]], "a list of row numbers, got int64 (2, 1)"),
        (np.array([], int), "a list of row numbers, got int64 (0,)"),
    ],
)
def test_wrong_row_numbers_are_named(tmp_path, name, rows, words):
    refused(npz(tmp_path, **{name: np.array(rows)}), name, words)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"t": np.array(["early"] * N)}, "t must be numbers"),
        ({"t": np.where(T == 2.0, np.nan, T)}, "t must be finite"),
        ({"t": T[:-1]}, f"t must have one entry per row ({N},), got ({N - 1},)"),
        ({"x": np.where(np.arange(N)[:, None] == 7, np.nan, X)}, "NaN or infinity in row 7"),
        ({"x": np.where(np.arange(N)[:, None] % 5 == 0, np.inf, X)}, "in rows 0, 5, 10"),
        ({"x": np.array([["a", "b"]] * N)}, "x must be numbers"),
        ({"x": np.zeros((N, 2, 2))}, f"got shape ({N}, 2, 2)"),
        ({"x": X[:0], "t": T[:0]}, "non-empty"),
        ({"w": -W}, "weights must be finite and not negative"),
        ({"w": np.zeros(N)}, "all zero within a time"),
        ({"id": ID[:3]}, "ids must have one entry per row"),
        ({"group": GROUP[:3]}, "groups must have one entry per row"),
    ],
)
def test_bad_arrays_are_named(tmp_path, arrays, words):
    refused(npz(tmp_path, **arrays), words)


COLUMNS = "columns are day, a, b, mass, cell, donor, T"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, f"no column 't'; {COLUMNS}"),
        ({"time": "hour"}, f"no column 'hour'; {COLUMNS}"),
        ({"features": ("a", "c")}, f"no column 'c'; {COLUMNS}"),
        ({"weight": "w"}, f"no column 'w'; {COLUMNS}"),
        ({"id": "i"}, f"no column 'i'; {COLUMNS}"),
        ({"group": "g"}, f"no column 'g'; {COLUMNS}"),
        ({"time": "donor"}, "column 'donor' must hold numbers, got"),
        ({"features": ("a", "donor")}, "column 'donor' must hold numbers, got"),
        ({"weight": "donor"}, "column 'donor' must hold numbers, got"),
        ({"rep": "X_pca"}, "--rep"),
    ],
)
def test_bad_columns_of_a_table_are_named(tmp_path, ending, columns, words):
    columns = ({"time": "day"} if columns else {}) | columns
    refused(table(tmp_path, ending), words, columns=Columns(**columns))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_empty_cell_of_a_table_is_found_by_its_row(tmp_path, ending):
    frame = FRAME.assign(a=np.where(np.arange(N) == 4, np.nan, X[:, 0]))
    refused(table(tmp_path, ending, frame), "in row 4", columns=Columns(**NAMED))


def test_an_index_that_was_written_along_is_no_dimension(tmp_path):
    path = tmp_path / "data.csv"
    FRAME.to_csv(path)
    refused(path, "column 'Unnamed: 0' looks like an index", "--columns", columns=Columns(**NAMED))
    assert read_table(path, Columns(time="day", features=("a", "b"))).snapshots.dim == 2


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_one_bad_entry_does_not_make_a_dimension_text(tmp_path, ending):
    entries = [str(v) for v in X[:, 0]]
    entries[3] = entries[7] = "0,5"
    path = table(tmp_path, ending, FRAME.assign(a=entries))
    words = "column 'a' holds numbers, but '0,5' in rows 3, 7; mend it"
    refused(path, words, columns=Columns(**NAMED))
    chosen = Columns(time="day", features=("a", "b"))
    refused(path, "column 'a' must hold numbers", "for example '0,5' in row 3", columns=chosen)
    assert read_table(path, Columns(time="day", features=("b",))).snapshots.dim == 1


@pytest.mark.parametrize(
    ("rows", "fields"), [("9,0,1,2\n9,1,2,3\n", 4), ("0,1,2,\n1,2,3,\n", 4), ("8,9,0,1,2\n", 5)]
)
def test_a_header_that_is_too_short_is_refused(tmp_path, rows, fields):
    """pandas would take the first column for an index, and every name would be one too late."""
    path = tmp_path / "data.csv"
    path.write_text("t,a,b\n" + rows)
    refused(path, f"its header names 3 columns, but its rows have {fields} fields")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("entries", "expected"),
    [(["2,5", "-3,25"], [2.5, -3.25]), (["2.5%", "3%"], [0.025, 0.03])],
    ids=["commas", "percent"],
)
def test_numbers_of_another_convention_are_dimensions(tmp_path, ending, entries, expected):
    frame = pd.DataFrame({"t": [0.0, 1.0], "a": entries, "b": [1.0, 2.0]})
    words = f"column 'a' is text that is read as numbers, for example '{entries[0]}' as"
    with pytest.warns(sf.DataWarning, match=words):
        x = read_table(table(tmp_path, ending, frame)).snapshots.x
    np.testing.assert_allclose(x, np.stack([expected, [1.0, 2.0]], axis=1), rtol=1e-15)
    chosen = Columns(time="b", features=("a",), weight="t")
    with pytest.raises(ValueError, match="all zero within a time"):  # the weights are t
        read_table(table(tmp_path, ending, frame), chosen)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_that_may_mean_two_things_are_refused(tmp_path, ending):
    frame = pd.DataFrame({"t": [0.0, 1.0], "a": ["1,200", "2,300"], "b": [1.0, 2.0]})
    path = table(tmp_path, ending, frame)
    refused(path, "column 'a' holds numbers that are not written in one clear way, such as '1,200'")
    refused(path, "'1,200' in row 0", columns=Columns(features=("a",)))
    assert read_table(path, Columns(features=("b",))).snapshots.dim == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_that_are_left_out_are_named(tmp_path, ending):
    frame = FRAME[["day", "a", "donor"]].assign(flag=T > 0)
    with pytest.warns(sf.DataWarning, match="^columns 'donor', 'flag' hold no numbers and are"):
        assert read_table(table(tmp_path, ending, frame), Columns(time="day")).snapshots.dim == 1


def test_texts_of_whole_numbers_are_names_where_the_file_says_texts(tmp_path):
    frame = FRAME[["day", "a"]].assign(cluster=ID.astype(str))
    path = table(tmp_path, "parquet", frame)
    with pytest.warns(sf.DataWarning, match="columns 'cluster' hold no numbers"):
        assert read_table(path, Columns(time="day")).snapshots.dim == 1


def test_decimals_of_a_table_are_numbers(tmp_path):
    exact = [Decimal(f"{value:.3f}") for value in X[:, 0]]
    path = table(tmp_path, "parquet", FRAME[["day", "b"]].assign(a=exact))
    data = read_table(path, Columns(time="day")).snapshots
    np.testing.assert_allclose(data.x[:, 1], X[data.rows, 0].round(3))


@pytest.mark.parametrize("key", ["id", "group"])
def test_names_are_not_read_as_numbers(tmp_path, key):
    """007, 7 and 7.0 are three names; 7 and 8 are the numbers that they are in any other file."""
    path = tmp_path / "data.csv"
    labels = lambda: getattr(read_table(path, Columns(**{key: "who"})).snapshots, f"{key}s")
    path.write_text("t,a,who\n0,1.5,007\n0,2.5,7\n1,3.5,7.0\n1,4.5,007\n")
    assert labels().tolist() == ["007", "7", "7.0", "007"]
    path.write_text("t,a,who\n0,1.5,10\n0,2.5,7\n1,3.5,-1\n")
    assert labels().tolist() == [10, 7, -1]
    path.write_text("t,a,who\n0,1.5,10\n0,2.5,\n1,3.5,7\n")
    refused(path, f"{key}s are missing in row 1", columns=Columns(**{key: "who"}))


def test_a_table_is_read_to_the_last_digit(tmp_path):
    file = read_table(table(tmp_path, "csv"), Columns(time="T", features=("a", "b")))
    assert (file.snapshots.x == X[file.snapshots.rows]).all()


def test_two_columns_of_one_name_are_named(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("t,a,a\n0,1,2\n1,2,3\n")
    refused(path, "two columns are called 'a'")


def test_a_table_of_text_has_nothing_to_fit(tmp_path):
    frame = pd.DataFrame({"t": T, "name": GROUP})
    refused(table(tmp_path, "csv", frame), "no numeric columns beside 't'")


def test_a_column_of_text_without_rows_is_named(tmp_path):
    frame = pd.DataFrame({"t": np.zeros(0, "datetime64[s]"), "a": np.zeros(0)})
    refused(table(tmp_path, "parquet", frame), "column 't' must hold numbers, got datetime64")


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00PK"])
def test_an_unreadable_table_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    refused(tmp_path / name, "not a readable table")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "--time-key is needed; obs holds day, mass, cell, donor"),
        ({"time": "hour"}, "no 'hour' in obs, which holds day, mass, cell, donor"),
        ({"time": "day", "weight": "w"}, "no 'w' in obs"),
        ({"time": "day", "id": "i"}, "no 'i' in obs"),
        ({"time": "day", "group": "g"}, "no 'g' in obs"),
        ({"time": "donor"}, "obs['donor'] must hold numbers"),
        ({"time": "day", "rep": "tsne"}, "no representation 'tsne' in obsm, which holds X_pca"),
        ({"time": "day", "features": ("a",)}, "--columns"),
    ],
)
def test_bad_keys_of_an_h5ad_are_named(tmp_path, columns, words):
    refused(h5ad(tmp_path), words, columns=Columns(**columns))


def test_an_unreadable_h5ad_is_named(tmp_path):
    pytest.importorskip("anndata")
    (tmp_path / "data.h5ad").write_bytes(b"no")
    refused(tmp_path / "data.h5ad", "not a readable .h5ad file", columns=Columns(time="day"))


@pytest.mark.parametrize(
    ("ending", "package", "extra"),
    [("csv", "pandas", "data"), ("parquet", "pandas", "data"), ("h5ad", "anndata", "anndata")],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, ending, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / f"data.{ending}").write_text("")
    refused(tmp_path / f"data.{ending}", f"needs {package}; install stitchflow[{extra}]")


def test_columns_survive_json():
    columns = Columns(features=("a", "b"), **NAMED)
    entry = vars(columns) | {"features": ["a", "b"]}
    assert Columns.stored(entry) == columns
    assert Columns.stored({}) == Columns()
