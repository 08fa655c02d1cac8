"""Pictures against those that were looked at, and the numbers behind the newer plots.

`python tests/test_pl_images.py` draws the baselines anew; look at them before they are committed.
"""

import shutil
import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images

import stitchflow as sf
from falling import falling, known_fit, well
from stitchflow import pl
from stitchflow._judging.crossval import CrossValidation, FoldScore
from stitchflow._judging.diagnosis import Diagnosis
from stitchflow._judging.identifiability import Determined, Direction, Shown
from stitchflow._stitching.ensemble import Ensemble
from stitchflow._training.history import StageHistory

BASELINE = Path(__file__).parent / "baseline"
TOLERANCE = 12.0  # of 255, root mean square: fonts and antialiasing differ between versions
STEPS = np.linspace(0.0, 3.0, 25)


def steps() -> list[StageHistory]:
    step = np.arange(20.0, 2020.0, 20.0)
    columns = {
        "step": step,
        "divergence": 1.2 + np.exp(-step / 300.0),
        "residual": 0.02 + 2.0 * np.exp(-step / 200.0),
    }
    return [StageHistory("stitching", columns)]


def landscape_fit() -> sf.Fit:
    energy = sf.Potential(well) + sf.Entropy(beta=0.1, learn=False)
    return known_fit(energy, history=steps())


def members() -> Ensemble:
    """Three members whose wells differ in depth on one side."""
    tilted = lambda a: sf.Potential(lambda x: well(x) + a * x[0] ** 3)
    return Ensemble([known_fit(tilted(a)) for a in (-0.1, 0.0, 0.1)], bootstrap=False)


def draw_snapshots(ax):
    pl.snapshots(falling(), ax=ax)


def draw_landscape(ax):
    pl.landscape(landscape_fit(), falling(), grid=40, ax=ax)


def draw_fates(ax):
    fit = landscape_fit()
    fate = lambda end: np.where(end[:, 0] > 0.0, "right", "left")
    pl.trajectories(fit, falling(n=40).cloud(0), STEPS, fate=fate, ax=ax)


def draw_history(ax):
    pl.history(landscape_fit(), ax=ax)


def draw_stream(ax):
    x = np.random.default_rng(0).normal(size=(600, 2))
    turning = np.stack([-x[:, 1], x[:, 0]], axis=1)
    pl.stream(x, turning, colour=np.hypot(*x.T), ax=ax)


def draw_interaction(ax):
    energy = sf.Interaction(lambda r: -2.0 * jnp.exp(-(r**2)))
    pl.interaction(known_fit(energy), ax=ax)


def draw_uncertainty(ax):
    pl.uncertainty(members(), falling(), grid=30, ax=ax)


def told() -> Diagnosis:
    r = np.linspace(0.0, 3.0, 40)
    shown = Shown("W", tuple(r), tuple(-np.exp(-(r**2))), tuple(0.1 * (9.0 - r**2)))
    bowl = Direction("attraction or a bowl", 0.8, 0.1)
    terms = (Determined("V", 1.0, 0.1, 1.0), Determined("W", 0.5, 0.4, 1.0))
    terms += (Determined("beta", 0.1, 0.03),)
    found = sf.Identifiability(terms=terms, directions=(bowl,), least=bowl, shown=(shown,))
    return Diagnosis(0.9, 1.0, 0.0, (0.0, 0.02), identifiability=found)


def draw_identifiability(ax):
    pl.identifiability(told(), ax=ax)


def draw_least_determined(ax):
    pl.least_determined(told(), ax=ax)


def draw_section(ax):
    pl.section(members(), ax=ax)


def draw_cross_validation(ax):
    rows = []
    for method, factor in (("stitching", 1.1), ("nearest", 2.4), ("ot-linear", 1.4)):
        for when, floor in ((1.0, 0.5), (2.0, 0.6), (3.0, 0.4)):
            score = (f"t = {when:g}", "interpolate", "w1", when, factor * floor, floor)
            rows.append(FoldScore(method, 0, *score, 1.0, 10))
    pl.cross_validation(CrossValidation(rows), ax=ax)


PICTURES = {
    name.removeprefix("draw_"): function
    for name, function in list(globals().items())
    if name.startswith("draw_")
}


def picture(name: str, path: Path) -> None:
    with plt.style.context("default"):
        figure = Figure(figsize=(3.4, 2.9), layout="constrained")  # a column's width
        PICTURES[name](figure.add_subplot())
        figure.savefig(path, dpi=72)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_as_it_did(name, tmp_path):
    picture(name, tmp_path / f"{name}.png")
    different = compare_images(
        str(BASELINE / f"{name}.png"), str(tmp_path / f"{name}.png"), TOLERANCE
    )
    assert different is None, different


def test_the_tolerance_tells_pictures_apart(tmp_path):
    names = ("landscape", "uncertainty")
    paths = [shutil.copy(BASELINE / f"{name}.png", tmp_path) for name in names]
    assert compare_images(*paths, TOLERANCE, in_decorator=True) is not None


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    plt.close("all")


def test_velocities_are_carried_by_a_linear_embedding():
    rng = np.random.default_rng(0)
    x, v, j = rng.normal(size=(300, 4)), rng.normal(size=(300, 4)), rng.normal(size=(4, 2))
    np.testing.assert_allclose(pl.project(x, v, x @ j + 3.0), v @ j, rtol=0.02, atol=0.02)


