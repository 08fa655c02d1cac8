"""Cross-validation: what is left out is never seen, and what is scored is what was left out."""

import json
import sys

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._judging import crossval as _crossval
from stitchflow._judging.crossval import CrossValidation, FoldScore, folds_of
from stitchflow._judging.scores import Scores
from stitchflow._method.contract import METHODS
from stitchflow.cli import main

QUICK = sf.Stitching(
    optimiser=sf.Optimiser(steps=60), particles=20, nodes=6, consistency=sf.Consistency(steps=10)
)


@pytest.fixture(scope="module")
def drift():
    """A cloud that moves at constant speed, seen at four times, in two groups."""
    rng = np.random.default_rng(0)
    t = np.repeat([0.0, 1.0, 2.0, 3.0], 60)
    x = rng.normal(size=(240, 2)) + t[:, None] * np.array([1.0, 0.0])
    return sf.Snapshots.from_table(x, t, groups=np.tile(["a", "b"], 120))


@pytest.mark.full
def test_every_inner_time_is_interpolated_and_the_last_forecast(drift):
    scores = sf.cross_validate(drift, ["nearest", "ot-linear", QUICK], progress=False)
    assert scores.methods == ["nearest", "ot-linear", "stitching"]
    found = {(row.left_out, row.protocol, row.time) for row in scores if row.time is not None}
    assert found == {("1", "interpolate", 1.0), ("2", "interpolate", 2.0), ("3", "forecast", 3.0)}
    assert scores.ratio("ot-linear", "w1") == pytest.approx(1.0)  # the better trivial one here
    assert scores.ratio("nearest", "w1") > 1.5
    assert all(row.floor is not None for row in scores)
    assert "ratio to the better of nearest and ot-linear" in str(scores)
    assert len(scores.to_pandas()) == len(scores)


def test_two_settings_of_one_method_have_labels_of_their_own(drift):
    two = {"still": sf.Nearest(), "also still": "nearest", "lines": sf.OTLinear()}
    scores = sf.cross_validate(drift, two, leave_out=[1.0], metrics=["w1"], progress=False)
    assert scores.methods == ["still", "also still", "lines"]
    place = ("1", "interpolate", 1.0)
    assert scores.value("still", "w1", place) == scores.value("also still", "w1", place)
    assert scores.value("lines", "w1", place) < scores.value("still", "w1", place)
    with pytest.raises(ValueError, match=r"methods has 'nearest' twice; give each a label"):
        sf.cross_validate(drift, [sf.Nearest(), "nearest"], progress=False)
    with pytest.raises(ValueError, match="the labels of methods must be texts, got 1"):
        sf.cross_validate(drift, {1: "nearest"}, progress=False)


def test_a_wrong_metric_is_refused_before_any_fit(drift, monkeypatch):
    monkeypatch.setattr(_crossval, "fit", lambda *_, **__: pytest.fail("fitted"))
    with pytest.raises(ValueError, match=r"metrics must be among w1, .*; got 'wasserstein'"):
        sf.cross_validate(drift, ["nearest"], metrics=["wasserstein"], progress=False)
    with pytest.raises(ValueError, match="metrics must be a list of names, got the text 'w1'"):
        sf.cross_validate(drift, ["nearest"], metrics="w1", progress=False)


def many(names, times=("12.25", "3")) -> CrossValidation:
    places = [(t, "interpolate", "energy_distance", float(t)) for t in times]
    rows = [(n, 0, *place, 12.351, 0.01234, 1.0, 5) for n in names for place in places]
    return CrossValidation(FoldScore(*row) for row in rows)


def test_a_ratio_of_an_unknown_name_says_which_there_are():
    scores = many(["nearest", "stitching"])
    assert scores.ratio("stitching", "energy_distance") == pytest.approx(1.0)
    with pytest.raises(ValueError, match="method must be among nearest, stitching; got 'stiching'"):
        scores.ratio("stiching", "energy_distance")
    with pytest.raises(ValueError, match="metric must be among energy_distance; got 'w1'"):
        scores.ratio("stitching", "w1")
    with pytest.raises(ValueError, match=r"protocol must be among marginal, .*; got 'inter'"):
        scores.ratio("stitching", "energy_distance", "inter")


@pytest.mark.parametrize("most", [4, 22])
def test_tables_fit_into_80_columns_and_keep_every_number(most):
    names = list(METHODS)[:most]
    lines = str(many(names)).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count(" 12.35") for line in lines) == 2 * len(names)
    assert not any("…" in line for line in lines)


def test_left_out_individuals_are_not_trained_on(drift):
    for fold in folds_of(drift, "each", 0):
        train, test = set(fold.train.rows.tolist()), set(fold.test.rows.tolist())
        assert not train & test
        assert train | test == set(drift.rows.tolist())
        assert float(fold.left_out) not in fold.train.times


def test_whom_a_forecast_starts_from_nobody_has_seen():
    """Individuals known by id are hidden at all times; the left-out time is all of it."""
    rng = np.random.default_rng(0)
    data = sf.Snapshots.from_arrays(list(rng.normal(size=(4, 20, 2))), range(4), paired=True)
    (fold,) = folds_of(data, [3.0], 0)
    hidden = set(fold.test.ids[fold.test.slice(2)])
    assert len(hidden) == 4
    assert not hidden & set(fold.train.ids)
    assert fold.train.counts.tolist() == [16, 16, 16]
    assert fold.test.counts.tolist() == [4, 4, 4, 20]
    scores = sf.cross_validate(data, ["nearest"], leave_out=[3.0], progress=False)
    assert {row.protocol for row in scores} == {"forecast"}
    assert all(row.floor is None for row in scores), "they are followed: others are no floor"


