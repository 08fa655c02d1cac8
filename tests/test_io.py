"""Run directories: what comes back is what was saved, and damage is named."""

import json

import numpy as np
import pytest

import stitchflow as sf
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
    for key in fit.history:
        np.testing.assert_array_equal(fit.history[key], again.history[key])


def test_own_functions_are_asked_for_not_stored(tmp_path):
    energy = sf.Potential(lambda x: (x**2).sum()) + sf.Entropy()
    fit = sf.fit(DATA, sf.Stitching(energy, 10, 12, optimiser=QUICK), progress=False)
    fit.save(tmp_path / "run")
    with pytest.raises(ValueError, match="function of your own"):
        sf.load(tmp_path / "run")
    again = sf.load(tmp_path / "run", energy=energy)
    np.testing.assert_array_equal(again.flow.sample([0.3], 9), fit.flow.sample([0.3], 9))


@pytest.fixture
def saved(tmp_path):
    fit = sf.fit(DATA, METHODS["static"], key=0, progress=False)
    fit.save(tmp_path / "run")
    return fit, tmp_path / "run"


def test_nothing_is_overwritten_unasked(saved, tmp_path):
    fit, run = saved
    with pytest.raises(ValueError, match="already holds a run"):
        fit.save(run)
    fit.save(run, overwrite=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="is a file"):
        fit.save(tmp_path / "file")


def test_damage_is_named(saved, tmp_path):
    _, run = saved
    with pytest.raises(ValueError, match="is not a finished run"):
        sf.load(tmp_path / "nowhere")
    header = json.loads((run / "header.json").read_text())
    arrays = (run / "arrays.npz").read_bytes()
    (run / "arrays.npz").write_bytes(arrays[:-20] + b"x" * 20)
    with pytest.raises(ValueError, match="the run is damaged"):
        sf.load(run)
    (run / "arrays.npz").write_bytes(arrays)
    for change, words in (
        ({"format": 99}, "has format 99"),
        ({"method": "magic"}, "not a valid run header"),
        ({"nodes": [0.0]}, "a curve needs one time per node"),
        ({"energy": [{"class": "os.system"}]}, "not a valid run header"),
    ):
        (run / "header.json").write_text(json.dumps(header | change))
        with pytest.raises(ValueError, match=words):
            sf.load(run)
    (run / "header.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        sf.load(run)
