"""The benchmark: its lists, its scores against known energies, its lines and its page."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from paper import experiments
from paper.experiments import paper_runs
from paper.page import write_page
from paper.pictures import picture_of
from paper.tables import Results
from stitchflow import datasets
from stitchflow._command import fit_file as _runs
from stitchflow._energy.energy import Energy
from stitchflow._files.lines import append_json, read_lines
from stitchflow._training.cluster import _local
from stitchflow.bench import TASKS, Run
from stitchflow.bench import _truth as truth
from stitchflow.bench._forces import Square, Within
from stitchflow.bench._runs import is_done
from stitchflow.cli import main


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Commands keep compiled programs; tests leave JAX's settings alone."""
    monkeypatch.setattr(_runs, "keep_compilations", lambda: None)


def test_the_list_is_the_protocol():
    names = list(TASKS)
    assert len(names) == 58
    assert sum(name.startswith("synthetic-") for name in names) == 30
    assert sum(name.startswith("eb-") for name in names) == 10
    assert sum(name.startswith("three-marginals-") for name in names) == 5
    assert sum(name.startswith("populations-") for name in names) == 4
    rest = {"wavy-valley", "wavy-valley-code", "cis", "chiral", "chiral-dense", "chiral-all"}
    wells = {f"doublewell-{regime}" for regime in ("dense", "terminal", "trickle")}
    assert rest | wells <= set(names)


@pytest.mark.parametrize(("option", "names"), [("--list", TASKS), ("--methods", sf.METHODS)])
def test_the_command_names_one_a_line_and_nothing_else(option, names, capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", option])
    assert end.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == list(names)
    assert all(line.replace("-", "").replace("_", "").isalnum() for line in lines)


def test_the_command_appends_lines(tmp_path, capsys):
    arguments = ["bench", "wavy-valley", "--method", "nearest", "--seed", "3"]
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--json", str(tmp_path / "lines.jsonl")])
    assert end.value.code == 0
    rows = read_lines(tmp_path / "lines.jsonl")
    assert {(row["task"], row["method"], row["seed"]) for row in rows} == {
        ("wavy-valley", "nearest", 3)
    }
    assert "one-step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "needs a TASK"),
        (["nothing"], "nothing"),
        (["cis", "--euler"], "--euler"),
        (["cis", "--json", "no/where.jsonl"], "no directory"),
    ],
)
def test_bad_commands_are_refused_in_one_line(arguments, words, capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", *arguments])
    assert end.value.code == 2
    complaint = capsys.readouterr().err
    assert words in complaint
    assert len(complaint.splitlines()) == 1


def bowl(scale: float = 1.0, shift: float = 0.0) -> Energy:
    return Energy.known(sf.Potential(lambda x: 0.5 * scale * (x**2).sum() + shift), 2)


def recovery(learned: Energy, true: Energy, cls=truth.Recovery) -> truth.Recovery:
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(200, 2)) * s for s in (1.0, 0.7)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 0.1])
    return cls(learned, true, *data.split(0.5))


def test_scores_of_a_scaled_and_shifted_bowl():
    """grad V = x against 1.1 x: the error is 1 % of E|x|^2 over the variance of x."""
    r = recovery(bowl(1.1, shift=3.0), bowl())
    x = r.test.x
    expected = 100 * 0.01 * (x**2).sum(1).mean() / x.var(axis=0).sum()
    assert truth.grad_error(r) == pytest.approx(expected, rel=1e-4)
    after, before = r.train.cloud(1), r.train.cloud(0)
    uvp = 100 * 0.1**2 * 0.01 * (after**2).sum(1).mean() / before.var(axis=0).sum()
    assert truth.l2_uvp(r) == pytest.approx(uvp, rel=1e-4)
    scores = truth.POTENTIAL_SCORES
    assert scores["pattern_r2"](r) == pytest.approx(1.0)
    assert scores["raw_r2"](r) == pytest.approx(1.0 - 0.1**2, rel=1e-4)
    assert scores["grad_pattern_r2"](r) == pytest.approx(1.0)


