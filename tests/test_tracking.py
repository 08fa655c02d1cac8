"""Whoever watches a fit sees every look at it."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._training.optimise import Optimiser, minimise
from stitchflow.tracking import watched_by

QUICK = sf.Stitching(
    sf.Potential(hidden=(8,)) + sf.Entropy(),
    10,
    12,
    optimiser=sf.Optimiser(steps=3),
    consistency=sf.Consistency(steps=2, individuals=8),
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return sf.Snapshots.from_arrays([rng.normal(t, 1.0, (30, 2)) for t in range(3)], range(3))


@pytest.mark.full
def test_a_callback_is_told_the_history_row_by_row(data):
    rows = []
    fit = sf.fit(data, QUICK, progress=False, callback=rows.append)
    assert [row["stage"] for row in rows[:5]] == ["stitching"] * 3 + ["consistency"] * 2
    for name in ("step", "loss", "divergence"):
        assert [row[name] for row in rows[:3]] == fit.history[0][name].tolist()
    assert [row["consistency"] for row in rows[3:5]] == fit.history[1]["consistency"].tolist()
    told = len(rows)
    sf.fit(data, QUICK, progress=False)
    assert len(rows) == told  # nobody watches the next fit


def test_a_callback_may_stop_a_loop_and_is_then_forgotten():
    bowl = lambda model, data, key: ((model["x"] - data) ** 2, {})
    start, target = {"x": jnp.asarray(3.0)}, jnp.asarray(1.0)
    run = lambda: minimise(bowl, start, target, jax.random.key(0), Optimiser(), 300, False)
    rows = []

    def until_full(row):
        rows.append(row)
        if len(rows) == 4:
            raise OSError("no space for logs")

    with pytest.raises(OSError, match="no space for logs"), watched_by(until_full):
        run()
    assert [(row["stage"], row["step"]) for row in rows] == [("fit", 3 * k) for k in (1, 2, 3, 4)]
    assert run().history[0]["loss"][:4].tolist() == [row["loss"] for row in rows]
    assert len(rows) == 4


def test_a_callback_is_a_function(data):
    with pytest.raises(TypeError, match="callback must be a function of a row, got 'wandb'"):
        sf.fit(data, QUICK, callback="wandb")


@pytest.mark.full
def test_tensorboard_reads_what_was_written(data, tmp_path):
    pytest.importorskip("tensorboard")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    fit = sf.fit(data, QUICK, progress=False, callback=sf.tracking.TensorBoard(tmp_path))
    written = events.EventAccumulator(str(tmp_path)).Reload()
    found = [event.tensor_proto.float_val[0] for event in written.Tensors("stitching/loss")]
    np.testing.assert_allclose(found, fit.history[0]["loss"], rtol=1e-6)


@pytest.mark.full
def test_mlflow_reads_what_was_written(data, tmp_path, monkeypatch):
    # The light package has no database.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        fit = sf.fit(data, QUICK, progress=False, callback=sf.tracking.MLflow())
    kept = mlflow.MlflowClient().get_metric_history(run.info.run_id, "stitching/loss")
    assert [(point.step, point.value) for point in kept] == list(
        zip(fit.history[0]["step"], fit.history[0]["loss"], strict=True)
    )


@pytest.mark.full
@pytest.mark.filterwarnings("default")
def test_wandb_keeps_what_was_logged(data, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    watch = sf.tracking.WandB(mode="offline", dir=tmp_path)
    fit = sf.fit(data, QUICK, progress=False, callback=watch)
    assert watch.run.summary["stitching/loss"] == fit.history[0]["loss"][-1]
    assert watch.run.summary["consistency/step"] == 2
    watch.run.finish()
    assert list(tmp_path.rglob("run-*.wandb"))


@pytest.mark.parametrize("tracker", ["TensorBoard", "MLflow", "WandB"])
def test_a_missing_tracker_is_named_with_its_extra(tracker, tmp_path):
    package = tracker.lower()
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    arguments = [tmp_path] if tracker == "TensorBoard" else []
    with pytest.raises(ImportError, match=rf"needs {package}; install stitchflow\[{package}\]"):
        getattr(sf.tracking, tracker)(*arguments)
