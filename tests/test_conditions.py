"""Conditions, such as control and treated: told with the data, carried along, and checked."""

import json

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.advice import advice
from stitchflow._data.batches import start_shift
from stitchflow._data.checks import check_data
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table

TIMES = (0.0, 1.0, 3.0)
DISHES = np.array(["a", "b", "c", "d"])


def treated(n: int = 15, shift: float = 0.0, **kwargs) -> sf.Snapshots:
    """Two dishes under each of two conditions, n individuals of each at every time."""
    rng = np.random.default_rng(0)
    dishes = np.repeat(DISHES, n)
    kinds = np.where(np.isin(dishes, ["a", "b"]), "control", "treated")
    moved = shift * (dishes == "b")[:, None]
    clouds = [rng.normal(size=(4 * n, 2)) + t * (kinds == "treated")[:, None] for t in TIMES]
    told = {"groups": [dishes] * 3, "conditions": [kinds] * 3, **kwargs}
    told = {name: value for name, value in told.items() if value is not None}
    return sf.Snapshots.from_arrays([cloud + moved for cloud in clouds], TIMES, **told)


def test_parts_keep_their_conditions():
    data = treated()
    assert data.condition_names == ("control", "treated")
    parts = [*data.split(0.6), *data.split(0.5, by="group"), data.subsample(5), data.take([3, 90])]
    for part in [*parts, data.drop_times([1.0]), data.reweighted(0)]:
        np.testing.assert_array_equal(part.conditions, data.conditions[part.rows])
    control = data.of("control")
    assert set(control.groups) == {"a", "b"}
    assert control.counts.tolist() == [30, 30, 30]
    assert control.parent is None  # whole populations: nobody is missing
    with pytest.raises(ValueError, match="'other' is unknown; conditions are control, treated"):
        data.of("other")
    with pytest.raises(ValueError, match="the data has no conditions"):
        treated(conditions=None).of("control")


def test_without_groups_a_condition_is_one_population():
    data = treated(groups=None)
    assert len(np.unique(data.populations)) == 6
    assert set(data.totals) == {30.0}
    assert treated(groups=None, total={"control": 40, "treated": 90}).totals.max() == 90.0
    np.testing.assert_array_equal(data.within, data.conditions)
    np.testing.assert_array_equal(treated().within, treated().groups)


def test_numbers_may_name_conditions():
    kinds = np.repeat([2, 10], 3)
    data = sf.Snapshots.from_table(np.arange(6.0)[:, None], [0, 1, 2] * 2, conditions=kinds)
    assert data.condition_names == ("10", "2")
    assert sf.Snapshots.from_stored(data.arrays).condition_names == ("10", "2")
    assert data.of(10).x.ravel().tolist() == data.of("10").x.ravel().tolist() == [3.0, 4.0, 5.0]


def test_what_cannot_be_a_condition_is_refused():
    with pytest.raises(ValueError, match="group a is under control and treated"):
        treated(conditions=[np.repeat(["control", "treated"], [5, 55])] * 3)
    with pytest.raises(ValueError, match=r"conditions must have one entry per row \(2,\)"):
        sf.Snapshots.from_table(np.zeros((2, 1)), [0.0, 1.0], conditions=["control"])
    with pytest.raises(ValueError, match="conditions are missing in row 1"):
        sf.Snapshots.from_table(np.zeros((2, 1)), [0.0, 1.0], conditions=["control", None])
    data = treated()
    late = data.take(np.flatnonzero((data.conditions == "control") | (data.index == 2)))
    with pytest.raises(ValueError, match="condition treated was seen at one time only"):
        check_data(late)


def test_data_without_conditions_keeps_its_hash():
    plain = treated(conditions=None)
    assert plain.fingerprint != treated().fingerprint
    swapped = np.where(treated().conditions == "control", "treated", "control")
    others = sf.Snapshots.from_table(
        plain.x, plain.times[plain.index], groups=plain.groups, conditions=swapped
    )
    assert others.fingerprint != treated().fingerprint
    assert plain.arrays.keys() == {"x", "index", "times", "weights", "group"}


