"""The command line: what each command writes, prints and refuses."""

import contextlib
import hashlib
import io
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow import cli, metrics
from stitchflow._command import fit_file as _runs
from stitchflow._files.lines import append_json
from stitchflow._files.whole import only_writer
from stitchflow._judging import crossval as _crossval
from stitchflow._reading import tables as _tables
from stitchflow._stitching import named_settings as _settings
from stitchflow._training import optimise as _optimise

TIMES = [0.0, 1.0, 2.0, 4.0]
N = 20
RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(N, 2)) + t for t in TIMES])
T = np.repeat(TIMES, N)
QUICK = [f"--set={pair}" for pair in ("steps=5", "particles=10", "nodes=12", "hidden=8")]
FIELDS = (
    "task method seed protocol metric time value floor seconds_train seconds_total steps version"
)


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def stitchflow(*arguments) -> Outcome:
    """A command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    capture = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with capture[0], capture[1], pytest.raises(SystemExit) as end:
        cli.main([str(argument) for argument in arguments])
    return Outcome(end.value.code, out.getvalue(), err.getvalue())


def succeed(*arguments) -> str:
    code, out, err = stitchflow(*arguments)
    assert (code, err) == (0, "")
    return out


def refused(*arguments) -> str:
    """The one line on stderr of a command that is refused."""
    code, _, err = stitchflow(*arguments)
    assert code == 2
    assert err.startswith("stitchflow: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def rows_of(path: Path) -> list[dict]:
    """The lines of a results file; NaN and Infinity are no JSON."""

    def no_number(word):
        raise AssertionError(f"{word} in {path}")

    return [json.loads(line, parse_constant=no_number) for line in path.read_text().splitlines()]


def scores(run, *arguments) -> list[dict]:
    path = run.parent / f"{run.name}-{len(list(run.parent.iterdir()))}.json"
    succeed("evaluate", run, "--json", path, *arguments)
    return rows_of(path)


def values(rows: list[dict]) -> list[tuple]:
    return [(r["protocol"], r["metric"], r["time"], r["value"], r["floor"]) for r in rows]


def value(rows, protocol, time, metric="w1") -> float:
    wanted = (protocol, metric, time)
    (found,) = [r for r in rows if (r["protocol"], r["metric"], r["time"]) == wanted]
    return found["value"]


def write(path: Path, **arrays) -> Path:
    np.savez(path, **{"x": X, "t": T} | arrays)
    return path


def learned(run) -> str:
    """The hash of everything a fit found."""
    return json.loads((run / "header.json").read_text())["arrays_sha256"]


def split_of(run) -> tuple[set, set]:
    with np.load(run / "split.npz") as stored:
        return set(stored["train"].tolist()), set(stored["test"].tolist())


@pytest.fixture(autouse=True, scope="module")
def no_compilation_cache():
    """The settings of JAX are this process's, which other tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_runs, "keep_compilations", lambda: None)
        yield


@pytest.fixture
def data(tmp_path) -> Path:
    return write(tmp_path / "data.npz")


@pytest.fixture
def still(tmp_path, data) -> Path:
    """A run of the quickest method."""
    succeed("fit", data, "--out", tmp_path / "still", "--method", "nearest")
    return tmp_path / "still"


@pytest.fixture(scope="module")
def stitched(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("stitched")
    write(folder / "data.npz")
    succeed("fit", folder / "data.npz", "--out", folder / "run", "--seed", 3, *QUICK)
    return folder / "run"


# Help


def test_help_lists_the_commands():
    text = succeed("--help")
    for command in ("demo", "fit", "evaluate", "simulate", "report"):
        assert f"  {command} " in text


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("demo", "--out"),
        (
            "fit",
            "--out --time-key --rep --columns --weight-key --id-key --group-key --condition-key "
            "--hold-out --test-fraction --method --time-varying --interaction --no-entropy --seed "
            "--set --resume --overwrite",
        ),
        ("evaluate", "--data --json"),
        ("simulate", "--times --from --out"),
    ],
)
def test_help_of_a_command_names_its_options(command, options):
    text = succeed(command, "--help")
    for option in options.split():
        assert f"{option} " in text


def test_short_help_and_version():
    assert succeed("-h") == succeed("--help")
    assert "--hold-out" in succeed("fit", "-h")
    assert succeed("--version") == f"stitchflow {sf.__version__}\n"


def test_methods_are_listed_plainly_or_described():
    plain, told = succeed("bench", "--methods"), succeed("bench", "--methods", "--describe")
    assert told.splitlines()[::2] == plain.splitlines()
    about = told.splitlines()[1::2]
    assert all(line.startswith("    ") and line.endswith(".") for line in about)
    assert len(set(about)) == len(about)
    assert not any("$" in line for line in about)
    assert "--describe needs --methods" in refused("bench", "--describe")


def test_an_ensemble_is_kept_and_reported(data, tmp_path):
    run = tmp_path / "run"
    said = succeed("fit", data, "--out", run, "--ensemble", 2, *QUICK)
    assert f"wrote {run}/ensemble.npz: 2 bootstraps" in said
    page = (run / "report.html").read_text()
    assert "the force differs by" in page
    assert "spread of force over members" in page
    succeed("report", run)
    assert (run / "report.html").read_text() == page
    succeed("fit", data, "--out", run, "--overwrite", "--method", "nearest")
    assert not (run / "ensemble.npz").exists()


def test_an_ensemble_of_another_method_is_refused_before_the_fit(data, tmp_path):
    words = "--ensemble: ensembles are made of stitching, not of nearest"
    assert words in refused(
        "fit", data, "--out", tmp_path / "r", "--method=nearest", "--ensemble=3"
    )
    assert "--ensemble" in refused("fit", data, "--out", tmp_path / "r", "--ensemble=1")


