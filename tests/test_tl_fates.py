"""Cells driven by a model whose motion is known: straight lines between two moved blobs."""

import numpy as np
import pytest

import stitchflow as sf
from cells import anndata, moving_blobs

WAY = np.array([3.0, 0.0])


@pytest.fixture
def cells(tmp_path):
    """A file that was fitted, written and opened again: all that any call needs."""
    adata = moving_blobs()
    sf.tl.fit(adata, "day", method=sf.OTLinear(), progress=False)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    return anndata.read_h5ad(tmp_path / "cells.h5ad")


def test_simulated_cells_know_where_they_started(cells):
    moved = sf.tl.simulate(cells, [1.0, 2.0], cells=["c3", "c7"], draws=2)
    assert moved.obs["start_cell"].tolist() == ["c3", "c7"] * 4
    assert moved.obs["particle"].tolist() == [0, 1, 2, 3] * 2
    assert moved.obs["time"].tolist() == [1.0] * 4 + [2.0] * 4
    start = cells[moved.obs["start_cell"]].obsm["X_pca"]
    expected = start + moved.obs["time"].to_numpy()[:, None] * WAY / 2.0
    np.testing.assert_allclose(moved.obsm["X_pca"], expected, atol=1e-5)
    assert moved.var_names.tolist() == ["pca1", "pca2"]


def test_simulation_starts_at_the_first_time_and_stops_at_the_observed_ones(cells):
    moved = sf.tl.simulate(cells)
    np.testing.assert_allclose(moved.X, cells.obsm["X_pca"], atol=1e-5)
    late = sf.tl.simulate(cells, [1.0, 0.0], cells=cells.obs["day"] == 2.0)
    np.testing.assert_allclose(late.X[-40:], cells.obsm["X_pca"][:40], atol=1e-5)
    with pytest.raises(ValueError, match="all after or all before the cells' own"):
        sf.tl.simulate(cells, [1.0, 3.0], cells=cells.obs["day"] == 2.0)


def test_unseen_times_lie_between(cells):
    middle = sf.tl.interpolate(cells, [1.0])
    assert middle.n_obs == 40
    expected = cells.obsm["X_pca"][:40].mean(axis=0) + WAY / 2.0
    np.testing.assert_allclose(middle.X.mean(axis=0), expected, atol=1e-4)


def test_fates_are_the_groups_where_cells_end(cells):
    cells.obs.loc[cells.obs["day"] == 0.0, "blob"] = np.nan  # only the end has names
    table = sf.tl.fate(cells, "blob", draws=2, neighbours=5)
    is_a = np.tile(np.arange(40) < 20, 2)
    np.testing.assert_allclose(table["a"], is_a)
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    assert cells.obs["stitchflow_fate"].tolist() == np.where(is_a, "a", "b").tolist()
    some = sf.tl.fate(cells, "blob", cells=[0, 30])
    assert some.index.tolist() == ["c0", "c30"]
    assert cells.obsm["stitchflow_fate"]["a"].isna().sum() == 78
    with pytest.raises(ValueError, match="at or before time 1"):
        sf.tl.fate(cells, "blob", time=1.0, cells=[79])
    with pytest.raises(ValueError, match="no cell near time 0 has a group"):
        sf.tl.fate(cells, "blob", time=0.0)


def test_groups_with_a_slash_are_written_and_read(cells, tmp_path):
    cells.obs["kind"] = np.where(cells.obs["blob"] == "a", "Mono/Mac", "B")
    table = sf.tl.fate(cells, "kind", draws=1)
    cells.write_h5ad(tmp_path / "fates.h5ad")  # warnings are errors here
    again = anndata.read_h5ad(tmp_path / "fates.h5ad")
    assert list(again.obsm["stitchflow_fate"]) == list(table) == ["B", "Mono|Mac"]
    assert again.obs["stitchflow_fate"].tolist() == cells.obs["kind"].tolist()
    cells.obs["kind"] = np.where(cells.obs["blob"] == "a", "Mono/Mac", "Mono|Mac")
    with pytest.raises(ValueError, match=r"obs\['kind'\] must differ by more than / for \|"):
        sf.tl.fate(cells, "kind")


def test_ancestors_are_the_cells_of_the_same_blob(cells):
    late_b = (cells.obs["day"] == 2.0) & (cells.obs["blob"] == "b")
    table = sf.tl.ancestors(cells, late_b, "blob", neighbours=1)
    assert table.loc[0.0].to_dict() == {"a": 0.0, "b": 1.0}
    # Each late cell came from the one of the same number.
    expected = np.zeros(80)
    expected[20:40] = 1.0 / 20
    np.testing.assert_allclose(cells.obs["stitchflow_ancestors"], expected)
    with pytest.raises(ValueError, match="times must be before the cells' own"):
        sf.tl.ancestors(cells, [0])


