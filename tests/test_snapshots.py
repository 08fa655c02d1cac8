"""Snapshots: what goes in, how it is cut, and what is refused."""

import numpy as np
import pytest

from stitchflow import Snapshots


def small(**kwargs) -> Snapshots:
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(n, 3)) + k for k, n in enumerate((30, 20, 50))]
    return Snapshots.from_arrays(clouds, times=[0.0, 2.0, 5.0], **kwargs)


def test_unequal_clouds_at_uneven_times():
    data = small()
    assert data.counts.tolist() == [30, 20, 50]
    assert data.dim == 3
    assert len(data) == 3
    assert repr(data) == "Snapshots(3 times from 0 to 5, 100 individuals, 3 dimensions)"


def test_a_table_in_any_order_is_the_same_data():
    data = small()
    order = np.random.default_rng(1).permutation(100)
    shuffled = Snapshots.from_table(data.x[order], data.times[data.index][order])
    for k in range(3):
        assert sorted(shuffled.cloud(k).tolist()) == sorted(data.cloud(k).tolist())
    np.testing.assert_array_equal(data.x[order][shuffled.rows], shuffled.x)


def test_split_is_within_each_time_and_repeatable():
    data = small()
    train, test = data.split(0.7, key=0)
    assert train.counts.tolist() == [21, 14, 35]
    assert test.counts.tolist() == [9, 6, 15]
    assert not set(map(tuple, train.x)) & set(map(tuple, test.x))
    np.testing.assert_array_equal(train.x, data.split(0.7, key=0)[0].x)
    assert not np.array_equal(train.x, data.split(0.7, key=1)[0].x)


def test_split_by_id_keeps_individuals_together():
    paths = np.random.default_rng(0).normal(size=(4, 10, 2))
    data = Snapshots.from_arrays(list(paths), times=range(4), paired=True)
    train, test = data.split(0.6, key=3)
    assert set(train.ids) & set(test.ids) == set()
    assert train.paired
    assert test.paired
    assert train.paths.shape == (4, 6, 2)
    np.testing.assert_array_equal(train.paths[2, 0], paths[2, train.ids[train.slice(2)].min()])


def test_split_by_group():
    groups = np.array(["a", "b", "c", "d"] * 25)
    data = Snapshots.from_table(np.arange(100.0), np.repeat([0, 1], 50), groups=groups)
    train, test = data.split(0.5, key=0, by="group")
    assert set(train.groups) | set(test.groups) == {"a", "b", "c", "d"}
    assert not set(train.groups) & set(test.groups)


def test_drop_keep_and_subsample():
    data = small()
    assert data.drop_times([2.0]).times.tolist() == [0.0, 5.0]
    assert data.keep_times([2.0]).counts.tolist() == [20]
    assert data.subsample(25, key=0).counts.tolist() == [25, 20, 25]


def test_weights_are_normalised_within_each_time():
    data = small(weights=[np.full(30, 7.0), np.arange(20.0), np.ones(50)])
    sums = np.bincount(data.index, weights=data.weights)
    np.testing.assert_allclose(sums, data.counts)
    assert data.cloud_weights(1)[0] == 0.0


def test_units_use_one_length_and_are_undone():
    data = small()
    units = data.units
    inside = np.asarray(units.space_in(data.x))
    assert np.sqrt((inside**2).mean()) == pytest.approx(1.0, rel=1e-5)
    np.testing.assert_allclose(units.space_out(inside), data.x, atol=1e-5)
    assert units.time_in(5.0) == 1.0
    assert units.time_out(1.0) == 5.0


def test_data_far_from_zero_keeps_its_digits():
    x = 1e6 + np.random.default_rng(0).normal(size=(50, 2))
    data = Snapshots.from_table(x, np.repeat([0, 1], 25))
    inside = np.asarray(data.units.space_in(x))
    np.testing.assert_allclose(inside * data.units.length, x - x.mean(0), atol=1e-5)


def test_fingerprint_sees_everything():
    data = small()
    assert data.fingerprint == small().fingerprint
    assert (
        data.fingerprint != small(weights=[np.arange(30.0), np.ones(20), np.ones(50)]).fingerprint
    )


X, T = np.zeros((4, 2)), [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Snapshots.from_arrays([X, X], times=[0.0]), "one entry per cloud (2), got 1"),
        (lambda: Snapshots.from_arrays([X, X[:, :1]], times=[0, 1]), "cloud 1 has 1 dimensions"),
        (lambda: Snapshots.from_arrays([X, X[:0]], times=[0, 1]), "cloud 1 (time 1) is empty"),
        (lambda: Snapshots.from_arrays([X, X], times=[1, 1]), "times must differ"),
        (lambda: Snapshots.from_arrays([X, X[:2]], [0, 1], paired=True), "equal sizes, got [4, 2]"),
        (lambda: Snapshots.from_arrays([X, X], [0, 1], weights=[[1], [1]]), "sizes [4, 4]"),
        (lambda: Snapshots.from_table(X * np.nan, T), "NaN or infinity in rows 0, 1, 2, 3"),
        (lambda: Snapshots.from_table(X, T[:3]), "t must have one entry per row (4,), got (3,)"),
        (lambda: Snapshots.from_table(X, ["a", "b", "c", "d"]), "t must be numbers"),
        (lambda: Snapshots.from_table(X, [0, 1, np.inf, 2]), "t must be finite"),
        (lambda: Snapshots.from_table([["a", "b"]], [0]), "x must be numeric"),
        (lambda: Snapshots.from_table(np.zeros((2, 2, 2)), [0, 1]), "got shape (2, 2, 2)"),
        (lambda: Snapshots.from_table(X, T, weights=[1, -1, 1, 1]), "otherwise in row 1"),
        (lambda: Snapshots.from_table(X, T, weights=[0, 0, 1, 1]), "all zero within a time"),
        (lambda: Snapshots.from_table(X, T, weights=["a"] * 4), "weights must be numbers"),
        (lambda: Snapshots.from_table(X, T, ids=[1]), "ids must have one entry per row"),
        (lambda: Snapshots.from_table(X, T).split(0.0), "fraction must be in (0, 1], got 0"),
        (lambda: Snapshots.from_table(X, T).split(1.0), "leaves nobody"),
        (lambda: Snapshots.from_table(X, T).split(0.5, by="day"), "by must be"),
        (lambda: Snapshots.from_table(X, T).split(0.5, by="group"), "has none"),
        (lambda: Snapshots.from_table(X, T).split(0.5, key="a"), "key must be an int seed"),
        (lambda: Snapshots.from_table(X, T).drop_times([7]), "time 7 was not observed"),
        (lambda: Snapshots.from_table(X, T).paths, "same identified individuals"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises((TypeError, ValueError)) as error:
        make()
    assert words in str(error.value)
