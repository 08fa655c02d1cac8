"""The loop: one compilation, finite results, resuming, readable ends."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from stitchflow import Checkpoint, Optimiser
from stitchflow._files import archive as _archive
from stitchflow._training import optimise as _optimise
from stitchflow._training.optimise import make_room, minimise


def bowl(model, data, key):
    value = ((model["x"] - data) ** 2).sum()
    return value + 0.0 * jax.random.normal(key), {"part": value}


START = {"x": jnp.asarray([3.0, -2.0])}
TARGET = jnp.asarray([1.0, 1.0])


def run(loss=bowl, optimiser=None, steps=400, **kwargs):
    optimiser = optimiser or Optimiser(learning_rate=0.05)
    return minimise(
        loss, START, TARGET, jax.random.key(0), optimiser, steps, progress=False, **kwargs
    )


def test_it_finds_the_minimum_and_keeps_a_history():
    found = run()
    np.testing.assert_allclose(found.model["x"], TARGET, atol=1e-2)
    assert found.status.ok
    assert str(found.status) == "finished 400 steps"
    assert set(found.history[0]) == {"step", "loss", "part", "gradient"}
    assert found.history[0]["step"][-1] == 400
    assert found.history[0]["loss"][-1] < 1e-3 * found.history[0]["loss"][0]


def test_the_loss_is_traced_once_for_the_loop():
    traces = []

    def counted(model, data, key):
        traces.append(1)
        return bowl(model, data, key)

    run(counted, steps=317)  # looks of unequal length
    # Once for the names of its parts (shapes only), once for the compiled loop.
    assert len(traces) == 2


def test_the_same_key_gives_the_same_numbers():
    noisy = lambda m, d, k: (bowl(m, d, k)[0] + jax.random.normal(k) * m["x"].sum(), {})
    a, b = run(noisy), run(noisy)
    np.testing.assert_array_equal(a.model["x"], b.model["x"])


def test_non_finite_steps_are_skipped_and_counted():
    def sometimes(model, data, key):
        value, parts = bowl(model, data, key)
        return jnp.where(jax.random.uniform(key) < 0.05, jnp.nan, value), parts

    found = run(sometimes, steps=300)
    assert np.isfinite(found.model["x"]).all()
    assert "non-finite steps skipped" in str(found.status)


def test_a_step_that_ends_nowhere_is_skipped():
    """Loss and gradient are finite, where the rate would lead is not."""
    far = lambda rate: optax.chain(optax.sgd(rate), optax.scale(1e10))
    found = run(optimiser=Optimiser(learning_rate=1e30, transform=far), steps=5)
    np.testing.assert_array_equal(found.model["x"], START["x"])
    assert "diverged" in str(found.status)
    assert not found.status.ok


def test_a_hopeless_loss_ends_early_with_the_start():
    found = run(lambda m, d, k: (jnp.nan * m["x"].sum(), {}))
    assert not found.status.ok
    assert "diverged" in str(found.status)
    np.testing.assert_array_equal(found.model["x"], START["x"])
    assert found.steps <= 40


def test_patience_stops_on_a_plateau():
    found = run(optimiser=Optimiser(learning_rate=0.2, final=1.0, patience=5), steps=20_000)
    assert "converged" in str(found.status)
    assert found.steps < 20_000


def test_the_first_loss_is_better_than_none():
    found = run(optimiser=Optimiser(learning_rate=0.05, patience=1), steps=400)
    assert found.steps > 40


def test_patience_waits_for_members_that_have_a_loss():
    """One of two never has a finite loss; the other one falls."""

    def loss(model, data, key):
        value, _ = bowl(model, data[0], key)
        return jnp.where(model["x"][0] > 50.0, jnp.nan, value), {}

    model = {"x": jnp.asarray([[3.0, -2.0], [99.0, 0.0]])}
    keys = jax.random.split(jax.random.key(0), 2)
    optimiser = Optimiser(learning_rate=0.05, patience=2)
    all_see_the_same = (None,)
    found = minimise(
        loss, model, (TARGET,), keys, optimiser, 400, progress=False, shared=all_see_the_same
    )
    assert found.steps > 100
    assert np.isfinite(found.model["x"]).all()


def test_a_checkpoint_resumes_to_the_same_numbers(tmp_path, monkeypatch):
    noisy = lambda m, d, k: (bowl(m, d, k)[0] + jax.random.normal(k) * m["x"].sum(), {})
    whole = run(noisy)
    checkpoint = Checkpoint(tmp_path / "state.npz", seconds=0.0)
    writes, original = [], Checkpoint.write

    def write_then_die(self, *args):
        original(self, *args)
        writes.append(1)
        if len(writes) == 30:
            raise RuntimeError("power cut")

    monkeypatch.setattr(Checkpoint, "write", write_then_die)
    with pytest.raises(RuntimeError, match="power cut"):
        run(noisy, checkpoint=checkpoint)
    monkeypatch.setattr(Checkpoint, "write", original)
    resumed = run(noisy, checkpoint=checkpoint)
    np.testing.assert_array_equal(resumed.model["x"], whole.model["x"])
    np.testing.assert_array_equal(resumed.history[0]["loss"], whole.history[0]["loss"])


@pytest.mark.parametrize("patience", [None, 3])
def test_a_fit_that_is_over_stays_over_when_resumed(tmp_path, patience):
    optimiser = Optimiser(learning_rate=0.2, final=1.0, patience=patience)
    loss = bowl if patience else (lambda m, d, k: (jnp.nan * m["x"].sum(), {}))
    ends = [
        run(loss, optimiser, 20_000, checkpoint=Checkpoint(tmp_path / "a.npz", seconds=0.0))
        for _ in range(2)
    ]
    assert ends[0].steps == ends[1].steps < 20_000
    assert str(ends[0].status) == str(ends[1].status)
    np.testing.assert_array_equal(ends[0].model["x"], ends[1].model["x"])


def test_a_checkpoint_serves_the_fit_that_wrote_it_only(tmp_path):
    mine, other = (Checkpoint(tmp_path / "a.npz", 0.0).owned_by("data", n) for n in (1, 2))
    whole = run(checkpoint=mine)
    np.testing.assert_array_equal(run(checkpoint=mine).model["x"], whole.model["x"])
    with pytest.raises(ValueError, match="belongs to another fit; without this file"):
        run(checkpoint=other)


def test_a_damaged_checkpoint_is_named(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.npz", 0.0)
    run(checkpoint=checkpoint)
    content = bytearray(checkpoint.path.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.npz: .*; without this file the fit starts anew"):
        run(checkpoint=checkpoint)


def test_notes_without_end_are_named(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, notes=np.array("[" * 10**5))
    with pytest.raises(ValueError, match="notes are nested too deeply; without this file"):
        run(checkpoint=Checkpoint(path))


def test_a_large_checkpoint_is_checked_to_its_last_byte(tmp_path, monkeypatch):
    """Large arrays of other files stay on disk, unchecked; the state of a fit never does."""
    monkeypatch.setattr(_archive, "LARGE", 0)
    test_a_damaged_checkpoint_is_named(tmp_path)


def test_a_stop_before_the_first_look_leaves_the_start(tmp_path):
    checkpoint = Checkpoint(tmp_path / "a.npz")
    checkpoint.stopped.set()
    found = run(checkpoint=checkpoint)
    assert "interrupted before the first look" in str(found.status)
    np.testing.assert_array_equal(found.model["x"], START["x"])
    resumed = run(checkpoint=Checkpoint(tmp_path / "a.npz"))
    np.testing.assert_array_equal(resumed.model["x"], run().model["x"])


def test_any_optax_rule_serves():
    found = run(optimiser=Optimiser(learning_rate=0.05, transform=optax.sgd))
    np.testing.assert_allclose(found.model["x"], TARGET, atol=1e-2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 2.5}, "steps must be an integer, got 2.5"),
        ({"learning_rate": -1.0}, "learning_rate must be in"),
        ({"learning_rate": 1e39}, "learning_rate must be in"),
        ({"final": 2.0}, "final must be in"),
        ({"clip": 0.0}, "clip must be in"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"transform": "adam"}, "transform must be an optax rule, got 'adam'"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Optimiser(**settings)


def test_programs_are_let_go_before_a_process_has_too_many(monkeypatch, tmp_path):
    """The compiler ends a process that may not map more memory."""
    double = jax.jit(lambda x: 2.0 * x)
    double(jnp.ones(3))
    make_room()
    assert double._cache_size() == 1
    limit = tmp_path / "limit"
    limit.write_text("10")
    monkeypatch.setattr(_optimise, "MAPS_ALLOWED", limit)
    make_room()
    assert double._cache_size() == 0
