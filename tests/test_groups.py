"""Groups are populations: pair terms act within them, and parts of a table remember the whole."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.populations import of_same_population
from stitchflow._energy.simulate import simulate
from stitchflow._energy.within import Populations
from stitchflow._judging.evaluate import evaluate
from stitchflow._judging.judge import Sample
from stitchflow._method.dividing import survivors_within
from stitchflow._method.driven import DrivenFlow
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table
from stitchflow.cli import main
from stitchflow.rivals import Nearest

PULL = sf.Energy.known(sf.Interaction(lambda r: 0.5 * r**2), 2)
TIMES = np.array([0.0, 0.4, 1.0])
SIZES = (1, 2, 3, 7, 30, 31, 70, 4)


def members(seed: int = 0, sizes=SIZES) -> tuple[np.ndarray, np.ndarray]:
    """Positions and shuffled labels of groups around places of their own."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = 3.0 * rng.normal(size=(len(sizes), 2))
    return centres[labels] + rng.normal(size=(len(labels), 2)), labels


def own_means(x: np.ndarray, labels: np.ndarray, weights=None) -> np.ndarray:
    weights = np.ones(len(x)) if weights is None else weights
    rows = [labels == name for name in labels]
    return np.stack([np.average(x[own], axis=0, weights=weights[own]) for own in rows])


def grouped(n: int = 12, times=(0.0, 1.0), **kwargs) -> sf.Snapshots:
    """Two dishes of n and 2n individuals at every time."""
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(3 * n, 2)) + t for t in times]
    labels = [np.repeat(["a", "b"], [n, 2 * n])] * len(times)
    return sf.Snapshots.from_arrays(clouds, times, groups=labels, **kwargs)


# What is told, and what parts of a table remember.


def test_one_total_or_one_for_each_group():
    assert set(grouped(total=50).totals) == {50.0}
    by_name = grouped(total={"b": 90, "a": 40})
    np.testing.assert_array_equal(by_name.totals, np.where(by_name.groups == "a", 40.0, 90.0))
    np.testing.assert_array_equal(grouped(total=[40, 90]).totals, by_name.totals)
    assert set(grouped().totals) == {12.0, 24.0}
    assert len(np.unique(grouped().populations)) == 4
    x, t = np.zeros((5, 1)), [0.0, 0.0, 1.0, 1.0, 1.0]
    assert sf.Snapshots.from_table(x, t).totals.tolist() == [2.0, 2.0, 3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("total", "words"),
    [
        (20, "shows 24 individuals"),
        ({"a": 40}, "every group once, and no other; see 'b'"),
        ({"a": 40, "b": 40, "c": 40}, "see 'c'"),
        ([40, 40, 40], "one for each of the 2 groups"),
        (np.nan, "finite"),
        ("many", "total must be numbers"),
    ],
)
def test_a_total_that_cannot_be_is_refused(total, words):
    with pytest.raises(ValueError, match=words):
        grouped(total=total)


def test_refusals_name_what_is_missing():
    with pytest.raises(ValueError, match="one number where there are no groups"):
        sf.Snapshots.from_table(np.zeros((2, 1)), [0.0, 1.0], total=[3, 4])
    with pytest.raises(ValueError, match=r"groups must be lists of the clouds' sizes \[2, 2\]"):
        sf.Snapshots.from_arrays([np.zeros((2, 1))] * 2, [0.0, 1.0], groups=[["a", "b"], ["a"]])


@pytest.mark.parametrize("total", [None, 100])
def test_parts_still_interacted_with_the_rest(total):
    data = grouped(total=total)
    whole = data.totals
    parts = [*data.split(0.6), *data.split(0.5, by="group"), data.subsample(5)]
    parts += [data.drop_times([1.0]), data.split(0.6)[0].subsample(3), data.take(np.arange(7))]
    for part in parts:
        np.testing.assert_array_equal(part.groups, data.groups[part.rows])
        np.testing.assert_array_equal(part.totals, whole[part.rows])
        assert (part.total is None) == (total is None)
    alone = data.split(0.5, by="group")[0]
    assert len(set(alone.groups)) == 1
    assert alone.parent is None  # whole populations: nobody is missing


def test_hashes_of_data_without_a_total_are_those_of_before():
    """Stored runs and result lines are found by them."""
    rng = np.random.default_rng(0)
    data = sf.Snapshots.from_table(rng.normal(size=(20, 2)), np.repeat([0.0, 1.0], 10))
    train = data.split(0.5)[0]
    known = ("658de4123b6f1ad5", "93af7a4a42f272ad")
    assert (data.fingerprint[:16], train.fingerprint[:16]) == known
    again = sf.Snapshots.from_table(train.x, train.times[train.index])
    assert again.fingerprint == train.fingerprint
    assert grouped(total=100).fingerprint != grouped().fingerprint
    assert grouped(total=100).fingerprint != grouped(total=101).fingerprint


