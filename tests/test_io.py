"""Run directories: what comes back is what was saved, and damage is named."""

import json
import shutil
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._files.archive import Archive
from stitchflow._files.whole import only_writer
from stitchflow._stitching.stitched_flow import StitchedFlow
from stitchflow._storage import run_state as _run_state
from stitchflow._storage import save as _io
from stitchflow.datasets import double_well

DATA = double_well(n=60, key=0)[0]
QUICK = sf.Optimiser(steps=8)

METHODS = {
    "static": sf.Stitching(particles=20, nodes=12, optimiser=QUICK),
    "all terms": sf.Stitching(
        energy=sf.Potential(hidden=(8,), time_varying=True)
        + sf.Entropy(0.2)
        + sf.Interaction(hidden=(8,))
        + sf.VectorKernel(hidden=(8,)),
        particles=10,
        nodes=12,
        optimiser=QUICK,
        residual=sf.VelocityResidual(sf.Trapezoid(), alpha=0.5),
        divergence=sf.DenoisingScoreMatching(0.3),
        learn_weights=False,
    ),
    "nearest": sf.Nearest(),
    "ot-linear": sf.OTLinear(),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_loaded_run_gives_identical_answers(tmp_path, name):
    fit = sf.fit(DATA, METHODS[name], key=0, progress=False)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    x = DATA.cloud(0)
    np.testing.assert_array_equal(fit.flow.sample([0.3], 9), again.flow.sample([0.3], 9))
    times = [0.0, 0.4, 1.0]
    np.testing.assert_array_equal(fit.flow.simulate(x, times), again.flow.simulate(x, times))
    np.testing.assert_array_equal(fit.flow.velocity(x, 0.5), again.flow.velocity(x, 0.5))
    if fit.energy is not None:
        np.testing.assert_array_equal(fit.energy.potential(x, 0.1), again.energy.potential(x, 0.1))
        assert again.energy.beta == fit.energy.beta
        assert repr(again.energy) == repr(fit.energy)
        for part in ("residual", "divergence", "particles", "nodes", "learn_weights"):
            assert getattr(again.method, part) == getattr(fit.method, part)
    assert again.method.name == fit.method.name
    assert str(again.status) == str(fit.status)
    for stage, other in zip(fit.history, again.history, strict=True):
        assert (stage.name, stage.begins) == (other.name, other.begins)
        assert set(stage) == set(other)
        for key in stage:
            np.testing.assert_array_equal(stage[key], other[key])


def test_own_functions_are_asked_for_not_stored(tmp_path):
    energy = sf.Potential(lambda x: (x**2).sum()) + sf.Entropy()
    fit = sf.fit(DATA, sf.Stitching(energy, 10, 12, optimiser=QUICK), progress=False)
    fit.save(tmp_path / "run")
    with pytest.raises(ValueError, match="function of your own"):
        sf.load(tmp_path / "run")
    again = sf.load(tmp_path / "run", energy=energy)
    np.testing.assert_array_equal(again.flow.sample([0.3], 9), fit.flow.sample([0.3], 9))


@pytest.fixture(scope="module")
def static():
    return sf.fit(DATA, METHODS["static"], key=0, progress=False)


@pytest.fixture
def saved(tmp_path, static):
    static.save(tmp_path / "run")
    return static, tmp_path / "run"


def test_nothing_is_overwritten_unasked(saved, tmp_path):
    fit, run = saved
    with pytest.raises(ValueError, match="already holds a run"):
        fit.save(run)
    fit.save(run, overwrite=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="is a file"):
        fit.save(tmp_path / "file")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_holds_anything_else_is_not_saved_to(static, saved, tmp_path, overwrite):
    _, run = saved
    (tmp_path / "folder").mkdir()
    (run / "notes.txt").write_text("mine")
    for mine in (tmp_path / "folder" / "arrays.npz", run / "notes.txt"):
        mine.write_text("mine")
        words = "already holds" if mine.parent == run and not overwrite else f"holds {mine.name}"
        with pytest.raises(ValueError, match=words):
            static.save(mine.parent, overwrite=overwrite)
        assert mine.read_text() == "mine"
    assert len(list((tmp_path / "folder").iterdir())) == 1
    assert str(sf.load(run).status) == str(static.status)


def test_a_folder_that_is_being_written_is_not_saved_to(saved):
    fit, run = saved
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with only_writer(run), pytest.raises(ValueError, match="is being written by another process"):
        fit.save(run, overwrite=True)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def rewrite(run, seal=True, **changes) -> None:
    """Change what a header says; sealed as somebody would who means to deceive."""
    header = json.loads((run / "header.json").read_text()) | changes
    if seal:
        header["sha256"] = _io.seal({k: v for k, v in header.items() if k != "sha256"})
    (run / "header.json").write_text(json.dumps(header))


def test_damage_is_named(saved, tmp_path):
    _, run = saved
    with pytest.raises(ValueError, match="is not a finished run"):
        sf.load(tmp_path / "nowhere")
    arrays, header = (run / "arrays.npz").read_bytes(), (run / "header.json").read_text()
    (run / "arrays.npz").write_bytes(arrays[:-20] + b"x" * 20)
    with pytest.raises(ValueError, match="the run is damaged"):
        sf.load(run)
    (run / "arrays.npz").write_bytes(arrays)
    rewrite(run, seal=False, steps=9)
    with pytest.raises(ValueError, match="does not match its own hash: the run is damaged"):
        sf.load(run)
    (run / "header.json").write_text(header)
    energy = json.loads(header)["energy"]
    wide = [energy[0] | {"settings": {"hidden": [10**9, 10**9]}}, *energy[1:]]
    for change, words in (
        ({"format": 99}, "has format 99; this version reads 1, 2 and 3"),
        ({"method": "magic"}, "not a valid run header"),
        ({"nodes": [0.0]}, "a curve needs one time per node"),
        ({"energy": [{"class": "os.system"}]}, "not a valid run header"),
        ({"energy": wide}, "it declares a model of 1,000,000,0"),
        ({"units": None}, "not a valid run header"),
        ({"status": []}, "not a valid run header"),
    ):
        rewrite(run, **change)
        with pytest.raises(ValueError, match=words):
            sf.load(run)
        (run / "header.json").write_text(header)
    (run / "header.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        sf.load(run)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: np.full_like(x, np.nan), "particles holds NaN or infinity"),
        (lambda x: np.full_like(x, -np.inf), "particles holds NaN or infinity"),
        (lambda x: x[:, :7], "7 particles in 2 dimensions do not go with weights"),
        (lambda x: np.repeat(x, 2, axis=2), "20 particles in 4 dimensions do not go with"),
        (lambda x: x.astype(int), "particles should hold real numbers, got int64"),
        (lambda x: x.astype(str), "particles should hold real numbers, got <U"),
    ],
)
def test_arrays_that_do_not_fit_are_named(saved, change, words):
    _, run = saved
    arrays = Archive(run / "arrays.npz").all()
    content = _io.packed(arrays | {"[0].particles": change(arrays["[0].particles"])})
    (run / "arrays.npz").write_bytes(content)
    rewrite(run, arrays_sha256=sha256(content).hexdigest())
    with pytest.raises(ValueError, match=words):
        sf.load(run)


