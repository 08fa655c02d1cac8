"""The report: what it says, that it escapes what users wrote, and that it asks for nothing."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import stitchflow as sf
from falling import falling, known_fit, well
from stitchflow import cli
from stitchflow._command import fit_file as _runs
from stitchflow._judging.change import Change
from stitchflow._judging.diagnose import after_one_gap
from stitchflow._judging.diagnosis import Carried, Diagnosis
from stitchflow._judging.scores import Row, Scores
from stitchflow._storage import save as _io
from stitchflow.report import report_run, write_report
from stitchflow.report._contents import gather, in_plain_words
from stitchflow.report._line_charts import Chart
from stitchflow.report._plane import TICKS, Plane
from stitchflow.report._scene import MOST_POINTS, frames_of
from stitchflow.report._verdict import findings

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(autouse=True)
def no_compilation_cache(monkeypatch):
    """The settings of JAX are this process's, which other tests share."""
    monkeypatch.setattr(_runs, "keep_compilations", lambda: None)


def page_of(folder, dim=2, *, data=None, held_out=True, source=None) -> str:
    fit = known_fit(sf.Potential(well), dim)
    train, test = (falling(dim) if data is None else data).split(0.6, key=0)
    fit.data, fit.source = train, source or {}
    write_report(fit, folder / "report.html", test=test if held_out else None)
    return (folder / "report.html").read_text()


def scene_of(page: str) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="scene">(.*?)</script>', page)
    return json.loads(text)


def labelled(data: sf.Snapshots, word: str) -> sf.Snapshots:
    ids = np.array([f"{word}{i}" for i in range(len(data.x))])
    groups = np.array([f"{word}{i % 3}" for i in range(len(data.x))])
    return replace(data, ids=ids, groups=groups)


def test_everything_a_user_wrote_is_escaped(tmp_path):
    source = {"path": f"/data/{HOSTILE}", "columns": {"features": [HOSTILE, HOSTILE]}}
    page = page_of(tmp_path, data=labelled(falling(), HOSTILE), source=source)
    assert page.count("<script") == 2
    assert page.count("</script") == 2
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(2)&gt;" in page
    scene = scene_of(page)
    assert set(scene["data"]["groups"]) == {f"{HOSTILE}{i}" for i in range(3)}
    assert all(label.startswith(HOSTILE) for label in scene["data"]["label"])
    assert all(label.startswith(HOSTILE) for label in scene["starts"])
    assert scene["names"] == [HOSTILE, HOSTILE]


def test_the_page_refers_to_nothing_outside_itself(tmp_path):
    page = page_of(tmp_path)
    assert "http:" not in page
    assert "https:" not in page
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["#explore"]
    assert not re.search(r"@import|url\(|fetch|XMLHttpRequest|import\(", page)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_the_scene_holds_data_samples_and_trajectories(tmp_path, dim):
    scene = scene_of(page_of(tmp_path, dim))
    frames, data = scene["frames"], scene["data"]
    assert set(falling().times) <= set(frames)
    assert scene["times"] == falling().times.tolist()
    assert len(scene["samples"]) == len(scene["paths"]) == len(frames)
    assert len(data["at"]) == 2 * len(data["label"]) == 2 * len(data["time"])
    assert np.mean(data["held"]) == pytest.approx(0.4, abs=0.02)
    inside = np.array(data["at"])
    assert ((inside >= 0) & (inside <= TICKS)).mean() > 0.99
    # The known flow falls into wells at one: the trajectories' ends are where it says.
    ends = np.array(scene["paths"][-1]).reshape(-1, 2)[:, 0] / TICKS
    (low, high), _ = scene["box"]
    across = low + ends * (high - low)
    if dim < 3:
        assert np.median(np.abs(np.abs(across) - 1.0)) < 0.05
    assert ("V" in scene["names"][1]) is (dim == 1)
    assert bool(scene["note"]) is (dim != 2)
    assert scene["landscape"] is not None


def test_cells_of_an_anndata_are_called_by_their_names(tmp_path):
    from cells import moving_blobs

    cells = moving_blobs(20)[::-1].copy()
    fit = sf.tl.fit(cells, "day", method=sf.OTLinear(), test_fraction=0.2, progress=False)
    write_report(fit, tmp_path / "report.html")
    scene = scene_of((tmp_path / "report.html").read_text())
    trained = cells.obs_names[cells.obs["stitchflow_train"]]
    assert sorted(scene["data"]["label"]) == sorted(trained)
    assert set(scene["starts"]) <= set(trained)


