"""Which terms the data support: closed forms, three simulated populations, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._judging.select import Judge, _some_of
from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.candidates import Candidate, Term
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.nested import Kind, Nested, Rows
from stitchflow._weak_form.search import Search
from test_cli import stitchflow, succeed


def nested(design, target, folds=1) -> Nested:
    """Equations of V (a flat column), a term that varies in time, and an unused beta."""
    bumps = Bumps(np.zeros((0, 1)), np.zeros(0))  # x and x^2
    drift = Drift((Landscape(bumps), Landscape(bumps, 2)))
    one = np.eye(drift.count + 1)
    wave = 2 + 2  # where the part of V that varies has its first linear function
    columns = np.zeros((len(target), drift.count + 1))
    columns[:, [0, wave]] = design
    terms = {
        Term.POTENTIAL: (Candidate((Block("V", one[:, :1], flat=True),)),),
        Term.TIME: (Candidate((Block("wave", one[:, wave : wave + 1]),)),),
    }
    parts = zip(np.split(columns, folds), np.split(target, folds), strict=True)
    rows = tuple(Rows(*part) for part in parts)
    none = np.zeros((drift.count + 1, drift.count + 1))
    return Nested(drift, rows, terms, np.eye(drift.count + 1), 1.0, Kind.OTHER, none)


@pytest.mark.parametrize("z", [0.5, 3.0])
def test_evidence_of_one_orthogonal_term_is_that_of_its_best_prior(z):
    # z ~ N(0, 1 + s) with the most probable s >= 0 gains (z^2 - 1 - log z^2) / 2.
    design = np.array([[1.0, 0.0], [0.0, 1.0]])
    judge = Judge(nested(design, np.array([2.0, z])))
    found = judge.evidence((Term.POTENTIAL,), Term.TIME)
    expected = 0.5 * (z**2 - 1.0 - np.log(z**2)) if z > 1.0 else 0.0
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_what_may_be_missed_is_what_v_leaves_of_the_term(shared):
    angle = np.arcsin(shared)
    design = np.array([[1.0, np.sin(angle)], [0.0, np.cos(angle)]])
    one = nested(design, np.zeros(2))
    equations = one.equations()
    model = one.solve([Term.POTENTIAL], equations)
    shape = np.eye(design.shape[1] + 5)[4][: one.drift.count + 1]
    assert one._error(shape, model, equations) == pytest.approx(1.0 / np.cos(angle), rel=1e-3)


def left_out(design, target) -> float:
    """One minus the ratio of squared errors of least squares with both columns and with one."""
    errors = np.zeros(2)
    for k in range(4):
        out = np.arange(len(target)) // (len(target) // 4) == k
        for count in (1, 2):
            some = design[:, :count]
            fitted = np.linalg.lstsq(some[~out], target[~out])[0]
            errors[count - 1] += ((target[out] - some[out] @ fitted) ** 2).sum()
    return float(1.0 - errors[1] / errors[0])


def test_the_gain_is_the_share_of_the_error_of_rows_that_were_left_out():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(400, 2))
    target = design @ np.array([1.0, 0.7]) + rng.normal(size=400)
    judge = Judge(nested(design, target, folds=4))
    found = judge.score((Term.POTENTIAL,), Term.TIME)
    assert found.gain == pytest.approx(left_out(design, target), abs=2e-3)
    assert found.low < found.gain < found.high
    assert found.supported is True
    none = judge.score((Term.POTENTIAL, Term.TIME), Term.TIME)
    assert none.gain == 0.0
    assert none.supported is None  # it would be missed in any amount: it is there already


def turned(speed: float, scale: tuple[float, float], seed: int = 0) -> sf.Snapshots:
    """Other individuals at each of eight times: -x + speed J x with noise of 0.1."""
    rng, clouds, h = np.random.default_rng(seed), [], 0.01
    for k in range(8):
        x = rng.normal(size=(120, 2)) * np.array(scale)
        for _ in range(12 * k):
            drift = -x + speed * np.stack([-x[:, 1], x[:, 0]], axis=1)
            x = x + h * drift + np.sqrt(0.2 * h) * rng.normal(size=x.shape)
        clouds.append(x)
    return sf.Snapshots.from_arrays(clouds, 0.12 * np.arange(8))


@pytest.fixture(scope="module")
def elongated():
    return sf.select(turned(2.0, (1.5, 0.4)))


def test_a_part_that_turns_an_elongated_cloud_is_supported(elongated):
    row = elongated["turning part"]
    assert row.supported is True
    assert row.low > 0.0
    assert row.share > 0.3
    assert elongated.energy.only(sf.VectorField)
    assert not elongated.energy.only(sf.Interaction)
    assert elongated["growth"].supported is not True
    assert "a turning part improves the prediction of unseen times" in row.sentence.lower()


def test_a_round_centred_cloud_cannot_tell_whether_it_turns():
    row = sf.select(turned(2.0, (1.0, 1.0)))["turning part"]
    assert row.supported is None
    assert "round, centred" in row.sentence


def line(attraction: float) -> sf.Snapshots:
    """Twelve dishes on a line at places of their own, in a bowl, everybody followed."""
    rng, clouds = np.random.default_rng(1), []
    dish = np.repeat(np.arange(12), 12)
    x = np.linspace(-1.0, 1.0, 12)[dish] + 0.4 * rng.normal(size=len(dish))
    for _ in range(15):
        clouds.append(x[:, None].copy())
        for _ in range(5):
            z = x[:, None] - x
            pull = (z * np.exp(-2.0 * z**2) * (dish[:, None] == dish)).sum(axis=1) / 12
            x = x - 0.02 * (x + attraction * pull) + np.sqrt(0.004) * rng.normal(size=len(x))
    return sf.Snapshots.from_arrays(clouds, 0.1 * np.arange(15), groups=[dish] * 15, paired=True)


@pytest.mark.parametrize(("attraction", "there"), [(4.0, True), (0.0, False)])
@pytest.mark.filterwarnings("ignore::stitchflow.DataWarning")
def test_an_interaction_is_claimed_where_there_is_one(attraction, there):
    found = sf.select(line(attraction))
    assert found["interaction"].supported is there
    assert bool(found.energy.only(sf.Interaction)) is there
    assert found["interaction"].unseen == "individuals"
    assert found["turning part"].supported is False  # nothing turns on a line


def test_rows_and_sentences_name_every_term(elongated):
    assert [row.term for row in elongated] == [str(t) for t in Term if t is not Term.POTENTIAL]
    assert len(elongated.sentences) == len(elongated) + 1
    json.dumps(elongated.to_dict(), allow_nan=False)
    assert "cannot tell" in str(elongated) or "no" in str(elongated)
    with pytest.raises(sf.BadInput, match="the terms are entropy"):
        elongated["drift"]


def test_an_equilibrium_that_was_assumed_counts_as_other_individuals(monkeypatch):
    found, words = Search.estimate, "the last snapshot passes for an equilibrium"
    relaxed = lambda search: (replace(found(search)[0], relaxed=True), words, {})
    monkeypatch.setattr(Search, "estimate", relaxed)
    energy = sf.Potential() + sf.Entropy()
    assert Nested.of(energy, energy, turned(0.0, (1.5, 0.4)), 5, 0).kind is Kind.OTHER


def test_followed_individuals_stay_whole_where_they_are_too_many(monkeypatch):
    monkeypatch.setattr("stitchflow._judging.select.MOST", 100)
    clouds = list(turned(0.0, (1.0, 1.0)).clouds)
    followed = _some_of(sf.Snapshots.from_arrays(clouds, range(8), paired=True), 0)
    assert followed.paired
    assert len(followed.x) == 8 * round(100 / 8)
    assert len(_some_of(sf.Snapshots.from_arrays(clouds, range(8)), 0).x) == 8 * (100 // 8)


def test_two_times_are_refused():
    data = turned(0.0, (1.0, 1.0))
    with pytest.raises(sf.BadInput, match="three or more times"):
        sf.select(data.keep_times(data.times[:2]))


def test_the_command_writes_numbers_and_refuses_bad_input(tmp_path, elongated, monkeypatch):
    data = turned(2.0, (1.5, 0.4))
    path, lines = tmp_path / "data.npz", tmp_path / "lines.jsonl"
    np.savez(path, x=data.x, t=data.times[data.index])
    few = tmp_path / "few.npz"
    np.savez(few, x=data.x[data.index < 2], t=data.times[data.index[data.index < 2]])
    code, _, err = stitchflow("select", few)
    assert code == 2
    assert "few.npz" in err
    code, _, err = stitchflow("fit", path, "--out", tmp_path / "run", "--select", "--interaction")
    assert (code, "--interaction" in err) == (2, True)
    code, _, err = stitchflow("fit", path, "--out", tmp_path / "r", "--select", "--method=nearest")
    assert (code, "no energy to choose" in err) == (2, True)
    code, _, err = stitchflow("fit", path, "--out", tmp_path / "r", "--select", "--set=beta=0.1")
    assert (code, "leave out --set beta" in err) == (2, True)
    monkeypatch.setattr("stitchflow._judging.select.select", lambda *_: elongated)
    out = succeed("select", path, "--json", lines)
    assert "turning part improves" in " ".join(out.split()).lower()
    rows = [json.loads(text) for text in lines.read_text().splitlines()]
    assert "NaN" not in lines.read_text()
    assert {row["metric"]: row["supported"] for row in rows}["turning part"] is True
    assert {row["protocol"] for row in rows} == {"select"}


@pytest.mark.full
def test_fit_select_fits_what_is_supported_and_the_report_says_so(tmp_path, elongated, monkeypatch):
    monkeypatch.setattr("stitchflow._judging.select.select", lambda *_: elongated)
    data = turned(2.0, (1.5, 0.4))
    path, run = tmp_path / "data.npz", tmp_path / "run"
    np.savez(path, x=data.x, t=data.times[data.index])
    options = ("--select", "--method=weak-form", "--test-fraction=0")
    out = succeed("fit", path, "--out", run, *options)
    assert "The energy that the data support is" in " ".join(out.split())
    fit = sf.load(run)
    assert fit.energy.only(sf.VectorField)
    assert fit.source["selection"]["rows"][0]["term"] == "entropy"
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "Which terms do the data support?" in page
