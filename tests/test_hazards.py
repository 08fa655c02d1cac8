"""What people feed a program with: through every loader and the command line, one line or a fit."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import stitchflow as sf
from stitchflow._command import fit_file as _runs
from stitchflow._reading import declared as _declared
from stitchflow._reading import tables as _tables
from test_cli import refused, succeed

N = 24
RNG = np.random.default_rng(0)
T = np.repeat([0.0, 1.0, 2.5], N // 3)
GOOD = {"t": T, "a": RNG.normal(size=N) + T, "b": RNG.normal(size=N)}
LOADERS = ("npz", "csv", "parquet", "h5ad")


@pytest.fixture(autouse=True, scope="module")
def no_compilation_cache():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_runs, "keep_compilations", lambda: None)
        yield


def write(folder, loader: str, columns: dict) -> list[str]:
    """The columns as a file of that kind, and the arguments of a command that reads it."""
    path, rest = folder / f"data.{loader}", {k: v for k, v in columns.items() if k not in "ab"}
    keys = {"w": "--weight-key", "id": "--id-key", "group": "--group-key"}
    chosen = [part for name in rest if name in keys for part in (keys[name], name)]
    if loader == "npz":
        np.savez(path, x=np.stack([columns["a"], columns["b"]], axis=1), **rest)
        return [str(path), *chosen]
    frame = pd.DataFrame(columns)
    if loader == "h5ad":
        anndata = pytest.importorskip("anndata")
        frame.index = frame.index.astype(str)
        x = frame[["a", "b"]].to_numpy()
        adata = anndata.AnnData(x, obs=frame.drop(columns=["a", "b"]), obsm={"X_pca": x})
        adata.write_h5ad(path)
        return [str(path), "--time-key", "t", *chosen]
    frame.to_csv(path, index=False) if loader == "csv" else frame.to_parquet(path)
    return [str(path), "--columns", "a,b", *chosen]


def at(row: int, value, column) -> np.ndarray:
    return np.where(np.arange(N) == row, value, column)


HAZARDS = {
    "nan": ({"a": at(7, np.nan, GOOD["a"])}, "NaN or infinity in row 7"),
    "infinity": ({"b": at(3, -np.inf, GOOD["b"])}, "NaN or infinity in row 3"),
    "too large": ({"b": at(3, 1e35, GOOD["b"])}, "below 1e+30 in size, got more in row 3"),
    "one snapshot": ({"t": np.zeros(N)}, "needs two times or more, got 1"),
    "one place": ({"a": np.ones(N), "b": np.ones(N)}, "all individuals are at the same point"),
    "one individual a time": ({"t": np.arange(N)}, "no time shows two individuals at different"),
    "one place a time": ({"a": T, "b": -T}, "no time shows two individuals at different places"),
    "outlier": ({"a": at(7, 1e14, GOOD["a"])}, "x has outliers in row 7, 1e+14 from the middle"),
    "no time at all": ({"t": at(5, np.nan, T)}, "row 5"),
    "endless time": ({"t": at(5, np.inf, T)}, "NaN or infinity in row 5"),
    "text for time": ({"t": np.where(T > 0, "late", "early")}, "numbers"),
    "times too close": ({"t": T + 1e-9 * (np.arange(N) % 2)}, "less than a millionth"),
    "too small": ({"a": GOOD["a"] * 1e-18, "b": GOOD["b"] * 1e-18}, "measure x and t in other"),
    "negative weight": ({"w": at(4, -1.0, np.ones(N))}, "not negative, got otherwise in row 4"),
    "no weight": ({"w": np.where(T == 1.0, 0.0, 1.0)}, "all zero within a time"),
    "text for weight": ({"w": np.array(["heavy"] * N)}, "numbers"),
    "missing id": ({"id": at(6, np.nan, np.arange(N))}, "ids are missing in row 6"),
}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("hazard", HAZARDS)
def test_a_hazard_is_one_line_whatever_the_file(tmp_path, loader, hazard):
    columns, words = HAZARDS[hazard]
    arguments = write(tmp_path, loader, GOOD | columns)
    message = refused("fit", *arguments, "--out", tmp_path / "run", "--method", "nearest")
    assert words in message
    assert f"data.{loader}" in message
    assert not (tmp_path / "run").exists()


NO_POPULATION = {
    "one individual a time": ([np.full((1, 2), float(k)) for k in range(3)], "no time shows two"),
    "one place a time": ([np.full((9, 2), float(k)) for k in range(3)], "no time shows two"),
    "others without weight": ([np.array([[k, k], [k, k + 1.0]]) for k in range(3)], "no time"),
    "outlier": ([RNG.normal(size=(9, 2)) + [[1e14 * (k == 1)]] * 9 for k in range(3)], "outliers"),
}


@pytest.mark.parametrize("method", sf.METHODS)
@pytest.mark.parametrize("kind", NO_POPULATION)
def test_every_method_refuses_what_float32_cannot_tell_apart(kind, method, monkeypatch):
    """Before any compute: no method is asked."""
    clouds, words = NO_POPULATION[kind]
    weights = [[1.0, 0.0]] * 3 if kind == "others without weight" else None
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.5], weights)
    chosen = sf.METHODS[method]()
    monkeypatch.setattr(type(chosen), "fit", None)
    with pytest.raises(ValueError, match=words):
        sf.fit(data, chosen)


DAYS = pd.to_datetime("2024-01-01") + pd.to_timedelta(T, "D")


@pytest.mark.parametrize("loader", ["npz", "parquet"])
@pytest.mark.parametrize("t", [DAYS, DAYS - DAYS[0]], ids=["dates", "durations"])
def test_dates_have_no_unit(tmp_path, loader, t):
    arguments = write(tmp_path, loader, GOOD | {"t": t.to_numpy()})
    message = refused("fit", *arguments, "--out", tmp_path / "run", "--method", "nearest")
    assert "must be numbers" in message or "must hold numbers" in message


HARMLESS = {
    "unsorted": {"t": T[::-1]},
    "negative times": {"t": T - 10.0},
    "whole numbers": {"a": np.arange(N), "t": T.astype(int) + 1},
    "text that is numbers": {"t": T.astype(str)},
    "zero weights": {"w": np.where(np.arange(N) % 2, 0.0, 1.0)},
    "copies": {"a": np.repeat(np.arange(6.0), 4), "b": np.repeat(np.arange(6.0), 4)},
    "a constant dimension": {"b": np.zeros(N)},
    "a dimension twice": {"b": GOOD["a"]},
    "scales 1e-12 and 1e12": {"a": GOOD["a"] * 1e-12, "b": GOOD["b"] * 1e12},
    "tiny": {"a": GOOD["a"] * 1e-12, "b": GOOD["b"] * 1e-12},
    "huge": {"a": GOOD["a"] * 1e12, "b": GOOD["b"] * 1e12},
}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("kind", HARMLESS)
def test_what_is_odd_but_sound_is_fitted(tmp_path, monkeypatch, loader, kind):
    monkeypatch.setattr("stitchflow.cli._write_report", lambda *_: None)  # seconds each
    arguments = write(tmp_path, loader, GOOD | HARMLESS[kind])
    succeed("fit", *arguments, "--out", tmp_path / "run", "--method", "nearest")
    fit, columns = sf.load(tmp_path / "run"), GOOD | HARMLESS[kind]
    inside = np.stack([columns["a"], columns["b"]], axis=1).astype(np.float32)
    for t, cloud in zip(fit.times, np.asarray(fit.flow.sample(fit.times, 5)), strict=True):
        there = inside[np.asarray(columns["t"], float) == t]
        apart = np.abs(cloud[:, None] - there[None]) / np.abs(inside).max(axis=0).clip(1e-30)
        assert (apart.max(axis=2).min(axis=1) < 1e-6).all(), "samples are individuals of that time"


def test_unknown_columns_twice_are_named(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.Table.from_arrays([pa.array(T)] * 3, names=["t", "a", "a"])
    parquet.write_table(table, tmp_path / "data.parquet")
    message = refused("fit", tmp_path / "data.parquet", "--out", tmp_path / "run")
    assert re.search("two columns are called 'a'|not a readable table", message)


def test_a_table_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    ones = pa.array(np.ones(4_000_000))
    table = pa.Table.from_arrays([ones] * 10, names=["t", *"abcdefghi"])
    parquet.write_table(table, tmp_path / "data.parquet")
    message = refused("fit", tmp_path / "data.parquet", "--out", tmp_path / "run")
    assert "it declares 320,000,000 bytes in a file of" in message


def test_lists_in_a_table_are_no_numbers_and_only_chosen_columns_are_read(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "data.parquet"
    lists = pa.array([[1.0, 2.0]] * N)
    parquet.write_table(pa.table({**GOOD, "lists": lists, "c": T}), path)
    run = ("--out", tmp_path / "run", "--method", "nearest")
    message = refused("fit", path, *run)
    assert "data.parquet: not a readable table (column 'lists' holds list<" in message
    message = refused("fit", path, *run, "--columns", "a,lists")
    assert "column 'lists' holds list<" in message
    asked, read = [], pd.read_parquet
    monkeypatch.setattr(pd, "read_parquet", lambda *a, **k: asked.append(k) or read(*a, **k))
    file = _tables.read_table(path, _tables.Columns(features=("b", "a")))
    assert asked == [{"columns": ["t", "a", "b"]}]
    assert file.snapshots.x[:, 1].tolist() == GOOD["a"].tolist()


def test_an_h5ad_that_declares_more_than_it_holds_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    arguments = write(tmp_path, "h5ad", GOOD)
    with h5py.File(arguments[0], "a") as file:
        file["obsm"].create_dataset("X_huge", (10**9, 100), "f8", chunks=(1000, 100))
    message = refused("fit", *arguments, "--out", tmp_path / "run")
    assert "it declares 800,000,0" in message


@pytest.mark.parametrize("way", ["link", "storage"])
def test_an_h5ad_that_leads_outside_is_refused(tmp_path, way):
    h5py = pytest.importorskip("h5py")
    arguments = write(tmp_path, "h5ad", GOOD)
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(8 * N))
    with h5py.File(arguments[0], "a") as file:
        if way == "link":
            file["obsm/X_other"] = h5py.ExternalLink(str(secret), "/x")
        else:
            outside = [(str(secret), 0, 8 * N)]
            file["obsm"].create_dataset("X_other", (N, 1), "f8", external=outside)
    message = refused("fit", *arguments, "--out", tmp_path / "run")
    assert "X_other leads outside the file" in message


def test_an_h5ad_that_hdf5_does_not_come_back_from_is_refused(tmp_path, monkeypatch):
    """Some damaged files send HDF5 into an endless loop; the look at a file is given up in time."""
    pytest.importorskip("h5py")
    arguments = write(tmp_path, "h5ad", GOOD)
    monkeypatch.setattr(_declared, "PATIENCE", 0.001)
    message = refused("fit", *arguments, "--out", tmp_path / "run")
    assert "not a readable .h5ad file (HDF5 finds no end in it within 0 s)" in message


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        ("import os; os.kill(os.getpid(), 11)", "HDF5 crashes on it"),
        ("raise SystemExit('words of HDF5')", "words of HDF5"),
        ("raise SystemExit('a warning\\nwords of HDF5')", "(words of HDF5)"),
    ],
)
def test_an_h5ad_that_hdf5_crashes_on_is_refused(tmp_path, monkeypatch, probe, words):
    pytest.importorskip("h5py")
    arguments = write(tmp_path, "h5ad", GOOD)
    (tmp_path / "probe.py").write_text(probe)
    monkeypatch.setattr(_declared, "PROBE", tmp_path / "probe.py")
    message = refused("fit", *arguments, "--out", tmp_path / "run")
    assert "data.h5ad: not a readable .h5ad file" in message
    assert words in message


def test_the_look_at_an_h5ad_names_a_missing_package(tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    arguments = write(tmp_path, "h5ad", GOOD)
    (tmp_path / "h5py.py").write_text("raise ImportError('no h5py here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    message = refused("fit", *arguments, "--out", tmp_path / "run")
    assert "needs h5py, which cannot be imported: no h5py here" in message


def declared_by(path, most: int) -> int:
    from stitchflow._reading.h5_probe import declared

    return declared(str(path), most, ("/texts", "/numbers"))


def test_texts_beyond_what_a_file_may_declare_are_not_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("texts", (10**9,), h5py.string_dtype(), chunks=(1000,))
    assert declared_by(path, 10**6) > 10**6


def test_damaged_chunks_of_numbers_are_found_by_the_first_look(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        numbers = file.create_dataset("numbers", data=RNG.normal(size=999), compression="gzip")
        place = numbers.id.get_chunk_info(0).byte_offset
    assert declared_by(path, 10**6) == 999 * 8
    content = bytearray(path.read_bytes())
    content[place : place + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(OSError, match="filter returned failure"):
        declared_by(path, 10**6)


def test_a_chunk_larger_than_its_array_counts(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (1,), "f8", chunks=(10**7,), maxshape=(None,))
    assert declared_by(path, 10**6) == 8 * 10**7


def test_an_entry_without_value_is_looked_at(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["nothing"] = h5py.Empty("f8")
    assert declared_by(tmp_path / "data.h5", 10**6) <= 8


# Files of a few kilobytes whose texts unpack to gigabytes, read by a process of little memory.

BOMBS = """
import json, resource, sys, warnings
import anndata, h5py, numpy as np, pandas as pd, pyarrow as pa
from pyarrow import parquet
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table