@pytest.mark.parametrize("groups", [None, [np.repeat(DISHES, 15)] * 3])
def test_conditions_are_stored_by_name(groups):
    data = treated(groups=groups)
    again = sf.Snapshots.from_stored(data.arrays)
    np.testing.assert_array_equal(again.conditions, data.conditions)
    np.testing.assert_array_equal(again.populations, data.populations)
    assert all(array.dtype.kind in "biuf" for array in data.arrays.values())


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet"])
def test_files_name_conditions(tmp_path, ending):
    data, path = treated(), tmp_path / f"data.{ending}"
    t, kinds = data.times[data.index], data.conditions.astype(str)
    if ending == "npz":
        np.savez(path, x=data.x, t=t, group=data.groups.astype(str), condition=kinds)
        found = read_table(path).snapshots
    else:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(data.x, columns=["a", "b"]).assign(t=t, arm=kinds)
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
        found = read_table(path, Columns(condition="arm")).snapshots
        with pytest.raises(ValueError, match="no column 'branch'"):
            read_table(path, Columns(condition="branch"))
    np.testing.assert_array_equal(found.conditions.astype(str), kinds)
    assert found.dim == 2


def test_cells_name_groups_and_conditions():
    from cells import moving_blobs

    adata = moving_blobs()
    adata.obs["dish"] = np.tile(["a", "b", "c", "d"], adata.n_obs // 4)
    adata.obs["arm"] = np.where(adata.obs["dish"].isin(["a", "b"]), "control", "treated")
    keys = {"group_key": "dish", "condition_key": "arm"}
    fit = sf.tl.fit(adata, "day", method=sf.Nearest(), **keys, progress=False)
    assert fit.data.condition_names == ("control", "treated")
    again = sf.tl.load(adata).data
    np.testing.assert_array_equal(again.conditions.astype(str), adata.obs["arm"].to_numpy(str))
    with pytest.raises(KeyError, match="'branch' is not in"):
        sf.tl.fit(adata, "day", method=sf.Nearest(), condition_key="branch")


def test_a_run_without_conditions_stores_the_columns_of_before():
    assert "condition" not in Columns(time="t").record
    columns = Columns(condition="arm", total=3.0)
    assert Columns.stored(json.loads(json.dumps(columns.record))) == columns


def test_each_condition_is_left_out_in_turn():
    data = treated()
    scores = sf.cross_validate(
        data, ["nearest"], leave_out="conditions", metrics=("w1",), progress=False
    )
    assert {row.left_out for row in scores} == {"control", "treated"}
    with pytest.raises(ValueError, match="leave_out='conditions' needs conditions"):
        sf.cross_validate(treated(conditions=None), ["nearest"], leave_out="conditions")
    with pytest.raises(ValueError, match="two conditions or more, got"):
        sf.cross_validate(data.of("control"), ["nearest"], leave_out="conditions")


# Advice: replicates, and differences that are there from the start.


def test_conditions_without_replicates_are_said():
    assert not advice(treated(40))
    assert "no replicates under control, treated" in advice(treated(groups=None))[0]
    data = treated(40)
    fewer = data.take(np.flatnonzero(data.groups != "d"))
    assert "no replicates under treated" in advice(fewer)[0]
    assert not advice(data.of("control"))  # nothing is compared


def test_groups_that_differ_from_the_start_are_said():
    found = advice(treated(60, shift=1.0))
    assert len(found) == 1
    assert "the groups of condition control differ at t = 0 already" in found[0]
    assert not advice(treated(60))
    alone = treated(60, shift=1.0, conditions=None)
    assert "the groups differ at t = 0 already" in advice(alone)[0]


def test_the_shift_of_groups_is_measured_and_rarely_found_by_chance():
    """Two groups 2 s apart have means that vary by s; in spreads, by s / sqrt(1 + s^2)."""
    rng, groups = np.random.default_rng(0), np.repeat([0, 1], 200)
    x = rng.normal(size=(400, 1)) + np.where(groups == 0, -1.0, 1.0)[:, None]
    assert start_shift(x, groups, 0.01) == pytest.approx(1 / np.sqrt(2.0), rel=0.1)
    null = [
        start_shift(rng.normal(size=(90, 2)), np.repeat([0, 1, 2], 30), 0.01) for _ in range(40)
    ]
    assert np.count_nonzero(null) <= 2