def test_a_report_of_many_cells_stays_small(tmp_path):
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(1500, 5)) + 0.1 * k for k in range(4)]
    page = page_of(tmp_path, 5, data=sf.Snapshots.from_arrays(clouds, [0.0, 0.7, 1.5, 3.0]))
    assert len(page.encode()) < 1_000_000
    assert len(scene_of(page)["data"]["label"]) <= MOST_POINTS


def test_the_same_fit_gives_the_same_page(tmp_path):
    first, second = page_of(tmp_path), page_of(tmp_path)
    assert first == second


def test_the_landscape_is_low_where_the_wells_are(tmp_path):
    from base64 import b64decode

    scene = scene_of(page_of(tmp_path))
    n = scene["landscape"]["grid"]
    (picture,) = scene["landscape"]["v"]
    v = np.frombuffer(b64decode(picture), np.uint8).reshape(n, n)
    across, up = (np.linspace(*ends, n) for ends in scene["box"])
    row = v[np.abs(up).argmin()]
    assert abs(abs(across[row.argmin()]) - 1.0) < 0.1
    assert row[np.abs(across).argmin()] > row.min()


def test_components_are_shown_where_they_show_more():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4)) * [0.1, 3.0, 0.1, 2.0]
    plane = Plane.of(x, None)
    assert plane.names == ("PC 1", "PC 2")
    np.testing.assert_allclose(np.abs(plane.directions[[1, 3], [0, 1]]), 1.0, atol=0.01)
    assert "principal components of 4 dimensions" in plane.note
    plane = Plane.of(x[:, [1, 3, 0, 2]], ("a", "b", "c", "d"))
    assert plane.names == ("a", "b")
    np.testing.assert_array_equal(plane.at(x, 0.0), x[:, :2])
    assert "The first two of 4 dimensions are shown (100 % of the variance)" in plane.note


def test_frames_are_even_and_visit_every_time_when_few():
    times = np.array([0.0, 0.013, 1.0, 5.0])
    assert set(times) <= set(frames_of(times))
    assert len(frames_of(times)) <= 45
    many = np.linspace(0.0, 1.0, 1000)
    assert len(frames_of(many)) == 41
    assert set(frames_of(many)) <= set(many)


def scored(protocol: str, value: float, floor: float | None = 0.5) -> Scores:
    return Scores([Row(protocol, "w1", None, value, floor)])


@pytest.mark.parametrize(("value", "badge"), [(0.5, "yes"), (0.7, "nearly"), (0.9, "no")])
def test_the_fit_is_judged_by_the_floor(value, badge):
    finding = findings(scored("marginal", value), {}, None)[0]
    assert finding.badge == badge
    assert f"{value:.3g}" in finding.sentence


def at_times(protocol: str, values: dict[float, float], floor: float = 0.5) -> Scores:
    """Scores at times and their mean, which leaves out the first time, 0."""
    rows = [Row(protocol, "w1", t, value, floor) for t, value in values.items()]
    later = [value for t, value in values.items() if t > 0.0]
    found = Scores([*rows, Row(protocol, "w1", None, float(np.mean(later)), floor)])
    found.start = 0.0
    return found


def test_a_bad_first_time_shows():
    own = at_times("marginal", {0.0: 2.0, 1.0: 0.5, 2.0: 0.5})
    assert own.averaged("marginal") == [1.0, 2.0]
    finding = findings(own, {}, None)[0]
    assert finding.badge == "yes, but not at t = 0"
    assert "in the mean over t = 1, 2" in finding.sentence
    assert "worst at t = 0, with 4.0 times the floor" in finding.sentence
    even = findings(at_times("marginal", {0.0: 0.5, 1.0: 0.5, 2.0: 0.5}), {}, None)[0]
    assert even.badge == "yes"


def test_a_time_at_which_standing_still_is_closer_shows():
    still = at_times("rollout", {1.0: 0.6, 2.0: 4.0})
    own = at_times("rollout", {1.0: 0.9, 2.0: 1.0})
    finding = findings(own, {"nearest": still}, None)[1]
    assert finding.badge == "predicts, but not at t = 1"
    assert finding.mark == "fair"
    assert "At t = 1 standing still is closer." in finding.sentence


