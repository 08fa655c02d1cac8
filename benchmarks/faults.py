"""Inputs nobody would make on purpose, for `trust.py`: odd tables, broken files, forged models."""

import hashlib
import itertools
import json
import os
import string
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import stitchflow as sf
from stitchflow._data.advice import advice
from stitchflow._data.checks import check_data
from stitchflow._files.archive import Archive
from stitchflow._storage import save as _io

KINDS = ("arrays", "npz", "csv", "parquet", "h5ad")
Rng = np.random.Generator


def numbers(rng: Rng, n: int) -> np.ndarray:
    """A column of numbers of some size, with odd entries among them more often than not."""
    values = rng.normal(size=n) * 10.0 ** rng.choice([-300, -12, -3, 0, 0, 0, 3, 12, 35, 300])
    values = values + rng.choice([0.0, 0.0, 1e6, -1e12])
    odd = [np.nan, np.inf, -np.inf, 0.0, 1e308, 5e-324, -0.0]
    if rng.random() < 0.3 and n:
        values[rng.integers(n, size=rng.integers(1, 4))] = rng.choice(odd)
    return np.full(n, values[0]) if n and rng.random() < 0.1 else values


def odd_column(rng: Rng, n: int) -> np.ndarray:
    """A column of any type."""
    words = ["", "a", "1", "nan", "<script>", "1e999", "None", "\x00", "é" * 50]
    makers: list[Callable[[], np.ndarray]] = [
        lambda: numbers(rng, n),
        lambda: rng.integers(-3, 4, n),
        lambda: rng.integers(0, 2, n).astype(bool),
        lambda: np.array(rng.choice(words, n)),
        lambda: np.char.encode(rng.choice(words, n), "utf-8"),
        lambda: np.array([None, 1, "a", 2.5] * n, object)[:n],
        lambda: np.array(rng.integers(0, 10**9, n), "datetime64[s]"),
        lambda: np.array(rng.integers(0, 10**9, n), "timedelta64[s]"),
        lambda: rng.normal(size=n) + 1j,
        lambda: rng.normal(size=n).astype(np.float16),
        lambda: np.array([10**400] * n, object),
        lambda: rng.normal(size=(n, 2)),
    ]
    return makers[rng.integers(len(makers))]()


def times(rng: Rng, n: int) -> np.ndarray:
    some = rng.choice([1, 2, 3, 5])
    values = rng.choice(rng.normal(size=some) * 10.0 ** rng.integers(-12, 13), n)
    return values if rng.random() < 0.8 else values + rng.choice([0.0, 1e-12], n)


def columns(rng: Rng) -> dict[str, np.ndarray]:
    """A table that is sound in most columns and odd in some."""
    n, odd = int(rng.choice([0, 1, 2, 5, 20, 60])), 0.15
    made = {"t": times(rng, n), "a": rng.normal(size=n), "b": rng.normal(size=n)}
    for name in ("w", "id", "group"):
        if rng.random() < 0.2:
            made[name] = np.abs(numbers(rng, n)) if name == "w" else rng.integers(0, 5, n)
    for name in list(made):
        if rng.random() < odd:
            made[name] = numbers(rng, n) if rng.random() < 0.5 else odd_column(rng, n)
    return made


def through_snapshots(rng: Rng) -> str:
    made = columns(rng)
    try:
        x = np.stack([made["a"], made["b"]], axis=1) if rng.random() < 0.8 else made["a"]
    except (TypeError, ValueError):
        return "not an array"
    try:
        rest = {"weights": made.get("w"), "ids": made.get("id"), "groups": made.get("group")}
        data = check_data(sf.Snapshots.from_table(x, made["t"], **rest))
        advice(data, 25)
        assert np.isfinite(np.asarray(data.units.space_in(data.x))).all(), "not finite inside"
    except (TypeError, ValueError):
        return "refused"
    return "accepted"


def data_file(rng: Rng, kind: str, folder: Path) -> tuple[Path, list[str]]:
    """A file of that kind, as it is, broken, or something else under its name; and options."""
    path = folder / f"data.{kind}"
    path.unlink(missing_ok=True)
    options = []
    if rng.random() < 0.1:
        path.write_bytes(rng.bytes(int(rng.integers(0, 300))))
    else:
        made = columns(rng)
        try:
            options = _write(path, kind, made, rng)
        except Exception:  # the writer's own limits
            path.write_text(",".join(made) + "\n" + ",".join("1" for _ in made))
        if rng.random() < 0.4:
            path.write_bytes(broken(rng, path.read_bytes()))
    if rng.random() < 0.1:
        word = "".join(rng.choice(list(string.printable), 5))
        options += [str(rng.choice(["--time-key", "--rep", "--id-key"])), word]
    return path, options


