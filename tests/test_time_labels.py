"""Times that are written as labels, wherever they come from: one unit, or a refusal."""

import re

import numpy as np
import pandas as pd
import pytest

import stitchflow as sf
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table
from stitchflow._reading.time_labels import durations, order_of, time_named

X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("labels", "unit", "expected"),
    [
        (["1d", "36h", "72h"], "hours", [24.0, 36.0, 72.0]),
        (["0", "90 min", "2 hours"], "minutes", [0.0, 90.0, 120.0]),
        (["Day 10", "2 weeks", "day_21"], "days", [10.0, 14.0, 21.0]),
        (["500ms", "1s", "1min"], "milliseconds", [500.0, 1000.0, 60000.0]),
    ],
)
def test_several_units_become_the_smallest_and_it_is_said(labels, unit, expected):
    for read in (durations, order_of):
        with pytest.warns(sf.DataWarning, match=f"{labels[0]}, .* are counted in {unit}$"):
            assert read(labels).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("labels", [["12h", "24h", "1.5h"], ["1 day", "2 days"], ["d-2", "d 12"]])
def test_one_unit_is_no_news(labels):
    assert durations(labels).tolist() == [float(re.findall(r"[\d.]+", x)[0]) for x in labels]


@pytest.mark.parametrize(
    "labels", [["30m", "1h"], ["E17.5", "P0"], ["1 month", "40 d"], ["E8", "P9"]]
)
def test_units_that_cannot_be_converted_are_refused(labels):
    assert durations(labels) is None
    with pytest.raises(ValueError, match=f"the labels {labels[0]}, {labels[1]} count in several"):
        order_of(labels)


@pytest.mark.parametrize(
    ("text", "known", "expected"),
    [
        ("2", {}, 2.0),
        ("-1.5e1", {"day 0": 0.0}, -15.0),
        ("day 2", {"day 0": 0.0, "day 2": 2.0}, 2.0),
        ("day 5", {"day 0": 0.0, "day 2": 2.0}, 5.0),
        ("E9.5", {"E8.5": 8.5, "E9.0": 9.0}, 9.5),
        ("2d", {"0h": 0.0, "36h": 36.0}, 48.0),
        ("late", {"early": 0.0, "late": 1.0}, 1.0),
    ],
)
def test_a_time_may_be_named_as_the_data_name_it(text, known, expected):
    assert time_named(f" {text} ", known) == expected


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("day 2", {}),
        ("inf", {}),
        ("week 2", {"E8.5": 8.5}),
        ("day 2", {"day 1": 0.5, "day 7": 1.0}),  # counted by place, so 2 may be any time
        ("", {"day 1": 1.0}),
    ],
)
def test_a_name_of_no_time_is_refused(text, known):
    with pytest.raises(ValueError, match="is neither a finite number nor a label"):
        time_named(text, known)


def cells(labels, **how):
    anndata = pytest.importorskip("anndata")
    column = pd.Categorical(labels, categories=labels, **how)
    obs = pd.DataFrame({"t": column}, index=list("abc"))
    return anndata.AnnData(np.zeros((3, 1)), obs=obs, obsm={"X_pca": X})


def written(folder, kind, labels):
    path = folder / f"data.{kind.split()[0]}"
    if kind == "npz":
        np.savez(path, x=X, t=np.array(labels))
    elif kind.startswith("h5ad"):
        cells(labels, ordered="ordered" in kind).write_h5ad(path)
    else:
        frame = pd.DataFrame({"t": labels, "a": X[:, 0], "b": X[:, 1]})
        frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet", "h5ad", "h5ad ordered"])
def test_labels_of_several_units_mean_the_same_in_every_file(tmp_path, kind):
    path = written(tmp_path, kind, ["1d", "36h", "72h"])
    with pytest.warns(sf.DataWarning, match="1d, 36h, 72h are of several units.* in hours"):
        assert read_table(path, Columns(time="t")).snapshots.times.tolist() == [24.0, 36.0, 72.0]
    path = written(tmp_path, kind, ["30m", "1h", "2h"])
    with pytest.raises(ValueError, match=re.escape(str(path))):
        read_table(path, Columns(time="t"))


def test_labels_of_several_units_in_an_anndata():
    with pytest.warns(sf.DataWarning, match="are counted in hours"):
        assert sf.tl.times(cells(["1d", "36h", "72h"], ordered=True), "t").tolist() == [24, 36, 72]
    with pytest.warns(sf.DataWarning, match="are counted in hours"):
        assert sf.tl.times(cells(["72h", "1d", "36h"]), "t").tolist() == [72, 24, 36]
    with pytest.raises(ValueError, match=r"adata.obs\['t'\]: the labels E17.5, P0, P7 count in"):
        sf.tl.fit(cells(["E17.5", "P0", "P7"], ordered=True), "t", progress=False)
