"""The single-cell tutorial runs top to bottom, and a notebook of twelve lines goes all the way."""

from pathlib import Path

import numpy as np
import pytest

import stitchflow as sf
from cells import anndata, frame
from pages import run_page

PAGE = "tutorials/single-cell.md"
NOTEBOOK = """
import anndata, matplotlib.pyplot as plt, stitchflow as sf
adata = anndata.read_h5ad("embryoid.h5ad")
fit = sf.tl.fit(adata, "day", use_rep="pca", test_fraction=0.3, method=method, progress=False)
print(fit.summary())
scores = sf.tl.score(adata, metrics=("w1",))
print(scores)
fig, ax = plt.subplots()
sf.pl.stream(adata, basis="pca", colour="day", ax=ax)
fates = sf.tl.fate(adata, "type", draws=2)
print(fates.groupby(adata.obs["day"]).mean())
trends = sf.tl.genes(adata, ["gene3", "gene5"], times=[0, 1.5, 4])
adata.write_h5ad("fitted.h5ad")
""".strip()
QUICK = sf.Stitching(
    sf.Potential(hidden=(32, 32), time_varying=True) + sf.Entropy(),
    particles=60,
    nodes=13,
    optimiser=sf.Optimiser(steps=100),
    consistency=sf.Consistency(steps=40, individuals=64),
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.full
def test_the_tutorial_runs():
    names = run_page(PAGE)
    adata, fates = names["adata"], names["fates"]
    left = adata.obsm["X_pca"][:, 0] < 0
    late = (adata.obs["day"] >= 1.0).to_numpy()
    # Cells that have fallen stay in their well; those of the ridge may go either way.
    assert fates["left"][late & left].mean() > 0.8
    assert fates["left"][late & ~left].mean() < 0.2
    assert 0.2 < fates["left"][(adata.obs["day"] == 0.0).to_numpy()].mean() < 0.8
    assert names["scores"].mean("rollout") < 2.0 * names["scores"][-1].floor
    assert Path("velocity.png").stat().st_size > 0


@pytest.mark.full
@pytest.mark.filterwarnings("default")
def test_the_tutorial_runs_on_to_cellrank():
    pytest.importorskip("cellrank")
    names = run_page(PAGE, "```py(?:thon)?")
    found = names["estimator"].fate_probabilities
    left = np.asarray(found)[:, list(found.names).index("left")]
    assert np.corrcoef(left, names["fates"]["left"])[0, 1] > 0.5


def embryoid(data_folder, genes=30, each=120):
    """Embryoid-body cells with gene-like columns of which the five components are the loadings."""
    stored, rng = np.load(data_folder / "eb5.npz"), np.random.default_rng(0)
    days = [rng.permutation(np.flatnonzero(stored["t"] == day))[:each] for day in range(5)]
    x, day = stored["x"][np.concatenate(days)], stored["t"][np.concatenate(days)]
    loadings = np.linalg.qr(rng.normal(size=(genes, 5)))[0]
    noise = 0.5 * rng.normal(size=(len(x), genes))
    noise -= noise @ loadings @ loadings.T  # what the components do not see
    kind = np.where(x[:, 0] > np.median(x[day == 4, 0]), "right", "left")
    cells = anndata.AnnData((3.0 + x @ loadings.T + noise).astype(np.float32))
    cells.obs = frame(day=day, type=kind)
    cells.var_names = [f"gene{i}" for i in range(genes)]
    cells.obsm["X_pca"], cells.varm["PCs"] = x, loadings
    return cells


@pytest.mark.full
def test_twelve_lines_go_from_a_file_to_a_file(data_folder, capsys):
    embryoid(data_folder).write_h5ad("embryoid.h5ad")
    lines = NOTEBOOK
    assert len(lines.splitlines()) == 12
    names: dict = {"method": QUICK}
    exec(lines, names)
    assert "rollout" in capsys.readouterr().out
    before, after = names["adata"], anndata.read_h5ad("fitted.h5ad")
    for part in ("obs", "obsm", "uns", "layers"):
        assert set(getattr(after, part)) == set(getattr(before, part))
    assert {"stitchflow_potential", "stitchflow_pseudotime"} <= set(after.obs)
    assert after.obs["stitchflow_pseudotime"].between(0.0, 1.0).all()
    # The energy alone carries held-out cells nearer to the later days than standing still does.
    still = sf.fit(sf.tl.load(after).data, sf.Nearest(), progress=False)
    test = sf.Snapshots.from_table(
        after.obsm["X_pca"][~after.obs["stitchflow_train"]],
        after.obs["day"][~after.obs["stitchflow_train"]],
    )
    trivial = sf.evaluate(still, test, metrics=("w1",), protocols=("rollout",))
    assert names["scores"].mean("rollout") < 0.7 * trivial.mean("rollout")
    np.testing.assert_allclose(sf.tl.fate(after, "type", draws=2), names["fates"], atol=1e-6)
    drawn = names["trends"].loc[4.0, "gene3"]
    assert abs(drawn - before[before.obs["day"] == 4, "gene3"].X.mean()) < 0.5
