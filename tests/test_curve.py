"""Curves and their starts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from stitchflow import Curve, Snapshots, Stitching
from stitchflow._energy.networks import MLP
from stitchflow._measure import coupling as _coupling
from stitchflow._measure.curve import hermite, inverse_softplus
from stitchflow._measure.matched_paths import through_snapshots
from stitchflow._measure.spacing import node_times
from stitchflow._objective.growth import GrowthRate
from stitchflow._stitching.start import start


def line() -> Curve:
    particles = jnp.asarray([[[0.0], [4.0]], [[1.0], [2.0]], [[3.0], [2.0]]])
    return Curve(particles, jnp.zeros(2), inverse_softplus(np.array(0.5)), (0.0, 1.0, 3.0))


def test_positions_and_velocities_between_nodes():
    curve = line()
    np.testing.assert_allclose(curve.centres(jnp.asarray(2.0)), [[2.0], [2.0]])
    np.testing.assert_allclose(curve.velocity(jnp.asarray(0.5)), [[1.0], [-2.0]])
    np.testing.assert_allclose(curve.velocity(jnp.asarray(1.0)), [[1.0], [0.0]])
    np.testing.assert_allclose(curve.centres(jnp.asarray(3.0)), [[3.0], [2.0]])
    assert float(curve.bandwidth) == pytest.approx(0.5)


def test_a_curve_goes_from_its_first_node_to_its_last():
    curve = line()
    assert (curve.t0, curve.t1) == (0.0, 3.0)
    np.testing.assert_array_equal(curve.centres(jnp.asarray(curve.t0)), curve.particles[0])
    # Speeds 1 and 2 over the first interval, 1 and 0 over the second, which is twice as long.
    assert curve.speed == pytest.approx(np.sqrt((1.0 * 2.5 + 2.0 * 0.5) / 3.0))


def growing() -> Curve:
    """The line, with a rate that is linear in place and time: along straight paths, in time."""
    rate = GrowthRate(MLP(2, (), 1, jax.random.key(0)))
    parts = jnp.asarray([[0.7], [0.25]]), jnp.asarray([-0.4])
    rate = eqx.tree_at(lambda g: (g.network.weights[0], g.network.biases[0]), rate, parts)
    curve = line()
    weights, times = jnp.asarray([0.3, -0.2]), curve.times
    return Curve(curve.particles, weights, curve.raw_bandwidth, times, growth=rate)


def test_log_weights_gain_the_integral_of_the_rate(x64):
    curve, grid = growing(), np.linspace(0.0, 3.0, 3001)
    paths = jnp.stack([curve.centres(jnp.asarray(t))[:, 0] for t in (0.0, 1.0, 3.0)])
    along = np.stack([np.interp(grid, curve.times, path) for path in np.asarray(paths).T], axis=1)
    rates = 0.7 * along + 0.25 * (2.0 * grid[:, None] - 1.0) - 0.4
    gained = cumulative_trapezoid(rates, grid, axis=0, initial=0.0)
    expected = np.asarray(curve.log_weights) + gained[[0, 1000, 3000]]
    np.testing.assert_allclose(curve.node_logits, expected, atol=1e-10)
    at_two = curve.logits(jnp.asarray(2.0))  # half-way between the last two
    np.testing.assert_allclose(at_two, expected[1:].mean(axis=0), atol=1e-10)
    cloud = curve.cloud(curve.particles, curve.node_logits)
    shares = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(cloud.weights, shares, atol=1e-10)


def test_a_cubic_is_its_own_hermite_polynomial():
    cubic = np.polynomial.Polynomial([0.3, -1.0, 2.0, 0.7])
    left, step, slope = 0.4, 1.5, cubic.deriv()
    ends = cubic(left), cubic(left + step), slope(left), slope(left + step)
    for share in (0.0, 0.3, 0.8, 1.0):
        place, velocity = hermite(share, step, *ends)
        assert place == pytest.approx(cubic(left + share * step))
        assert velocity == pytest.approx(slope(left + share * step))


@pytest.mark.parametrize("part", ["particles", "weights", "bandwidth"])
def test_each_part_can_be_frozen(part):
    curve = line()
    frozen = Curve(
        curve.particles,
        curve.log_weights,
        curve.raw_bandwidth,
        curve.times,
        **{f"learn_{part}": False},
    )
    grads = jax.grad(lambda c: c.at(jnp.asarray(0.3)).log_density(jnp.ones((1, 1))).sum())(frozen)
    names = {"particles": "particles", "weights": "log_weights", "bandwidth": "raw_bandwidth"}
    for name, field in names.items():
        assert (jnp.abs(getattr(grads, field)).max() == 0) == (name == part)


def test_nodes_fall_on_observations_where_they_fit():
    observed = np.array([0.0, 0.1, 1.0])
    nodes = node_times(observed, 11)
    assert set(observed) <= set(nodes)
    assert (np.diff(nodes) > 0).all()
    assert len(node_times(np.linspace(0, 1, 200), 50)) == 50


def test_fast_gaps_get_more_nodes():
    """Shares of time and of action, half and half: 5/8 and 3/8 of 40 intervals."""
    nodes = node_times(np.array([0.0, 1.0, 2.0]), 41, np.array([6.0, 2.0]))
    assert len(nodes) == 41
    assert (nodes < 1.0).sum() == 25
    many = node_times(np.linspace(0.0, 2.0, 101), 41, np.repeat([6.0, 2.0], 50))
    assert len(many) == 41
    assert (many < 1.0 - 1e-9).sum() == 25


def test_a_gap_too_short_for_float32_stays_one_interval():
    observed = np.array([0.0, 0.5, 0.5 + 5e-7, 1.0])
    nodes = node_times(observed, 41, np.array([0.0, 1.0, 0.0]))
    assert ((nodes >= observed[1]) & (nodes <= observed[2])).sum() == 2


def test_bandwidths_stay_between_their_bounds():
    width = lambda raw: float(
        Curve(
            jnp.zeros((2, 1, 1)),
            jnp.zeros(1),
            jnp.asarray(raw),
            (0.0, 1.0),
            jnp.asarray(0.2),
            jnp.asarray(0.5),
        ).bandwidth
    )
    assert 0.19 < width(-20.0) < 0.2
    assert 0.49 < width(50.0) <= 0.5
    assert width(0.0) < width(0.5)


def test_starts_go_through_the_snapshots():
    rng = np.random.default_rng(0)
    chain = rng.normal(size=(3, 5, 2))
    observed = np.array([0.0, 0.2, 1.0])
    nodes = node_times(observed, 21)
    path = through_snapshots(chain, observed, nodes)
    for k, t in enumerate(observed):
        np.testing.assert_allclose(path[np.flatnonzero(nodes == t)[0]], chain[k], atol=1e-12)


def test_starts_bend_like_smooth_paths_but_never_far():
    observed = np.linspace(0.0, 1.0, 9)
    turn = lambda t: np.stack([np.cos(3.0 * t), np.sin(3.0 * t)], axis=-1)[:, None, :]
    nodes = np.linspace(0.0, 1.0, 65)
    path = through_snapshots(turn(observed), observed, nodes)
    chords = np.abs(turn(nodes) - through_snapshots(turn(observed[::8]), observed[::8], nodes))
    assert np.abs(path - turn(nodes)).max() < 0.01 < chords.max()
    # Two snapshots are joined by straight lines; jitter over a short gap is not flung far.
    line = through_snapshots(turn(observed[:2]), observed[:2], observed[:1] + 0.0625)
    np.testing.assert_allclose(line[0], turn(observed[:2]).mean(axis=0), atol=1e-12)
    jitter = np.array([0.0, 0.1, 0.2])[:, None, None]
    flung = through_snapshots(jitter, np.array([0.0, 1e-4, 1.0]), np.linspace(1e-4, 1.0, 20))
    assert flung.max() < 0.2 + 0.051


def test_assignment_is_optimal_and_blocks_stay_permutations(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 1.0
    cost = cdist(x, y, "sqeuclidean")
    best = cost[linear_sum_assignment(cost)].sum()
    got = _coupling.assignment(x, y, rng)
    assert cost[np.arange(60), got].sum() == pytest.approx(best)
    monkeypatch.setattr(_coupling.defaults, "EXACT_ASSIGNMENT", 16)
    monkeypatch.setattr(_coupling.defaults, "ASSIGNMENT_BLOCK", 16)
    blocks = _coupling.assignment(x, y, rng)
    assert sorted(blocks) == list(range(60))
    assert cost[np.arange(60), blocks].sum() < cost[np.arange(60), rng.permutation(60)].sum()


def test_draws_follow_weights_evenly():
    rng = np.random.default_rng(0)
    assert np.bincount(_coupling.draw(np.ones(10), 30, rng)).tolist() == [3] * 10
    assert len(np.unique(_coupling.draw(np.ones(50), 20, rng))) == 20
    counts = np.bincount(_coupling.draw(np.array([3.0, 1.0, 0.0]), 400, rng), minlength=3)
    assert counts.tolist() == [300, 100, 0]


@pytest.mark.parametrize("n", [5, 40])
def test_any_number_of_particles_starts(n):
    rng = np.random.default_rng(0)
    data = Snapshots.from_arrays([rng.normal(size=(m, 2)) for m in (10, 25, 7)], [0, 1, 5])
    curve = start(Stitching(particles=n, nodes=12), data, 0, data.units)
    assert curve.particles.shape[1:] == (n, 2)
    assert len(np.unique(np.asarray(curve.particles[0]), axis=0)) == n


def test_paired_data_starts_on_its_own_paths():
    paths = np.random.default_rng(0).normal(size=(3, 8, 2))
    data = Snapshots.from_arrays(list(paths), [0, 1, 2], paired=True)
    curve = start(Stitching(particles=8, nodes=9), data, 0, data.units)
    ends = np.asarray(data.units.space_out(curve.particles))[[0, -1]]
    for path in paths.transpose(1, 0, 2):
        k = np.abs(ends[0] - path[0]).sum(1).argmin()
        np.testing.assert_allclose(ends[1, k], path[2], atol=1e-5)


def test_bad_curves_are_named():
    with pytest.raises(ValueError, match="node times must increase"):
        Curve(jnp.zeros((2, 1, 1)), jnp.zeros(1), jnp.zeros(()), (1.0, 0.0))
    for weights, width in ((jnp.zeros(2), jnp.zeros(())), (jnp.zeros(1), jnp.zeros(3))):
        with pytest.raises(ValueError, match="1 particles in 2 dimensions do not go with"):
            Curve(jnp.zeros((2, 1, 2)), weights, width, (0.0, 1.0))
    with pytest.raises(ValueError, match="two or more, got 1"):
        Curve(jnp.zeros((1, 1, 1)), jnp.zeros(1), jnp.zeros(()), (1.0,))
