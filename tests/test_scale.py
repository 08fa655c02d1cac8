"""Data and curves too large to hold at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data import observations as _observations
from stitchflow._data.observations import Observations
from stitchflow._files import archive as _archive
from stitchflow._files.archive import Archive
from stitchflow._measure import kde as _kde
from stitchflow._measure.kde import Cloud
from stitchflow._reading.tables import read_table


@pytest.fixture
def small_memory(monkeypatch):
    for module in (_kde, _observations, _archive):
        for name, value in {"PAIR_BUDGET": 64, "POOL": 60, "LARGE": 100}.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(n, 2)) for n in (40, 25, 8)]
    return sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0])


def test_pools_of_large_data_have_one_shape_and_reach_everybody(small_memory, data):
    source = Observations.source(data, data.units)
    pools = [source(tenth) for tenth in range(40)]
    assert {pool.points.shape for pool in pools} == {(3, 10, 2)}
    assert all((pool.counts == jnp.array([10, 10, 8])).all() for pool in pools)
    inside = {tuple(row) for row in np.asarray(data.units.space_in(data.cloud(0))).tolist()}
    seen = {tuple(row) for pool in pools for row in np.asarray(pool.points[0]).tolist()}
    assert seen == inside


@pytest.mark.full
def test_a_fit_of_pools_is_a_fit(small_memory, data):
    """The mean of a pool of ten is known to a third of the spread; clouds are five apart."""
    clouds = [data.cloud(k) + np.array([5.0 * k, 0.0]) for k in range(len(data))]
    data = sf.Snapshots.from_arrays(clouds, data.times)
    method = sf.Stitching(particles=6, nodes=4, optimiser=sf.Optimiser(steps=20))
    fit = sf.fit(data, method, progress=False)
    assert fit.status.ok
    for k, t in enumerate(data.times[:2]):
        found = np.asarray(fit.flow.sample([t], 2000)[0])
        np.testing.assert_allclose(found.mean(axis=0), data.cloud(k).mean(axis=0), atol=1.0)
        np.testing.assert_allclose(found.std(axis=0), data.cloud(k).std(axis=0), rtol=0.6)


@pytest.mark.parametrize("term", [sf.Interaction(hidden=(8,)), sf.VectorKernel(hidden=(8,))])
def test_pairs_in_tiles_are_the_same_pairs(term, monkeypatch, x64):
    rng = np.random.default_rng(1)
    x, centres = jnp.asarray(rng.normal(size=(2, 9, 2))), jnp.asarray(rng.normal(size=(2, 30, 2)))
    cloud = Cloud(centres, jnp.full((2, 30), 1.0 / 30))
    ready = term.init(np.asarray(centres[0]), sf.Units.identity(2), jax.random.key(0))
    field = _kde.Field()
    pull = lambda y: (ready.gradient(y, jnp.zeros(2), cloud, field) ** 2).sum()
    whole = jax.value_and_grad(pull)(x)
    monkeypatch.setattr(_kde, "PAIR_BUDGET", 64)
    tiled = jax.value_and_grad(pull)(x)
    for a, b in zip(whole, tiled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_large_arrays_of_a_file_are_mapped(small_memory, tmp_path, data):
    path = tmp_path / "cells.npz"
    t = data.times[data.index]
    np.savez(path, x=data.x, t=t)
    assert isinstance(Archive(path)["x"], np.memmap)
    np.testing.assert_array_equal(Archive(path)["x"], data.x)
    np.testing.assert_array_equal(read_table(path).snapshots.x, data.x)
    np.savez_compressed(path, x=data.x, t=t)
    assert not isinstance(Archive(path)["x"], np.memmap)
    np.testing.assert_array_equal(read_table(path).snapshots.x, data.x)
