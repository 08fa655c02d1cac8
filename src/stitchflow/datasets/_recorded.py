"""Recorded populations: from a local folder, or else the public original, always checksummed.

The folder is `STITCHFLOW_DATA`, or `../shared/data` beside the project. Downloads are the authors'
public copies at a fixed commit. Local and downloaded data must have the same checksum.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from stitchflow._data.snapshots import Snapshots
from stitchflow._status import BadInput
from stitchflow.datasets._simulated import Simulated, chiral_energy, cis_energy

ORIGINALS = (
    "https://raw.githubusercontent.com/BasisResearch/wasserstein-residuals/"
    "b619394dd58d0ee5875b0fbcc808447eb12e380f/data/"
)
CHIRAL_TIMES = (0.0, 50.0, 100.0, 200.0, 400.0, 600.0, 800.0)


class Recorded(NamedTuple):
    """Training and held-out individuals of a population whose energy is unknown.

    Arguments:
        train: the snapshots to fit.
        test: snapshots of other individuals of the same populations, for scores.
    """

    train: Snapshots
    test: Snapshots


class _Table(NamedTuple):
    """Rows of a file: positions, times, identities, and which rows are held out."""

    x: np.ndarray
    t: np.ndarray
    ids: np.ndarray | None
    train: np.ndarray
    test: np.ndarray

    @property
    def checksum(self) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self.x, "<f4").tobytes())
        digest.update(np.ascontiguousarray(self.t, "<f8").tobytes())
        return digest.hexdigest()

    def rows(self, rows: np.ndarray, total: int | None = None) -> Snapshots:
        ids = None if self.ids is None else self.ids[rows]
        return Snapshots.from_table(self.x[rows], self.t[rows], ids=ids, total=total)


def embryoid() -> Recorded:
    """Embryoid-body cells at five times in five principal components, split 70 to 30.

    Moon et al. 2019, in the embedding of Tong et al. 2020. The data is read from the folder
    `STITCHFLOW_DATA` or downloaded, which needs `stitchflow[data]`.

    Returns:
        The two parts as `Recorded`.

    Examples:
        >>> train, test = sf.datasets.embryoid()        # doctest: +SKIP
    """
    table = _table("eb5")
    return Recorded(table.rows(table.train), table.rows(table.test))


def cis() -> Simulated:
    """The paper's interacting particles, 310 at 201 times, split in half by particle.

    The ids identify the particles; neither the paper's fits nor those of `stitchflow bench cis` use
    them. Both parts say that 310 particles interact. The data is read from the folder
    `STITCHFLOW_DATA` or downloaded, which needs `stitchflow[data]`.

    Returns:
        The two parts and `cis_energy()` as `Simulated`.
    """
    table = _table("cis")
    assert table.ids is not None
    everybody = len(np.unique(table.ids))
    train, test = (table.rows(rows, everybody) for rows in (table.train, table.test))
    return Simulated(train, test, cis_energy())


def chiral_recorded() -> Simulated:
    """The paper's chiral system at seven times, split by particle.

    The data is read from the folder `STITCHFLOW_DATA` or downloaded, which needs
    `stitchflow[data]`.

    Returns:
        The two parts and `chiral_energy()` as `Simulated`.
    """
    table = _table("chiral")
    return Simulated(table.rows(table.train), table.rows(table.test), chiral_energy())


def data_folder() -> Path | None:
    """The folder of local copies of the recorded data.

    It is `STITCHFLOW_DATA`, or `../shared/data` beside the current folder or the project.

    Returns:
        The folder, or None where there is none.
    """
    chosen = os.environ.get("STITCHFLOW_DATA")
    if chosen is not None:
        if not Path(chosen).is_dir():
            raise FileNotFoundError(f"STITCHFLOW_DATA={chosen} is not a folder")
        return Path(chosen)
    roots = (Path.cwd(), Path(__file__).parents[3])  # the current folder; an editable install
    beside = (root / ".." / "shared" / "data" for root in roots)
    return next((folder.resolve() for folder in beside if folder.is_dir()), None)


def _table(name: str) -> _Table:
    folder = data_folder()
    if folder is not None and (folder / f"{name}.npz").is_file():
        table = _local(folder / f"{name}.npz")
        where = str(folder / f"{name}.npz")
    else:
        table, where = _SOURCES[name].read(), "the downloaded original"
    if table.checksum != _SOURCES[name].checksum:
        raise BadInput(f"{where} does not contain the data {name}: its checksum differs")
    return table


def _local(path: Path) -> _Table:
    with np.load(path, allow_pickle=False) as file:
        ids = file.get("id")
        return _Table(file["x"], file["t"], ids, file["train_idx"], file["test_idx"])


def _download(name: str) -> Path:
    try:
        import pooch
    except ImportError:
        raise ImportError(
            f"{name} is not in a local folder (STITCHFLOW_DATA) and downloading it needs pooch; "
            "install stitchflow[data]"
        ) from None
    try:
        # The commit in the address fixes the file; its content is checksummed after reading.
        path = pooch.retrieve(ORIGINALS + name, known_hash=None, path=pooch.os_cache("stitchflow"))
    except Exception as error:
        raise OSError(
            f"{name} could not be downloaded ({type(error).__name__}); put the data in a folder "
            "and name it in STITCHFLOW_DATA"
        ) from None
    return Path(path)


def _read_embryoid() -> _Table:
    x = np.load(_download("RNA_PCA_5/data.npy"), allow_pickle=False)[:, :5].astype("<f4")
    t = np.load(_download("RNA_PCA_5/sample_labels.npy"), allow_pickle=False).astype("<f8")
    order = np.random.default_rng(0).permutation(len(x))
    half = int(0.7 * len(x))
    return _Table(x, t, None, order[:half], order[half:])


def _read_cis() -> _Table:
    with np.load(_download("cis/cis-simulation.npz"), allow_pickle=False) as file:
        path, times = file["trajectories"], file["times"].astype("<f8")
    steps, n, dim = path.shape
    ids = np.tile(np.arange(n), steps)
    chosen = np.random.default_rng(0).permutation(n)[: n // 2]
    train = np.isin(ids, chosen)
    x = path.reshape(-1, dim).astype("<f4")
    t = np.repeat(times, n)
    return _Table(x, t, ids, np.flatnonzero(train), np.flatnonzero(~train))


def _read_chiral() -> _Table:
    with np.load(_download("chiral/chiral-simulation.npz"), allow_pickle=False) as file:
        parts = [(file[f"{part}_x"], file[f"{part}_t"]) for part in ("train", "test")]
    kept = [(x[np.isin(t, CHIRAL_TIMES)], t[np.isin(t, CHIRAL_TIMES)]) for x, t in parts]
    x = np.concatenate([x for x, _ in kept]).astype("<f4")
    t = np.concatenate([t for _, t in kept]).astype("<f8")
    first = len(kept[0][0])
    return _Table(x, t, None, np.arange(first), np.arange(first, len(x)))


class _Source(NamedTuple):
    checksum: str
    read: Callable[[], _Table]


_SOURCES = {
    "eb5": _Source(
        "50ba138604a6cf6b542552517bcc96089f42581adbeb0906c7e9b826ec180765", _read_embryoid
    ),
    "cis": _Source("c95bb20eff5cf797c337579373cd32e08c588746d475ff04fe466f4c1bca4a0f", _read_cis),
    "chiral": _Source(
        "9eeb476f5876da1f3408c8d37cba723167164f80422e6ea291541c255bac11ea", _read_chiral
    ),
}
