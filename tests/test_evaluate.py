"""Protocols, draws, floors and the tables made of them."""

import ast
import json
import pickle
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from falling import Falling
from stitchflow import metrics
from stitchflow._judging import judge as _judge
from stitchflow._judging.protocols import PROTOCOLS, ByDynamics, Protocol
from stitchflow._method.flow import Flow
from stitchflow._types import as_key


def drifting(n: int = 60, key: int = 0) -> sf.Snapshots:
    rng = np.random.default_rng(key)
    return sf.Snapshots.from_arrays([rng.normal(size=(n, 2)) + k for k in range(4)], [0, 1, 2, 4])


@pytest.fixture(scope="module")
def still() -> tuple[sf.Fit, sf.Snapshots]:
    train, test = drifting().split(0.5, key=0)
    return sf.fit(train, sf.Nearest(), progress=False), test


def row(scores, protocol, metric, time):
    (found,) = [r for r in scores if (r.protocol, r.metric, r.time) == (protocol, metric, time)]
    return found


def test_a_protocol_is_a_string_to_everybody_else():
    """To users, to files, and to workers in other processes."""
    names = ["marginal", "one-step", "rollout", "interpolate", "forecast", "energy"]
    assert list(Protocol) == names
    assert list(PROTOCOLS) == names[:-1]
    assert json.dumps(list(Protocol)) == json.dumps(names)
    assert {"rollout": 1}[Protocol.ROLLOUT] == 1
    assert pickle.loads(pickle.dumps(Protocol.ROLLOUT)) is Protocol.ROLLOUT
    assert all(protocol.question for protocol in Protocol)


def test_a_row_names_its_protocol_by_a_plain_string(still):
    fit, test = still
    asked = {"metrics": ("w1",), "protocols": (Protocol.ROLLOUT,)}
    assert {type(row.protocol) for row in sf.evaluate(fit, test, **asked)} == {str}


def test_protocols_are_named_in_one_file():
    """Elsewhere they are members of `Protocol`. The benchmark's tables are not part of this."""
    source = Path(sf.__file__).parent
    own = {
        "marginal",
        "one-step",
        "rollout",
        "forecast",
    }  # the others have other meanings too
    for path in source.rglob("*.py"):
        if path.stem != "protocols" and path.parent.name != "bench":
            nodes = ast.walk(ast.parse(path.read_text()))
            written = {node.value for node in nodes if isinstance(node, ast.Constant)}
            assert not own & written, path


def test_a_protocol_that_moves_individuals_is_one_entry(still):
    """An entry says from where to where, and scores, floors and the oracle's floors follow."""
    fit, test = still
    over_one = ByDynamics(
        lambda judge: [(k, [judge.seen[i + 2]]) for i, k in enumerate(judge.seen[:-2])],
        "the snapshot after the next",
    )
    judge = _judge.Judge(fit.data, fit.times, test, ("w1",), as_key(0), None)
    expected = {k: metrics.w1(test.cloud(k - 2), test.cloud(k)) for k in (2, 3)}
    scores = {k: score["w1"] for k, score in over_one.scores(judge, fit.flow).items()}
    assert scores == pytest.approx(expected, rel=1e-6)
    assert over_one.floors(judge) == {k: judge.floor(k) for k in (2, 3)}
    told = _judge.Judge(fit.data, fit.times, test, ("w1",), as_key(0), fit.flow)
    assert {k: score["w1"] for k, score in over_one.floors(told).items()} == scores


def test_standing_still_scores_the_distance_between_snapshots(still):
    fit, test = still
    scores = sf.evaluate(fit, test, metrics=("w1", "w2"))
    assert {r.protocol for r in scores} == {"marginal", "one-step", "rollout"}
    got = row(scores, "one-step", "w1", 2.0).value
    assert got == pytest.approx(metrics.w1(test.cloud(1), test.cloud(2)), rel=1e-6)
    assert row(scores, "rollout", "w1", 4.0).value == pytest.approx(
        metrics.w1(test.cloud(0), test.cloud(3)), rel=1e-6
    )


def test_the_floor_is_other_individuals_of_the_same_time(still):
    fit, test = still
    scores = sf.evaluate(fit, test, metrics=("w1",))
    floor = row(scores, "one-step", "w1", 1.0).floor
    assert floor == pytest.approx(metrics.w1(fit.data.cloud(1), test.cloud(1)), rel=1e-6)
    # The nearest snapshot at an observed time is the training data itself.
    assert row(scores, "marginal", "w1", 1.0).value == pytest.approx(floor, rel=1e-6)


def test_floors_belong_to_the_individuals_not_to_the_fit(still):
    fit, test = still
    floors = lambda f, key=0: [r.floor for r in sf.evaluate(f, test, metrics=("w1",), key=key)]
    line = sf.fit(fit.data, sf.OTLinear(), progress=False)
    assert floors(line) == floors(fit)
    other = sf.fit(drifting(key=1), sf.Nearest(), progress=False)
    assert floors(other) != floors(fit)
    assert floors(other) != floors(other, key=1), "other draws of more individuals than there are"


