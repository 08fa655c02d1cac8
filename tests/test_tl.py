"""AnnData in, AnnData out."""

import numpy as np
import pandas as pd
import pytest

import stitchflow as sf
from stitchflow.datasets import double_well

anndata = pytest.importorskip("anndata")

TINY = sf.Stitching(particles=10, nodes=12, optimiser=sf.Optimiser(steps=5))
VARYING = sf.Stitching(
    sf.Potential(hidden=(8,), time_varying=True), 10, 12, optimiser=sf.Optimiser(steps=5)
)


@pytest.fixture
def adata():
    data = double_well(n=30, key=0)[0]
    days = data.times[data.index]
    cells = anndata.AnnData(
        np.zeros((len(data.x), 3), np.float32),
        obs=pd.DataFrame({"day": days, "w": 1.0}, index=[f"c{i}" for i in range(len(days))]),
    )
    cells.obsm["X_pca"] = data.x
    return cells


@pytest.mark.parametrize("method", [TINY, VARYING], ids=["V(x)", "V(x,t)"])
def test_results_are_written_where_scverse_looks(adata, method):
    fit = sf.tl.fit(adata, "day", use_rep="pca", weight_key="w", method=method, progress=False)
    assert isinstance(fit, sf.Fit)
    assert adata.obsm["stitchflow_velocity"].shape == adata.obsm["X_pca"].shape
    pseudotime = adata.obs["stitchflow_pseudotime"]
    assert pseudotime.min() == 0.0
    assert pseudotime.max() == 1.0
    assert np.isfinite(adata.obs["stitchflow_potential"]).all()
    low, high = (
        adata.obs["stitchflow_potential"].argmin(),
        adata.obs["stitchflow_potential"].argmax(),
    )
    assert pseudotime.iloc[low] == 1.0
    assert pseudotime.iloc[high] == 0.0


def test_ordered_categories_of_numbers_are_times(adata):
    adata.obs["day"] = pd.Categorical(adata.obs["day"].astype(str), ordered=True)
    np.testing.assert_array_equal(np.unique(sf.tl.times(adata, "day")), [0, 0.2, 0.4, 0.7, 1, 1.5])


def test_missing_keys_are_listed(adata):
    with pytest.raises(KeyError, match=r"'hour' is not in adata.obs, which holds day, w"):
        sf.tl.fit(adata, "hour")
    with pytest.raises(KeyError, match=r"use_rep='X_umap' is not in adata.obsm, which holds X_pca"):
        sf.tl.fit(adata, "day", use_rep="X_umap")
    adata.obs["day"] = "late"
    with pytest.raises(ValueError, match="must hold numbers, got 'late'"):
        sf.tl.fit(adata, "day")
