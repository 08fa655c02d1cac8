"""CellRank kernels from velocities, pseudotime, couplings and simulations of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.sparse import csr_matrix, vstack

from stitchflow._energy.energy import Energy
from stitchflow._energy.terms import Term
from stitchflow._status import BadInput, require
from stitchflow._types import KeyLike, as_key, check_count
from stitchflow.tl._dynamics import Cells
from stitchflow.tl._fates import landing
from stitchflow.tl._store import announce


class Bridge(NamedTuple):
    """The inputs of every kernel."""

    adata: Any
    seen: Cells
    name: str
    draws: int
    neighbours: int
    key: Any

    def column(self, end: str, container: Any) -> str:
        name = f"{self.name}_{end}"
        if name not in container:
            raise KeyError(f"{name!r} is missing: {self.seen.fit.method.name} has no {end}")
        return name

    def landed(self, rows: np.ndarray, path: np.ndarray, among: np.ndarray, key: Any) -> csr_matrix:
        """(cell, cell): the cells nearest to the ends of the simulated draws of each cell."""
        ends = self.seen.roll(rows, path, self.draws, key)[-1]
        shares = landing(ends.reshape(-1, ends.shape[-1]), self.seen.x[among], self.neighbours)
        pick = np.tile(np.arange(len(rows)), self.draws)
        sums = csr_matrix((np.ones(pick.size), (pick, np.arange(pick.size)))) @ shares
        return _rows_of_one(csr_matrix(sums))


def velocity(bridge: Bridge) -> Any:
    """Cells move to neighbours that lie in the direction of their velocity."""
    vkey = bridge.column("velocity", bridge.adata.obsm)
    keys = {"attr": "obsm", "xkey": bridge.seen.rep, "vkey": vkey}
    with _names_numpy_dropped():
        kernel = require("cellrank").kernels.VelocityKernel(bridge.adata, **keys)
    return kernel.compute_transition_matrix(show_progress_bar=False)


@contextmanager
def _names_numpy_dropped() -> Iterator[None]:
    """CellRank 2.0.7, the last for Python 3.11, uses argument names that numpy has removed."""
    own = np.testing.assert_array_equal

    def check(x: Any, y: Any, *args: Any, **kwargs: Any) -> None:
        own(x, y, *args, **kwargs)

    np.testing.assert_array_equal = check  # pyright: ignore
    try:
        yield
    finally:
        np.testing.assert_array_equal = own


def pseudotime(bridge: Bridge) -> Any:
    """Cells move to neighbours with a lower potential."""
    column = bridge.column("pseudotime", bridge.adata.obs)
    kernel = require("cellrank").kernels.PseudotimeKernel(bridge.adata, time_key=column)
    return kernel.compute_transition_matrix(show_progress_bar=False)


def realtime(bridge: Bridge) -> Any:
    """Cells move to the cells of the next observed time to which the dynamics carry them."""
    adata, seen, name = bridge.adata, bridge.seen, f"{bridge.name}_time"
    observed, pandas = np.unique(seen.t), require("pandas")
    adata.obs[name] = pandas.Categorical(seen.t, categories=observed, ordered=True)
    announce([f"obs[{name!r}], the time as a category"])
    couplings = {}
    for i, (t0, t1) in enumerate(pairwise(observed)):
        rows, there = np.flatnonzero(seen.t == t0), np.flatnonzero(seen.t == t1)
        step = jax.random.fold_in(bridge.key, i)
        couplings[t0, t1] = bridge.landed(rows, np.array([t0, t1]), there, step)
    kernel = require("cellrank").kernels.RealTimeKernel(adata, time_key=name, couplings=couplings)
    # The couplings are sparse already; within the last time cells move to their neighbours.
    return kernel.compute_transition_matrix(threshold=None, conn_kwargs={"use_rep": seen.rep})


def precomputed(bridge: Bridge) -> Any:
    """Cells move to the cells, of any time, to which the dynamics carry them in a short time."""
    adata, seen, name = bridge.adata, bridge.seen, f"{bridge.name}_transitions"
    observed = np.unique(seen.t)
    while_ = 0.5 * float(np.diff(observed).min())
    blocks, order, everybody = [], [], np.arange(adata.n_obs)
    for i, t in enumerate(observed):
        rows = np.flatnonzero(seen.t == t)
        # There are no observations after the last time: the dynamics just before it are used.
        start = min(t, observed[-1] - while_)
        step = jax.random.fold_in(bridge.key, 1000 + i)
        blocks.append(bridge.landed(rows, np.array([start, start + while_]), everybody, step))
        order.append(rows)
    matrix = csr_matrix(vstack(blocks))[np.argsort(np.concatenate(order))]
    adata.obsp[name] = matrix
    announce([f"obsp[{name!r}], transitions within {while_:g} of time"])
    return require("cellrank").kernels.PrecomputedKernel(adata, obsp_key=name)


KERNELS: dict[str, Callable[[Bridge], Any]] = {
    "velocity": velocity,
    "pseudotime": pseudotime,
    "realtime": realtime,
    "precomputed": precomputed,
}


def to_cellrank(
    adata: Any,
    kernels: Sequence[str] = tuple(KERNELS),
    *,
    draws: int = 10,
    neighbours: int = 10,
    key_added: str = "stitchflow",
    energy: Energy | Term | None = None,
    parts: Mapping[str, Any] | None = None,
    key: KeyLike = 0,
) -> dict[str, Any]:
    """Make CellRank's kernels from a fit, with their transition matrices computed.

    The kernels need scanpy's neighbours graph, which is computed on the fit's representation where
    it is missing.

    Arguments:
        adata: the cells, to which `tl.fit` was applied.
        kernels: the names of the kernels, by default all. "velocity" follows `obsm[k_velocity]`.
            "pseudotime" follows decreasing V. "realtime" couples each observed time with the next
            by simulation. "precomputed" simulates over half the shortest gap, among cells of all
            times.
        draws: how many times each cell is simulated.
        neighbours: how many observed cells share each simulated end.
        key_added: the name under which the fit was stored, k for short.
        energy: an energy of your own, as in `tl.load`.
        parts: classes and functions of your own by name, as in `tl.load`.
        key: an integer seed or a JAX key of the noise.

    Returns:
        The kernels by name.

    Examples:
        >>> kernel = sf.tl.to_cellrank(adata, ["realtime"])["realtime"]       # doctest: +SKIP
        >>> cellrank.estimators.GPCCA(kernel)                                 # doctest: +SKIP
    """
    chosen = [kernels] if isinstance(kernels, str) else list(kernels)
    for name in chosen:
        if name not in KERNELS:
            raise BadInput(f"kernels must be among {', '.join(KERNELS)}; got {name!r}")
    seen = Cells.of(adata, key_added, energy, parts)
    check_count(draws, "draws")
    require("cellrank")
    if "connectivities" not in adata.obsp:
        require("scanpy").pp.neighbors(adata, use_rep=seen.rep)
        announce([f"uns['neighbors'], scanpy's neighbours in {seen.rep}"])
    bridge = Bridge(adata, seen, key_added, draws, neighbours, as_key(key))
    return {name: KERNELS[name](bridge) for name in chosen}


def _rows_of_one(matrix: csr_matrix) -> csr_matrix:
    """Rows rescaled to sum to one."""
    totals = np.asarray(matrix.sum(axis=1)).ravel()
    if (totals == 0).any():
        raise BadInput("all simulated draws of a cell became infinite: the fit cannot simulate it")
    return csr_matrix(matrix.multiply(1.0 / totals[:, None]))