def test_a_model_that_could_not_be_loaded_is_not_written(saved, tmp_path):
    """And nothing else of it is: the folder stays as it was."""
    fit, _ = saved
    curve = eqx.tree_at(lambda c: c.raw_bandwidth, fit.flow.curve, jnp.full(2, jnp.nan))
    broken = replace(fit, flow=StitchedFlow(curve, fit.flow.energy, fit.flow.units))
    with pytest.raises(ValueError, match="raw_bandwidth holds NaN or infinity"):
        broken.save(tmp_path / "broken")
    assert not list(tmp_path.glob("broken/*"))


@pytest.mark.parametrize("change", [np.atleast_2d, lambda a: a.astype(str), lambda a: a + 1j])
def test_a_history_that_is_no_column_of_numbers_is_named(saved, change):
    _, run = saved
    arrays = Archive(run / "arrays.npz").all()
    content = _io.packed(arrays | {"history/loss": change(arrays["history/loss"])})
    (run / "arrays.npz").write_bytes(content)
    rewrite(run, arrays_sha256=sha256(content).hexdigest())
    with pytest.raises(ValueError, match="the stored history of loss"):
        sf.load(run)


FORMATS = sorted((Path(__file__).parent / "formats").iterdir())


@pytest.mark.parametrize("run", FORMATS, ids=lambda run: run.name)
def test_a_run_of_every_format_is_read(run):
    assert [int(path.name) for path in FORMATS] == list(_run_state.READ)
    fit = sf.load(run)
    x = np.array([[0.0, 0.0], [1.0, 2.0]])
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5)
    close(fit.energy.potential(x, 0.5), [0.01059387, 0.00167668])
    close(fit.flow.velocity(x, 0.5), [[1.5668105, 1.1131985], [2.2691765, 1.3495047]])
    close(fit.energy.beta, 0.0983786)
    assert fit.times.tolist() == [0.0, 1.0, 2.5]
    assert str(fit.status) == "finished 5 steps"