def test_times_are_named_by_their_labels(tmp_path):
    days = np.array(["day 0", "day 1", "day 2", "day 4"])
    data = write(tmp_path / "data.npz", t=np.repeat(days, N))
    run = tmp_path / "run"
    succeed("fit", data, "--out", run, "--method=ot-linear", "--hold-out", "day 1,day 2")
    assert (sf.load(run).times == [0.0, 4.0]).all()
    out = tmp_path / "paths.npz"
    succeed("simulate", run, "--times", "day 0,day 3", "--out", out)
    assert np.unique(np.load(out)["t"]).tolist() == [0.0, 3.0]
    words = "'noon' is neither a finite number nor a label of a time (day 0, day 1, day 2, day 4)"
    assert words in refused("crossval", data, "--methods=nearest", "--leave-out", "noon")
    said = succeed("crossval", data, "--methods=nearest", "--leave-out", "day 1+day 2")
    assert "1+2" in said


def test_simulation_beyond_the_data_is_said(stitched, tmp_path):
    said = succeed("simulate", stitched, "--times", "0,4,6", "--out", tmp_path / "paths.npz")
    assert "note: the data go from 0 to 4: what is simulated at 6 is extrapolated" in said
    said = succeed("simulate", stitched, "--times", "0,4", "--out", tmp_path / "inside.npz")
    assert "note" not in said