def _write(path: Path, kind: str, made: dict[str, np.ndarray], rng: Rng) -> list[str]:
    keys = {"w": "--weight-key", "id": "--id-key", "group": "--group-key"}
    options = [part for name in made if name in keys for part in (keys[name], name)]
    if kind == "npz":
        x = np.stack([made.pop("a"), made.pop("b")], axis=1)
        save = np.savez if rng.random() < 0.5 else np.savez_compressed
        left_out = rng.choice(["", "", "", "x", "t"])
        save(path, **{name: v for name, v in {"x": x, **made}.items() if name != left_out})
        return options
    frame = pd.DataFrame({name: list(v) if v.ndim > 1 else v for name, v in made.items()})
    if kind == "csv":
        frame.to_csv(path, index=False, sep=str(rng.choice([",", ",", ",", ";", "\t"])))
    elif kind == "parquet":
        frame.to_parquet(path)
    else:
        import anndata

        x = frame[["a", "b"]].to_numpy()
        obs = frame.drop(columns=["a", "b"]).set_index(frame.index.astype(str))
        anndata.AnnData(np.zeros((len(x), 1)), obs=obs, obsm={"X_pca": x}).write_h5ad(path)
        return ["--time-key", "t", *options]
    return options


def broken(rng: Rng, content: bytes) -> bytes:
    """Flipped bits, cut ends, blocks that are zeroed, repeated, swapped, or numbers made huge."""
    raw = bytearray(content)
    if not raw:
        return b"\x00"
    place = int(rng.integers(len(raw)))
    block = slice(place, place + int(rng.integers(1, 64)))
    way = rng.integers(7)
    if way <= 1:
        for _ in range(int(rng.integers(1, 5))):
            raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
    elif way == 2:
        raw = raw[:place]
    elif way == 3:
        raw[block] = bytes(len(raw[block]))
    elif way == 4:
        raw[place:place] = raw[block]
    elif way == 5:
        other = int(rng.integers(len(raw)))
        raw[block], raw[other : other + 8] = raw[other : other + 8], raw[block]
    else:
        raw[place : place + 8] = struct.pack("<Q", 2 ** int(rng.integers(31, 64)) - 1)
    return bytes(raw)


def ending_before(k: int, work: Callable, *arguments) -> None:
    """Do the work, but end this process just before its k-th change among the files of a run.

    Checkpoints that are written do not count.
    """
    left = itertools.count(k, -1)

    def before(change: Callable) -> Callable:
        def call(path, *rest, **more):
            written = change is rename and "checkpoint" in Path(path).name
            if os.path.lexists(path) and not written and next(left) == 1:
                os._exit(9)
            return change(path, *rest, **more)

        return call

    rename = os.replace
    os.replace, os.unlink = before(os.replace), before(os.unlink)
    work(*arguments)


def damaged(rng: Rng, contents: dict[str, bytes]) -> dict[str, bytes]:
    name = str(rng.choice(["header.json", "arrays.npz"]))
    return contents | {name: broken(rng, contents[name])}


def forged(rng: Rng, contents: dict[str, bytes]) -> dict[str, bytes]:
    """A header or an array that says something else, with every hash made right again."""
    header = json.loads(contents["header.json"])
    arrays = Archive(contents["arrays.npz"]).all()
    if rng.random() < 0.5:
        _change(rng, header)
    else:
        name = str(rng.choice(list(arrays)))
        array = arrays[name]
        ways = [
            lambda: array * np.nan,
            lambda: np.atleast_1d(array)[..., :1],
            lambda: np.zeros((3, 3, 3)),
            lambda: array.astype(str),
            lambda: array.astype(int),
            lambda: array.astype(complex),
            lambda: np.zeros(0),
            lambda: np.zeros(10**6),
        ]
        arrays[name] = ways[rng.integers(len(ways))]()
        if rng.random() < 0.2:
            del arrays[name]
    content = _io.packed(arrays)
    header.pop("sha256", None)
    header["arrays_sha256"] = hashlib.sha256(content).hexdigest()
    header["sha256"] = _io.seal(header)
    text = json.dumps(header).encode()
    return contents | {"arrays.npz": content, "header.json": text}


def _change(rng: Rng, entry) -> None:
    """Replace, add or remove one value somewhere in nested JSON."""
    places = list(entry) if isinstance(entry, dict) else list(range(len(entry)))
    if not places:
        return
    name = places[rng.integers(len(places))]
    if isinstance(entry[name], (dict, list)) and entry[name] and rng.random() < 0.8:
        return _change(rng, entry[name])
    values = [None, -1, 0, 10**12, 1e308, float("nan"), "../../x", [], {}, True, [[]], "os.system"]
    if rng.random() < 0.2:
        del entry[name]
    else:
        entry[name] = values[rng.integers(len(values))]
    return None