@pytest.fixture
def forged(tmp_path):
    """A sound run to forge the header of."""
    return shutil.copytree(FORMATS[-1], tmp_path / "run")


def term(kind: str, reach=None, **settings) -> dict:
    entry = {"class": f"stitchflow.{kind}", "functions": {}, "reach": reach, "settings": settings}
    return {"energy": [entry]}


def path_flow(**settings) -> dict:
    whole = "stitchflow.PathFlow"
    return {"method": "path-flow", "class": whole, "settings": {"class": whole, **settings}}


WIDE_UNITS = {"centre": [0.0] * 30_000, "length": 1.0, "start": 0.0, "duration": 1.0}


@pytest.mark.parametrize(
    "change",
    [
        term("Potential", hidden=[3000] * 1000),
        term("Potential", hidden=[10**8]),
        term("VectorField", hidden=[2**12] * 4),
        {"energy": term("Potential", hidden=[2000, 2000])["energy"] * 1000},
        {"units": WIDE_UNITS} | term("Potential", hidden=[10**4]),
        {"units": WIDE_UNITS} | term("VectorField", divergence_free=True),
        {"units": WIDE_UNITS} | term("FeaturePotential"),
        term("FeaturePotential", centres=10**9),
        term("FeaturePotential", degree=10**9),
        term("FeaturePotential", time_degree=10**9),
        term("FeatureInteraction", centres=10**9),
        path_flow(),
        path_flow(layers=10**9),
        path_flow(curve_hidden=[10**6, 10**6]),
        {"settings": {"class": "stitchflow.Stitching", "growth": {"hidden": [10**9]}}},
        {"knots": [0.0] * 10**5},
    ],
)
def test_a_model_larger_than_its_arrays_is_never_made(forged, change):
    rewrite(forged, **change)
    with pytest.raises(ValueError, match=r"it declares a model of [\d,]+ numbers, stores \d+"):
        sf.load(forged)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("length", 0.0),
        ("length", -1.0),
        ("length", float("nan")),
        ("duration", 0.0),
        ("duration", float("inf")),
        ("start", float("nan")),
        ("centre", [0.0, float("inf")]),
    ],
)
def test_units_that_measure_nothing_are_named(forged, name, value):
    units = json.loads((forged / "header.json").read_text())["units"]
    rewrite(forged, units=units | {name: value})
    with pytest.raises(ValueError, match=f"{name} must be in"):
        sf.load(forged)


@pytest.mark.parametrize("reach", [0.0, -1.0, float("nan"), float("inf")])
def test_a_reach_that_is_no_length_is_named(forged, reach):
    rewrite(forged, **term("Interaction", hidden=[4], reach=reach))
    with pytest.raises(ValueError, match="reach must be in"):
        sf.load(forged)
