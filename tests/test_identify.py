"""The study of identification: its rows, what it makes of lines, and its page."""

import importlib.util
import sys

import numpy as np
import pytest

from marked_pages import put
from pages import DOCS, ROOT, run_page
from paper.tables import Results
from stitchflow.bench import TASKS
from stitchflow.bench._runs import Run

# By its path: pre-commit installs a package of that name.
_spec = importlib.util.spec_from_file_location(
    "identify_study", ROOT / "benchmarks" / "identify.py"
)
assert _spec is not None
assert _spec.loader is not None
identify = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = identify
_spec.loader.exec_module(identify)


def line(task, metric, value, floor=1.0, seed=0, protocol="energy", time=None, method="stitching"):
    place = {"task": task, "method": method, "seed": seed, "euler": False, "seconds_train": 3.0}
    return {**place, "protocol": protocol, "metric": metric, "time": time, "value": value} | {
        "floor": floor
    }


def asked(task, score):
    return next(row for row in identify.ROWS if (row.task, row.score) == (task, score))


def test_every_row_is_a_task_and_every_task_of_the_protocol_has_rows():
    assert set(identify.TASK_NAMES) <= set(TASKS)
    wanted = {"cis", "chiral-all", "chiral-dense", "wavy-valley", "doublewell-terminal"}
    wanted |= {name for name in TASKS if name.startswith(("three-marginals", "populations"))}
    assert wanted <= set(identify.TASK_NAMES)
    assert len({(row.task, row.score) for row in identify.ROWS}) == len(identify.ROWS)


def test_goals_are_bounds_in_words():
    assert asked("cis", identify.BETA).goal == "0.85 to 1.15"
    assert asked("cis", "pattern_r2").goal == "≥ 0.9"
    assert asked("cis", "grad_error").goal == "≤ 10"
    assert asked("cis", identify.BETA).met(1.1)
    assert not asked("cis", identify.BETA).met(1.2)
    assert not asked("cis", "pattern_r2").met(0.89)


def test_beta_is_told_beside_the_truth_with_its_interval():
    task = "three-marginals-quadratic"
    lines = [line(task, "beta", 0.1 * ratio, 0.1, seed) for seed, ratio in enumerate((1.0, 1.4))]
    lines += [line(task, "beta_low", low, 0.1, seed) for seed, low in enumerate((0.05, 0.12))]
    lines += [line(task, "beta_high", 0.2, 0.1, seed) for seed in range(2)]
    results = Results(lines)
    found = identify.values(results, asked(task, identify.BETA), "stitching")
    np.testing.assert_allclose(found, [1.0, 1.4])
    assert identify.cell(asked(task, identify.BETA), found) == "1.2 ± 0.2 met"
    assert identify.covering(results, task, "stitching") == "1 of 2"
    assert identify.covering(results, task, "weak-form") == "-"
    assert "| three-marginals-quadratic | 3 | 1 of 2 |" in identify.costs(results, ["stitching"])


def test_distances_are_over_the_oracle_and_cis_ends_early():
    rows = [line("cis", "w1", v, 1.0, 0, "rollout", t) for t, v in ((0, 9), (10, 1.2), (20, 1.0))]
    results = Results([*rows, line("cis", "w1", 50.0, 1.0, 0, "rollout", 200.0)])
    found = identify.values(results, asked("cis", identify.WAY), "stitching")
    assert found == [pytest.approx(1.1)]


def test_methods_that_are_missing_leave_a_dash():
    task = "three-marginals-quadratic"
    text = identify.table(Results([line(task, "cosine", 0.99)]), ("weak-form", "stitching"))
    assert text.splitlines()[-1].endswith("| - | 0.99 met |")
    assert "No runs yet" in identify.table(Results([]), ("weak-form",))


def test_seeds_are_repeated_where_data_are_simulated():
    made = list(identify.runs(["cis", "doublewell-dense"], ["nearest"], 3))
    assert [(run.task, run.seed) for run in made] == [
        ("cis", 0),
        *(("doublewell-dense", seed) for seed in range(3)),
    ]
    assert all(isinstance(run, Run) for run in made)
    task = identify.Identified("wavy-valley", "nearest").prepare().task
    assert (task.protocols, task.family) == ((), "identify")


def test_the_page_has_its_places_and_its_example_runs():
    page = DOCS / "identify.md"
    for mark in ("table", "costs", "rivals", "pictures"):
        assert "here" in put(page, f"{mark}: benchmarks/identify.py", "here")
    names = run_page("identify.md")
    assert len(set(names["data"].populations)) == 60
    assert names["found"].least.name == "a common factor"


def test_the_caption_counts_where_bands_hold_the_truth(tmp_path, monkeypatch):
    at, ones = np.linspace(0.0, 1.0, 11), np.ones(11)
    panel = identify.identify_pictures.Panel("task", "V", "V", "x")
    parts = {"at": at, "value": ones, "low": 0.5 * ones, "high": 1.5 * ones, "seen": at[[0, 5]]}
    true = np.where(at < 0.25, 2.0, 1.0)  # three of the six places seen are outside
    kept = {f"V_{name}": part for name, part in {**parts, "true": true}.items()}
    np.savez(tmp_path / "identify-task.npz", **kept)
    monkeypatch.setattr(identify.identify_pictures, "ARRAYS", tmp_path)
    assert identify.identify_pictures.covered(panel) == 0.5