def test_the_examples_of_fit_are_commands_that_exist():
    lines = [line.split() for line in succeed("fit", "--help").splitlines()]
    examples = [words[1:] for words in lines if words[:2] == ["stitchflow", "fit"]]
    assert len(examples) == 3
    for words in examples:
        assert f"{words[1]}: no such file" in refused(*words)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("stitchflow ev", {"evaluate"}),
        ("stitchflow fit --ti", {"--time-key", "--time-varying"}),
        ("stitchflow fit data.csv --method ot", {"ot-linear", "ot-spline", "ot-cfm"}),
        ("stitchflow bench eb-full", {"eb-full", "eb-full-varying"}),
    ],
)
def test_a_shell_completes_commands_options_and_names(typed, offered, monkeypatch):
    monkeypatch.setenv("_STITCHFLOW_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    assert set(stitchflow().out.split()) == offered


# Fit and evaluate


def test_json_lines_carry_exactly_the_fields_of_the_contract(stitched):
    rows = scores(stitched)
    assert {tuple(sorted(row)) for row in rows} == {tuple(sorted(FIELDS.split()))}
    assert {row["protocol"] for row in rows} == {"marginal", "one-step", "rollout"}
    for row in rows:
        assert row["task"] is None
        assert (row["method"], row["seed"], row["steps"]) == ("stitching", 3, 5)
        assert row["version"] == sf.__version__
        assert row["time"] is None or row["time"] in TIMES
        assert 0.0 < row["seconds_train"] < row["seconds_total"]
        for name in ("value", "floor"):
            assert type(row[name]) is float
            assert math.isfinite(row[name])
    for protocol, metric in {(row["protocol"], row["metric"]) for row in rows}:
        of_times = [value(rows, protocol, t, metric) for t in TIMES[1:]]
        assert value(rows, protocol, None, metric) == pytest.approx(np.mean(of_times))


def test_json_is_appended(still, tmp_path):
    for _ in range(2):
        succeed("evaluate", still, "--json", tmp_path / "all.json")
    rows = rows_of(tmp_path / "all.json")
    half = len(rows) // 2
    assert half > 0
    assert values(rows[:half]) == values(rows[half:])


def test_lines_that_do_not_fit_on_the_disk_are_said(tmp_path):
    path, limit = tmp_path / "all.json", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        with pytest.raises(OSError, match=r"all.json is cut short: .* \(File too large\)"):
            append_json(path, [{"words": "x" * 300}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert path.stat().st_size == 100


def test_evaluate_prints_the_method_beside_trivial_ones(stitched):
    text = succeed("evaluate", stitched)
    for word in ("stitching", "nearest", "ot-linear", "floor", "rollout", "finished 5 steps"):
        assert word in text


def test_settings_reach_the_method(stitched):
    method = sf.load(stitched).method
    assert (method.particles, method.nodes, method.optimiser.steps) == (10, 12, 5)
    assert method.energy.only(sf.Potential)[0].hidden == (8,)


def test_parts_have_settings_by_name():
    pairs = ["residual.weight=3", "residual.ridge=0.5", "residual.stations=4", "residual.draws=20"]
    pairs += ["residual.widening=1", "consistency.steps=7", "consistency.settling=0", "steps=9"]
    pairs += ["growth.hidden=8,8", "curve.knots=5", "learn_particles=false"]
    method = sf.Stitching().with_settings(_settings.parse_settings(pairs))
    assert isinstance(method, sf.Stitching)
    residual = sf.VelocityResidual(weight=3, ridge=0.5, stations=4, draws=20, widening=1)
    assert method.residual == residual
    assert method.consistency == sf.Consistency(steps=7, settling=0)
    assert method.growth == sf.Growth(hidden=(8, 8))
    assert method.curve == sf.Spline(knots=5)
    assert method.optimiser == sf.Optimiser(steps=9)
    assert method.learn_particles is False


def test_every_setting_that_is_listed_can_be_set():
    method = sf.Stitching(growth=sf.Growth(), curve=sf.Spline())
    for key in set(_settings.SETTINGS) - {"beta", "hidden"}:
        part, _, name = key.rpartition(".")
        value = getattr(getattr(method, part) if part else method, name)
        sf.Stitching().with_settings({key: value})
    for short, whole in _settings.SHORT.items():
        assert whole in _settings.SETTINGS
        assert whole.endswith(f".{short}")


@pytest.mark.full
def test_the_same_seed_gives_the_same_values_and_another_does_not(stitched, tmp_path):
    for seed in (3, 4):
        arguments = ("--out", tmp_path / f"{seed}", "--seed", seed, *QUICK)
        succeed("fit", stitched.parent / "data.npz", *arguments)
    assert values(scores(tmp_path / "3")) == values(scores(stitched))
    assert learned(tmp_path / "3") == learned(stitched)
    assert learned(tmp_path / "4") != learned(stitched)


@pytest.mark.parametrize(
    ("arguments", "name", "terms"),
    [
        ("--method nearest", "nearest", None),
        ("--method ot-linear", "ot-linear", None),
        pytest.param(
            "--method stitching-varying",
            "stitching-varying",
            ["Potential", "Entropy"],
            marks=pytest.mark.full,
        ),
        (
            "--time-varying --interaction",
            "stitching-varying",
            ["Potential", "Entropy", "Interaction"],
        ),
        ("--no-entropy", "stitching", ["Potential"]),
    ],
)
def test_methods_and_terms_are_chosen(tmp_path, data, no_report, arguments, name, terms):
    run = tmp_path / "run"
    succeed("fit", data, "--out", run, *arguments.split(), *(QUICK if terms else ()))
    fit = sf.load(run)
    assert fit.method.name == name
    if terms is None:
        assert fit.energy is None
        assert {row["method"] for row in scores(run)} == {name}
    else:
        assert [type(term).__name__ for term in fit.energy.terms] == terms
        assert fit.energy.time_varying == (name == "stitching-varying")
        assert (fit.energy.beta > 0.0) == ("Entropy" in terms)


# What is set aside


def test_a_fifth_of_each_time_is_set_aside(still):
    train, test = split_of(still)
    assert train | test == set(range(len(X)))
    assert not train & test
    assert np.bincount(np.array(sorted(test)) // N).tolist() == [4, 4, 4, 4]


def test_the_seed_chooses_who_is_set_aside(still, tmp_path, data):
    arguments = ("fit", data, "--method", "nearest", "--out")
    succeed(*arguments, tmp_path / "again")
    succeed(*arguments, tmp_path / "other", "--seed", 1)
    assert split_of(tmp_path / "again") == split_of(still)
    assert split_of(tmp_path / "other") != split_of(still)


def test_held_out_times_are_interpolated_and_forecast(tmp_path, data):
    run = tmp_path / "run"
    succeed("fit", data, "--out", run, "--method", "nearest", "--hold-out", "1,4")
    rows = scores(run)
    times = {
        protocol: {row["time"] for row in rows if row["protocol"] == protocol}
        for protocol in ("marginal", "interpolate", "forecast")
    }
    assert times == {
        "marginal": {0.0, 2.0, None},
        "interpolate": {1.0, None},
        "forecast": {4.0, None},
    }
    assert set(np.flatnonzero(np.isin(T, [1.0, 4.0]))) <= split_of(run)[1]
    assert sf.load(run).times.tolist() == [0.0, 2.0]


def test_nobody_is_set_aside_when_asked(tmp_path, data):
    run = tmp_path / "run"
    text = succeed("fit", data, "--out", run, "--method", "nearest", "--test-fraction", 0)
    assert "stitchflow evaluate" not in text
    assert split_of(run) == (set(range(len(X))), set())
    assert "held nothing out" in refused("evaluate", run)
    assert scores(run, "--data", write(tmp_path / "other.npz", x=X + 0.1))


def test_only_held_out_times_are_set_aside_without_a_fraction(tmp_path, data):
    run = tmp_path / "run"
    arguments = ("--method", "nearest", "--test-fraction", 0, "--hold-out", 2)
    succeed("fit", data, "--out", run, *arguments)
    assert split_of(run)[1] == set(np.flatnonzero(T == 2.0))
    assert {row["protocol"] for row in scores(run)} == {"interpolate"}


def test_the_split_of_the_file_is_used(tmp_path):
    rows = np.arange(len(X))
    train, test = rows[rows % 4 > 1], rows[rows % 4 == 0]  # and a quarter that is neither
    path = write(tmp_path / "split.npz", train_idx=train, test_idx=test)
    run = tmp_path / "run"
    succeed("fit", path, "--out", run, "--method", "nearest")
    assert split_of(run) == (set(train), set(test))
    first, second = (X[test[T[test] == t]] for t in TIMES[:2])
    got = value(scores(run), "one-step", 1.0)
    assert got == pytest.approx(metrics.w1(first, second), rel=1e-5)
    sampled = np.asarray(sf.load(run).flow.sample([0.0], 200)[0])
    assert set(map(tuple, sampled)) <= set(map(tuple, X[train].astype(sampled.dtype)))


@pytest.mark.parametrize("name", ["train_idx", "test_idx"])
def test_half_a_split_leaves_the_rest_to_the_other_side(tmp_path, name):
    rows = np.arange(0, len(X), 3)
    run = tmp_path / "run"
    path = write(tmp_path / "half.npz", **{name: rows})
    succeed("fit", path, "--out", run, "--method", "nearest")
    named, rest = split_of(run) if name == "train_idx" else split_of(run)[::-1]
    assert named == set(rows)
    assert rest == set(range(len(X))) - set(rows)


def test_fit_describes_the_individuals_it_learns_from(tmp_path, monkeypatch):
    """400 of each time are in the file: 120 particles would suit those, 100 suit half of them."""

    def not_now(*_, **__):
        raise SystemExit(0)

    monkeypatch.setattr(_runs, "fit_file", not_now)
    x, t = np.random.default_rng(0).normal(size=(1200, 2)), np.repeat([0.0, 1.0, 2.0], 400)
    path = write(tmp_path / "data.npz", x=x, t=t)
    out = succeed("fit", path, "--out", tmp_path / "run", "--test-fraction", 0.5)
    said = " ".join(out.split())
    assert "1200 individuals" in said
    assert "learning from Snapshots(3 times from 0 to 2, 600 individuals" in said
    assert "100 particles" in said


def test_individuals_known_by_id_stay_on_one_side(tmp_path):
    path = write(tmp_path / "paired.npz", id=np.tile(np.arange(N), len(TIMES)))
    succeed("fit", path, "--out", tmp_path / "run", "--method", "nearest")
    train, test = ({row % N for row in part} for part in split_of(tmp_path / "run"))
    assert not train & test
    assert len(test) == N // 5


def test_keys_of_a_table_are_remembered_by_evaluate(tmp_path):
    path = tmp_path / "cells.csv"
    columns = np.column_stack([T, X, RNG.normal(size=len(X))])
    np.savetxt(path, columns, delimiter=",", header="day,a,b,noise", comments="")
    run = tmp_path / "run"
    keys = ("--time-key", "day", "--columns", "a,b")
    succeed("fit", path, "--out", run, "--method", "nearest", *keys)
    assert sf.load(run).flow.dim == 2
    assert all(row["floor"] is not None for row in scores(run))


# Runs are kept


def contents(run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}


def test_a_run_is_not_overwritten_unasked(still, data):
    before = contents(still)
    arguments = ("fit", data, "--out", still, "--method", "ot-linear")
    assert f"{still} already holds a run" in refused(*arguments)
    assert contents(still) == before
    succeed(*arguments, "--overwrite")
    assert sf.load(still).method.name == "ot-linear"


@pytest.mark.parametrize("bad", ["--hold-out 0,1,2", "--hold-out 7", "--test-fraction 0.001"])
def test_a_refused_fit_leaves_the_run_it_would_replace(still, data, bad):
    before = contents(still)
    refused("fit", data, "--out", still, "--method", "nearest", "--overwrite", *bad.split())
    assert contents(still) == before


def test_an_overwritten_run_keeps_no_report_of_the_old_one(still, data, monkeypatch):
    (still / "report.html").write_text("the old one")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(_runs, "fit", interrupt)
    stopped = stitchflow("fit", data, "--out", still, "--method", "ot-linear", "--overwrite")
    assert stopped.code == 1
    assert not (still / "report.html").exists()


def test_a_run_that_came_while_waiting_for_the_lock_is_kept(data, tmp_path, monkeypatch):
    run = tmp_path / "run"

    @contextlib.contextmanager
    def late(folder):
        (folder / "plan.json").write_text("of another process")
        yield

    monkeypatch.setattr(_runs, "only_writer", late)
    message = refused("fit", data, "--out", run, "--method", "nearest")
    assert f"{run} already holds a run" in message
    assert (run / "plan.json").read_text() == "of another process"


@pytest.fixture
def no_report(monkeypatch):
    monkeypatch.setattr(cli, "_write_report", lambda *_: None)  # seconds each


def test_the_data_is_never_overwritten(tmp_path, data, no_report):
    folder = tmp_path / "folder"
    folder.mkdir()
    mine = write(folder / "arrays.npz")
    before = contents(folder)
    for way in ([], ["--overwrite"]):
        message = refused("fit", mine, "--out", folder, "--method", "nearest", *way)
        assert f"--out {folder} would overwrite {mine}" in message
        message = refused("fit", data, "--out", folder, "--method", "nearest", *way)
        assert f"--out {folder} holds arrays.npz, which is not of a run" in message
    assert contents(folder) == before
    run = tmp_path / "run"
    succeed("fit", data, "--out", run, "--method", "nearest")
    (run / "split.npz").unlink()
    os.link(data, run / "split.npz")
    before = contents(run)
    for way in ("--overwrite", "--resume"):
        message = refused("fit", data, "--out", run, "--method", "nearest", way)
        assert f"--out {run} would overwrite {data}" in message
    assert contents(run) == before


@pytest.mark.parametrize("name", ["notes.txt", "plan.json.partial", ".lock", "checkpoints/mine"])
def test_a_folder_that_holds_anything_else_is_not_written_to(tmp_path, data, no_report, name):
    folder = tmp_path / "folder"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text("mine")
    for way in ([], ["--overwrite"]):
        message = refused("fit", data, "--out", folder, "--method", "nearest", *way)
        assert f"--out {folder} holds {name.split('/')[0]}, which is not of a run" in message
    assert [path for path in folder.rglob("*") if path.is_file()] == [folder / name]


def test_a_run_with_files_of_others_is_resumed_but_not_replaced(tmp_path, data, no_report):
    arguments = ("fit", data, "--out", tmp_path / "run", "--method", "nearest")
    succeed(*arguments)
    (tmp_path / "run" / "scores.partial").write_text("mine")
    before = contents(tmp_path / "run")
    message = refused(*arguments, "--overwrite")
    assert "run holds scores.partial, which is not of a run; name a new folder" in message
    assert f"{tmp_path / 'run'} already holds a run" in refused(*arguments)
    succeed(*arguments, "--resume")
    assert contents(tmp_path / "run") == before


def test_a_run_is_resumed_where_its_data_was_moved_or_written_anew(tmp_path, data, no_report):
    run, away = tmp_path / "run", tmp_path / "away.npz"
    succeed("fit", data, "--out", run, "--method", "nearest")
    before = contents(run)
    data.rename(away)
    succeed("fit", away, "--out", run, "--method", "nearest", "--resume")
    assert contents(run) == before
    (run / "header.json").unlink()  # as if it had not finished
    np.savez_compressed(away, x=X, t=T)
    succeed("fit", away, "--out", run, "--method", "nearest", "--resume")
    assert learned(run) == json.loads(before["header.json"])["arrays_sha256"]
    assert json.loads((run / "header.json").read_text())["data"]["path"] == str(away)
    succeed("evaluate", run)


def test_a_run_is_not_resumed_where_the_split_in_its_data_changed(tmp_path, data, no_report):
    arguments = ("fit", data, "--out", tmp_path / "run", "--method", "nearest")
    write(data, train_idx=np.arange(0, len(X), 2))
    succeed(*arguments)
    write(data, train_idx=np.arange(1, len(X), 2))
    assert "was started with other data or settings" in refused(*arguments, "--resume")


def test_a_run_of_the_version_before_is_resumed(tmp_path, data, no_report):
    """Its plan knows the data by the bytes of its file."""
    arguments = ("--out", tmp_path / "run", "--method", "nearest")
    succeed("fit", data, *arguments)
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    del plan["data"]["content"], plan["data"]["train"]
    plan["data"]["sha256"] = hashlib.sha256(data.read_bytes()).hexdigest()
    (tmp_path / "run" / "plan.json").write_text(json.dumps(plan))
    data.rename(tmp_path / "away.npz")
    succeed("fit", tmp_path / "away.npz", *arguments, "--resume")
    write(data, x=X + 1.0)
    assert "was started with other data" in refused("fit", data, *arguments, "--resume")


def test_names_that_are_not_text_are_written_as_they_are(tmp_path):
    """In processes of their own: how names are printed hangs on the locale."""
    data, out = tmp_path / os.fsdecode(b"d\xff.npz"), tmp_path / os.fsdecode(b"r\xff")
    write(tmp_path / "x.npz").rename(data)
    strict = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    call = [sys.executable, "-m", "stitchflow.cli", "fit", data, "--out", out]
    done = subprocess.run([*call, "--method", "nearest"], env=strict, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"wrote " + os.fsencode(out) + b"/report.html" in done.stdout
    assert r"d\udcff.npz" in (out / "report.html").read_text("utf-8")
    assert sf.load(out).source["path"] == str(data)


def test_resuming_a_finished_run_changes_no_value(stitched, tmp_path):
    run = shutil.copytree(stitched, tmp_path / "run")
    arguments = ("fit", stitched.parent / "data.npz", "--out", run, "--seed", 3, *QUICK)
    succeed(*arguments, "--resume")
    assert learned(run) == learned(stitched)


@pytest.fixture
def heard():
    """Ctrl-C is heard, also where the tests were started in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_goes_on_where_it_stopped(stitched, tmp_path, monkeypatch, heard, kind):
    looked, look = [], _optimise._look

    def stopping(program, shared, carry, *rest):
        looked.append(int(carry.step))
        if len(looked) == 3:
            os.kill(os.getpid(), kind)
        return look(program, shared, carry, *rest)

    monkeypatch.setattr(_optimise, "_look", stopping)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    run = tmp_path / "run"
    arguments = ("fit", stitched.parent / "data.npz", "--out", run, "--seed", 3, *QUICK)
    stopped = stitchflow(*arguments)
    assert (stopped.code, stopped.err) == (1, "stitchflow: stopping; once more stops at once\n")
    assert "interrupted after 3 of 5 steps" in stopped.out
    assert np.isfinite(sf.load(run).flow.sample([1.0], 5)).all()
    assert "finished 5 steps" in succeed(*arguments, "--resume")
    assert looked == [0, 1, 2, 3, 4]
    assert learned(run) == learned(stitched)
    assert not list(run.glob("checkpoint*"))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def test_a_second_writer_is_refused(still, data):
    before = contents(still)
    with only_writer(still):
        for way in ("--resume", "--overwrite"):
            arguments = ("fit", data, "--out", still, "--method", "nearest", way)
            assert f"{still} is being written by another process" in refused(*arguments)
    assert contents(still) == before
    succeed("fit", data, "--out", still, "--method", "nearest", "--overwrite")


def test_a_full_disk_keeps_the_checkpoint(stitched, tmp_path, monkeypatch):
    """The system refuses every write beyond a size that the first checkpoint still has."""
    looked, look = [], _optimise._look
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def filling(*arguments):
        looked.append(1)
        if len(looked) == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
        return look(*arguments)

    monkeypatch.setattr(_optimise, "_look", filling)
    monkeypatch.setattr(_runs, "Checkpoint", lambda path: sf.Checkpoint(path, seconds=0.0))
    run = tmp_path / "run"
    arguments = ("fit", stitched.parent / "data.npz", "--out", run, "--seed", 3, *QUICK)
    try:
        message = refused(*arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    words = "checkpoint.npz cannot be written (File too large); what was there is kept"
    assert words in message
    assert not list(run.glob("*.partial")) + list(run.glob(".*.partial"))
    succeed(*arguments, "--resume")
    assert len(looked) == 6  # the two that were kept are not repeated
    assert learned(run) == learned(stitched)


def test_a_damaged_checkpoint_is_named(stitched, tmp_path):
    run = shutil.copytree(stitched, tmp_path / "run")
    (run / "header.json").unlink()
    (run / "checkpoint.npz").write_bytes(b"PK")
    arguments = ("fit", stitched.parent / "data.npz", "--out", run, "--seed", 3, *QUICK)
    message = refused(*arguments, "--resume")
    assert f"{run / 'checkpoint.npz'}: not a readable" in message
    assert "without this file the fit starts anew" in message


@pytest.mark.parametrize(
    "other", ["--seed 1", "--hold-out 1", "--test-fraction 0.5", "--method ot-linear"]
)
def test_a_run_is_not_resumed_with_other_settings(still, data, other):
    before = contents(still)
    arguments = ("fit", data, "--out", still, "--method", "nearest", *other.split(), "--resume")
    assert f"{still} was started with other data or settings" in refused(*arguments)
    assert contents(still) == before


def test_a_run_is_not_resumed_with_other_data(still, data):
    write(data, x=X + 1.0)
    arguments = ("fit", data, "--out", still, "--method", "nearest", "--resume")
    assert "other data or settings" in refused(*arguments)


# Other data


def test_other_individuals_are_scored_with_the_floor_of_the_training_data(still, tmp_path):
    other = write(tmp_path / "other.npz", x=X + 10.0)
    rows = scores(still, "--data", other)
    assert value(rows, "marginal", 0.0) > 10.0
    assert value(rows, "one-step", 1.0) == pytest.approx(metrics.w1(X[:N], X[N : 2 * N]), rel=1e-5)
    assert all(row["floor"] > 0.0 for row in rows if row["metric"] == "w1")


def test_floors_are_null_where_the_training_data_is_gone(still, data, tmp_path):
    other = write(tmp_path / "other.npz", x=X + 0.1)
    data.rename(tmp_path / "away.npz")
    rows = scores(still, "--data", other)
    assert {row["floor"] for row in rows} == {None}
    assert "need the training data" in succeed("evaluate", still, "--data", other)
    message = refused("evaluate", still)
    assert str(data) in message
    assert "is gone" in message


def test_the_data_is_known_by_its_content(still, data, tmp_path):
    before = values(scores(still))
    data.rename(tmp_path / "away.npz")
    assert values(scores(still, "--data", tmp_path / "away.npz")) == before


def test_changed_data_is_noticed(still, data):
    write(data, x=X + 1.0)
    message = refused("evaluate", still)
    assert f"{data} has changed since" in message
    assert {row["floor"] for row in scores(still, "--data", data)} == {None}


def test_the_test_rows_of_other_data_are_scored(still, tmp_path):
    everyone = scores(still, "--data", write(tmp_path / "all.npz", x=X + 0.1))
    rows = np.arange(0, len(X), 2)
    path = write(tmp_path / "half.npz", x=X + 0.1, test_idx=rows)
    half = scores(still, "--data", path)
    first, second = (X[rows][T[rows] == t] for t in TIMES[:2])
    assert value(half, "one-step", 1.0) == pytest.approx(metrics.w1(first, second), rel=1e-5)
    assert values(half) != values(everyone)


def test_what_a_file_has_to_say_is_a_note(tmp_path):
    lines = ["t,who,a", *(f"{t:g}d,left,{x:.3f}" for t, x in zip(T, X[:, 0], strict=True))]
    lines[-N:] = [line.replace("4d", "96h") for line in lines[-N:]]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines))
    text = succeed("fit", path, "--out", tmp_path / "run", "--method", "nearest")
    assert "\nnote: columns 'who' hold no numbers and are left out" in f"\n{text}"
    assert "note: the labels 0d, 1d, 2d, 96h are of several units: their times" in text
    assert sf.load(tmp_path / "run").times.tolist() == [0.0, 24.0, 48.0, 96.0]


# Simulate


def test_simulate_writes_every_point_with_its_time_and_id(stitched, tmp_path):
    out = tmp_path / "paths.npz"
    assert "1000 individuals at 3 times" in succeed(
        "simulate", stitched, "--times", "0,0.5,2", "--out", out
    )
    with np.load(out) as stored:
        assert sorted(stored.files) == ["id", "t", "x"]
        assert stored["x"].shape == (3000, 2)
        assert np.isfinite(stored["x"]).all()
        assert stored["t"].tolist() == [0.0] * 1000 + [0.5] * 1000 + [2.0] * 1000
        assert stored["id"].tolist() == list(range(1000)) * 3
    assert len(_tables.read_table(out).snapshots.paths) == 3


def test_simulate_starts_from_given_individuals(stitched, tmp_path):
    out, start = tmp_path / "paths.npz", stitched.parent / "data.npz"
    succeed("simulate", stitched, "--times", "1,2", "--from", start, "--out", out)
    with np.load(out) as stored:
        np.testing.assert_allclose(stored["x"][:N], X[T == 1.0], rtol=1e-5, atol=1e-5)
        assert not np.allclose(stored["x"][N:], X[T == 1.0], atol=1e-3)
        assert len(stored["x"]) == 2 * N


def test_simulate_repeats_itself_with_the_same_seed(stitched, tmp_path):
    paths = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        out = tmp_path / f"{name}.npz"
        start = ("--from", stitched.parent / "data.npz")
        succeed("simulate", stitched, "--times", "0,1", *start, "--seed", seed, "--out", out)
        paths.append(np.load(out)["x"])
    np.testing.assert_array_equal(paths[0], paths[1])
    assert not np.array_equal(paths[0], paths[2])


def test_simulate_does_not_overwrite(still, tmp_path):
    out = tmp_path / "paths.npz"
    out.write_text("mine")
    assert f"{out} exists already" in refused("simulate", still, "--times", "0,1", "--out", out)
    assert out.read_text() == "mine"


# What is refused. {d}: the folder, {data}: good data, {run}: a good run.

FIT, NEAREST = "fit {data} --out {d}/new", "fit {data} --out {d}/new --method nearest"
SIMULATE = "simulate {run} --out {d}/new.npz"
BAD = [
    ("", "Missing command"),
    ("nonsense", "nonsense"),
    ("--nonsense", "--nonsense"),
    ("fit", "DATA"),
    ("fit {data}", "--out"),
    ("fit {d}/gone.npz --out {d}/new", "{d}/gone.npz: no such file"),
    ("fit {d}/note.txt --out {d}/new", "{d}/note.txt: cannot read '.txt'"),
    ("fit {d}/broken.npz --out {d}/new", "{d}/broken.npz: not a readable .npz"),
    ("fit {d}/broken.csv --out {d}/new", "{d}/broken.csv: no column 't'; columns are x, y"),
    ("fit {d}/once.npz --out {d}/new", "{d}/once.npz: a fit needs two times or more, got 1"),
    ("fit {d}/point.npz --out {d}/new", "{d}/point.npz: all individuals are at the same point"),
    ("fit {data} --out {d}/note.txt", "--out {d}/note.txt is a file"),
    ("fit {data} --out {d}/note.txt/run --method nearest", "{d}/note.txt/run"),
    ("fit {data} --out {run}", "--out {run} already holds a run"),
    (FIT + " --time-key day", "no array 'day'; the file holds x, t"),
    (FIT + " --rep pca", "no array 'pca'"),
    (FIT + " --weight-key mass", "no array 'mass'"),
    (FIT + " --id-key cell", "no array 'cell'"),
    (FIT + " --group-key donor", "no array 'donor'"),
    (FIT + " --columns a,b", "--columns"),
    (FIT + " --hold-out noon", "--hold-out takes times such as 0,1.5,2: 'noon' is neither"),
    (FIT + " --hold-out 1,", "--hold-out"),
    (FIT + " --hold-out nan", "--hold-out"),
    (FIT + " --hold-out 7", "--hold-out: time 7 was not observed; observed times are 0, 1, 2, 4"),
    (FIT + " --hold-out 0,1,2", "needs two times or more, got 1"),
    (FIT + " --hold-out 0,1,2,4", "needs two times or more, got 0"),
    (FIT + " --test-fraction 1", "--test-fraction must be in [0, 1), got 1"),
    (FIT + " --test-fraction -0.1", "--test-fraction must be in [0, 1), got -0.1"),
    (FIT + " --test-fraction nan", "--test-fraction must be in [0, 1), got nan"),
    (FIT + " --test-fraction some", "--test-fraction"),
    (FIT + " --test-fraction 0.001", "--test-fraction 0.001"),
    (FIT + " --method magic", "--method must be one of weak-form, stitching, stitching-varying"),
    (FIT + " --seed one", "--seed"),
    (FIT + " --seed -1", "--seed"),
    (FIT + " --seed 99999999999999999999", "--seed"),
    (FIT + " --set steps", "--set takes KEY=VALUE, got 'steps'"),
    (FIT + " --set =5", "--set takes KEY=VALUE"),
    (FIT + " --set speed=5", "--set speed: no such setting; there are particles, nodes"),
    (FIT + " --set residual.speed=5", "--set residual.speed: no such setting; there are"),
    (FIT + " --set residual.scheme=1", "optimiser.steps, optimiser.learning_rate"),
    (FIT + " --set residual.weight=-1", "--set residual.weight: weight must be in [0, inf]"),
    (FIT + " --set growth.hidden=0", "--set growth.hidden: hidden width must be at least 1"),
    (FIT + " --set steps=many", "--set steps: 'many' is not a number"),
    (FIT + " --set hidden=8,wide", "--set hidden: '8,wide' is not a number"),
    (FIT + " --set steps=0", "steps must be at least 1, got 0"),
    (FIT + " --set steps=1.5", "steps must be an integer, got 1.5"),
    (FIT + " --set particles=0", "particles must be at least 1"),
    (FIT + " --set nodes=1", "nodes must be at least 2"),
    (FIT + " --set hidden=0", "hidden width must be at least 1"),
    (FIT + " --set beta=-1", "beta must be in (0, inf]"),
    (FIT + " --set alpha=2", "alpha must be in [0, 1]"),
    (FIT + " --set learning_rate=0", "learning_rate must be in (0, 1e+30]"),
    (FIT + " --no-entropy --set beta=1", "--no-entropy"),
    (NEAREST + " --time-varying", "--method nearest has no settings and no energy"),
    (NEAREST + " --interaction", "--method nearest has no settings and no energy"),
    (NEAREST + " --no-entropy", "--method nearest has no settings and no energy"),
    (NEAREST + " --set steps=5", "--method nearest has no settings and no energy"),
    (NEAREST + " --resume", "--resume: {d}/new holds no run to resume"),
    ("evaluate", "RUN"),
    ("evaluate {d}/gone", "{d}/gone is not a finished run"),
    ("evaluate {d}", "{d} is not a finished run"),
    ("evaluate {run} --data {d}/gone.npz", "{d}/gone.npz: no such file"),
    ("evaluate {run} --data {d}/line.npz", "{d}/line.npz has 1 dimensions"),
    ("evaluate {run} --data {d}/before.npz", "no time of the held-out data can be scored"),
    ("evaluate {run} --json {d}", "{d}"),
    ("evaluate {run} --json {d}/gone/a.json", "{d}/gone/a.json"),
    ("simulate {run} --out {d}/new.npz", "--times"),
    ("simulate {run} --times 0,1", "--out"),
    ("simulate {run} --times 0,1 --out {d}/new.csv", "--out must end in .npz"),
    ("simulate {run} --times 0,1 --out {d}/gone/new.npz", "--out {d}/gone/new.npz"),
    ("simulate {d}/gone --times 0,1 --out {d}/new.npz", "{d}/gone is not a finished run"),
    (SIMULATE + " --times noon", "--times takes times"),
    (SIMULATE + " --times 1,0", "--times must increase, got 1,0"),
    (SIMULATE + " --times 0,0", "--times must increase, got 0,0"),
    (SIMULATE + " --times inf", "--times takes times"),
    (SIMULATE + " --times 0,1 --seed one", "--seed"),
    (SIMULATE + " --times 0,1 --from {d}/gone.npz", "{d}/gone.npz: no such file"),
    (SIMULATE + " --times 0,1 --from {d}/line.npz", "--from {d}/line.npz"),
    (SIMULATE + " --times 0.5,1 --from {data}", "--from {data}: time 0.5 was not observed"),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> dict[str, Path]:
    """Good data, a good run of it, and files that are bad in one way each."""
    d = tmp_path_factory.mktemp("shelf")
    data = write(d / "data.npz")
    succeed("fit", data, "--out", d / "run", "--method", "nearest")
    (d / "note.txt").write_text("a note")
    (d / "broken.npz").write_bytes(data.read_bytes()[:200])
    (d / "broken.csv").write_text("x,y\n1,2\n")
    write(d / "once.npz", t=np.zeros(len(X)))
    write(d / "point.npz", x=np.ones_like(X))
    write(d / "line.npz", x=X[:, 0])
    write(d / "before.npz", t=T - 100.0)
    return {"d": d, "data": data, "run": d / "run"}


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_arguments_are_refused_in_one_line(shelf, arguments, words):
    before = sorted(shelf["d"].rglob("*"))
    message = refused(*(part.format(**shelf) for part in arguments.split()))
    assert words.format(**shelf) in message
    assert sorted(shelf["d"].rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("split.npz", None, "split.npz: cannot be read"),
        ("split.npz", b"PK\x03\x04", "split.npz: cannot be read"),
        ("split.npz", b"text", "split.npz: cannot be read"),
        ("header.json", b"{", "header.json is not JSON"),
        ("arrays.npz", b"PK", "the run is damaged"),
    ],
)
def test_a_damaged_run_is_named(still, name, content, words):
    (still / name).unlink()
    if content is not None:
        (still / name).write_bytes(content)
    message = refused("evaluate", still)
    assert str(still) in message
    assert words in message


def test_a_damaged_plan_is_named(still, data):
    (still / "plan.json").write_text("{")
    arguments = ("fit", data, "--out", still, "--method", "nearest", "--resume")
    assert str(still / "plan.json") in refused(*arguments)


@pytest.mark.parametrize("source", [{}, {"demo": True}])
def test_a_run_without_a_record_of_its_data_is_not_evaluated(still, source):
    fit = sf.load(still)
    fit.source = source
    fit.save(still, overwrite=True)
    message = refused("evaluate", still)
    assert f"{still} was not made by `stitchflow fit`" in message
    assert "`evaluate --data`" in message


def test_a_fit_saved_from_python_is_scored_on_a_file(tmp_path, data):
    sf.fit(sf.Snapshots.from_table(X, T), sf.Nearest(), progress=False).save(tmp_path / "saved")
    lines = tmp_path / "lines.json"
    code, _, err = stitchflow("evaluate", tmp_path / "saved", "--data", data, "--json", lines)
    assert code == 0
    assert "saved keeps no record of whom it was trained on: all of" in err
    rows = rows_of(lines)
    assert value(rows, "one-step", 1.0) == pytest.approx(metrics.w1(X[:N], X[N : 2 * N]), rel=1e-5)
    assert {row["floor"] for row in rows} == {None}
    line = write(tmp_path / "line.npz", x=X[:, 0])
    assert "has 1 dimensions" in refused("evaluate", tmp_path / "saved", "--data", line)


# The program itself


@pytest.mark.parametrize("name", ["data[bold].npz", "a[/b].npz", "a:smile:.npz"])
def test_paths_are_printed_as_they_are(tmp_path, data, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    data.rename(path)
    text = succeed("fit", path, "--out", tmp_path / "run", "--method", "nearest")
    assert name in text.replace("\n", "")


def test_an_interrupted_command_says_so(data, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_tables, "read_table", interrupt)
    code, _, err = stitchflow("fit", data, "--out", tmp_path / "run")
    assert (code, err) == (1, "stitchflow: interrupted\n")


def test_debugging_shows_where_it_failed(tmp_path, monkeypatch):
    monkeypatch.setenv("STITCHFLOW_DEBUG", "1")
    with pytest.raises(ValueError, match="no such file"):
        cli.main(["fit", str(tmp_path / "gone.npz"), "--out", str(tmp_path / "run")])


def test_an_error_of_the_program_is_not_called_bad_input(data, tmp_path, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(_tables, "read_table", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["fit", str(data), "--out", str(tmp_path / "run")])


def test_an_error_of_numpy_or_jax_is_not_called_bad_input(data, tmp_path, monkeypatch):
    monkeypatch.setattr(_runs, "fit", np.reshape)
    with pytest.raises(TypeError, match="unexpected keyword"):
        cli.main(["fit", str(data), "--out", str(tmp_path / "run")])
    monkeypatch.setattr(_runs, "fit", lambda *_, **__: jnp.zeros(2) + jnp.zeros(3))
    with pytest.raises(TypeError, match="incompatible shapes"):
        cli.main(["fit", str(data), "--out", str(tmp_path / "again")])
    monkeypatch.setattr(_crossval, "cross_validate", np.reshape)
    with pytest.raises(TypeError, match="unexpected keyword"):
        cli.main(["crossval", str(data)])


def process(folder, *arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "stitchflow.cli", *map(str, arguments)]
    env = os.environ | {"XDG_CACHE_HOME": str(folder / "cache")}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False)


def test_a_real_process_fits_and_keeps_its_compilations(tmp_path, data):
    done = process(tmp_path, "fit", data, "--out", tmp_path / "run", *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    assert "finished 5 steps" in done.stdout
    assert sf.load(tmp_path / "run").steps == 5
    assert any((tmp_path / "cache" / "stitchflow" / "xla").iterdir())


def test_a_real_process_refuses_in_one_line(tmp_path):
    done = process(tmp_path, "fit", tmp_path / "gone.npz", "--out", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr == f"stitchflow: {tmp_path / 'gone.npz'}: no such file\n"
    assert done.stdout == ""
