"""AnnData in, AnnData out: what a fit writes, and what it needs to be told."""

import logging
import sys

import numpy as np
import pandas as pd
import pytest

import stitchflow as sf
from cells import anndata, frame, moving_blobs
from stitchflow._reading.cells import chosen
from stitchflow.datasets import double_well

QUICK = {"optimiser": sf.Optimiser(steps=3), "consistency": sf.Consistency(steps=0)}
TINY = sf.Stitching(sf.Potential(hidden=(8,)) + sf.Entropy(), 10, 12, **QUICK)
VARYING = sf.Stitching(sf.Potential(hidden=(8,), time_varying=True), 10, 12, **QUICK)


@pytest.fixture
def adata():
    data = double_well(n=30, key=0)[0]
    obs = frame(day=data.times[data.index], w=np.linspace(1.0, 2.0, len(data.x)))
    shuffled = np.random.default_rng(0).permutation(len(data.x))
    x = np.zeros((len(data.x), 3), np.float32)
    return anndata.AnnData(x, obs=obs, obsm={"X_pca": data.x})[shuffled].copy()


def by_day(adata, name):
    """Weighted means of a column."""
    weighted = (adata.obs[name] * adata.obs["w"]).groupby(adata.obs["day"]).sum()
    return weighted / adata.obs["w"].groupby(adata.obs["day"]).sum()


def test_results_are_written_where_scverse_looks(adata):
    rows, quiet = [], {"weight_key": "w", "progress": False}
    fit = sf.tl.fit(adata, "day", "pca", method=VARYING, callback=rows.append, **quiet)
    assert isinstance(fit, sf.Fit)
    assert [row["loss"] for row in rows] == fit.history[0]["loss"].tolist()
    x, v = adata.obsm["X_pca"], adata.obs["stitchflow_potential"]
    first = (adata.obs["day"] == 0.0).to_numpy()
    expected = np.asarray(fit.flow.velocity(x[first], 0.0))
    np.testing.assert_allclose(adata.obsm["stitchflow_velocity"][first], expected, rtol=1e-5)
    rises = np.asarray(fit.energy.potential(x[first], 0.0))
    np.testing.assert_allclose(v[first] - v[first].mean(), rises - rises.mean(), atol=1e-5)
    pseudotime = adata.obs["stitchflow_pseudotime"]
    assert (pseudotime.min(), pseudotime.max()) == (0.0, 1.0)
    assert (v.argmin(), v.argmax()) == (pseudotime.argmax(), pseudotime.argmin())
    # The gauge of V(x, t): mean zero under the cells of each time.
    np.testing.assert_allclose(by_day(adata, "stitchflow_potential"), 0.0, atol=1e-6)


def test_the_reopened_file_alone_answers(adata, tmp_path):
    shown = {"weight_key": "w", "test_fraction": 0.3, "progress": False}
    fit = sf.tl.fit(adata, "day", method=TINY, **shown)
    # V(x) has one constant for all times: days keep their heights.
    assert np.abs(by_day(adata, "stitchflow_potential")).max() > 1e-4
    assert adata.obs["stitchflow_train"].sum() == len(fit.data.x) == 126
    asked = {"metrics": ("w1",), "protocols": ("marginal",)}
    scores = sf.tl.score(adata, **asked)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    opened = anndata.read_h5ad(tmp_path / "cells.h5ad")
    pd.testing.assert_frame_equal(opened.obs, adata.obs)
    stored = opened.uns["stitchflow"]["scores"]
    assert stored["value"].tolist() == [row.value for row in scores]
    again = sf.tl.load(opened)
    assert again.data.fingerprint == fit.data.fingerprint
    assert [set(stage) for stage in again.history] == [set(stage) for stage in fit.history]
    x = adata.obsm["X_pca"]
    np.testing.assert_array_equal(again.energy.potential(x), fit.energy.potential(x))
    assert sf.tl.score(opened, **asked) == scores
    # A second fit leaves nothing of the first.
    sf.tl.fit(adata, "day", method=sf.OTLinear(), progress=False)
    assert list(adata.obs) == ["day", "w"]
    assert "scores" not in adata.uns["stitchflow"]


def test_what_was_asked_of_an_earlier_fit_goes_with_it():
    cells = moving_blobs(10)
    cells.obs["stitchflow_time"] = cells.obs["day"]  # of the user's own, as far as we know
    sf.tl.fit(cells, "day", method=sf.OTLinear())
    assert "stitchflow_time" in cells.obs
    sf.tl.fate(cells, "blob", draws=1)
    sf.tl.ancestors(cells, [15])
    sf.tl.genes(cells, times=[1.0])
    cells.obsp["stitchflow_transitions"] = np.eye(20)
    sf.tl.fit(cells, "stitchflow_time", method=sf.OTLinear())
    assert list(cells.obs) == ["day", "blob", "stitchflow_time"]  # which is fitted now
    sf.tl.fit(cells, "day", method=sf.OTLinear())
    assert list(cells.obs) == ["day", "blob"]
    assert list(cells.obsm) == ["X_pca", "stitchflow_velocity"]
    assert not cells.layers
    assert not cells.obsp


