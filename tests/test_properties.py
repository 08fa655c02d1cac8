"""Properties that hold for whatever hypothesis thinks of."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import stitchflow as sf
from stitchflow._files.archive import Archive
from stitchflow._files.whole import write_atomically
from stitchflow._measure.matched_paths import through_snapshots
from stitchflow._measure.spacing import node_times
from stitchflow._parts import described, made
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table
from stitchflow._storage import save as _io
from stitchflow.metrics import DISTANCES

# The same examples every time: a new one belongs into `make trust`.
EVERY = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SENSIBLE = st.floats(-1e12, 1e12, width=64)
TABLES = st.tuples(st.integers(1, 12), st.integers(1, 4)).flatmap(
    lambda shape: st.tuples(
        arrays.arrays(np.float64, shape, elements=SENSIBLE),
        arrays.arrays(np.float64, shape[0], elements=st.sampled_from([-3.0, 0.0, 0.1, 7.5])),
        arrays.arrays(np.float64, shape[0], elements=st.floats(1e-9, 1e9)),
    )
)
KINDS = st.one_of(
    arrays.scalar_dtypes(), arrays.unicode_string_dtypes(), arrays.byte_string_dtypes()
)
ANYTHING = st.one_of(
    KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(max_side=4, min_side=0))),
    st.recursive(
        st.one_of(st.none(), st.floats(), st.integers(), st.text(), st.binary(), st.booleans()),
        lambda inner: st.lists(inner, max_size=4),
        max_leaves=8,
    ),
    st.dictionaries(st.text(), st.integers()),
)


def tried(call, *arguments, **named) -> tuple:
    """An answer, or the sentence of a refusal; anything else fails the test."""
    try:
        return call(*arguments, **named), ""
    except (TypeError, ValueError) as error:
        return None, str(error)


@EVERY
@given(TABLES)
def test_snapshots_keep_everybody_in_the_order_of_time(table):
    x, t, w = table
    data = sf.Snapshots.from_table(x, t, weights=w)
    assert (np.diff(data.times) > 0).all()
    assert data.counts.sum() == len(x)
    np.testing.assert_array_equal(data.x, x[data.rows])
    np.testing.assert_array_equal(data.times[data.index], t[data.rows])
    np.testing.assert_allclose(np.bincount(data.index, weights=data.weights), data.counts)
    assert sorted(data.rows.tolist()) == list(range(len(x)))


@EVERY
@given(TABLES, st.integers(0, 2**31), st.floats(0.1, 0.9))
def test_a_split_loses_and_repeats_nobody(table, key, fraction):
    x, t, _ = table
    data = sf.Snapshots.from_table(x, t)
    parts, said = tried(data.split, fraction, key=key)
    if parts is None:
        assert "leaves nobody" in said
        return
    rows = np.concatenate([part.rows for part in parts])
    assert sorted(rows.tolist()) == list(range(len(x)))
    assert parts[0].times.tolist() == data.times.tolist()


@EVERY
@given(TABLES)
def test_units_are_undone(table):
    x, t, _ = table
    units = sf.Snapshots.from_table(x, t).units
    inside = np.asarray(units.space_in(x), np.float64)
    assert np.abs(inside).max() < 10 * np.sqrt(x.size)
    back = inside * units.length + np.asarray(units.centre)
    np.testing.assert_allclose(back, x, atol=1e-5 * units.length + 1e-12 * np.abs(x).max())


@EVERY
@given(ANYTHING, ANYTHING, st.one_of(st.none(), ANYTHING), st.one_of(st.none(), ANYTHING))
def test_anything_is_a_table_or_one_sentence(x, t, w, ids):
    data, said = tried(sf.Snapshots.from_table, x, t, weights=w, ids=ids)
    if data is None:
        assert re.match(r"(x|t|weights|ids) ", said), said
        return
    assert np.isfinite(data.x).all()
    assert np.isfinite(data.weights).all()


@EVERY
@given(
    st.sampled_from([".npz", ".csv", ".parquet", ".h5ad"]),
    st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)),
)
def test_any_bytes_are_a_data_file_or_one_sentence(tmp_path, ending, content):
    path = tmp_path / f"data{ending}"
    path.write_bytes(content)
    file, said = tried(read_table, path, Columns(time="t"))
    assert file is not None or (said.startswith(f"{path}: ") and "\n" not in said)


@EVERY
@given(
    st.dictionaries(
        st.text("abc/.[]", min_size=1, max_size=6),
        arrays.arrays(
            st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
            arrays.array_shapes(min_dims=0, max_side=4, min_side=0),
        ),
        max_size=3,
    )
)
def test_arrays_survive_a_file(stored):
    found = Archive(_io.packed(stored)).all()
    assert set(found) == {name.removesuffix(".npy") for name in stored}
    for name, array in found.items():
        np.testing.assert_array_equal(array, stored[name])


@EVERY
@given(st.binary(max_size=50), st.binary(max_size=50))
def test_a_file_holds_what_was_written_last(tmp_path, first, second):
    for content in (first, second):
        write_atomically(tmp_path / "file", content)
    assert (tmp_path / "file").read_bytes() == second


OBSERVED = st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=40).map(
    lambda gaps: np.concatenate([[0.0], np.cumsum(gaps)]) / np.sum(gaps)
)


@EVERY
@given(OBSERVED, st.integers(2, 60), st.integers(0, 2**31))
def test_nodes_span_the_observed_times_in_order(observed, nodes, seed):
    action = np.random.default_rng(seed).exponential(size=len(observed) - 1) ** 4
    places = node_times(observed, nodes, action)
    assert (np.diff(places) > 0).all()
    assert (places[0], places[-1]) == pytest.approx((observed[0], observed[-1]))
    if len(observed) <= nodes / 2 + 1:
        assert np.isin(observed, places).all()
    else:
        assert len(places) == nodes


@EVERY
@given(OBSERVED, st.integers(0, 2**31))
def test_paths_go_through_every_snapshot(observed, seed):
    chain = np.random.default_rng(seed).normal(size=(len(observed), 3, 2))
    np.testing.assert_allclose(through_snapshots(chain, observed, observed), chain, atol=1e-9)
    between = through_snapshots(chain, observed, np.linspace(0.0, 1.0, 30))
    assert np.abs(between).max() < 2.0 * np.abs(chain).max()


@EVERY
@given(st.sampled_from(sorted(DISTANCES)), st.integers(0, 2**31), st.floats(0.01, 100.0))
def test_distances_are_distances(name, seed, size):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 7, 2)) * size
    apart = DISTANCES[name](a, b)
    assert apart >= 0.0
    assert apart == pytest.approx(DISTANCES[name](b, a), rel=1e-6, abs=1e-9)
    assert DISTANCES[name](a, a) == pytest.approx(0.0, abs=1e-6 * (1.0 + size**2))


@EVERY
@given(
    st.integers(1, 500),
    st.integers(2, 99),
    st.floats(0.0, 1.0),
    st.floats(0.0, 100.0),
    st.integers(1, 10**6),
    st.booleans(),
)
def test_settings_survive_json(particles, nodes, alpha, weight, steps, learn):
    method = sf.Stitching(
        particles=particles,
        nodes=nodes,
        residual=sf.VelocityResidual(sf.Trapezoid(), alpha=alpha, weight=weight),
        optimiser=sf.Optimiser(steps=steps),
        learn_weights=learn,
    )
    entry = described(method, leave_out=("energy",))
    again = made(entry, {}, sf.Stitching)
    assert described(again, leave_out=("energy",)) == entry


def test_a_loaded_model_answers_many_threads_as_one():
    fit = sf.load(Path(__file__).parent / "formats" / "1")
    x = np.random.default_rng(0).normal(size=(8, 2))

    def ask(i: int) -> list[np.ndarray]:
        key = i % 3
        return [
            np.asarray(fit.flow.sample([0.5, 2.0], 8, key=key)),
            np.asarray(fit.flow.velocity(x + key, 1.0)),
            np.asarray(fit.flow.log_density(x + key, 1.0)),
            np.asarray(fit.energy.potential(x + key)),
        ]

    with ThreadPoolExecutor(8) as threads:  # nothing is compiled yet: they race for that too
        answers = list(threads.map(ask, range(48)))
    for i, answer in enumerate(answers):
        for got, expected in zip(answer, ask(i), strict=True):
            np.testing.assert_array_equal(got, expected)