def test_the_support_is_near_the_individuals():
    r = recovery(bowl(), bowl())
    low, high = r.train.x.min(axis=0), r.train.x.max(axis=0)
    nearest = np.linalg.norm(r.support[:, None] - r.train.x[None], axis=-1).min(axis=1)
    assert nearest.max() <= 0.05 * np.linalg.norm(high - low)
    assert 1000 < len(r.support) < 10_000
    band = recovery(bowl(), bowl(), truth.Band).support
    assert np.abs(band[:, 1] - np.sin(0.5 * np.pi * band[:, 0])).max() <= 1.0


def test_undefined_scores_are_absent():
    flat = Energy.known(sf.Potential(lambda x: 0.0 * x.sum()), 2)
    r = recovery(bowl(), flat)
    names = {row.metric for row in truth.compare_energies(r)}
    assert "l2_uvp" in names
    assert not {"grad_error", "pattern_r2", "raw_r2", "grad_pattern_r2"} & names


def test_kernel_scores_and_curl():
    turn = lambda z: jnp.stack([-z[1], z[0]])
    half = Energy.known(sf.VectorKernel(lambda z: 0.5 * turn(z)), 2)
    whole = Energy.known(sf.VectorKernel(turn), 2)
    r = recovery(half, whole)
    assert truth.kernel_r2(r) == pytest.approx(0.75, rel=1e-4)
    assert truth.kernel_r2_long(r) == pytest.approx(0.75, rel=1e-4)
    np.testing.assert_allclose(truth.curl(whole, r.displacements[:50]), 2.0, rtol=1e-3)


def test_interactions_are_compared_on_the_band_of_distances():
    well = lambda scale: Energy.known(sf.Interaction(lambda r: scale * jnp.exp(-(r**2))), 2)
    scores = truth.INTERACTION_SCORES
    r = recovery(well(2.0), well(1.0))
    assert scores["w_pattern_r2"](r) == pytest.approx(1.0)
    assert scores["w_raw_r2"](r) == pytest.approx(0.0, abs=1e-4)  # twice the truth, as far as none


def test_forces_on_the_square_of_the_three_marginals():
    """A force of 1.1 times the truth points the same way and misses by a tenth of its size."""
    r = recovery(bowl(1.1), bowl(), Square)
    found = {row.metric: row for row in truth.compare_energies(r)}
    assert found["cosine"].value == pytest.approx(1.0, abs=1e-6)
    assert found["nmae"].value == pytest.approx(0.1, rel=1e-4)
    assert (found["cosine"].floor, found["nmae"].floor) == (1.0, 0.0)
    assert recovery(bowl(-1.0), bowl(), Square).further()["cosine"] == pytest.approx(-1.0, abs=1e-6)