@pytest.mark.parametrize(
    ("value", "floor", "badge"),
    [
        (0.8, 0.5, "predicts"),
        (1.04, 0.5, "predicts"),  # as straight lines do
        (1.1, 0.5, "worse than straight lines"),
        (1.1, 1.0, "predicts"),  # what a perfect model reaches
        (1.9, 0.5, "worse than straight lines"),
        (2.0, 0.5, "no better than standing still"),
        (9.0, 0.5, "no better than standing still"),
    ],
)
def test_prediction_is_judged_by_the_trivial_methods(value, floor, badge):
    others = {"nearest": scored("rollout", 2.0), "ot-linear": scored("rollout", 1.0)}
    finding = findings(scored("rollout", value, floor), others, None)[1]
    assert finding.badge == badge
    said = f"W1) of {value:.3g} from those observed there; standing still gives 2, straight lines 1"
    assert said in finding.sentence
    assert f"a perfect model about {floor:.3g}" in finding.sentence


def test_no_badge_is_kinder_than_the_scores():
    """Worse than standing still is never less than that, and four times better never only poor."""
    for value in np.geomspace(0.05, 20.0, 60):
        for line in (0.1, 0.5, 3.0):
            others = {"nearest": scored("rollout", 1.0), "ot-linear": scored("rollout", line)}
            finding = findings(scored("rollout", value, 0.02), others, None)[1]
            if value >= 1.0:
                assert (finding.badge, finding.mark) == ("no better than standing still", "poor")
            elif value <= 0.25:
                assert finding.mark != "poor"


@pytest.mark.parametrize("value", [1.0, 1.09])
def test_what_is_no_nearer_than_standing_still_says_so(value):
    """Also about the floor, which a population at rest reaches without any model."""
    others = {"nearest": scored("rollout", 1.0), "ot-linear": scored("rollout", 1.2)}
    finding = findings(scored("rollout", value, 1.0), others, None)[1]
    assert finding.badge == "no better than standing still"


def test_where_nothing_moves_there_is_nothing_to_predict():
    others = {"nearest": scored("rollout", 1.0), "ot-linear": scored("rollout", 1.2)}
    finding = findings(scored("rollout", 0.99, 1.0), others, None)[1]
    assert finding.badge == "cannot tell"
    assert "there is no motion to predict" in finding.sentence


def test_an_easier_question_that_fails_is_said():
    own = Scores([*scored("one-step", 1.5), *scored("rollout", 0.8)])
    still = Scores([*scored("one-step", 1.0), *scored("rollout", 2.0)])
    sentence = findings(own, {"nearest": still}, None)[1].sentence
    assert "to the next snapshot, they are no closer than standing still (1.5, standing" in sentence


def test_the_header_holds_words_and_no_settings(tmp_path):
    fit = known_fit(sf.Potential(well) + sf.Entropy(0.1, learn=False))
    facts = dict(gather(fit, None).facts)
    assert facts["What was learned"] == "a landscape V(x) and random motion"
    assert facts["Random motion"].startswith("beta = 0.1")
    assert not any("(beta" in value or "steps, then" in value for value in facts.values())
    both = sf.Potential(time_varying=True) + sf.Interaction() + sf.Entropy()
    assert in_plain_words(both) == (
        "a landscape V(x, t) that changes in time, an interaction W between individuals and "
        "random motion"
    )


def test_report_and_evaluate_have_the_same_numbers():
    """Also with more individuals than a picture shows, and in the sentences of the diagnosis."""
    fit = known_fit(sf.Potential(well))
    train, test = falling(n=640).split(0.5, key=0)
    fit.data = train
    page = gather(fit, test)
    own = sf.evaluate(fit, test, metrics=("w1",))
    still = sf.evaluate(sf.fit(train, sf.Nearest(), progress=False), test, metrics=("w1",))
    assert {(line.protocol, line.values[0]) for line in page.means} == {
        (row.protocol, row.value) for row in own if row.time is None
    }
    (line,) = [line for line in page.means if line.protocol == "one-step"]
    assert line.values[page.methods.index("nearest")] == still.mean("one-step")
    assert page.diagnosis.one_step == (own.mean("one-step"), still.mean("one-step"))
    assert after_one_gap(fit, test, 0) == pytest.approx(page.diagnosis.one_step)


