"""The embedded example: its data, the folder it may write to, and what it leaves there."""

import json

import numpy as np
import pytest

import stitchflow as sf
from stitchflow import cli
from stitchflow._command import fit_file as _runs
from stitchflow._command.demo import _check_folder
from stitchflow.datasets import double_well, double_well_potential

TIMES = (0.0, 0.2, 0.4, 0.7, 1.0, 1.5)


@pytest.fixture(autouse=True)
def no_compilation_cache(monkeypatch):
    """The settings of JAX are this process's, which other tests share."""
    monkeypatch.setattr(_runs, "keep_compilations", lambda: None)


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_the_double_well_shows_n_individuals_at_each_time(dim):
    data, truth = double_well(dim=dim, n=30, times=[0.0, 0.3, 2.0])
    assert data.x.shape == (90, dim)
    assert data.counts.tolist() == [30, 30, 30]
    assert data.times.tolist() == [0.0, 0.3, 2.0]
    assert data.ids is None
    assert np.isfinite(data.x).all()
    assert truth.potential(data.x).shape == (90,)


def test_the_double_well_repeats_itself():
    first, again, other = (double_well(n=20, key=key)[0] for key in (0, 0, 1))
    assert first.times.tolist() == list(TIMES)
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


def test_the_truth_is_the_potential_and_the_noise_in_user_units():
    _, truth = double_well(n=5, beta=0.3)
    x = np.random.default_rng(0).normal(size=(50, 2))
    expected = (x[:, 0] ** 2 - 1.0) ** 2 + x[:, 1] ** 2
    np.testing.assert_allclose(truth.potential(x), expected, rtol=1e-5, atol=1e-5)
    force = np.stack([-4.0 * x[:, 0] * (x[:, 0] ** 2 - 1.0), -2.0 * x[:, 1]], axis=1)
    np.testing.assert_allclose(truth.force(x), force, rtol=1e-4, atol=1e-4)
    assert truth.beta == pytest.approx(0.3)


def test_the_wells_are_at_one_on_the_first_axis():
    import jax.numpy as jnp

    for x, v in (([1.0, 0.0], 0.0), ([-1.0, 0.0], 0.0), ([0.0, 0.0], 1.0), ([1.0, 2.0], 4.0)):
        assert float(double_well_potential(jnp.array(x))) == pytest.approx(v)


def test_the_population_leaves_the_ridge_for_both_wells():
    data, _ = double_well(n=500, key=0)
    start, end = data.cloud(0), data.cloud(len(data) - 1)
    np.testing.assert_allclose(start.std(axis=0), [0.25, 1.0], rtol=0.1)
    assert np.abs(np.abs(end[:, 0]).mean() - 1.0) < 0.1
    assert 0.4 < (end[:, 0] > 0.0).mean() < 0.6
    # The bowl forgets its start: the variance of a stationary V = y^2 is beta / 2.
    assert end[:, 1].var() == pytest.approx(0.05, rel=0.25)


def test_nobody_is_seen_twice():
    data, _ = double_well(n=500, times=[0.0, 0.01], key=0)
    for d in range(2):
        assert abs(np.corrcoef(data.cloud(0)[:, d], data.cloud(1)[:, d])[0, 1]) < 0.2


def test_the_demo_writes_to_a_new_or_empty_folder_or_an_earlier_demo(tmp_path):
    _check_folder(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    _check_folder(tmp_path)
    (tmp_path / "header.json").write_text(json.dumps({"data": {"demo": True}}))
    (tmp_path / "landscape.png").write_text("")
    _check_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("thesis.tex", "mine"),
        ("header.json", "{"),
        ("header.json", "[]"),
        ("header.json", json.dumps({"data": None})),
        ("header.json", json.dumps({"data": {"path": "cells.npz"}})),
        ("header.json", json.dumps({"data": {"demo": "yes"}})),
    ],
)
def test_the_demo_refuses_a_folder_that_holds_something_else(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=f"--out {tmp_path} is not empty and not a demo"):
        _check_folder(tmp_path)
    assert (tmp_path / name).read_text() == content


def test_the_demo_refuses_a_file(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--out", str(tmp_path / "file")])
    assert end.value.code == 2
    assert capsys.readouterr().err == f"stitchflow: --out {tmp_path / 'file'} is a file\n"
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_the_demo_leaves_a_run_its_data_and_pictures(tmp_path, capsys):
    out = tmp_path / "demo"
    with pytest.raises(SystemExit) as end:
        cli.main(["demo", "--out", str(out)])
    assert end.value.code == 0
    names = ("overview", "history")
    pictures = [f"{name}.png" for name in names]
    files = ["arrays.npz", "data.npz", "header.json", "report.html", "split.npz", *pictures]
    assert sorted(path.name for path in out.iterdir()) == sorted([".lock", *files])
    for name in pictures:
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    r2 = float(text.split("pattern R2 = ")[1].split()[0])
    assert r2 > 0.9
    fit = sf.load(out)
    assert fit.status.ok
    assert fit.energy.beta == pytest.approx(0.1, rel=0.5)
    with np.load(out / "data.npz") as stored:
        np.testing.assert_array_equal(stored["x"], double_well(dim=2, n=500, key=0)[0].x)
        assert np.unique(stored["t"]).tolist() == list(TIMES)
    _check_folder(out)
    page = (out / "report.html").read_text()
    for word in ('class="finding good"', "rollout", "gradient flow", "Play"):
        assert word in page