def test_slopes_are_compared_within_populations():
    """Populations far apart: only distances within them count, and errors are in per cent."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 10)
    clouds = [100.0 * labels[:, None] + rng.normal(size=(200, 2)) for _ in range(2)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 0.1], groups=[labels, labels])
    pair = lambda a: Energy.known(
        sf.Potential(lambda x: 0.5 * a * (x**2).sum()) + sf.Interaction(lambda r: a * r**2), 2
    )
    r = Within(pair(1.1), pair(1.0), data, data)
    assert np.linalg.norm(r.displacements, axis=1).max() < 10.0
    assert r.band[1] < 10.0
    found = r.further()
    assert found["v_slope_error"] == pytest.approx(10.0, rel=1e-3)
    assert found["w_slope_error"] == pytest.approx(10.0, rel=1e-2)
    alone = Within(bowl(1.1), pair(1.0), data, data).further()
    assert set(alone) == {"v_slope_error"}


def test_the_interval_of_beta_stands_beside_the_truth():
    known = Energy.known(sf.Entropy(0.1, learn=False), 2)
    with_spread = SimpleNamespace(uncertainty=SimpleNamespace(beta=SimpleNamespace(mean=0.2, sd=1)))
    low, high = truth.compare_beta(with_spread, known)
    assert (low.metric, low.value, high.metric) == ("beta_low", 0.0, "beta_high")
    assert high.value == pytest.approx(1.845)
    assert low.floor == pytest.approx(0.1)

    class Without:
        @property
        def uncertainty(self):
            raise sf.NotAvailable("stitching", "uncertainty", "it was fitted once")

    for fit in (Without(), SimpleNamespace(), SimpleNamespace(uncertainty=None)):
        assert list(truth.compare_beta(fit, known)) == []


def test_tasks_that_are_not_split_train_on_everybody():
    problem = TASKS["three-marginals-quadratic"].problem(0)
    assert problem.train.counts.tolist() == [2000] * 3
    assert problem.train.ids is None
    assert problem.train.parent is None
    assert problem.energy.beta == pytest.approx(0.1)
    assert not set(map(tuple, problem.train.x)) & set(map(tuple, problem.test.x))
    assert {TASKS[name].seeds for name in TASKS if name.startswith(("three", "popul"))} == {0}


def test_how_many_interact_is_told(data_folder):
    for part in TASKS["cis"].problem(0).train, TASKS["cis"].problem(0).test:
        assert set(part.totals) == {310.0}
        assert part.total is not None


def test_a_run_leaves_complete_lines_and_is_not_done_twice(tmp_path):
    prepared = Run("wavy-valley", "nearest").prepare()
    _, rows = prepared.carry_out()
    lines = tmp_path / "lines.jsonl"
    append_json(lines, rows)
    wanted = {"task", "method", "seed", "protocol", "metric", "time", "value", "floor"}
    wanted |= {"seconds_train", "seconds_total", "steps", "version", "settings", "data"}
    stored = [json.loads(line) for line in lines.read_text().splitlines()]
    assert all(wanted <= set(row) for row in stored)
    assert {row["protocol"] for row in stored} == {"marginal", "one-step", "rollout"}
    assert is_done(prepared.identity, read_lines(lines))
    assert not is_done(Run("wavy-valley", "nearest", seed=1).prepare().identity, stored)
    with open(lines, "a") as file:  # a kill in the middle of a line
        file.write('{"task": "wavy-')
    assert len(read_lines(lines)) == len(stored)


def test_physics_is_told_and_nothing_else():
    plain = Run("synthetic-sphere-paired").prepare().method
    assert [type(term).__name__ for term in plain.energy.terms] == ["Potential"]
    assert plain == sf.Stitching(energy=plain.energy).resolved(
        TASKS["synthetic-sphere-paired"].problem(0).train
    )
    euler = Run("synthetic-sphere-paired", euler=True).prepare().method
    assert isinstance(euler.residual.scheme, sf.Forward)
    assert euler.nodes == 6


def test_a_changing_potential_has_no_picture_beside_a_static_truth():
    prepared = Run("synthetic-flowers-paired", "stitching-varying").prepare()
    moving = Energy.known(sf.Potential(lambda x, t: t * (x**2).sum(), time_varying=True), 2)
    flow = sf.fit(prepared.problem.train, sf.Nearest(), progress=False).flow
    fit = sf.Fit(sf.Stitching(), flow, moving, sf.Status(True, "made"), {}, 0, 0.0)
    assert picture_of(prepared, fit) is None


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (Run("nothing"), "bench --list"),
        (Run("wavy-valley", "magic"), "--method must be one of"),
        (Run("wavy-valley", euler=True), "--euler"),
    ],
)
def test_bad_runs_are_refused(run, words):
    with pytest.raises(ValueError, match=words):
        run.prepare()


def test_every_table_has_its_trivial_rows():
    runs = list(paper_runs())
    published = {name for name in TASKS if TASKS[name].seeds}
    assert {run.task for run in runs} == published
    told = {run.task for run in runs if run.method == "ot-linear"}
    assert {name for name in published if not name.endswith("-varying")} == told
    assert len(set(runs)) == len(runs)


def test_interrupted_papers_go_on(tmp_path, monkeypatch):
    """The second call finds the run of the first and adds nothing."""
    monkeypatch.setattr(experiments, "paper_runs", lambda quick: [Run("wavy-valley", "nearest")])
    assert experiments.run_paper(tmp_path) == []
    size = (tmp_path / "paper.jsonl").stat().st_size
    assert experiments.run_paper(tmp_path) == []
    assert (tmp_path / "paper.jsonl").stat().st_size == size


def test_workers_elsewhere_need_only_stitchflow(tmp_path, monkeypatch):
    """A scheduler's worker that cannot import `paper` carries out one of its runs."""
    ours = str(Path(experiments.__file__).parents[1])
    lines, runs = tmp_path / "lines.jsonl", [Run("wavy-valley", "nearest")]
    with ExitStack() as stack:
        with monkeypatch.context() as patch:  # workers start with this process's path
            patch.setattr(sys, "path", [place for place in sys.path if place != ours])
            address = stack.enter_context(_local(1)).scheduler_address
        assert experiments.carry_out_all(runs, lines, address, "paper") == []
    assert {row["task"] for row in read_lines(lines)} == {"wavy-valley"}