def test_a_column_of_the_users_own_is_kept():
    cells = moving_blobs(10)
    cells.obs["stitchflow_train"] = "mine"
    sf.tl.fit(cells, "day", method=sf.OTLinear())
    sf.tl.fit(cells, "day", method=sf.OTLinear())  # now there is a fit before
    assert (cells.obs["stitchflow_train"] == "mine").all()
    assert len(sf.tl.load(cells).data.x) == len(cells)
    with pytest.raises(ValueError, match=r"obs\['stitchflow_train'\] is not of an earlier fit"):
        sf.tl.fit(cells, "day", method=sf.OTLinear(), test_fraction=0.5)
    assert (cells.obs["stitchflow_train"] == "mine").all()
    sf.tl.fit(cells, "day", method=sf.OTLinear(), test_fraction=0.5, key_added="k")
    assert cells.obs["k_train"].sum() == len(sf.tl.load(cells, "k").data.x) == len(cells) / 2
    del cells.uns["k"]["params"]["held_out"]  # as version 0.1.0 wrote it
    assert len(sf.tl.load(cells, "k").data.x) == len(cells) / 2
    sf.tl.fit(cells, "day", method=sf.OTLinear(), key_added="k")
    assert "k_train" not in cells.obs


@pytest.mark.parametrize("key", ["a/b", "", "/", 7])
def test_a_key_that_no_file_can_hold_is_refused(key):
    cells = moving_blobs(10)
    with pytest.raises((TypeError, ValueError), match="key_added must be text"):
        sf.tl.fit(cells, "day", method=sf.OTLinear(), key_added=key)
    assert not cells.uns


@pytest.mark.full
def test_an_ensemble_says_how_sure_every_cell_is(adata):
    adata = adata[adata.obs["day"] < 0.5].copy()
    sf.tl.fit(adata, "day", method=TINY, ensemble=2, key_added="k", progress=False)
    for name in ("k_potential_sd", "k_pseudotime_sd", "k_velocity_sd"):
        assert (adata.obs[name] >= 0.0).all()
        assert adata.obs[name].max() > 0.0


def test_a_fit_that_was_damaged_in_its_file_is_named(adata, tmp_path):
    sf.tl.fit(adata, "day", method=sf.OTLinear(), key_added="k")
    adata.write_h5ad(tmp_path / "cells.h5ad")
    adata = anndata.read_h5ad(tmp_path / "cells.h5ad")
    sound = dict(adata.uns["k"])
    assert len(sound["sha256"]) == 64
    times, header = sound["arrays"]["times"], sound["header"]
    for change, words in (
        ({"arrays": sound["arrays"] | {"times": times + 1}}, "does not match its own hash"),
        ({"header": header.replace("ot-linear", "ot-spline")}, "does not match its own hash"),
        ({"header": header[:-9]}, "its header is not JSON"),
        ({"header": "[" * 10**5}, "its header is not JSON"),
        ({"header": "[]"}, "must each be a dictionary"),
        ({"arrays": np.zeros(3)}, "must each be a dictionary"),
        ({"header": header.replace('"format": 3', '"format": 99')}, "it has format 99"),
    ):
        adata.uns["k"] = sound | change
        with pytest.raises(ValueError, match=rf"uns\['k'\]: .*{words}"):
            sf.tl.load(adata, "k")
    # Files of before the hash are read as they are.
    adata.uns["k"] = {name: part for name, part in sound.items() if name != "sha256"}
    assert sf.tl.load(adata, "k").data is not None


def test_functions_of_your_own_are_handed_to_every_call():
    cells = moving_blobs(10)
    energy = sf.Potential(lambda x: (x**2).sum()) + sf.Entropy()
    method = sf.Stitching(energy, 10, 12, **QUICK)
    sf.tl.fit(cells, "day", method=method, test_fraction=0.2, progress=False)
    calls = {
        sf.tl.simulate: {},
        sf.tl.interpolate: {"times": [1.0]},
        sf.tl.fate: {"groups": "blob", "draws": 1},
        sf.tl.ancestors: {"cells": [15]},
        sf.tl.genes: {"times": [1.0]},
        sf.tl.perturb: {"shift": {"PC1": 1.0}, "groups": "blob", "draws": 1},
        sf.tl.score: {"metrics": ("w1",), "protocols": ("marginal",)},
    }
    for call, settings in calls.items():
        with pytest.raises(ValueError, match="pass the same energy again by energy="):
            call(cells, **settings)
        assert len(call(cells, **settings, energy=energy)) > 0
    with pytest.raises(ValueError, match="draws must be at least 1"):  # it got past the model
        sf.tl.to_cellrank(cells, draws=0, energy=energy)