# Simulation.


@pytest.mark.parametrize("ode", [False, True])
def test_each_group_contracts_to_its_own_mean(ode, x64):
    r"""Under W = r^2/2 a member obeys dx/dt = -(x - mean of its group), whatever the others do."""
    x, labels = members()
    path = np.asarray(simulate(PULL, jnp.asarray(x), TIMES, jax.random.key(0), ode, None, labels))
    centre = own_means(x, labels)
    for t, cloud in zip(TIMES, path, strict=True):
        np.testing.assert_allclose(cloud, centre + (x - centre) * np.exp(-t), atol=2e-4)


def test_weights_count_within_a_group(x64):
    x, labels = members(1)
    weights = np.random.default_rng(1).uniform(0.1, 2.0, len(x))
    weights[labels == 2] = 0.0  # nobody is felt there
    flow = DrivenFlow("truth", PULL, sf.Snapshots.from_arrays([x, x], [0.0, 1.0]))
    end = np.asarray(flow.simulate(x, [0.0, 1.0], weights=weights, groups=labels, ode=True)[-1])
    felt = labels != 2
    centre = own_means(x[felt], labels[felt], weights[felt])
    moved = centre + (x[felt] - centre) * np.exp(-1.0)
    np.testing.assert_allclose(end[felt], moved, atol=1e-5)
    np.testing.assert_array_equal(end[~felt], x[~felt])


def test_one_group_is_the_whole_cloud_and_groups_are_apart():
    """With noise: the same draws, so the same numbers as alone."""
    energy = sf.Energy.known(
        sf.Potential(lambda x: (x**4).sum())
        + sf.Interaction(lambda r: -jnp.exp(-(r**2)))
        + sf.Entropy(0.2, learn=False),
        2,
    )
    x, labels = members(2, (20, 20))
    x = jnp.asarray(x, float)
    ask = lambda labels: np.asarray(simulate(energy, x, TIMES, jax.random.key(0), groups=labels))
    np.testing.assert_array_equal(ask(np.zeros(40)), ask(None))
    assert np.abs(ask(labels) - ask(None)).max() > 1e-3
    potential = sf.Energy.known(sf.Potential(lambda x: (x**2).sum()), 2)
    alone = lambda labels: simulate(potential, x, TIMES, jax.random.key(0), groups=labels)
    np.testing.assert_array_equal(alone(labels), alone(None))


def test_a_density_is_that_of_the_whole_cloud():
    """The probability flow of the entropy takes the score of everybody, in whatever group."""
    energy = sf.Energy.known(sf.Entropy(0.3, learn=False) + sf.Interaction(lambda r: 0.0 * r), 2)
    x, labels = members(3, (40, 40))
    ask = lambda labels: simulate(
        energy, jnp.asarray(x, float), TIMES, jax.random.key(0), True, groups=labels
    )
    np.testing.assert_allclose(ask(labels), ask(None), atol=1e-4)


def test_blocks_hold_every_row_once_and_little_padding():
    _, labels = members(0, tuple(np.random.default_rng(0).integers(1, 300, 60)))
    found = Populations.of(labels, np.ones(len(labels)))
    flat = np.concatenate([np.asarray(rows).reshape(-1) for rows in found.rows])
    np.testing.assert_array_equal(flat[np.asarray(found.place)], np.arange(len(labels)))
    assert len(flat) < 2 * len(labels)
    for rows, weights in zip(found.rows, found.weights, strict=True):
        assert all(len(set(labels[row])) == 1 for row in np.asarray(rows))
        np.testing.assert_allclose(np.asarray(weights).sum(axis=1), 1.0, rtol=1e-5)
    rows, some = found.some(256)
    assert len(rows) <= 2 * 256
    np.testing.assert_array_equal(some.place, np.arange(len(rows)))


def test_survivors_stay_in_their_group():
    labels = np.array(["a", "b"] * 50)
    gain = np.where(np.arange(100) < 50, 2.0, 0.0)
    chosen = survivors_within(labels, gain, np.random.default_rng(0))
    np.testing.assert_array_equal(labels[chosen], labels)
    assert (chosen < 50).mean() > 0.7


@pytest.mark.parametrize("method", [Nearest(), sf.OTLinear(), sf.OTSpline()])
def test_methods_without_interactions_ignore_groups(method):
    data = grouped()
    flow = sf.fit(data, method, progress=False).flow
    x, labels = data.cloud(0), data.groups[data.slice(0)]
    told = flow.simulate(x, [0.0, 1.0], groups=labels)
    np.testing.assert_array_equal(told, flow.simulate(x, [0.0, 1.0]))
    with pytest.raises(ValueError, match=r"groups must have one entry per point \(36,\)"):
        flow.simulate(x, [0.0, 1.0], groups=labels[:3])