def test_the_mean_leaves_the_first_time_out(still):
    fit, test = still
    scores = sf.evaluate(fit, test, metrics=("w1",))
    later = [row(scores, "marginal", "w1", t).value for t in (1.0, 2.0, 4.0)]
    assert scores.mean("marginal") == pytest.approx(np.mean(later))
    with pytest.raises(KeyError):
        scores.mean("forecast")


def test_unseen_times_are_interpolated_or_forecast():
    data = drifting()
    train, _ = data.split(0.5, key=0)
    fit = sf.fit(train.drop_times([1.0, 4.0]), sf.OTLinear(), progress=False)
    scores = sf.evaluate(fit, data, metrics=("w1",))
    assert {r.time for r in scores if r.protocol == "interpolate"} == {1.0, None}
    assert {r.time for r in scores if r.protocol == "forecast"} == {4.0, None}
    # Straight lines are right here, so the unseen time is close to its floor.
    unseen = row(scores, "interpolate", "w1", 1.0)
    assert unseen.value < 2.0 * unseen.floor


def test_every_method_is_asked_about_the_same_individuals(still, monkeypatch):
    """Of 30 individuals a time 20 are drawn: the same for another method, others with a key."""
    monkeypatch.setattr(_judge, "MOST", 20)
    fit, test = still

    def asked(method, key: int = 0) -> set[bytes]:
        heard = []
        distance = lambda x, y, *weights: float(heard.append(y) is not None)
        monkeypatch.setitem(metrics.DISTANCES, "w1", distance)
        result = sf.fit(fit.data, method, progress=False)
        sf.evaluate(result, test, metrics=("w1",), protocols=("marginal", "one-step"), key=key)
        assert {len(cloud) for cloud in heard} == {20}
        return {cloud.tobytes() for cloud in heard}

    one, other, later = asked(sf.Nearest()), asked(sf.OTLinear()), asked(sf.Nearest(), key=1)
    assert one == other
    assert len(one) == _judge.DRAWS * (2 * len(test) - 1)  # one-step has no first time
    assert not one & later


def test_without_training_data_floors_are_unknown(still):
    fit, test = still
    bare = sf.Fit(fit.method, fit.flow, None, fit.status, {}, 0, 0.0, times=fit.times)
    assert all(r.floor is None for r in sf.evaluate(bare, test, metrics=("w1",)))


def test_scores_print_and_become_a_frame(still):
    fit, test = still
    scores = sf.evaluate(fit, test, metrics=("w1",))
    assert "rollout" in str(scores)
    assert list(scores.to_pandas().columns) == ["protocol", "metric", "time", "value", "floor"]


def test_a_cloud_that_flies_away_gets_no_score(still):
    fit, test = still

    class Broken(type(fit.flow)):
        def simulate(self, x0, times, key=0, *, weights=None, groups=None, ode=False):
            return np.full((len(times), *np.shape(x0)), np.nan)

    bad = sf.Fit(fit.method, Broken(fit.data), None, fit.status, {}, 0, 0.0, data=fit.data)
    with pytest.warns(UserWarning, match="is not finite; no score"):
        scores = sf.evaluate(bad, test, metrics=("w1",))
    assert {r.protocol for r in scores} == {"marginal"}


def test_bad_input_is_named(still):
    fit, test = still
    with pytest.raises(TypeError, match="test must be Snapshots, got list"):
        sf.evaluate(fit, [1])
    with pytest.raises(ValueError, match="test must have 2 dimensions, got 1"):
        sf.evaluate(fit, sf.Snapshots.from_arrays([np.zeros(3), np.ones(3)], [0, 1]))
    with pytest.raises(ValueError, match=r"metrics must be among w1, .*; got 'w3'"):
        sf.evaluate(fit, test, metrics=("w3",))
    with pytest.raises(ValueError, match="protocols must be among"):
        sf.evaluate(fit, test, protocols=("guess",))


LEFT, RIGHT, AHEAD = np.array([-3.0, 0.0]), np.array([3.0, 0.0]), np.array([0.0, 1.0])


def two_clusters(left: int, right: int, weight: float, key: int) -> sf.Snapshots:
    """Nine tenths of the weight are on the left, whoever was sampled; all move ahead by one."""
    rng, counts = np.random.default_rng(key), [left, right]
    clouds = [
        np.repeat([LEFT, RIGHT], counts, axis=0) + t * AHEAD + 0.2 * rng.normal(size=(200, 2))
        for t in (0.0, 1.0)
    ]
    weights = [np.repeat([weight, 1.0], counts)] * 2
    return sf.Snapshots.from_arrays(clouds, [0.0, 1.0], weights=weights)


class Half(Flow):
    """Moves those on one side ahead, and nobody else."""

    def __init__(self, side: float):
        self.dim, self.side = 2, side

    def simulate(self, x0, times, key=0, *, weights=None, groups=None, ode=False):
        moved = np.where(self.side * x0[:, :1] > 0, AHEAD[None, :], 0.0)
        return jnp.stack([x0 + (t - times[0]) * moved for t in times])