def test_a_copy_is_written_and_the_original_left(adata):
    before = adata.copy()
    copied = sf.tl.fit(adata, "day", method=sf.OTLinear(), copy=True)
    assert "stitchflow" in copied.uns
    assert list(adata.obs) == list(before.obs)
    assert not adata.uns
    view = adata[adata.obs["day"] < 0.5]
    sf.tl.fit(view, "day", method=sf.OTLinear())
    assert "stitchflow_velocity" in view.obsm


def test_it_says_what_it_wrote(adata, caplog):
    with caplog.at_level(logging.INFO, "stitchflow"):
        sf.tl.fit(adata, "day", method=sf.OTLinear(), key_added="k")
    assert "obsm['k_velocity'], velocities in the representation" in caplog.text
    assert "potential" not in caplog.text  # it has no energy
    assert "ot-linear: " in caplog.text


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["0", "0.5", "12"], [0.0, 0.5, 12.0]),
        (["E8.5", "E9", "E13.25"], [8.5, 9.0, 13.25]),
        (["day-0", "day-2", "day-10"], [0.0, 2.0, 10.0]),
        (["day -1", "day 0", "day +2.5"], [-1.0, 0.0, 2.5]),
        (["-1", "0", "1e1"], [-1.0, 0.0, 10.0]),
        (["early", "later", "last"], [0.0, 1.0, 2.0]),
    ],
)
def test_ordered_categories_are_times(labels, expected):
    column = pd.Categorical([*labels, labels[0]], categories=[*labels, "unused 99"], ordered=True)
    cells = anndata.AnnData(np.zeros((4, 1)), obs=frame(day=column))
    assert sf.tl.times(cells, "day").tolist() == [*expected, expected[0]]


@pytest.mark.parametrize("labels", [["day 2", "day 1", "day 3"], ["1 to 2", "3", "4"]])
def test_places_that_replace_numbers_are_said(labels):
    column = pd.Categorical(labels, categories=labels, ordered=True)
    cells = anndata.AnnData(np.zeros((3, 1)), obs=frame(day=column))
    with pytest.warns(sf.DataWarning, match="their places 0, 1, 2, ... are the times"):
        assert sf.tl.times(cells, "day").tolist() == [0.0, 1.0, 2.0]


def test_labels_without_an_order_are_refused_with_the_line_that_gives_them_one():
    labels = ["E9", "E8.5", "E9"]
    cells = anndata.AnnData(np.zeros((3, 1)), obs=frame(stage=labels))
    for column in (pd.Series(labels, cells.obs_names), pd.Categorical(labels)):
        cells.obs["stage"] = column
        with pytest.raises(ValueError, match="got 'E9', or ordered categories") as refused:
            sf.tl.times(cells, "stage")
        line = str(refused.value).split("categories: ")[1].split(" (check")[0]
        exec(line, {"adata": cells})
        assert sf.tl.times(cells, "stage").tolist() == [9.0, 8.5, 9.0]


@pytest.mark.parametrize(("stored", "asked"), [("X_pca", "pca"), ("pca", "X_pca"), ("pca", "pca")])
def test_a_representation_is_found_with_or_without_its_prefix(stored, asked):
    x = np.arange(8.0).reshape(4, 2)
    cells = anndata.AnnData(np.zeros((4, 1)), obsm={stored: x})
    np.testing.assert_array_equal(sf.tl.representation(cells, asked), x)


def test_cells_of_one_name_are_not_told_apart_by_it():
    cells = anndata.AnnData(np.zeros((4, 1)), obs=frame(day=np.zeros(4)))
    cells.obs_names = ["a", "b", "b", "c"]
    assert chosen(cells, ["c", "a"]).tolist() == [3, 0]
    with pytest.raises(ValueError, match="cells: two cells are called 'b'; make obs_names unique"):
        chosen(cells, ["a", "b"])
    with pytest.raises(KeyError, match="cells: 'd' is not among"):
        chosen(cells, ["a", "d"])


def test_days_kept_from_the_fit_are_described_too(adata):
    left_out = sorted(adata.obs["day"].unique())[1:3]
    sf.tl.fit(adata, "day", method=sf.OTLinear(), hold_out=left_out, progress=False)
    kept = adata.obs["day"].isin(left_out)
    assert (adata.obs["stitchflow_train"] == ~kept).all()
    assert np.isfinite(adata.obsm["stitchflow_velocity"]).all()


