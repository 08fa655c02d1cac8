"""Protocols, draws, floors and the tables made of them."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow import metrics


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


def test_draws_are_the_same_for_every_method_and_call(still):
    fit, test = still
    assert list(sf.evaluate(fit, test)) == list(sf.evaluate(fit, test))


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
        def simulate(self, x0, times, key=0, *, ode=False):
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