def test_the_page_is_made_from_lines_alone(tmp_path):
    row = {"task": "chiral-dense", "method": "stitching", "euler": False, "protocol": "energy"}
    row |= {"metric": "kernel_r2_long", "time": None, "value": 0.93, "floor": 1.0}
    row |= {"seconds_train": 1.0}
    append_json(tmp_path / "paper.jsonl", [{**row, "seed": seed} for seed in (0, 1)])
    page = write_page(tmp_path, tmp_path).read_text()
    assert "0.930 ± 0.000" in page
    assert "0.930, met" in page
    later = Results([{**row, "seed": 0}, {**row, "seed": 0, "value": 0.5}])
    assert later.mean("chiral-dense", "energy", "kernel_r2_long") == 0.5


def test_recorded_data_is_checked(data_folder, tmp_path, monkeypatch):
    train, test = datasets.embryoid()
    assert (len(train.x), len(test.x)) == (11773, 5046)
    assert datasets.cis().train.counts.tolist() == [155] * 201
    assert datasets.chiral_recorded().test.times.tolist() == [0, 50, 100, 200, 400, 600, 800]
    with np.load(data_folder / "eb5.npz") as file:
        arrays = dict(file)
    arrays["x"] = arrays["x"] + np.float32(1.0)
    np.savez(tmp_path / "eb5.npz", **arrays)
    monkeypatch.setenv("STITCHFLOW_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="checksum differs"):
        datasets.embryoid()
    monkeypatch.setenv("STITCHFLOW_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="STITCHFLOW_DATA"):
        datasets.cis()


def test_the_learner_of_cis_is_not_told_who_is_who(data_folder):
    """The split is by particle, the judges may follow theirs, and the learner follows nobody."""
    problem, parts = TASKS["cis"].problem(0), datasets.cis()
    np.testing.assert_array_equal(problem.train.x, parts.train.x)
    assert problem.train.ids is None
    assert not problem.train.paired
    assert problem.test.paired
    assert not set(parts.train.ids) & set(parts.test.ids)
    assert problem.energy.beta == pytest.approx(0.00196, abs=5e-6)


def test_downloads_name_their_way_out(tmp_path, monkeypatch):
    """Neither a folder nor a network: one sentence says what to do."""
    import pooch

    def no_network(*args, **kwargs):
        raise ConnectionError("unreachable")

    monkeypatch.setenv("STITCHFLOW_DATA", str(tmp_path))
    monkeypatch.setattr(pooch, "retrieve", no_network)
    with pytest.raises(OSError, match="STITCHFLOW_DATA"):
        datasets.chiral_recorded()


def test_downloaded_originals_hold_the_same_data(data_folder, tmp_path, monkeypatch):
    """The public files have their own layout; what is read from them hashes alike."""
    import pooch

    with np.load(data_folder / "cis.npz") as file:
        path = file["x"].reshape(201, 310, 2)
        np.savez(tmp_path / "original.npz", trajectories=path, times=np.unique(file["t"]))
    monkeypatch.setenv("STITCHFLOW_DATA", str(tmp_path))
    monkeypatch.setattr(pooch, "retrieve", lambda *a, **k: str(tmp_path / "original.npz"))
    fetched = datasets.cis()
    monkeypatch.setenv("STITCHFLOW_DATA", str(data_folder))
    local = datasets.cis()
    for a, b in ((fetched.train, local.train), (fetched.test, local.test)):
        np.testing.assert_array_equal(a.x, b.x)
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.times, b.times)
