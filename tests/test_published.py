"""The published method by name: its loss against the authors' numbers, and its parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import parity
import stitchflow as sf
from stitchflow._data.observations import Observations
from stitchflow._stitching.plan import Plan
from stitchflow._stitching.stages import STAGES, boxed_objective
from stitchflow._stitching.start import start_model
from stitchflow.bench._tasks import TASKS
from test_kde import parity_kde
from test_residual import trig


def parity_energy() -> sf.Energy:
    attraction = sf.Interaction(lambda r: -1.5 * jnp.exp(-(r**2)))
    return sf.Energy.known(sf.Potential(trig) + sf.Entropy(0.3, learn=False) + attraction, 3)


def parity_individuals() -> Observations:
    """The authors' points, each at a time of its own."""
    n = len(parity.TIMES)
    return Observations(
        jnp.asarray(parity.POINTS)[:, None, :],
        jnp.ones((n, 1)),
        jnp.ones(n, int),
        jnp.asarray(parity.TIMES),
        jnp.zeros((n, 1), jnp.int32),
        sf.Units.identity(3),
    )


def parity_plan(**residual) -> Plan:
    """`Stitching.paper` as the authors' code runs it: no leave-one-out score, one mean over all."""
    usual = {"alpha": 0.0, "weight": 1.0, "ridge": 0.0, "widening": 1.0, "leave_one_out": False}
    velocity = sf.VelocityResidual(sf.Trapezoid(), **usual | residual)
    method = sf.Stitching.paper(residual=velocity, divergence=sf.KL(pooled=True))
    x = np.random.default_rng(0).normal(size=(40, 3))
    return method.plan(sf.Snapshots.from_table(x, np.repeat([0.0, 3.0], 20)))


def test_parity_of_the_loss_with_the_authors(x64):
    curve, _ = parity_kde()
    args = parity_energy(), parity_individuals(), jax.random.key(0)
    total, parts = boxed_objective(parity_plan(), curve, *args)
    expected = parity.MEAN_NEGATIVE_LOG_DENSITY_OVER_ALL_POINTS
    assert float(parts["divergence"]) == pytest.approx(expected, rel=1e-10)
    trapezoid = parity.VELOCITY_RESIDUAL_CENTRES_TRAPEZOID
    assert float(parts["residual"]) == pytest.approx(trapezoid, rel=1e-10)
    assert float(total) == pytest.approx(expected + trapezoid, rel=1e-10)
    weighted, _ = boxed_objective(parity_plan(weight=0.05), curve, *args)
    assert float(weighted) == pytest.approx(expected + 0.05 * trapezoid, rel=1e-10)


def test_parity_of_the_gradient_with_the_authors(x64):
    curve, rho = parity_kde()
    x = jnp.asarray(parity.QUERIES)[None]
    cloud = curve.cloud(rho.centres[None], rho.log_weights[None])
    field = jax.tree.map(lambda part: part[None], rho.field(x[0]))
    got = parity_energy().gradient(x, jnp.array([1.7]), cloud, field)[0]
    expected = parity.GRADIENT_OF_FIRST_VARIATION_AT_QUERIES_T1_7
    np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("part", ["particles", "log_weights", "raw_bandwidth"])
def test_the_loss_trains_particles_weights_and_widths(x64, part):
    """Derivatives of the whole objective are slopes, also along the weights."""
    curve, _ = parity_kde()
    plan, energy, seen = parity_plan(), parity_energy(), parity_individuals()

    def loss(value):
        moved = type(curve)(**{name: getattr(curve, name) for name in ARRAYS} | {part: value})
        return boxed_objective(plan, moved, energy, seen, jax.random.key(0))[0]

    here = getattr(curve, part)
    way = jnp.asarray(np.random.default_rng(1).normal(size=here.shape))
    slope = (loss(here + 1e-5 * way) - loss(here - 1e-5 * way)) / 2e-5
    assert float((jax.grad(loss)(here) * way).sum()) == pytest.approx(float(slope), rel=1e-6)
    assert abs(float(slope)) > 1e-3


ARRAYS = ("particles", "log_weights", "raw_bandwidth", "times")


def test_weights_that_only_the_data_trains_get_nothing_from_the_residual(x64):
    curve, _ = parity_kde()
    residual = sf.VelocityResidual(sf.Trapezoid(), alpha=0.0, stations=50, ridge=0.0)

    def pull(weights, logits):
        moved = type(curve)(curve.particles, logits, curve.raw_bandwidth, curve.times)
        return residual(weights.shown(moved), parity_energy(), jax.random.key(0))

    pulls = {w: jax.grad(pull, 1)(w, curve.log_weights) for w in (DATA, JOINT)}
    assert float(jnp.abs(pulls[DATA]).max()) == 0.0
    assert float(jnp.abs(pulls[JOINT]).max()) > 0.1


DATA, JOINT = sf.DataWeights(), sf.JointWeights()


def walkers() -> sf.Snapshots:
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(60, 2)) * (1 + t) + [t, 0.0] for t in (0.0, 1.0, 3.0)]
    return sf.Snapshots.from_arrays(clouds, [2.0, 3.0, 5.0])


