"""Terminal states and driver genes of a branching process whose basins and drivers are known."""

import numpy as np
import pandas as pd
import pytest

import stitchflow as sf

anndata = pytest.importorskip("anndata")

TIMES, N, DRIVERS, OTHERS = np.linspace(0.0, 2.0, 5), 200, 20, 180
BETA = 0.05


def branches(x):
    """Two wells at (-1, 0) and (1, 0)."""
    return (x[0] ** 2 - 1.0) ** 2 + 2.0 * x[1] ** 2


def force(x):
    return np.stack([-4.0 * x[:, 0] * (x[:, 0] ** 2 - 1.0), -4.0 * x[:, 1]], axis=1)


def branching(seed: int):
    """Cells that leave the saddle for one of two wells, with genes that do or do not follow.

    The first genes are the coordinate along which cells branch, with noise of the same size and of
    either sign; others are noise, or change in time only.
    """
    rng = np.random.default_rng(seed)
    clouds, x, step = [], rng.normal(size=(len(TIMES) * N, 2)) * 0.25, 0.01
    for k, when in enumerate(TIMES):
        own, left = x[k * N : (k + 1) * N], when
        while left > 1e-9:
            own = own + step * force(own) + np.sqrt(2 * BETA * step) * rng.normal(size=own.shape)
            left -= step
        clouds.append(own)
    x, t = np.concatenate(clouds), np.repeat(TIMES, N)
    signs = np.where(np.arange(DRIVERS) % 2, 1.0, -1.0)
    follow = x[:, :1] * signs + rng.normal(size=(len(x), DRIVERS))
    other = rng.normal(size=(len(x), OTHERS))
    other[:, : OTHERS // 2] += t[:, None]
    names = [f"driver{i}" for i in range(DRIVERS)] + [f"other{i}" for i in range(OTHERS)]
    obs = pd.DataFrame({"day": t}, index=[f"cell{i}" for i in range(len(x))])
    obs["side"] = np.where(x[:, 0] < 0.0, "left", "right")
    return anndata.AnnData(
        np.hstack([follow, other]), obs=obs, var=pd.DataFrame(index=names), obsm={"X_pca": x}
    )


ENERGY = sf.Potential(branches) + sf.Entropy(BETA, learn=False)


@pytest.fixture(scope="module")
def cells():
    found = branching(0)
    short = {"optimiser": sf.Optimiser(steps=3), "consistency": sf.Consistency(steps=0)}
    sf.tl.fit(found, "day", method=sf.Stitching(ENERGY, 10, 12, **short), progress=False)
    return found


def test_the_wells_are_the_terminal_states(cells):
    table = sf.tl.terminal_states(cells, "side", energy=ENERGY)
    assert sorted(table.index) == ["left", "right"]
    assert (table["stays"] > 0.9).all()
    last = cells.obs[cells.obs["day"] == 2.0]
    for name, row in table.iterrows():
        assert row["low"] < (last["side"] == name).mean() < row["high"]
        assert row["share"] == pytest.approx((last["side"] == name).mean(), abs=0.02)
    column = cells.obs["stitchflow_terminal"]
    assert column.isna()[cells.obs["day"] < 2.0].all()
    marked = column.dropna()
    assert (marked == cells.obs["side"][marked.index]).all()
    middle = np.abs(cells.obsm["X_pca"][column.notna().to_numpy()] - [[1.0, 0.0]])
    assert (np.minimum(middle[:, 0], 2.0 - middle[:, 0]) < 0.6).all()
    assert 0.5 * len(last) < len(marked) <= len(last)


def test_states_without_names_are_numbered_and_few_cells_make_none(cells):
    table = sf.tl.terminal_states(cells, energy=ENERGY)
    assert table.index.tolist() == ["1", "2"]
    assert table["share"].is_monotonic_decreasing
    with pytest.warns(sf.DataWarning, match="come to rest in none of the states"):
        most = sf.tl.terminal_states(cells, least=0.55, energy=ENERGY)
    assert len(most) < 2


@pytest.mark.full
def test_a_saddle_is_no_terminal_state():
    """A hill has no basin among the cells: they leave, and nothing is called a state."""
    found = branching(1)
    away = sf.Potential(lambda x: -2.0 * (x[0] ** 2 + x[1] ** 2))
    short = {"optimiser": sf.Optimiser(steps=3), "consistency": sf.Consistency(steps=0)}
    sf.tl.fit(found, "day", method=sf.Stitching(away, 10, 12, **short), progress=False)
    with pytest.warns(sf.DataWarning, match="come to rest in none of the states"):
        assert sf.tl.terminal_states(found, energy=away).empty


def test_a_method_without_a_potential_has_no_terminal_states():
    found = branching(0)
    sf.tl.fit(found, "day", method=sf.Nearest(), progress=False)
    with pytest.raises(ValueError, match="nearest has no potential in whose basins"):
        sf.tl.terminal_states(found)


def test_drivers_are_found_and_others_are_not(cells):
    sf.tl.fate(cells, "side", draws=3, energy=ENERGY)
    table = sf.tl.drivers(cells)
    assert table.columns.tolist() == ["gene", "fate", "effect", "low", "high", "q"]
    assert len(table) == 2 * (DRIVERS + OTHERS)
    for fate, sign in (("left", 1.0), ("right", -1.0)):
        own = table[table["fate"] == fate].set_index("gene")
        found = own.index[own["q"] < 0.1]
        true = found.str.startswith("driver")
        assert true.sum() >= 0.9 * DRIVERS
        assert (~true).sum() <= 0.1 * len(found)
        effect = own["effect"].loc[[f"driver{i}" for i in range(DRIVERS)]]
        assert (np.sign(effect) == sign * np.where(np.arange(DRIVERS) % 2, -1, 1)).all()
        assert ((own["low"] < own["effect"]) & (own["effect"] < own["high"])).all()


def test_the_interval_of_an_effect_is_that_of_a_correlation(cells):
    """With n cells the standard error of Fisher's z is 1 / sqrt(n - 3)."""
    sf.tl.fate(cells, "side", draws=3, energy=ENERGY)
    table = sf.tl.drivers(cells, "left")
    width = np.arctanh(table["high"]) - np.arctanh(table["low"])
    assert width.median() == pytest.approx(2.0 * 1.645 / np.sqrt(cells.n_obs), rel=0.1)


def test_genes_without_a_relation_are_rarely_found(cells):
    """Fates in random order within times: a tenth of the genes may be found at most, by chance."""
    shuffled = cells.copy()
    sf.tl.fate(shuffled, "side", draws=1, energy=ENERGY)
    rng = np.random.default_rng(0)
    fates = shuffled.obsm["stitchflow_fate"]
    for when in TIMES:
        rows = np.flatnonzero(shuffled.obs["day"] == when)
        fates.iloc[rows] = fates.to_numpy()[rng.permutation(rows)]
    assert (sf.tl.drivers(shuffled, "left", least=0.0)["q"] < 0.1).sum() <= 2


def test_bad_requests_of_drivers_are_refused(cells):
    bare = branching(0)
    with pytest.raises(KeyError, match="no fit under uns"):
        sf.tl.drivers(bare)
    sf.tl.fate(cells, "side", draws=1, energy=ENERGY)
    with pytest.raises(ValueError, match="fates must be among left, right; got 'up'"):
        sf.tl.drivers(cells, "up")
    with pytest.raises(KeyError, match=r"layer='raw' is not in adata.layers"):
        sf.tl.drivers(cells, layer="raw")
