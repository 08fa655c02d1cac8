"""What a flow answers, in the user's units."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.units import Units
from stitchflow._measure.curve import inverse_softplus
from stitchflow._method.driven import DrivenFlow
from stitchflow._stitching.stitched_flow import StitchedFlow
from stitchflow._types import as_key

UNITS = Units((10.0,), length=2.0, start=5.0, duration=4.0)


def moving_gaussian() -> StitchedFlow:
    """N(10 + 2 s, 1) at time 5 + 4 s, driven by a constant force."""
    curve = sf.Curve(
        jnp.asarray([[[0.0]], [[1.0]]]), jnp.zeros(1), inverse_softplus(np.array(0.5)), (0.0, 1.0)
    )
    energy = sf.Energy((sf.Potential(lambda x: -0.5 * x[0]),))
    energy = energy.init(np.eye(2, 1), UNITS, jax.random.key(0))
    return StitchedFlow(curve, energy, UNITS)


def test_densities_scores_and_velocities_are_in_the_users_units():
    flow, x = moving_gaussian(), np.array([[10.0], [12.5]])
    mean = 11.0
    expected = -0.5 * (x[:, 0] - mean) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(flow.log_density(x, 7.0), expected, atol=1e-5)
    np.testing.assert_allclose(flow.score(x, 7.0), mean - x, atol=1e-5)
    np.testing.assert_allclose(flow.velocity(x, 7.0), 0.5, atol=1e-6)
    drawn = np.asarray(flow.sample([5.0, 9.0], 20_000, key=0))
    np.testing.assert_allclose(drawn.mean((1, 2)), [10.0, 12.0], atol=0.03)
    np.testing.assert_allclose(drawn.std((1, 2)), 1.0, atol=0.02)


def test_simulation_and_energy_agree_with_the_units():
    flow = moving_gaussian()
    path = np.asarray(flow.simulate([[10.0], [11.0]], [5.0, 7.0, 9.0]))
    assert path.shape == (3, 2, 1)
    np.testing.assert_allclose(path[:, 0, 0], [10.0, 11.0, 12.0], atol=1e-4)
    np.testing.assert_allclose(flow.energy.force([[3.0]]), 0.5, atol=1e-6)
    np.testing.assert_allclose(flow.energy.potential([[3.0]]), -1.5, atol=1e-5)
    back = np.asarray(flow.simulate([[12.0]], [9.0, 5.0], ode=True))
    np.testing.assert_allclose(back[-1], 10.0, atol=1e-4)


def test_times_outside_are_simulated_and_said():
    flow = moving_gaussian()
    with pytest.warns(sf.ExtrapolationWarning, match="time 13 lies outside"):
        later = np.asarray(flow.sample([13.0], 5_000, key=0))
    assert later.mean() == pytest.approx(14.0, abs=0.06)
    with pytest.warns(sf.ExtrapolationWarning):
        earlier = np.asarray(flow.sample([1.0], 5_000, key=0))
    assert earlier.mean() == pytest.approx(8.0, abs=0.06)
    with pytest.warns(sf.ExtrapolationWarning):
        np.testing.assert_allclose(flow.velocity([[14.0]], 13.0), 0.5, atol=1e-5)
    with pytest.warns(sf.ExtrapolationWarning):
        assert float(flow.log_density([[14.0]], 13.0)[0]) == pytest.approx(-0.92, abs=0.1)


def test_simulation_beyond_the_data_is_said():
    flow = moving_gaussian()
    words = r"the data go from 5 to 9: what is simulated at 13, 15 is extrapolated"
    with pytest.warns(sf.ExtrapolationWarning, match=words):
        path = np.asarray(flow.simulate([[10.0]], [5.0, 13.0, 15.0]))
    np.testing.assert_allclose(path[:, 0, 0], [10.0, 14.0, 15.0], atol=1e-4)
    assert issubclass(sf.ExtrapolationWarning, sf.DataWarning)


def test_what_cannot_be_answered_is_refused_by_name():
    data = sf.Snapshots.from_arrays([np.eye(3, 1), 1.0 + np.eye(3, 1)], [0, 1])
    flow = sf.fit(data, sf.Nearest(), progress=False).flow
    with pytest.raises(sf.NotAvailable, match="nearest cannot answer log_density"):
        flow.log_density([[0.0]], 0.0)
    with pytest.raises(sf.NotAvailable, match="nearest cannot answer score"):
        flow.score([[0.0]], 0.0)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda f: f.sample([5.0], 0), "n must be at least 1"),
        (lambda f: f.sample(["a"], 5), "times must be numbers"),
        (lambda f: f.sample([5.0], 5, key=1.5), "key must be an int seed"),
        (lambda f: f.log_density([[0.0, 1.0]], 5.0), "x must have 1 dimensions, got 2"),
        (lambda f: f.velocity([[np.nan]], 5.0), "x must be finite"),
        (lambda f: f.score([[0.0]], "now"), "t must be a number"),
        (lambda f: f.simulate([[0.0]], [9.0, 5.0]), "ode=True runs backwards"),
        (lambda f: f.simulate([[0.0]], [5.0, 5.0]), "times must be in order and differ"),
        (lambda f: f.simulate([], [5.0, 6.0]), "points in x0 must be at least 1"),
    ],
)
def test_bad_questions_are_named(ask, words):
    with pytest.raises((TypeError, ValueError)) as error:
        ask(moving_gaussian())
    assert words in str(error.value)


def test_transport_follows_a_spline_and_not_its_chords(x64):
    """One particle: everything moves as it does, half a unit off the chord in the middle."""
    knots, times = (0.0, 0.5, 1.0), np.array([0.0, 0.2, 0.25, 0.8, 1.0])
    places = jnp.sin(3.0 * jnp.asarray(knots))[:, None, None]
    curve = sf.SplineCurve(places, jnp.zeros(1), jnp.zeros(()), knots, knots=knots)
    energy = sf.Energy.known(sf.Potential(lambda x: x[0]), 1)
    flow = StitchedFlow(curve, energy, Units.identity(1))
    way = np.asarray(flow.transport(np.zeros((1, 1)), times))
    along = np.stack([curve.centres(jnp.asarray(t)) for t in times])
    assert np.abs(way[2] - 0.5 * places[1]).max() > 0.2, "the chord"
    np.testing.assert_allclose(way, along, atol=1e-9)


def test_transport_follows_the_curve_and_comes_back():
    units = Units((0.0, 0.0), 2.0, 1.0, 4.0)
    rng = np.random.default_rng(0)
    energy = sf.Energy.known(sf.Potential(lambda x: x[0]), 2)
    nodes = (0.0, 0.3, 1.0)
    shape = {"log_weights": jnp.zeros(5), "raw_bandwidth": jnp.zeros(2), "times": nodes}
    start, x = rng.normal(size=(5, 2)), rng.normal(size=(4000, 2))
    # All particles move alike: everything does, at another speed after the second node.
    ways = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]])
    rigid = sf.Curve(jnp.asarray(start + ways[:, None], float), **shape)
    path = StitchedFlow(rigid, energy, units).transport(x, [1.0, 2.2, 5.0])
    np.testing.assert_allclose(path, x + 2.0 * ways[:, None], atol=1e-5)
    wild = sf.Curve(jnp.asarray(rng.normal(size=(3, 5, 2)), float), **shape)
    flow = StitchedFlow(wild, energy, units)
    there = flow.transport(x, [1.5, 4.0])[-1]
    assert np.abs(there - x).max() > 0.1
    np.testing.assert_allclose(flow.transport(there, [4.0, 1.5])[-1], x, rtol=2e-3, atol=2e-3)
    # It takes one fitted marginal to the other.
    carried = flow.transport(flow.sample([1.0], 4000)[0], [1.0, 5.0])[-1]
    expected = flow.sample([5.0], 4000, key=1)[0]
    np.testing.assert_allclose(carried.mean(axis=0), expected.mean(axis=0), atol=0.15)
    np.testing.assert_allclose(np.cov(carried.T), np.cov(expected.T), atol=0.4)
    with pytest.raises(ValueError, match="within the fitted 1 to 5, got 6"):
        flow.transport(x, [1.0, 6.0])


@pytest.mark.parametrize("ode", [False, True])
def test_weights_say_how_much_each_is_felt(ode):
    """Under W = r^2 / 2 everybody falls towards the weighted mean, at rate one."""
    pull = sf.Energy.known(sf.Interaction(lambda r: 0.5 * r**2), 1)
    x0, weights = np.array([[0.0], [1.0], [4.0]]), np.array([1.0, 2.0, 0.0])
    flow = DrivenFlow("truth", pull, sf.Snapshots.from_arrays([x0, x0], [0.0, 1.0]))
    for told, centre in ((weights, 2.0 / 3.0), (7.0 * weights, 2.0 / 3.0), (None, 5.0 / 3.0)):
        end = np.asarray(flow.simulate(x0, [0.0, 1.0], weights=told, ode=ode)[-1])
        np.testing.assert_allclose(end, centre + (x0 - centre) * np.exp(-1.0), atol=2e-3)
    for bad in ([1.0, 2.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights must"):
            flow.simulate(x0, [0.0, 1.0], weights=bad)


def test_every_bit_of_a_seed_counts_and_is_kept(tmp_path):
    """JAX alone drops the upper half of a seed: 2^32 would be 0."""
    seeds = [0, 1, 7, 2**32 - 1, 2**32, 2**32 + 1, 2**40 + 1, 2**63 - 1, -1, -(2**32)]
    keys = [np.asarray(jax.random.key_data(as_key(seed))).tobytes() for seed in seeds]
    assert len(set(keys)) == len(seeds)
    for seed in seeds[:4]:
        assert (
            jax.random.key_data(as_key(seed)) == jax.random.key_data(jax.random.key(seed))
        ).all()
    with jax.enable_x64(True):
        wide = [np.asarray(jax.random.key_data(as_key(seed))).tobytes() for seed in seeds]
    assert wide == keys
    clouds = np.random.default_rng(0).normal(size=(2, 60, 2))
    data = sf.Snapshots.from_arrays(list(clouds), [0.0, 1.0])
    fit = replace(sf.fit(data, sf.Nearest(), progress=False), seed=2**40 + 1)
    fit.save(tmp_path / "run")
    assert sf.load(tmp_path / "run").seed == 2**40 + 1
    draw = lambda seed: np.asarray(fit.flow.sample([0.0], 20, key=seed))
    assert not np.array_equal(draw(2**32), draw(0))