def test_a_sample_is_carried_with_its_populations():
    """Marginals of a fit that simulates: each group keeps its mean, and shrinks at rate one."""
    x, labels = members(4, (40, 60, 50))
    data = sf.Snapshots.from_arrays([x, x], [0.0, 1.0], groups=[labels, labels])
    flow = DrivenFlow("truth", PULL, data)
    sample = np.asarray(flow.sample([0.5], 300)[0])
    centre = own_means(x, labels)
    expected = centre + (x - centre) * np.exp(-0.5)
    nearest = np.abs(sample[:, None] - expected[None]).max(axis=2).min(axis=1)
    assert nearest.max() < 0.01


# Judging.


def test_held_out_individuals_are_carried_within_their_groups():
    """The true energy scores zero only if it is told who interacts with whom."""
    x, labels = members(5, (40, 60, 50))
    times = np.array([0.0, 0.5, 1.0])
    path = np.asarray(
        simulate(PULL, jnp.asarray(x, float), times, jax.random.key(0), True, None, labels)
    )
    ids, groups = np.tile(np.arange(len(x)), 3), np.tile(labels, 3)
    table = {"x": path.reshape(-1, 2), "t": np.repeat(times, len(x)), "ids": ids}
    for told, close in (({"groups": groups}, True), ({}, False)):
        train, test = sf.Snapshots.from_table(**table, **told).split(0.5)
        flow = DrivenFlow("truth", PULL, train)
        fit = sf.fit(train, Nearest(), progress=False)
        fit.flow = flow
        scores = evaluate(fit, test, metrics=("w1",), protocols=("one-step", "rollout"))
        assert (scores.mean("rollout") < 0.01) == close
        assert (scores.mean("one-step") < 0.01) == close


def test_another_table_may_use_the_same_names_for_other_populations():
    here, totals = np.array(["a", "a", "b"]), np.array([4.0, 4.0, 1.0])
    others = np.array(["a", "b", "c", "a"])
    # Two of four in a are missing; b is complete; c is not here.
    assert of_same_population(here, totals, others).tolist() == [True, False, False, True]
    crowd = np.array(["a", "a", "a"])
    assert not of_same_population(here, totals, crowd).any()


def test_a_flow_that_does_not_know_groups_is_still_asked():
    class Still(sf.Flow):
        def simulate(self, x0, times, key=0, *, weights=None, ode=False):  # pyright: ignore
            return np.broadcast_to(x0, (len(times), *x0.shape))

    here = Sample.of(grouped(), 0)
    assert here.groups is not None
    assert here.carried(Still(), [0.0, 1.0], 0).shape == (2, 36, 2)


# Files and runs.


def write(tmp_path, **more):
    data = grouped()
    path = tmp_path / "data.npz"
    np.savez(path, x=data.x, t=data.times[data.index], group=data.groups, **more)
    return path


def test_npz_files_carry_groups_and_total(tmp_path):
    assert set(read_table(write(tmp_path, total=50)).snapshots.totals) == {50.0}
    each = read_table(write(tmp_path, total=np.array([40, 90]))).snapshots
    np.testing.assert_array_equal(each.totals, np.where(each.groups == "a", 40.0, 90.0))
    assert set(read_table(write(tmp_path, total=50), Columns(total=60)).snapshots.totals) == {60.0}
    with pytest.raises(ValueError, match=r"data\.npz: total must count everybody"):
        read_table(write(tmp_path, total=3))


def test_a_run_remembers_the_total(tmp_path, capsys):
    path, run = write(tmp_path), tmp_path / "run"
    call = ["fit", str(path), "--out", str(run), "--method", "nearest", "--total", "70"]
    with pytest.raises(SystemExit) as end:
        main(call)
    assert end.value.code == 0
    assert json.loads((run / "header.json").read_text())["data"]["columns"]["total"] == 70
    from stitchflow._storage.run_data import open_run

    fit, test = open_run(run)
    assert set(fit.data.totals) == set(test.totals) == {70.0}
    assert set(fit.flow.data.totals) == {70.0}
    assert set(fit.flow.data.groups) == {0, 1}
    with pytest.raises(SystemExit) as end:
        main([*call[:-1], "-3", "--overwrite"])
    assert end.value.code == 2
    assert "--total must be a number above 0" in capsys.readouterr().err


def test_columns_without_a_total_are_recorded_as_before():
    assert "total" not in Columns(group="dish").record
    assert Columns.stored(Columns(group="dish").record) == Columns(group="dish")
    assert Columns.stored(Columns(total=5.0).record) == Columns(total=5.0)
