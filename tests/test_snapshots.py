"""Snapshots: what goes in, how it is cut, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from stitchflow import Snapshots, Units
from stitchflow._data.checks import check_data


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


def test_units_are_undone_and_the_identity_does_nothing():
    x = np.random.default_rng(0).normal(size=(4, 3))
    units = Units((1.0, -2.0, 0.5), length=3.0, start=-1.0, duration=7.0)
    np.testing.assert_allclose(units.space_out(units.space_in(x)), x, atol=1e-6)
    np.testing.assert_allclose(units.space_in(x), (x - units.centre) / 3.0, atol=1e-6)
    assert units.time_in(6.0) == 1.0
    assert units.time_out(units.time_in(2.5)) == pytest.approx(2.5)
    assert (units.energy, units.speed) == (9.0 / 7.0, 3.0 / 7.0)
    same = Units.identity(3)
    np.testing.assert_allclose(same.space_in(x), x, atol=1e-6)
    assert same.time_in(2.5) == same.time_out(2.5) == 2.5
    assert same.energy == same.speed == 1.0


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


def test_split_by_id_may_leave_a_part_without_a_time():
    data = Snapshots.from_table(
        np.arange(21.0), [0] * 10 + [1] * 10 + [2], ids=[*range(10)] * 2 + [3]
    )
    train, test = data.split(0.5, key=0)
    assert sorted([len(train), len(test)]) == [2, 3]
    assert set(train.ids) & set(test.ids) == set()


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


def test_a_part_without_weight_is_no_snapshot():
    data = Snapshots.from_table(np.arange(6.0), [0, 0, 0, 1, 1, 1], weights=[1, 0, 0, 1, 1, 0])
    part = data.take(np.array([1, 2, 4, 5]))
    assert part.times.tolist() == [1.0]
    assert part.x[:, 0].tolist() == [4.0, 5.0]
    assert part.weights.tolist() == [2.0, 0.0]


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


@pytest.mark.parametrize("column", ["ids", "groups"])
def test_names_may_be_dates(column):
    """A table whose ids are dates was refused by NumPy's words in the middle of a command."""
    x, t = np.random.default_rng(0).normal(size=(20, 2)), np.repeat([0.0, 1.0], 10)
    days = np.tile(np.arange(10), 2).astype("datetime64[D]")
    data, later = (
        Snapshots.from_table(x, t, **{column: d}) for d in (days, days + np.timedelta64(1, "D"))
    )
    assert data.fingerprint != later.fingerprint
    other = {"ids": "groups", "groups": "ids"}[column]
    assert data.fingerprint != Snapshots.from_table(x, t, **{other: days}).fingerprint
    assert len(data.split(0.5, key=0)[0].x) == 10


def test_fingerprint_sees_everything():
    data = small()
    assert data.fingerprint == small().fingerprint
    assert (
        data.fingerprint != small(weights=[np.arange(30.0), np.ones(20), np.ones(50)]).fingerprint
    )