def test_left_out_times_close_to_each_other_have_names_of_their_own(drift):
    late = sf.Snapshots.from_table(drift.x, 1.7e9 + drift.times[drift.index])
    names = [fold.left_out for fold in folds_of(late, "each", 0)]
    assert names == ["1700000001", "1700000002", "1700000003"]
    with pytest.raises(ValueError, match="not observed"):
        list(folds_of(late, [1.7e9 + 1.5], 0))


def test_several_times_can_be_left_out_together(drift):
    (fold,) = folds_of(drift, [[1.0, 2.0]], 0)
    assert fold.left_out == "1+2"
    assert fold.train.times.tolist() == [0.0, 3.0]


def test_groups_are_left_out_whole(drift):
    folds = list(folds_of(drift, "groups", 0))
    assert [fold.left_out for fold in folds] == ["a", "b"]
    assert set(folds[0].test.groups) == {"a"}
    assert set(folds[0].train.groups) == {"b"}
    scores = sf.cross_validate(drift, ["nearest"], leave_out="groups", progress=False)
    assert {row.protocol for row in scores} == {"marginal", "one-step", "rollout"}


def test_components_never_see_what_is_left_out():
    """The left-out time varies along an axis that the others do not have."""
    rng = np.random.default_rng(0)
    flat = lambda shift: np.c_[rng.normal(size=(50, 2)) + shift, 0.01 * rng.normal(size=50)]
    odd = np.c_[rng.normal(size=(50, 2)), 100.0 * rng.normal(size=50)]
    data = sf.Snapshots.from_arrays([flat(0.0), odd, flat(2.0)], [0.0, 1.0, 2.0])
    scores = sf.cross_validate(data, ["nearest"], leave_out=[1.0], pca=2, progress=False)
    assert max(row.value for row in scores if row.metric == "w1") < 20.0


@pytest.mark.parametrize(
    ("leave_out", "words"),
    [
        ([0.0], "first time"),
        ([1.5], "not observed"),
        ("some", "must be 'each'"),
        ([], "names no time"),
        ([[1.0, 2.0, 3.0]], "fewer than two"),
    ],
)
def test_bad_requests_are_refused_before_any_fit(drift, leave_out, words):
    with pytest.raises(ValueError, match=words):
        sf.cross_validate(drift, leave_out=leave_out, progress=False)
    with pytest.raises(ValueError, match="methods must be one of"):
        sf.cross_validate(drift, ["magic"], progress=False)


def refused(capsys, data, *arguments) -> str:
    """The one line on stderr of a command that is refused."""
    with pytest.raises(SystemExit) as end:
        main(["crossval", str(data), *arguments])
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("stitchflow: ")
    assert said.count("\n") == 1
    return said


def test_the_command_prints_a_table_and_appends_lines(drift, tmp_path, capsys):
    data, lines, chart = tmp_path / "d.npz", tmp_path / "cv.jsonl", tmp_path / "cv.png"
    np.savez(data, x=drift.x, t=drift.times[drift.index])
    arguments = ["--methods", "nearest,ot-linear", "--leave-out", "1,2", "--json", str(lines)]
    with pytest.raises(SystemExit) as end:
        main(["crossval", str(data), *arguments, "--plot", str(chart)])
    assert end.value.code == 0
    assert "ot-linear" in capsys.readouterr().out
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    wanted = {"task", "method", "seed", "protocol", "metric", "time", "value", "floor"}
    wanted |= {"seconds_train", "seconds_total", "steps", "version"}
    assert all(wanted <= set(row) for row in rows)
    assert {row["left_out"] for row in rows} == {"1", "2"}
    assert chart.stat().st_size > 1000


def test_a_chart_that_cannot_be_drawn_is_refused_before_any_fit(
    drift, tmp_path, capsys, monkeypatch
):
    data = tmp_path / "d.npz"
    np.savez(data, x=drift.x, t=drift.times[drift.index])
    monkeypatch.setattr(_crossval, "cross_validate", lambda *_, **__: pytest.fail("a fit"))
    for name, words in (("cv.foo", "cv.foo must end in one of ."), ("cv", "must end in")):
        assert words in refused(capsys, data, "--plot", str(tmp_path / name))
    for package in ("matplotlib", "matplotlib.backend_bases"):
        monkeypatch.setitem(sys.modules, package, None)
    said = refused(capsys, data, "--plot", str(tmp_path / "cv.png"))
    assert "install stitchflow[plot]" in said


def test_scores_are_printed_before_their_chart(drift, tmp_path, capsys):
    data, chart = tmp_path / "d.npz", tmp_path / "cv.png"
    np.savez(data, x=drift.x, t=drift.times[drift.index])
    chart.mkdir()
    said = ["--methods", "nearest,ot-linear", "--leave-out", "1", "--plot", str(chart)]
    with pytest.raises(SystemExit):
        main(["crossval", str(data), *said])
    assert "ot-linear" in capsys.readouterr().out


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for scores in (CrossValidation(), Scores()):
        with pytest.raises(ImportError, match=r"needs pandas; install stitchflow\[data\]"):
            scores.to_pandas()


@pytest.mark.parametrize(
    "arguments", [["--leave-out", "9"], ["--methods", "magic"], ["--seeds", "0.5"], ["--pca", "9"]]
)
def test_the_command_refuses_in_one_line(drift, tmp_path, capsys, arguments):
    data = tmp_path / "d.npz"
    np.savez(data, x=drift.x, t=drift.times[drift.index])
    refused(capsys, data, *arguments)