n, folder, long = 3000, sys.argv[1], "a" * 2**20
t, x = np.repeat([0.0, 1.0, 2.0], n // 3), np.random.default_rng(0).normal(size=(n, 2))
codes = pa.array(np.zeros(n, np.int32))
texts = pa.DictionaryArray.from_arrays(codes, pa.array([long]))
path = f"{folder}/bomb.parquet"
table = pa.table({"t": t, "a": x[:, 0], "s": texts})
parquet.write_table(table, path, store_schema=False)  # texts, and no categories

def h5ad(name, shape):
    path = f"{folder}/{name}.h5ad"
    obs = pd.DataFrame({"t": t}, index=[str(i) for i in range(n)])
    anndata.AnnData(np.zeros((n, 1)), obs=obs, obsm={"X_pca": x}).write_h5ad(path)
    with h5py.File(path, "a") as file:
        column = file["obs"].create_dataset("s", shape, h5py.string_dtype())
        column.attrs["encoding-type"], column.attrs["encoding-version"] = "string-array", "0.2.0"
        file["obs"].attrs["column-order"] = np.array(["t", "s"], object)
        column[(0,) * len(shape)] = long
        file.flush()
        at = column.id.get_offset()
    raw = bytearray(open(path, "rb").read())
    raw[at : at + 16 * n] = raw[at : at + 16] * n  # every row refers to the one text
    open(path, "wb").write(raw)
    return path

warnings.simplefilter("ignore")
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**31, -1))  # a fault must not take the machine
column = h5ad("column", (n,))
row = h5ad("row", (1, n))  # of all texts at once, which only the limit ends
for file, key in ((path, None), (path, "s"), (column, None), (column, "s"), (row, "s")):
    try:
        said = repr(read_table(file, Columns(time="t", id=key)).snapshots)
    except ValueError as error:
        said = str(error)
    # Not `ru_maxrss` of this process: Linux starts that at the peak of the process that began it.
    with open("/proc/self/status") as status:
        own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps([said, own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def test_texts_that_unpack_to_gigabytes_are_not_read_unless_asked_for(tmp_path):
    """A text that 3,000 rows refer to took 4.4 GB of a .parquet, 6.4 GB and 3.1 GB of an .h5ad."""
    for package in ("anndata", "h5py", "pyarrow"):
        pytest.importorskip(package)
    if not Path("/proc/self/statm").exists():
        pytest.skip("memory is limited and measured on Linux")
    child = [sys.executable, "-c", BOMBS, str(tmp_path)]
    found = subprocess.run(child, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr
    said = [json.loads(line) for line in found.stdout.splitlines()]
    assert [path.stat().st_size < 1.5e6 for path in tmp_path.iterdir()] == [True] * 3
    read = "3 times from 0 to 2, 3000 individuals"
    bomb, damaged = "bytes in a file of", "row.h5ad: not a readable .h5ad file"
    words = (read, bomb, read, bomb, damaged)
    for (sentence, memory, beside), expected in zip(said, words, strict=True):
        assert expected in sentence
        assert memory < 0.8e6  # kB, most of them the interpreter's, JAX's and AnnData's
        assert beside < 0.6e6  # and of the process that looks first
    assert len(said) == 5


def test_a_sparse_matrix_of_nothing_is_not_made_dense(tmp_path):
    anndata = pytest.importorskip("anndata")
    h5py = pytest.importorskip("h5py")
    arguments = write(tmp_path, "h5ad", GOOD)
    cells = anndata.read_h5ad(arguments[0])
    cells.obsm["X_thin"] = sparse.csr_matrix((N, 5))
    cells.write_h5ad(arguments[0])
    with h5py.File(arguments[0], "a") as file:
        file["obsm/X_thin"].attrs["shape"] = [N, 10**9]
    message = refused("fit", *arguments, "--rep", "X_thin", "--out", tmp_path / "run")
    assert "X_thin is a sparse matrix of shape (24, 1000000000) that would take 192,000" in message


# Tiny fits of the method itself on data that is odd in one way each.

ODD = {
    "d = 1": (lambda x, k: x[:, :1]),
    "a single point": (lambda x, k: x[:1] if k == 1 else x),
    "a constant dimension": (lambda x, k: x * [1.0, 0.0]),
    "a dimension twice": (lambda x, k: x[:, [0, 0]]),
    "copies": (lambda x, k: np.repeat(x[:2], 6, axis=0)),
    "copies at one place but at one time": (
        lambda x, k: x if k == 2 else np.full((12, 2), 1.0 * k)
    ),
    "a single point but at one time": (lambda x, k: x if k == 2 else x[:1]),
    "narrow beside their way": (lambda x, k: 1e-5 * x + k),
    "two apart among copies": (lambda x, k: np.concatenate([np.full((12, 2), k), x[:1] + 1e-4])),
    "an outlier that float32 has room for": (lambda x, k: x + [[3e5, 0.0]] * (x == x[:1])),
    "tiny": (lambda x, k: x * 1e-12),
    "huge": (lambda x, k: x * 1e12),
    "unlike scales": (lambda x, k: x * [1e-6, 1e6]),
    "far from zero": (lambda x, k: x + 1e6),
    "d = 200": (lambda x, k: RNG.normal(size=(12, 200)) + k),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", ODD)
def test_a_fit_to_odd_data_is_finite(kind):
    clouds = [ODD[kind](RNG.normal(size=(12, 2)) + k, k) for k in range(3)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.5])
    method = sf.Stitching(
        sf.Potential(hidden=(8,)) + sf.Entropy(), 12, 6, optimiser=sf.Optimiser(steps=20)
    )
    fit = sf.fit(data, method, progress=False)
    assert fit.status.ok, fit.status
    x = clouds[0]
    for answer in (
        fit.flow.sample([0.0, 1.7], 5),
        fit.flow.velocity(x, 1.0),
        fit.flow.log_density(x, 1.0),
        fit.flow.simulate(x, [0.0, 1.0]),
        fit.energy.potential(x, 1.0),
        fit.energy.force(x, 1.0),
        fit.energy.beta,
    ):
        assert np.isfinite(answer).all()
    everybody = np.concatenate(clouds)
    low, high = everybody.min(axis=0), everybody.max(axis=0)
    found, room = np.asarray(fit.flow.sample(data.times, 50)), (high - low).max()
    assert (found >= low - room).all()
    assert (found <= high + room).all()