@pytest.mark.filterwarnings("ignore::stitchflow.ExtrapolationWarning")
@pytest.mark.parametrize("entropy", [None, sf.Entropy(0.1, learn=False)])
def test_cells_of_a_last_day_left_out_are_carried_back_to_the_fit(entropy):
    blobs = moving_blobs(10)
    later = blobs[blobs.obs["day"] == 2.0].copy()
    later.obs["day"] = 4.0
    later.obsm["X_pca"] = later.obsm["X_pca"] + WAY
    cells = anndata.concat([blobs, later], index_unique="-")
    falls = sf.Potential(lambda x: -1.5 * x[0])  # a velocity of WAY in two days
    energy = falls if entropy is None else falls + entropy
    short = {"optimiser": sf.Optimiser(steps=3), "consistency": sf.Consistency(steps=0)}
    method = sf.Stitching(energy, 10, 12, **short)
    with pytest.warns(sf.ExtrapolationWarning):
        sf.tl.fit(cells, "day", method=method, hold_out=4.0, progress=False)
    last = np.arange(20, 30)
    back = sf.tl.simulate(cells, [3.0, 2.0, 0.0], cells=last, energy=energy)
    # The others of its day push a cell whether or not they were chosen.
    one = sf.tl.simulate(cells, [3.0, 2.0, 0.0], cells=[27], energy=energy)
    np.testing.assert_allclose(one.X, back.X[[7, 17, 27]], atol=1e-5)
    assert np.isfinite(back.X).all()
    if entropy is None:
        table = sf.tl.ancestors(cells, last[5:], "blob", neighbours=1, energy=energy)
        assert table.loc[2.0].to_dict() == {"a": 0.0, "b": 1.0}
        places = cells.obsm["X_pca"]
        np.testing.assert_allclose(back.X[:10], places[20:] - WAY / 2.0, atol=1e-5)
        np.testing.assert_allclose(back.X[10:20], places[10:20], atol=1e-5)


def test_genes_follow_their_loadings(cells):
    trends = sf.tl.genes(cells, ["g4", "g1"], [0.0, 2.0], n=40)
    x = np.asarray(cells.X)
    expected = [x[:40].mean(axis=0)[[4, 1]], x[40:].mean(axis=0)[[4, 1]]]
    np.testing.assert_allclose(trends, expected, atol=1e-5)
    speed = np.broadcast_to(cells.varm["PCs"] @ WAY / 2.0, (80, 6))
    np.testing.assert_allclose(cells.layers["stitchflow_velocity"], speed, atol=1e-5)
    with pytest.raises(KeyError, match="gene 'g9' is not in"):
        sf.tl.genes(cells, ["g1", "g9"])
    cells.X = np.exp(0.1 * x)
    with pytest.raises(ValueError, match="name the layer the components were computed from"):
        sf.tl.genes(cells)
    cells.layers["log"] = x
    assert sf.tl.genes(cells, layer="log").shape == (50, 6)


def test_moved_cells_share_the_fate_of_those_they_are_moved_to(cells):
    a, across = np.arange(5), np.array([10.0, 10.0])
    by_axis = sf.tl.perturb(cells, {"PC1": 10.0, "PC2": 10.0}, "blob", cells=a)
    np.testing.assert_allclose(by_axis["before"], [1.0, 0.0])
    np.testing.assert_allclose(by_axis["after"], [0.0, 1.0])
    np.testing.assert_allclose(by_axis["standard_error"], 0.0, atol=1e-12)
    # The same way across, as amounts of genes: P^T P = 1.
    amounts = dict(zip(cells.var_names, cells.varm["PCs"] @ across, strict=True))
    by_genes = sf.tl.perturb(cells, amounts, "blob", cells=a)
    np.testing.assert_allclose(by_genes["change"], [-1.0, 1.0])
    with pytest.raises(KeyError, match="'PC3' is neither a gene nor one of PC1 to PC2"):
        sf.tl.perturb(cells, {"PC3": 1.0}, "blob")


@pytest.mark.parametrize(
    ("cells_", "words"),
    [
        ([True, False], r"cells must have one entry per cell \(80,\), got \(2,\)"),
        ([80], "cells must be row numbers below 80, got 80"),
        (["d1"], "cells: 'd1' is not among adata.obs_names"),
        ([False] * 80, "cells chooses no cell"),
    ],
)
def test_bad_choices_of_cells_are_named(cells, cells_, words):
    with pytest.raises((ValueError, KeyError), match=words):
        sf.tl.simulate(cells, cells=cells_)
