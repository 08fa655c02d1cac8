"""AnnData with known answers."""

import numpy as np
import pandas as pd
import pytest

anndata = pytest.importorskip("anndata")


def frame(**columns):
    n = len(next(iter(columns.values())))
    return pd.DataFrame(columns, index=[f"c{i}" for i in range(n)])


def moving_blobs(n=40, way=(3.0, 0.0)):
    """Blobs a and b, each carried by `way` within 2 days; six genes, linear in two components."""
    rng = np.random.default_rng(0)
    start = rng.normal(0.0, 0.3, (n, 2)) + np.where(np.arange(n) < n // 2, -5.0, 5.0)[:, None]
    z = np.concatenate([start, start + np.asarray(way)])
    loadings = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    blob = np.tile(np.where(np.arange(n) < n // 2, "a", "b"), 2)
    cells = anndata.AnnData(
        z @ loadings.T + np.arange(6.0),
        obs=frame(day=np.repeat([0.0, 2.0], n), blob=blob),
        obsm={"X_pca": z},
        varm={"PCs": loadings},
    )
    cells.var_names = [f"g{i}" for i in range(6)]
    return cells