def test_a_fit_starts_as_the_paper_does():
    data, method = walkers(), sf.Stitching.paper(particles=30, nodes=7)
    plan = method.plan(data)
    curve, energy = start_model(plan, data, jax.random.key(0), jax.random.key(1))
    np.testing.assert_allclose(curve.times, np.linspace(0.0, 3.0, 7), atol=1e-6)
    # Particles pass through individuals at observed times, and move straight in between.
    at = lambda t: np.asarray(curve.centres(jnp.asarray(t)))
    seen = data.cloud(0)
    assert max(np.abs(seen - x).sum(axis=1).min() for x in at(0.0)) < 1e-5
    np.testing.assert_allclose(at(1.5), 0.5 * (at(1.0) + at(2.0)), atol=1e-5)
    widths = [np.asarray(sf.silverman(at(t))) for t in (0.0, 1.0, 3.0)]
    np.testing.assert_allclose(curve.bandwidth, np.mean(widths, axis=0), rtol=1e-5)
    assert float(energy.diffusion) == pytest.approx(0.03)
    assert energy.units == sf.Units((0.0, 0.0), start=2.0)
    assert energy.beta == pytest.approx(0.03)
    assert sf.UnitTime().units(data) == sf.Units((0.0, 0.0), 1.0, 2.0, 3.0)


def test_every_step_sees_all_intervals_and_everybody():
    plan = sf.Stitching.paper().plan(walkers())
    assert plan.residual.stations == plan.nodes == 50
    assert plan.batch == 180
    curve, _ = start_model(plan, walkers(), jax.random.key(0), jax.random.key(1))
    assert [s.name for s in STAGES if s.when(plan, curve, [])] == ["stitching"]
    rule = plan.optimiser
    assert (rule.learning_rate, rule.final, rule.clip, rule.last) == (5e-3, 0.05, None, True)


@pytest.mark.parametrize("name", ["stitching-paper", "stitching-paper-varying"])
def test_the_published_method_has_a_name_and_a_run(name, tmp_path):
    method = sf.METHODS[name]()
    few = sf.Stitching.paper(
        method.energy, particles=8, nodes=4, optimiser=sf.Optimiser(3, last=True)
    )
    assert few.name == method.name == name
    fit = sf.fit(walkers(), few, progress=False)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert again.method == fit.method
    assert again.method.name == name
    x = walkers().cloud(1)
    np.testing.assert_array_equal(again.energy.force(x, 3.0), fit.energy.force(x, 3.0))
    np.testing.assert_array_equal(again.flow.score(x, 3.0), fit.flow.score(x, 3.0))


def test_runs_of_tasks_have_the_settings_of_the_paper():
    paper = lambda task: TASKS[task].suit(sf.METHODS["stitching-paper"](), walkers())
    cells, ring, valley = paper("eb-full"), paper("cis"), paper("wavy-valley-code")
    assert (cells.particles, cells.nodes, cells.batch) == (100, 50, 256)
    assert (cells.optimiser.steps, cells.learn_weights) == (10_000, True)
    assert (ring.optimiser.steps, ring.learn_weights) == (1000, False)
    assert [t.network.last_layer for t in ring.energy.terms[:2]] == [0.0, 0.0]
    assert (valley.particles, valley.kernel, valley.residual.alpha) == (20, sf.FreeKernel(0.5), 0.5)
    many = paper("synthetic-flat-paired")
    assert (many.particles, many.optimiser.steps, many.learn_weights) == (1000, 2000, False)
    assert [type(term) for term in many.energy.terms] == [sf.Potential]
    (kernel,) = paper("chiral").energy.terms
    assert kernel.network == sf.PlainNetwork(0.01)
    ours = TASKS["cis"].suit(sf.Stitching(), walkers())
    assert ours.init == sf.SmoothStart()


def test_a_plain_network_sees_inputs_as_they_are():
    data = walkers()
    cloud, units = np.asarray(data.x), sf.Units.identity(2)
    kernel = sf.VectorKernel(network=sf.PlainNetwork(0.01)).init(cloud, units, jax.random.key(0))
    kernel = kernel.sized_for(100.0)
    at_zero = kernel.kernel(jnp.zeros((1, 2)))
    z, network = jnp.ones((1, 2)), kernel.function
    assert network is not None
    np.testing.assert_array_equal(kernel.kernel(z), network(z))
    assert at_zero.shape == (1, 2)
    zero = sf.Interaction(network=sf.PlainNetwork(0.0)).init(cloud, units, jax.random.key(0))
    assert float(jnp.abs(zero.interaction(jnp.linspace(0.0, 3.0, 5))).max()) == 0.0
    with pytest.raises(TypeError, match="network must be PlainNetwork"):
        sf.Potential(network=3)


def test_the_trapezoid_over_nodes_is_the_trapezoid_over_intervals(x64):
    from stitchflow._objective.intervals import Intervals

    curve, _ = parity_kde()
    residual = sf.VelocityResidual(sf.Trapezoid(), alpha=0.0, ridge=0.1)
    whole = residual.at_centres(curve, parity_energy())
    single = residual.at_centres(curve, parity_energy(), Intervals.of(curve))
    assert float(whole) == pytest.approx(float(single), rel=1e-12)