X, T = np.zeros((4, 2)), [0, 0, 1, 1]
MIXED = np.array(["a", 1, "b", 2], object)
DAYS = np.array(["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[D]")
MASKED = np.ma.masked_equal([0, 1, 2, 3], 2)


def boxed(values: np.ndarray) -> np.ndarray:
    """NumPy's own scalars in an array of objects."""
    array = np.empty(values.shape, object)
    for place in np.ndindex(values.shape):
        array[place] = values[place]
    return array


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
        (lambda: Snapshots.from_table([["a", "b"]], [0]), "x must be numbers"),
        (lambda: Snapshots.from_table(np.zeros((2, 2, 2)), [0, 1]), "got shape (2, 2, 2)"),
        (lambda: Snapshots.from_table(X, T, weights=[1, -1, 1, 1]), "otherwise in row 1"),
        (lambda: Snapshots.from_table(X, T, weights=[0, 0, 1, 1]), "all zero within a time"),
        (lambda: Snapshots.from_table(X, T, weights=["a"] * 4), "weights must be numbers"),
        (lambda: Snapshots.from_table(X, T, ids=[1]), "ids must have one entry per row"),
        (
            lambda: Snapshots.from_table(X, T, ids=[1, None] * 2),
            "ids are missing in rows 1, 3",
        ),
        (lambda: Snapshots.from_table(X, T, ids=[1.0, np.nan, 2, 3]), "ids are missing in row 1"),
        (lambda: Snapshots.from_table(X, T, ids=[7, "7", "007", 7]), "got a mixture"),
        (lambda: Snapshots.from_table(X, T, groups=["7", 7.0, "7", "8"]), "got a mixture"),
        (lambda: Snapshots.from_table(X, T, groups=MIXED), "groups must be all text or"),
        (lambda: Snapshots.from_table(X, T, groups=[pd.NA, "a", "b", "c"]), "groups must be all"),
        (lambda: Snapshots.from_table(X, T, weights=[1j] * 4), "weights must be numbers, got"),
        (lambda: Snapshots.from_table(X, T, weights=[1, np.inf, 1, 1]), "otherwise in row 1"),
        (lambda: Snapshots.from_table(X + 1j, T), "complex numbers have no order"),
        (lambda: Snapshots.from_table(X, np.array(DAYS)), "dates and durations have no unit"),
        (lambda: Snapshots.from_table(X, pd.to_datetime(DAYS)), "t must be numbers, got"),
        (lambda: Snapshots.from_table(X, pd.to_datetime(DAYS).date), "t must be numbers, got"),
        (lambda: Snapshots.from_table(X, pd.Categorical(list("abca"))), "t must be numbers, got"),
        (lambda: Snapshots.from_table(X, [0, 0, 1, 1e31]), "t must be below 1e+30 in size"),
        (lambda: Snapshots.from_table(X + 1e31, T), "below 1e+30 in size, got more in rows 0, 1"),
        (lambda: Snapshots.from_table([[10**400, 1]], [0]), "x must be numbers, got list"),
        (lambda: Snapshots.from_table([[1, 2], [3]], [0, 1]), "x must be numbers, got list"),
        (lambda: Snapshots.from_arrays([X, X], [0, 1], weights=[1.0, 2.0]), "sizes [4, 4]"),
        (lambda: Snapshots.from_arrays([X, X], [0, 1], weights=1.0), "sizes [4, 4]"),
        (lambda: Snapshots.from_table(sparse.csr_matrix((4, 10**9)), T), "would take 32,000,000"),
        (lambda: Snapshots.from_table(np.ma.masked_less(X, 1), T), "x must be known in every row"),
        (lambda: Snapshots.from_table(X, MASKED), "t must be known in every row, got masked"),
        (lambda: Snapshots.from_table(X, T, weights=MASKED), "weights must be known in every"),
        (lambda: Snapshots.from_table(X, T, ids=MASKED), "ids must be known in every row"),
        (lambda: Snapshots.from_table(X, T, groups=MASKED), "groups must be known in every row"),
        (lambda: Snapshots.from_table(X, DAYS.astype(object)), "t must be numbers, got object"),
        (lambda: Snapshots.from_table(X, boxed(DAYS)), "dates, durations and complex numbers"),
        (lambda: Snapshots.from_table(boxed(X + 1j), T), "dates, durations and complex numbers"),
        (lambda: Snapshots.from_table(np.zeros((4, 0)), T), "got shape (4, 0)"),
        (lambda: Snapshots.from_table({"a": 1}, T), "x must be numbers, got dict"),
        (lambda: Snapshots.from_arrays([], times=[]), "non-empty"),
        (lambda: Snapshots.from_table(X, T).split(0.0), "fraction must be in (0, 1], got 0"),
        (lambda: Snapshots.from_table(X, T).split(1.0), "leaves nobody"),
        (lambda: Snapshots.from_table(X, T).split(0.5, by="day"), "by must be"),
        (lambda: Snapshots.from_table(X, T).split(0.5, by="group"), "has none"),
        (lambda: Snapshots.from_table(X, T).split(0.5, key="a"), "key must be an int seed"),
        (lambda: Snapshots.from_table(X, T).split(0.5, key=2**70), "int seed of at most 64 bits"),
        (lambda: Snapshots.from_table(X, T).drop_times([7]), "time 7 was not observed"),
        (lambda: Snapshots.from_table(X, T).paths, "same identified individuals"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises((TypeError, ValueError)) as error:
        make()
    assert words in str(error.value)


@pytest.mark.parametrize(
    "x",
    [
        X.astype(int),
        X.astype(object),
        X.astype(bool),
        X.astype(np.float16),
        X.astype(np.longdouble),
        X.astype(str),
        X.tolist(),
        sparse.csr_matrix(X),
        sparse.coo_array(X),
        pd.DataFrame(X),
        pd.DataFrame(X).astype("Int64"),
    ],
    ids=lambda x: f"{type(x).__name__} {getattr(x, 'dtype', '')}",
)
def test_whatever_means_numbers_is_taken(x):
    data = Snapshots.from_table(x, T)
    np.testing.assert_array_equal(data.x, X)
    assert data.x.dtype == np.float64


@pytest.mark.parametrize(
    "t",
    [
        ["0", "0", "1.5", "1.5"],
        pd.Categorical([0.0, 0.0, 1.5, 1.5]),
        np.array([0, 0, 1.5, 1.5], object),
        pd.Series([0.0, 0.0, 1.5, 1.5]),
    ],
)
def test_times_of_any_kind_of_number_are_taken(t):
    assert Snapshots.from_table(X, t).times.tolist() == [0.0, 1.5]


def test_negative_unsorted_and_repeated_times_are_one_snapshot_each():
    data = Snapshots.from_table(np.arange(4.0), [3, -2.5, 3, -2.5])
    assert data.times.tolist() == [-2.5, 3.0]
    assert data.cloud(0)[:, 0].tolist() == [1.0, 3.0]


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e200, 5e307])
def test_weights_of_any_size_are_shares(size):
    data = Snapshots.from_table(X, T, weights=np.array([1.0, 3.0, 1.0, 1.0]) * size)
    np.testing.assert_allclose(data.weights, [0.5, 1.5, 1.0, 1.0], rtol=1e-3)