def test_without_held_out_individuals_nothing_is_claimed():
    assert [finding.badge for finding in findings(Scores(), {}, None)] == ["cannot tell"] * 4


@pytest.mark.parametrize(
    ("explained", "interval", "badge"),
    [(0.95, (0.0, 0.04), "yes"), (0.5, (0.0, 0.04), "cannot tell"), (0.9, (0.1, 0.3), "no")],
)
def test_the_diagnosis_decides_on_the_gradient_flow(explained, interval, badge):
    moved, carried = Change(0.005, 0.001), Carried(0.5, 0.8)
    diagnosis = Diagnosis(
        explained, 1.0, 0.02, interval, spread={"force": 0.1}, change=moved, one_step=carried
    )
    gradient, sure = findings(Scores(), {}, diagnosis)[2:]
    assert (gradient.badge, gradient.sentence) == (badge, diagnosis.sentences[0])
    assert sure.badge == "yes"
    assert "10 % between members" in sure.sentence


def test_a_chart_of_decades_is_logarithmic_and_its_ticks_are_round():
    x = np.arange(1.0, 101.0)
    chart = Chart.of("loss", "step", x, 100.0 * np.exp(-0.1 * x))
    assert "logarithmic" in chart.alt
    assert [tick.text for tick in chart.x_ticks] == ["20", "40", "60", "80", "100"]
    heights = [float(pair.split(",")[1]) for pair in chart.points.split()]
    np.testing.assert_allclose(np.diff(heights), np.diff(heights)[0], atol=0.11)
    straight = Chart.of("W", "r", x, x)
    assert "logarithmic" not in Chart.of("W", "r", x, x - 50.0).alt
    assert len(straight.points.split()) == 100


def test_without_jinja_the_extra_is_named_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"install stitchflow\[report\]"):
        page_of(tmp_path)
    assert not (tmp_path / "report.html").exists()


# The command


def command(*arguments) -> object:
    with pytest.raises(SystemExit) as end:
        cli.main([str(argument) for argument in arguments])
    return end.value.code


@pytest.fixture
def run(tmp_path):
    data = labelled(falling(), "cell ")
    t = data.times[data.index]
    np.savez(tmp_path / "data.npz", x=data.x, t=t, id=data.ids, group=data.groups)
    arguments = ("--out", tmp_path / "run", "--method", "nearest")
    assert command("fit", tmp_path / "data.npz", *arguments) == 0
    return tmp_path / "run"


def test_fit_and_report_write_the_same_page(run, capsys):
    assert "report.html" in capsys.readouterr().out or (run / "report.html").exists()
    first = (run / "report.html").read_text()
    (run / "report.html").unlink()
    assert command("report", run) == 0
    assert "report.html" in capsys.readouterr().out
    assert scene_of((run / "report.html").read_text()) == scene_of(first)
    assert "cell 3 " not in first.split("<script")[0]
    assert any(label == "cell 3" for label in scene_of(first)["data"]["label"])


def test_a_report_is_written_where_the_data_is_gone(run, tmp_path):
    (tmp_path / "data.npz").unlink()
    page = report_run(run).read_text()
    assert "the data of" in page
    assert "There were no held-out individuals to score." in page
    assert scene_of(page)["samples"]


def test_a_run_that_held_nothing_out_is_reported_with_its_data(run, tmp_path):
    arguments = ("--out", run, "--method", "nearest", "--test-fraction", 0, "--overwrite")
    assert command("fit", tmp_path / "data.npz", *arguments) == 0
    page = report_run(run).read_text()
    assert "There were no held-out individuals to score." in page
    assert "No scores and no data" not in page
    assert scene_of(page)["data"]["label"]


def test_a_run_that_does_not_say_its_versions_is_reported_without(run, tmp_path):
    (tmp_path / "data.npz").unlink()
    path = run / "header.json"
    header = {
        k: v for k, v in json.loads(path.read_text()).items() if k not in ("versions", "sha256")
    }
    path.write_text(json.dumps(header | {"sha256": _io.seal(header)}))
    assert "There were no held-out" in report_run(run).read_text()


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert command("report", tmp_path) == 2
    assert "is not a finished run" in capsys.readouterr().err
