"""The method as a whole, on problems whose energy is known."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._energy.packing import plan_of
from stitchflow._stitching import stages
from stitchflow._stitching.start import start as start_of
from stitchflow.datasets import double_well

QUICK = sf.Optimiser(steps=60)


def quick_data(dim: int = 2, n: int = 80) -> sf.Snapshots:
    return double_well(dim=dim, n=n, key=0)[0]


def quick_fit(key: int = 0, **settings) -> sf.Fit:
    settings = {"particles": 30, "nodes": 12, "optimiser": QUICK, **settings}
    return sf.fit(quick_data(), sf.Stitching(**settings), key=key, progress=False)


@pytest.fixture(scope="module")
def fitted() -> sf.Fit:
    return quick_fit()


def test_the_same_seed_gives_the_same_fit_and_another_one_another(fitted):
    again, other = quick_fit(), quick_fit(key=1)
    for stage, same in zip(fitted.history, again.history, strict=True):
        for name in stage:
            np.testing.assert_array_equal(stage[name], same[name])
    x = fitted.flow.sample([0.5], 20, key=3)
    np.testing.assert_array_equal(x, again.flow.sample([0.5], 20, key=3))
    assert not np.array_equal(x, other.flow.sample([0.5], 20, key=3))


class Bowl(eqx.Module):
    stiffness: jax.Array

    def __call__(self, x):
        return 0.5 * self.stiffness * (x**2).sum()


def test_a_function_of_ones_own_may_hold_arrays():
    """They have no hash, so no program may be known by them."""
    clouds = [np.random.default_rng(k).normal(size=(9, 1)) for k in (0, 1)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0])
    terms = sf.Potential(Bowl(jnp.ones(())), learn=True) + sf.Entropy()
    staged = {"consistency": sf.Consistency(steps=2, settling=2, individuals=4)}
    method = sf.Stitching(terms, 6, 4, optimiser=sf.Optimiser(steps=4), **staged)
    fit = sf.fit(data, method, progress=False)
    assert fit.status.ok
    assert fit.energy.terms[0].function.stiffness != 1.0


def test_a_fit_compiles_its_loop_once_and_the_next_like_it_not_at_all(monkeypatch):
    """The objective is traced for its shapes once a fit, and for the loop once in all."""
    traces, first = [], stages.STAGES[0]

    def counted(*args):
        traces.append(1)
        return first.loss(*args)

    monkeypatch.setattr(stages, "STAGES", (replace(first, loss=counted),))
    quick_fit(nodes=13)
    assert len(traces) == 2
    quick_fit(nodes=13, key=5)
    assert len(traces) == 3
    quick_fit(nodes=14)
    assert len(traces) == 5


def test_a_fit_says_what_it_is(fitted):
    assert repr(fitted) == "Fit(stitching: finished 60 steps)"
    assert f"beta = {fitted.energy.beta:.4g}" in fitted.summary()
    assert fitted.history[0]["loss"][-1] < fitted.history[0]["loss"][0]


def test_there_is_one_default_potential():
    """Written out or left out: the same network; the rivals' is that of their papers."""
    default, written = sf.Stitching(), sf.Stitching(sf.Potential() + sf.Entropy())
    assert plan_of(default) == plan_of(written)
    widths = lambda method: [term.hidden for term in method.energy.only(sf.Potential)]
    assert widths(default) == widths(written) == widths(sf.Stitching.varying()) == [(64, 64, 64)]
    for rival in (sf.JKOnet(), sf.JKOnetStar(), sf.IJKOnet()):
        assert widths(rival) == [(64, 64)]


@pytest.mark.parametrize(
    "settings",
    [
        {"energy": sf.Potential(hidden=(16,), time_varying=True)},
        {
            "energy": sf.Potential(hidden=(16,))
            + sf.Entropy(0.1, learn=False)
            + sf.Interaction(hidden=(8,))
        },
        {"energy": sf.VectorKernel(hidden=(8,)), "particles": 10},
        {"energy": sf.Potential(lambda x: (x**2).sum()) + sf.InternalEnergy(lambda r: r**2)},
        {"divergence": sf.ScoreMatching()},
        {"divergence": sf.DenoisingScoreMatching(0.3), "batch": 64},
        pytest.param({"divergence": sf.MMD()}, marks=pytest.mark.full),
        pytest.param({"divergence": sf.SinkhornDivergence(), "batch": 64}, marks=pytest.mark.full),
        {"residual": sf.VelocityResidual(sf.Trapezoid(), alpha=0.5)},
        {"learn_weights": False, "learn_bandwidth": False, "learn_particles": False},
    ],
    ids=[
        "V(x,t)",
        "V+W",
        "K",
        "known",
        "SM",
        "DSM minibatch",
        "MMD",
        "Sinkhorn",
        "trapezoid",
        "frozen",
    ],
)
def test_every_part_can_be_exchanged(settings):
    fit = quick_fit(optimiser=sf.Optimiser(steps=40), **settings)
    assert fit.status.ok
    loss = fit.history[0]["loss"]
    assert loss[-10:].mean() < loss[:10].mean()
    found = np.asarray(fit.flow.sample([0.2], 500)[0])
    seen = fit.data.cloud(1)
    np.testing.assert_allclose(found.mean(axis=0), seen.mean(axis=0), atol=0.3)
    np.testing.assert_allclose(found.std(axis=0), seen.std(axis=0), rtol=0.4)


