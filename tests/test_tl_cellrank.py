"""CellRank's fate probabilities from our kernels, with the real package."""

import numpy as np
import pandas as pd
import pytest

import stitchflow as sf
from cells import anndata, frame

QUICK = sf.Stitching(
    particles=60,
    nodes=13,
    optimiser=sf.Optimiser(steps=150),
    consistency=sf.Consistency(steps=40, individuals=64),
)


@pytest.fixture(scope="module")
def embryoid(data_folder):
    """100 cells a day; the halves of the last day are CellRank's ends."""
    stored, rng = np.load(data_folder / "eb5.npz"), np.random.default_rng(0)
    days = (rng.permutation(np.flatnonzero(stored["t"] == day))[:100] for day in range(5))
    rows = np.concatenate(list(days))
    x, day = stored["x"][rows], stored["t"][rows]
    side = np.where(x[:, 0] > np.median(x[day == 4.0, 0]), "right", "left")
    obs = frame(day=day, side=pd.Categorical(side))
    cells = anndata.AnnData(x.copy(), obs=obs, obsm={"X_pca": x})
    sf.tl.fit(cells, "day", method=QUICK, progress=False)
    return cells


@pytest.mark.full
@pytest.mark.filterwarnings("default")
def test_fate_probabilities_come_from_every_kernel(embryoid):
    cellrank = pytest.importorskip("cellrank")
    kernels = sf.tl.to_cellrank(embryoid)
    assert list(kernels) == ["velocity", "pseudotime", "realtime", "precomputed"]
    last = embryoid.obs["day"] == 4.0
    names = {
        side: list(embryoid.obs_names[last & (embryoid.obs["side"] == side)][:20])
        for side in ("left", "right")
    }
    own = sf.tl.fate(embryoid, "side")["right"].to_numpy()
    agreement = {}
    for name, kernel in kernels.items():
        np.testing.assert_allclose(kernel.transition_matrix.sum(axis=1), 1.0, atol=1e-6)
        estimator = cellrank.estimators.GPCCA(kernel)
        estimator.set_terminal_states(names)
        estimator.compute_fate_probabilities(show_progress_bar=False)
        found = estimator.fate_probabilities
        np.testing.assert_allclose(np.asarray(found).sum(axis=1), 1.0, atol=1e-4)
        right = np.asarray(found)[:, list(found.names).index("right")]
        agreement[name] = np.corrcoef(right, own)[0, 1]
    # All tell the two ends apart, and simulated couplings tell what simulation itself does.
    assert min(agreement.values()) > 0.2, agreement
    assert agreement["realtime"] > 0.7, agreement


@pytest.mark.full
@pytest.mark.filterwarnings("default")
def test_couplings_are_sparse_and_time_has_a_categorical_twin(embryoid):
    pytest.importorskip("cellrank")
    kernel = sf.tl.to_cellrank(embryoid, "realtime", draws=3, neighbours=4)["realtime"]
    twin = embryoid.obs["stitchflow_time"]
    assert twin.cat.ordered
    assert twin.cat.categories.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    matrix = kernel.transition_matrix
    first, second = (np.flatnonzero(embryoid.obs["day"] == day) for day in (0.0, 1.0))
    assert matrix[first].getnnz(axis=1).max() <= 12
    # Nobody of the first day goes anywhere but to the second.
    np.testing.assert_allclose(matrix[first][:, second].sum(axis=1), 1.0, atol=1e-6)


def test_kernels_have_names():
    with pytest.raises(ValueError, match="kernels must be among velocity, pseudotime, realtime"):
        sf.tl.to_cellrank(None, ["rna"])
