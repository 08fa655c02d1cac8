"""The velocity residual: the authors' numbers, exact flows, orders of accuracy, unbiasedness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import parity
from stitchflow import (
    Backward,
    Curve,
    DensityResidual,
    DissipationResidual,
    Energy,
    Entropy,
    Forward,
    Interaction,
    Midpoint,
    Potential,
    Snapshots,
    Stitching,
    Trapezoid,
    VectorKernel,
    VelocityResidual,
)
from stitchflow._judging.on_curve import draw_from
from stitchflow._measure import kde as kde_module
from stitchflow._measure.curve import inverse_softplus
from stitchflow._objective.intervals import Intervals
from test_curve import growing
from test_kde import parity_kde
from test_spline import cubic_curve

SCHEMES = {
    "forward": Forward(),
    "backward": Backward(),
    "midpoint": Midpoint(),
    "trapezoid": Trapezoid(),
}
ORDERS = {"forward": 1, "backward": 1, "midpoint": 2, "trapezoid": 2}


def trig(x):
    return jnp.sin(x).sum() + 0.1 * (x**4).sum()


@pytest.mark.parametrize("make", [growing, cubic_curve])
def test_intervals_are_the_curve_between_its_nodes(x64, make):
    curve = make()
    intervals = Intervals.of(curve)
    np.testing.assert_allclose(intervals.duration, np.diff(curve.times))
    for share in (0.0, 0.3, 0.5):
        times, centres, logits = intervals.at(share)
        for k, t in enumerate(curve.times[:-1]):
            at = jnp.asarray(t + share * np.diff(curve.times)[k])
            assert float(times[k]) == pytest.approx(float(at))
            np.testing.assert_allclose(centres[k], curve.centres(at), atol=1e-12)
            np.testing.assert_allclose(logits[k], curve.logits(at), atol=1e-12)
            np.testing.assert_allclose(
                intervals.velocities(share)[k], curve.velocity(at), atol=1e-12
            )
    np.testing.assert_allclose(intervals.weights, jax.nn.softmax(intervals.at(0.5)[2], axis=1))


@pytest.mark.parametrize("kind", [VelocityResidual, DensityResidual])
def test_alpha_mixes_centres_and_draws(x64, kind):
    curve, energy, key = ou_curve(4, 1.7, 0.5, True), ou_energy(1.2, 0.4), jax.random.key(0)
    residual, draw = kind(alpha=0.3), jax.random.split(key)[1]
    expected = 0.7 * residual.at_centres(curve, energy)
    expected += 0.3 * residual.monte_carlo(curve, energy, draw)
    assert float(residual(curve, energy, key)) == pytest.approx(float(expected), rel=1e-10)
    drawn = kind(alpha=1.0)(curve, energy, key)
    assert float(kind()(curve, energy, key)) == float(drawn)


def test_a_residual_widens_kernels_as_much_alone_as_in_a_fit(x64):
    curve, energy, key = ou_curve(4, 1.7, 0.5, True), ou_energy(1.2, 0.4), jax.random.key(0)
    clouds = [np.random.default_rng(k).normal(size=(9, 1)) for k in (0, 1)]
    in_a_fit = Stitching().resolved(Snapshots.from_arrays(clouds, [0.0, 1.0])).residual
    assert in_a_fit.widening == VelocityResidual().widening == 1.5
    alone = float(VelocityResidual()(curve, energy, key))
    assert alone == float(VelocityResidual(widening=1.5)(curve, energy, key))
    assert alone != float(VelocityResidual(widening=1.0)(curve, energy, key))


def test_residuals_add_with_their_weights(x64):
    curve, energy = ou_curve(4, 1.7, 0.5, True), ou_energy(1.2, 0.4)
    one = VelocityResidual(alpha=0.0, weight=2.0)
    other = VelocityResidual(alpha=0.0, weight=0.5, kinetic=2.0)
    expected = 2.0 * one.at_centres(curve, energy) + 0.5 * other.at_centres(curve, energy)
    assert float((one + other)(curve, energy, jax.random.key(0))) == pytest.approx(float(expected))


def test_settings_are_no_parameters():
    given = {"alpha": 0.5, "weight": 1.0, "stations": 3, "ridge": 0.1, "draws": 5, "widening": 1.0}
    for kind in (VelocityResidual, DensityResidual):
        assert not jax.tree.leaves(kind(**given))


@pytest.mark.parametrize("name", SCHEMES)
def test_parity_of_the_boxed_objective(x64, name):
    curve, _ = parity_kde()
    energy = Energy.known(
        Potential(trig)
        + Entropy(0.3, learn=False)
        + Interaction(lambda r: -1.5 * jnp.exp(-(r**2))),
        3,
    )
    got = VelocityResidual(SCHEMES[name], leave_one_out=False).at_centres(curve, energy)
    expected = getattr(parity, f"VELOCITY_RESIDUAL_CENTRES_{name.upper()}")
    assert float(got) == pytest.approx(expected, rel=1e-10)


def ou_curve(k: int, rate: float, h: float, uneven: bool) -> Curve:
    """The exact mean of an Ornstein-Uhlenbeck flow at k nodes, as one Gaussian of fixed width."""
    u = np.linspace(0.0, 1.0, k)
    times = u + (0.3 * np.sin(np.pi * u) ** 2 / np.pi if uneven else 0.0)
    mean = np.exp(-rate * times)[:, None, None] * np.array([[[1.0, -2.0]]])
    return Curve(
        jnp.asarray(mean), jnp.zeros(1), inverse_softplus(np.array(h)), tuple(times.tolist())
    )


def ou_energy(rate: float, beta: float) -> Energy:
    return Energy.known(
        Potential(lambda x: 0.5 * rate * (x**2).sum()) + Entropy(beta, learn=False), 2
    )


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("name", SCHEMES)
def test_the_exact_ou_flow_has_no_residual_to_the_order_of_the_scheme(x64, name, alpha, uneven):
    """N(m(t), beta/rate) solves the flow; R falls as h^(2 p) for a scheme of order p."""
    rate, beta = 1.7, 0.4
    residual = VelocityResidual(SCHEMES[name], alpha=alpha, stations=1000, widening=1.0)
    energy = ou_energy(rate, beta)
    at = jax.jit(lambda curve: residual(curve, energy, jax.random.key(0)))
    h = np.sqrt(beta / rate)
    values = [float(at(ou_curve(k, rate, h, uneven))) for k in (21, 41, 81)]
    slopes = np.log2(np.array(values[:-1]) / np.array(values[1:]))
    np.testing.assert_allclose(slopes, 2 * ORDERS[name], atol=0.25)


def test_another_energy_has_a_residual(x64):
    curve = ou_curve(41, 1.7, 0.5, False)
    good = VelocityResidual().at_centres(curve, ou_energy(1.7, 0.4))
    bad = VelocityResidual().at_centres(curve, ou_energy(1.2, 0.4))
    exact = 0.25 * 5.0 * (1.0 - np.exp(-3.4)) / 3.4  # int |(rate' - rate) m|^2 dt
    assert float(good) < 1e-3 * float(bad)
    assert float(bad) == pytest.approx(exact, rel=0.05)


def test_random_intervals_at_the_centres_are_unbiased(x64):
    curve, energy = ou_curve(25, 1.7, 0.5, True), ou_energy(1.2, 0.4)
    residual = VelocityResidual(alpha=0.0, stations=4)
    draws = jax.vmap(lambda k: residual(curve, energy, k))(jax.random.split(jax.random.key(0), 400))
    error = 4.0 * float(draws.std()) / 20.0
    assert float(draws.mean()) == pytest.approx(
        float(residual.at_centres(curve, energy)), abs=error
    )


def test_a_ridge_shrinks_the_force_by_its_share(x64):
    """Of |v + s g|^2 + ridge |s g|^2 with v = -g everywhere, the best s is 1 / (1 + ridge)."""
    curve = ou_curve(41, 1.7, 0.5, False)
    bowl = Energy.known(Potential(lambda x: 0.5 * 1.7 * (x**2).sum()), 2)

    def total(scale: float) -> float:
        residual = VelocityResidual(kinetic=float(1.0 / scale), ridge=0.5)
        return float(residual.at_centres(curve, bowl))

    scales = np.array([0.5, 2.0 / 3.0, 0.9])
    values = [total(scale) for scale in scales]
    assert values[1] < values[0]
    assert values[1] < values[2]
    parabola = np.polyfit(scales, values, 2)
    assert -parabola[1] / (2 * parabola[0]) == pytest.approx(2.0 / 3.0, rel=1e-3)


def small_problem(n: int = 6):
    rng = np.random.default_rng(0)
    curve = Curve(
        jnp.asarray(rng.normal(size=(5, n, 2))),
        jnp.asarray(rng.normal(size=n)),
        inverse_softplus(0.3 + rng.uniform(size=(n, 2))),
        (0.0, 0.1, 0.4, 0.6, 1.0),
    )
    energy = (
        Potential(hidden=(8, 8), time_varying=True)
        + Entropy(0.2)
        + Interaction(hidden=(8,))
        + Interaction(hidden=(8,), radial=False)
        + VectorKernel(hidden=(8,))
    )
    from stitchflow._data.units import Units

    return curve, energy.init(rng.normal(size=(20, 2)), Units.identity(2), jax.random.key(1))


@pytest.mark.parametrize(
    "name",
    [n if n == "trapezoid" else pytest.param(n, marks=pytest.mark.full) for n in SCHEMES],
)
def test_gradients_of_every_term_and_scheme_are_slopes(x64, name):
    """Of each array of the model: the slope along a random direction, by central differences."""
    residual = VelocityResidual(SCHEMES[name], alpha=0.5)
    step = jax.jit(jax.value_and_grad(lambda m: residual(*m, jax.random.key(0))))
    model, rng, h = small_problem(), np.random.default_rng(0), 1e-5
    named, shape = jax.tree_util.tree_flatten_with_path(model)
    leaves, grads = [leaf for _, leaf in named], jax.tree.leaves(step(model)[1])
    for i, (path, leaf) in enumerate(named):
        name = jax.tree_util.keystr(path)
        if name.endswith(("least_bandwidth", "most_bandwidth", "scale")):
            continue  # bounds and sizes are not learned
        way = rng.normal(size=leaf.shape)
        at = lambda size, i=i, way=way: float(
            step(shape.unflatten([*leaves[:i], leaves[i] + size * way, *leaves[i + 1 :]]))[0]
        )
        slope = float((np.asarray(grads[i]) * way).sum())
        assert (at(h) - at(-h)) / (2.0 * h) == pytest.approx(slope, rel=1e-4, abs=1e-6), name


@pytest.mark.full
def test_stations_in_blocks_change_nothing(x64, monkeypatch):
    model = small_problem()
    loss = lambda m: VelocityResidual(Trapezoid(), alpha=0.5)(*m, jax.random.key(0))
    run = lambda: jax.jit(jax.value_and_grad(loss))(model)
    whole = run()
    monkeypatch.setattr(kde_module, "PAIR_BUDGET", 80)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(run()), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.full
def test_monte_carlo_is_unbiased(x64):
    """Its mean is the integral of |v + grad V|^2 under the density, here by quadrature."""
    curve = Curve(
        jnp.asarray([[[-1.0], [0.5]], [[0.0], [1.5]]]),
        jnp.asarray([0.2, -0.2]),
        inverse_softplus(np.array([0.6])),
        (0.0, 0.8),
    )
    energy = Energy.known(Potential(lambda x: jnp.cos(2.0 * x).sum()), 1)
    estimate = jax.jit(lambda k: VelocityResidual(alpha=1.0, widening=1.0)(curve, energy, k))
    estimates = jax.vmap(estimate)(jax.random.split(jax.random.key(0), 20_000))
    grid = jnp.linspace(-6.0, 7.0, 4001)[:, None]
    rho = curve.at(jnp.asarray(0.4))
    field = rho.field(grid, curve.velocity(jnp.asarray(0.4)))
    gap = field.velocity[:, 0] - 2.0 * jnp.sin(2.0 * grid[:, 0])
    exact = 0.8 * jnp.trapezoid(gap**2 * jnp.exp(field.log_density), grid[:, 0])
    error = 4.0 * float(estimates.std()) / np.sqrt(20_000)
    assert float(estimates.mean()) == pytest.approx(float(exact), abs=error)


@pytest.mark.full
def test_random_intervals_are_unbiased(x64):
    """The mean over draws of three intervals out of four is that of all four."""
    curve, energy = small_problem()
    mean = lambda stations: jax.jit(
        lambda keys: jax.vmap(
            lambda k: VelocityResidual(alpha=1.0, stations=stations)(curve, energy, k)
        )(keys)
    )(jax.random.split(jax.random.key(0), 4000))
    some, every = mean(3), mean(4)
    error = 4.0 * float(jnp.hypot(some.std(), every.std())) / np.sqrt(4000)
    assert float(some.mean()) == pytest.approx(float(every.mean()), abs=error)


def test_kinetic_divides_the_energy(x64):
    curve, energy = ou_curve(41, 1.0, 0.5, False), ou_energy(2.0, 0.5)
    assert float(VelocityResidual(alpha=0.0, kinetic=2.0)(curve, energy, jax.random.key(0))) < 1e-6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"scheme": "trapezoid"}, "scheme must be one such as Trapezoid"),
        ({"alpha": 1.5}, r"alpha must be in \[0, 1\], got 1.5"),
        ({"weight": -1.0}, "weight must be in"),
        ({"kinetic": 0.0}, "kinetic must be in"),
    ],
)
def test_bad_settings_are_named(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        VelocityResidual(**settings)


PAIRS = {
    "radial": Interaction(lambda r: 0.5 * r**2),
    "displacement": Interaction(lambda z: 0.5 * (z**2).sum(), radial=False),
    "kernel": VectorKernel(lambda z: -z),
}


def standing(places: list[float], nodes: int) -> Curve:
    """Particles on a line that stay where they are for one unit of time, with kernels of width 1"""
    x = np.broadcast_to(np.array(places)[None, :, None], (nodes, len(places), 1))
    width, times = inverse_softplus(np.array(1.0)), np.linspace(0.0, 1.0, nodes)
    return Curve(jnp.asarray(x), jnp.zeros(len(places)), width, tuple(times.tolist()))


@pytest.mark.parametrize("name", PAIRS)
def test_a_draw_does_not_feel_the_particle_it_was_drawn_around(x64, name):
    """Of two at -1 and 1 each feels the other's half: E |(x - c) / 2|^2 = (4 + h^2) / 4, not 2."""
    curve, energy = standing([-1.0, 1.0], 4001), Energy.known(PAIRS[name], 1)
    got = VelocityResidual(widening=1.0).monte_carlo(curve, energy, jax.random.key(0))
    assert float(got) == pytest.approx(1.25, rel=0.05)
    some = VelocityResidual(draws=1, widening=1.0).monte_carlo(curve, energy, jax.random.key(0))
    assert float(some) == pytest.approx(1.25, rel=0.05)
    field = draw_from(standing([-1.0, 1.0], 3), energy, jax.random.key(0))
    other = np.array([1.0, -1.0])[None, :, None]
    np.testing.assert_allclose(field.gradient, 0.5 * (np.asarray(field.x) - other), atol=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("kind", [VelocityResidual, DensityResidual, DissipationResidual])
def test_one_particle_alone_feels_nobody(x64, kind, name):
    curve, energy = standing([0.3], 5), Energy.known(PAIRS[name], 1)
    assert float(kind().monte_carlo(curve, energy, jax.random.key(0))) == 0.0