def test_a_day_left_out_at_the_end_is_forecast_from_cells_nobody_saw(adata):
    last, before = sorted(adata.obs["day"].unique())[:-3:-1]
    sf.tl.fit(adata, "day", method=sf.OTLinear(), hold_out=[last], progress=False)
    seen = adata.obs.groupby("day")["stitchflow_train"].mean()
    assert seen[last] == 0.0
    assert seen[before] == pytest.approx(0.8, abs=0.05)
    assert (seen.drop([last, before]) == 1.0).all()
    scores = sf.tl.score(adata, metrics=("w2",))
    assert {row.protocol for row in scores if row.time == last} == {"forecast"}


def test_days_are_left_out_by_their_labels():
    cells = moving_blobs(5)
    cells = anndata.concat([cells, cells], index_unique="-")
    stages = ["E8", "E9.5", "E10", "E12"]
    cells.obs["stage"] = pd.Categorical(np.repeat(stages, 5), categories=stages, ordered=True)
    for left_out in ("E9.5", ["E9.5"], 9.5, np.array([9.5]), {"E9.5"}):
        sf.tl.fit(cells, "stage", method=sf.OTLinear(), hold_out=left_out)
        assert (cells.obs["stitchflow_train"] == (cells.obs["stage"] != "E9.5")).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hold_out": "E9"}, r"hold_out: no cell is of 'E9'; times are 0\.0, 2\.0"),
        ({"hold_out": [1.0]}, "hold_out: time 1 was not observed"),
        ({"hold_out": [None]}, "hold_out: time must be a number, got None"),
        ({"hold_out": [2.0]}, r"hold_out must leave two times or more to fit, got \[2\.0\]"),
        ({"hold_out": [0.0, 2.0]}, "hold_out must leave two times or more"),
        ({"test_fraction": 1.0}, "test_fraction must be below 1"),
        ({"test_fraction": 0.01}, "test_fraction=0.01: .* leaves nobody"),
        ({"use_rep": None}, "use_rep must be a key of adata.obsm, got None"),
    ],
)
def test_bad_choices_are_named(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        sf.tl.fit(moving_blobs(10), "day", method=sf.OTLinear(), **settings)


def test_a_drawing_as_representation_is_said(adata):
    adata.obsm["X_umap"] = adata.obsm["X_pca"]
    with pytest.warns(sf.DataWarning, match="X_umap is made for drawing: .* pl.stream"):
        sf.tl.fit(adata, "day", use_rep="umap", method=sf.Nearest())


def test_missing_keys_are_listed(adata):
    with pytest.raises(KeyError, match=r"'hour' is not in adata.obs, which holds day, w"):
        sf.tl.fit(adata, "hour")
    with pytest.raises(KeyError, match=r"use_rep='X_umap' is not in adata.obsm, which holds X_pca"):
        sf.tl.fit(adata, "day", use_rep="X_umap")
    with pytest.raises(KeyError, match=r"no fit under uns\['stitchflow'\]; fits there are: none"):
        sf.tl.simulate(adata)
    adata.obs["day"] = "late"
    with pytest.raises(ValueError, match="must hold numbers, got 'late'"):
        sf.tl.fit(adata, "day")
    adata.obs["day"] = np.nan
    with pytest.raises(ValueError, match=r"adata.obs\['day'\] is missing in rows 0, 1, 2"):
        sf.tl.fit(adata, "day")
    with pytest.raises(TypeError, match="adata must be an AnnData, got ndarray"):
        sf.tl.fit(np.zeros(3), "day")


def test_nobody_is_scored_on_what_was_fitted():
    cells = moving_blobs()
    sf.tl.fit(cells, "day", method=sf.OTLinear())
    with pytest.raises(ValueError, match="with test_fraction or hold_out"):
        sf.tl.score(cells)


def test_a_report_is_judged_by_the_cells_held_out(tmp_path):
    cells, page = moving_blobs(), tmp_path / "report.html"
    sf.tl.fit(cells, "day", method=sf.OTLinear(), test_fraction=0.3)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    sf.tl.report(anndata.read_h5ad(tmp_path / "cells.h5ad"), page)
    held = cells.obs_names[~cells.obs["stitchflow_train"]]
    assert f'"{held[0]}"' in page.read_text()
    assert "Nothing was held out" not in page.read_text()
    sf.tl.fit(cells, "day", method=sf.OTLinear())
    sf.tl.report(cells, page)
    assert f'"{held[0]}"' in page.read_text()
    assert "Nothing was held out" in page.read_text()
    sf.tl.report(cells[:60], page)  # no longer the cells of the fit: a page without them
    assert f'"{held[0]}"' not in page.read_text()


@pytest.mark.parametrize("package", ["anndata", "cellrank"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch):
    cells = moving_blobs()
    sf.tl.fit(cells, "day", method=sf.OTLinear())
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"needs {package}; install stitchflow\[anndata\]"):
        sf.tl.to_cellrank(cells)