def test_frozen_parts_do_not_move():
    method = sf.Stitching(
        particles=30, nodes=12, optimiser=QUICK, learn_particles=False, learn_weights=False
    )
    data = quick_data()
    key = jax.random.split(jax.random.key(0), 3)[0]
    start = start_of(method.plan(data), data, key, data.units)
    fit = sf.fit(data, method, key=0, progress=False)
    np.testing.assert_array_equal(fit.flow.curve.particles, start.particles)
    np.testing.assert_array_equal(fit.flow.curve.log_weights, start.log_weights)
    assert not np.array_equal(fit.flow.curve.raw_bandwidth, start.raw_bandwidth)


def test_minibatches_are_unbiased():
    from stitchflow._data.observations import Observations

    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(n, 1)) + k for k, n in enumerate((40, 100, 70))]
    weights = [rng.uniform(size=len(c)) for c in clouds]
    data = sf.Snapshots.from_arrays(clouds, [0, 1, 2], weights=weights)
    seen = Observations.of(data)

    def total(size, key):
        _, points, w, _, share, _ = seen.minibatch(size, key)
        return share * (points[:, :, 0] ** 2 * w).sum()

    exact = total(10_000, jax.random.key(0))
    for size in (96, 33):  # some individuals of every time; some times
        draws = jax.vmap(lambda k, size=size: total(size, k))(
            jax.random.split(jax.random.key(1), 4000)
        )
        assert float(draws.mean()) == pytest.approx(float(exact), abs=4 * float(draws.std()) / 63)


def test_an_underdetermined_fit_stays_where_the_individuals_are():
    rng = np.random.default_rng(0)
    data = sf.Snapshots.from_arrays([rng.normal(size=(10, 2)), rng.normal(size=(3, 2)) + 1], [0, 1])
    fit = sf.fit(data, sf.Stitching(optimiser=QUICK), progress=False)
    assert fit.status.ok
    middle = 0.5 * (data.cloud(0).mean(axis=0) + data.cloud(1).mean(axis=0))
    found = np.asarray(fit.flow.sample([0.5], 500)[0])
    np.testing.assert_allclose(found.mean(axis=0), middle, atol=0.5)
    assert 0.3 < found.std() < 1.5


def test_memory_is_known_in_advance():
    data = quick_data()
    small, large = sf.Stitching(particles=50).memory(data), sf.Stitching(particles=500).memory(data)
    assert small < large < 2**30
    assert "500 particles" in sf.Stitching(particles=500).describe(data)


ONE_TIME = sf.Snapshots.from_arrays([np.random.default_rng(0).normal(size=(5, 2))], [0.0])
ONE_POINT = sf.Snapshots.from_arrays([np.ones((5, 2)), np.ones((5, 2))], [0.0, 1.0])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sf.Stitching(energy="V"), "energy must be a Energy, got 'V'"),
        (lambda: sf.Stitching(particles=0), "particles must be at least 1, got 0"),
        (lambda: sf.Stitching(nodes=1), "nodes must be at least 2, got 1"),
        (lambda: sf.Stitching(batch=1.5), "batch must be an integer, got 1.5"),
        (lambda: sf.Stitching(residual="velocity"), "residual must be a Residual"),
        (lambda: sf.Stitching(divergence=sf.Optimiser()), "divergence must be a Divergence"),
        (lambda: sf.Stitching(optimiser="adam"), "optimiser must be a Optimiser"),
        (lambda: sf.fit([1, 2]), "data must be Snapshots, got list"),
        (lambda: sf.fit(ONE_TIME), "a fit needs two times or more, got 1"),
        (lambda: sf.fit(ONE_POINT), "all individuals are at the same point"),
        (lambda: sf.fit(quick_data(), "stitching"), "method must be one such as Stitching"),
        (lambda: sf.fit(quick_data(), key="x"), "key must be an int seed or a JAX key, got 'x'"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises((TypeError, ValueError)) as error:
        make()
    assert words in str(error.value)


def test_real_cells_are_fitted_and_scored(data_folder):
    """A small fit of embryoid-body cells is already far better than standing still."""
    file = np.load(data_folder / "eb5.npz")
    pick = lambda rows: sf.Snapshots.from_table(file["x"][rows], file["t"][rows])
    train, test = pick(file["train_idx"]).subsample(500), pick(file["test_idx"]).subsample(300)
    method = sf.Stitching(particles=60, nodes=13, optimiser=sf.Optimiser(steps=400))
    scores = sf.evaluate(sf.fit(train, method, progress=False), test, metrics=("w1",))
    still = sf.evaluate(sf.fit(train, sf.Nearest(), progress=False), test, metrics=("w1",))
    assert scores.mean("rollout") < 0.5 * still.mean("rollout")
    assert scores.mean("one-step") < 0.8 * still.mean("one-step")


def test_everybody_who_is_followed_is_a_particle():
    clouds = [np.random.default_rng(k).normal(size=(200, 2)) for k in range(3)]
    of = lambda **kind: sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0], **kind)
    assert sf.Stitching().resolved(of(paired=True)).particles == 200
    assert sf.Stitching().resolved(of()).particles == 100


def test_in_many_dimensions_particles_stay_the_individuals_they_are():
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(60, 25)) + k for k in range(3)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0])
    chosen = sf.Stitching().resolved(data)
    learned = (chosen.learn_particles, chosen.learn_weights, chosen.learn_bandwidth)
    assert not any(learned)
    assert chosen.particles == 60
    assert chosen.consistency.settling == 0  # nothing that could settle
    curve = start_of(chosen, data, 0, data.units)
    firsts = np.asarray(data.units.space_out(curve.particles[0]))
    assert np.sort(firsts, axis=0) == pytest.approx(np.sort(clouds[0], axis=0), abs=1e-4)
    assert sf.Stitching(learn_particles=True).resolved(data).learn_particles