def test_velocities_turn_with_a_curved_embedding():
    rng = np.random.default_rng(0)
    angle = rng.uniform(-1.0, 1.0, 2000)
    x = np.stack([angle, rng.uniform(1.0, 2.0, 2000)], axis=1)
    y = x[:, 1:] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    around = pl.project(x, np.tile([1.0, 0.0], (2000, 1)), y)
    np.testing.assert_allclose(around, np.stack([-y[:, 1], y[:, 0]], axis=1), atol=0.2)


@pytest.mark.parametrize("use_rep", [None, "pca"])
def test_a_stream_of_cells_projects_their_velocity(use_rep):
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    cells = anndata.AnnData(np.zeros((200, 1), np.float32))
    cells.obsm["X_pca"] = rng.normal(size=(200, 5))
    cells.obsm["X_umap"] = cells.obsm["X_pca"][:, :2].astype(np.float32)
    cells.obsm["sf_velocity"] = np.tile([1.0, 0.0, 3.0, 0.0, 0.0], (200, 1))
    ax = pl.stream(cells, basis="umap", key="sf", use_rep=use_rep)
    arrows = ax.collections[-1]
    np.testing.assert_allclose(arrows.U, 1.0, atol=0.05)
    np.testing.assert_allclose(arrows.V, 0.0, atol=0.05)
    assert ax.get_xlabel() == "umap 1"
    with pytest.raises(KeyError, match=r"basis='tsne' is not in adata.obsm, which holds X_pca"):
        pl.stream(cells, basis="tsne", key="sf")
    with pytest.raises(ValueError, match="basis is needed: one of X_pca"):
        pl.stream(cells)
    with pytest.raises(ValueError, match="name the representation of the fit"):
        pl.stream(cells, basis="umap", key="sf", use_rep="umap")


def test_a_stream_needs_one_velocity_a_point():
    with pytest.raises(ValueError, match="velocity is needed"):
        pl.stream(np.zeros((5, 2)))
    with pytest.raises(ValueError, match=r"one row per point \(5\), got 4"):
        pl.stream(np.zeros((5, 2)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"colour must be one entry per point \(5\)"):
        pl.stream(np.zeros((5, 2)), np.zeros((5, 2)), colour="day")
    assert plt.get_fignums() == []


def test_a_stream_is_coloured_by_a_column_and_tells_many_groups_apart():
    anndata = pytest.importorskip("anndata")
    rng = np.random.default_rng(0)
    cells = anndata.AnnData(np.zeros((120, 1), np.float32))
    cells.obsm["X_pca"] = rng.normal(size=(120, 2))
    cells.obsm["sf_velocity"] = np.ones((120, 2))
    cells.obs["day"] = np.arange(120) % 3
    cells.obs["type"] = [f"type {i % 12:02}" for i in range(120)]
    days = pl.stream(cells, basis="pca", key="sf", colour="day").collections[0]
    np.testing.assert_array_equal(days.get_array(), cells.obs["day"])
    groups = pl.stream(cells, basis="pca", key="sf", colour="type").collections[:12]
    looks = {(str(g.get_facecolor()), str(g.get_paths()[0].vertices)) for g in groups}
    assert len(looks) == 12
    with pytest.raises(KeyError, match="tipe"):
        pl.stream(cells, basis="pca", key="sf", colour="tipe")
    cells.obsm["X_line"] = cells.obsm["X_pca"][:, :1]
    with pytest.raises(ValueError, match="a stream needs two"):
        pl.stream(cells, basis="line", key="sf")


def test_the_band_holds_nine_pairs_of_ten():
    data = falling()
    ax = pl.interaction(known_fit(sf.Interaction(lambda r: r**2)), data)
    low, high = sf.metrics.pair_band(data.cloud(len(data) // 2))
    shade = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    assert (shade.x0, shade.x1) == pytest.approx((low, high))
    r, w = ax.lines[0].get_data()
    np.testing.assert_allclose(w, r**2 - r[-1] ** 2, rtol=1e-4, atol=1e-4)


def test_fates_are_counted():
    fit = landscape_fit()
    x0 = falling(n=40).cloud(0)
    ax = pl.trajectories(fit, x0, STEPS, fate=lambda end: np.arange(len(end)) % 4)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        f"{i} (25%)" for i in range(4)
    ]
    with pytest.raises(ValueError, match=r"one label per path \(40,\), got shape \(3,\)"):
        pl.trajectories(fit, x0, STEPS, fate=lambda end: [1, 2, 3])


def test_members_that_agree_are_certain_and_a_line_has_a_band():
    one = known_fit(sf.Potential(well))
    ax = pl.uncertainty(Ensemble([one, one], False), falling(), grid=12)
    assert ax.figure.axes[-1].get_ylabel().startswith("spread of the force")
    line = known_fit(sf.Potential(lambda x: x[0] ** 2), dim=1)
    ax = pl.uncertainty(Ensemble([line, line], False), falling(dim=1), grid=12)
    assert ax.get_ylabel() == "V"


if __name__ == "__main__":
    BASELINE.mkdir(exist_ok=True)
    for each in sys.argv[1:] or PICTURES:
        picture(each, BASELINE / f"{each}.png")