def test_weights_of_one_time_do_not_mind_those_of_another():
    data = Snapshots.from_table(X, T, weights=[1.0, 1.0, 1e-310, 0.0])
    assert data.weights.tolist() == [1.0, 1.0, 2.0, 0.0]
    data = Snapshots.from_table(X, T, weights=[1e300, 3e300, 1.0, 1.0])
    np.testing.assert_allclose(data.weights, [0.5, 1.5, 1.0, 1.0])


SPREAD = np.random.default_rng(0).normal(size=(4, 2))
THIRD = np.array([[0.0], [0.0], [1.0], [0.0]])


@pytest.mark.parametrize(
    ("x", "t", "words"),
    [
        (SPREAD, [5, 5, 5, 5], "a fit needs two times or more, got 1"),
        (X, T, "all individuals are at the same point"),
        (SPREAD * 1e-17, T, "the data's unit of space would be"),
        (SPREAD * 1e17, T, "measure x and t in other units"),
        (SPREAD, np.array(T) * 1e-17, "the data's unit of time would be 1e-17"),
        (SPREAD * 1e14, np.array(T) * 1e-14, "the data's unit of energy would be"),
        (SPREAD, [0, 1, 1 + 1e-9, 2], "the times 1 and 1.000000001 are less than a millionth"),
        (SPREAD, [0, 1, 2, 3], "no time shows two individuals at different places"),
        (SPREAD * 1e-8 + np.array(T)[:, None], T, "no time shows two individuals at different"),
        (SPREAD + 2e7 * THIRD, T, "x has outliers in row 2, 2.8e+07 from the middle"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_any_compute(x, t, words):
    data = Snapshots.from_table(x, t)
    with pytest.raises(ValueError, match=re.escape(words)):
        check_data(data)


def test_what_float32_has_room_for_is_not_refused():
    """Copies, outliers and narrow clouds that others can still be told apart beside."""
    few = np.concatenate([np.zeros((6, 2)), SPREAD])
    check_data(Snapshots.from_table(few, [0, 1] * 5))  # most are copies of each other
    check_data(Snapshots.from_table(SPREAD * 1e-4 + np.array(T)[:, None], T))
    check_data(Snapshots.from_table(SPREAD + 1e5 * THIRD, T))
    with pytest.raises(ValueError, match="outliers in row 5"):
        check_data(Snapshots.from_table(few + np.eye(10)[:, 5:6] * 1e9, [0, 1] * 5))


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_extreme_scales_are_ordinary_data(size):
    check_data(Snapshots.from_table(SPREAD * size, T))
    check_data(Snapshots.from_table(SPREAD, np.array(T) * size))


def test_times_are_told_apart_by_their_range_not_by_their_size():
    """Seconds since 1970 are all alike within a billionth of themselves."""
    start = 1_700_000_000.0
    data = Snapshots.from_arrays([X[:5]] * 3, [start, start + 2.0, start + 5.0])
    with pytest.raises(ValueError, match="time 1700000001 was not observed"):
        data.drop_times([start + 1.0])
    assert (data.drop_times([start + 2.0]).times - start).tolist() == [0.0, 5.0]
    assert data.at(np.nextafter(start + 2.0, start)) == 1
    short = Snapshots.from_arrays([X[:5]] * 3, [0.0, 0.1, 0.3])
    assert short.at(0.1 + 2e-10) == 1
    with pytest.raises(ValueError, match="not observed"):
        short.at(0.1 + 1e-9)