@pytest.mark.parametrize("most", [2000, 120])
def test_weighted_individuals_are_a_weighted_measure(most, monkeypatch):
    """Two clusters sampled alike whose weights are 9 to 1; the truth is known by its weights."""
    monkeypatch.setattr(_judge, "MOST", most)
    test, train = two_clusters(100, 100, 9.0, 0), two_clusters(100, 100, 9.0, 1)
    bare = sf.Snapshots.from_arrays(train.clouds, train.times)
    right, ignoring = (
        sf.evaluate(sf.fit(part, sf.Nearest(), progress=False), test) for part in (train, bare)
    )
    for name in metrics.DISTANCES:
        good, bad = (row(scores, "marginal", name, 1.0).value for scores in (right, ignoring))
        assert good < 0.4 * bad, name
        assert row(right, "marginal", name, 1.0).floor < 0.4 * bad, name
    assert row(ignoring, "marginal", "w1", 1.0).value == pytest.approx(6.0 * 0.4, rel=0.1)


def test_weights_go_with_the_individuals_that_carry_them():
    """Wrong about the heavy ones costs nine tenths of the way, about the light ones a tenth."""
    test = two_clusters(100, 100, 9.0, 0)
    fit = sf.fit(test, sf.Nearest(), progress=False)
    for side, cost in ((-1.0, 0.1), (1.0, 0.9)):
        fit.flow = Half(side)
        scores = sf.evaluate(fit, test, metrics=("w1",))
        for protocol in ("one-step", "rollout"):
            assert scores.mean(protocol) == pytest.approx(cost, abs=0.08)


def test_a_floor_compares_measures_not_samples():
    """The same population, sampled otherwise and weighted for it, is as near as any other."""
    test, train = two_clusters(180, 20, 1.0, 0), two_clusters(100, 100, 9.0, 1)
    scores = sf.evaluate(sf.fit(train, sf.Nearest(), progress=False), test, metrics=("w1",))
    assert row(scores, "marginal", "w1", 1.0).floor < 0.3
    halves = sf.evaluate(
        sf.fit(sf.Snapshots.from_arrays(train.clouds, [0.0, 2.0]), sf.Nearest(), progress=False),
        two_clusters(100, 100, 9.0, 2),
        metrics=("w1",),
    )
    assert 0 < row(halves, "interpolate", "w1", 1.0).floor < 0.6


def followed(n: int = 40) -> sf.Snapshots:
    """Individuals that fall into the well, known by their ids."""
    flow, times = Falling(), [0.0, 0.5, 1.0]
    path = np.asarray(flow.simulate(np.asarray(flow.sample([0.0], n)[0]), times))
    return sf.Snapshots.from_arrays(list(path), times, paired=True)


def test_others_are_no_floor_for_those_who_are_followed():
    train, test = followed().split(0.5, key=0)
    fit = sf.fit(train, sf.Nearest(), progress=False)
    fit.flow = Falling()
    blind, told = (sf.evaluate(fit, test, metrics=("w1",), oracle=o) for o in (None, Falling()))
    for protocol in ("one-step", "rollout"):
        found = row(blind, protocol, "w1", None)
        # A perfect model is far closer to those whom it carried than to anybody else.
        assert found.value < 1e-5 < 0.05 < row(blind, "marginal", "w1", None).floor
        assert found.floor is None
        assert row(told, protocol, "w1", None).floor == found.value
    assert [r.floor for r in blind if r.protocol == "marginal"] == [
        r.floor for r in told if r.protocol == "marginal"
    ]


def test_a_floor_has_as_many_individuals_as_the_method():
    """Ten who were trained on do not say what five hundred would score."""
    rng = np.random.default_rng(0)
    clouds = lambda n: [rng.normal(size=(n, 1)) for _ in range(2)]
    snapshots = lambda n: sf.Snapshots.from_arrays(clouds(n), [0.0, 1.0])
    test, few, nearly = snapshots(500), snapshots(10), snapshots(499)
    floors = []
    for train in (few, nearly):
        fit = sf.fit(train, sf.Nearest(), progress=False)
        scores = sf.evaluate(fit, test, metrics=("w1",), protocols=("marginal",))
        floors.append(scores[-1].floor)
    assert floors[0] is None
    assert floors[1] == pytest.approx(metrics.w1(nearly.cloud(1), test.cloud(1)), rel=0.1)
    oracle = sf.fit(snapshots(500), sf.Nearest(), progress=False).flow
    fit = sf.fit(few, sf.Nearest(), progress=False)
    told = sf.evaluate(fit, test, metrics=("w1",), protocols=("marginal",), oracle=oracle)
    assert told[-1].floor == pytest.approx(floors[1], rel=1.0)
    assert told[-1].floor < 0.5 * told[-1].value


def test_an_oracle_is_a_flow(still):
    with pytest.raises(TypeError, match="oracle must be a Flow or None, got str"):
        sf.evaluate(*still, oracle="truth")
