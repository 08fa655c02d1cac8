"""The weak residual and the action: exact flows, known sizes, Ito's formula, the gauge."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import norm

import stitchflow as sf
from stitchflow import (
    Curve,
    Energy,
    Entropy,
    Forward,
    Interaction,
    Potential,
    Trapezoid,
    VectorField,
    VectorKernel,
    VelocityResidual,
    WeakResidual,
)
from stitchflow._data.units import Units
from stitchflow._measure.curve import inverse_softplus
from stitchflow._objective.waves import Waves
from stitchflow._objective.weak_action import action
from test_residual import small_problem

RATE, BETA, START = 1.7, 0.4, 1.5  # of an Ornstein-Uhlenbeck flow, and its first variance


def moments(t):
    """Mean and variance of the flow from N(1, 1.5)."""
    rest = BETA / RATE
    return np.exp(-RATE * t), rest + (START - rest) * np.exp(-2.0 * RATE * t)


def ou_energy(rate=RATE, beta=BETA, dim=1):
    bowl = Potential(lambda x: 0.5 * rate * (x**2).sum())
    return Energy.known(bowl + Entropy(beta, learn=False), dim)


def bowl_with(rate, beta) -> Energy:
    """The same with numbers that may be traced."""
    entropy = ou_energy().terms[1]
    noise = eqx.tree_at(lambda e: e.coefficient.raw, entropy, inverse_softplus(beta))
    bowl = Energy.known(Potential(lambda x: 0.5 * rate * (x**2).sum()), 1)
    return Energy((*bowl.terms, noise), bowl.units)


def ou_curve(k: int, h: float = 0.3, blurred: bool = True, n: int = 40) -> Curve:
    """The exact normal marginals: kernels around the nodes of Gauss's quadrature."""
    times = np.linspace(0.0, 1.0, k)
    mean, variance = moments(times)
    z, w = hermegauss(n)
    spread = np.sqrt(variance - (h**2 if blurred else 0.0))
    x = mean[:, None, None] + spread[:, None, None] * z[None, :, None]
    logs = jnp.asarray(np.log(w))
    return Curve(jnp.asarray(x), logs, inverse_softplus(np.array(h)), tuple(times.tolist()))


def of_beta(k: int) -> float:
    """The velocity residual of twice the beta: the integral of beta^2 E|score|^2."""
    times = np.linspace(0.0, 1.0, k)
    return float(np.trapezoid(BETA**2 / moments(times)[1], times))


@pytest.mark.parametrize("own", [False, True])
def test_averages_over_kernels_are_integrals(x64, own):
    """Against quadrature of the tests and of their derivatives by autodiff."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(5, 2)), rng.dirichlet(np.ones(5))
    h = 0.3 + rng.uniform(size=(5 if own else 1, 2))
    waves = Waves.around(jnp.asarray(x), jnp.asarray(w), jnp.asarray(h**2), 7)
    z, q = hermegauss(40)
    z, q = np.stack(np.meshgrid(z, z), -1).reshape(-1, 2), np.outer(q, q).ravel() / (2.0 * np.pi)
    points = jnp.asarray((x[:, None] + h[:, None] * z[None]).reshape(-1, 2))
    shares = jnp.asarray(np.outer(w, q).ravel())
    test = lambda y: jnp.cos((y - waves.centre) @ waves.frequencies + waves.phases)
    slopes = jax.vmap(jax.jacfwd(test))(points)
    bends = jnp.trace(jax.vmap(jax.hessian(test))(points), axis1=2, axis2=3)
    kernels = (jnp.asarray(x), jnp.asarray(w), jnp.asarray(h**2))
    exact = jnp.einsum("p,pad,pbd->ab", shares, slopes, slopes)
    np.testing.assert_allclose(waves.metric(*kernels), exact, atol=1e-10)
    np.testing.assert_allclose(waves.laplacian(*kernels), shares @ bends, atol=1e-10)
    shift, mean = jnp.asarray([[0.2, -0.1]]), lambda y: shares @ jax.vmap(test)(y)
    grown = waves.change(kernels[0], kernels[0] + shift, *kernels[1:])
    np.testing.assert_allclose(grown, mean(points + shift) - mean(points), atol=1e-10)
    field = jnp.cos(points[:, ::-1])
    exact = jnp.einsum("p,pad,pd->a", shares, slopes, field)
    np.testing.assert_allclose(waves.along(points, field, shares), exact, atol=1e-10)


def test_the_exact_flow_has_no_residual_and_a_wrong_beta_one_of_known_size(x64):
    at = jax.jit(lambda curve, beta: WeakResidual().at_centres(curve, bowl_with(RATE, beta)))
    sizes = []
    for k in (11, 21, 41):
        curve = ou_curve(k, blurred=False)
        sizes.append(float(at(curve, BETA)))
        assert sizes[-1] < 1e-3 * of_beta(k)
        assert float(at(curve, 2.0 * BETA)) == pytest.approx(of_beta(k), rel=0.02)
        assert float(at(curve, 0.5 * BETA)) == pytest.approx(0.25 * of_beta(k), rel=0.02)
    np.testing.assert_allclose(np.log2(np.divide(sizes[:-1], sizes[1:])), 4.0, atol=0.2)


def test_averages_over_the_kernels_are_unbiased_and_so_is_their_square(x64):
    """The same sizes by draws, whose noise would add about as much to a plain square."""
    curve, residual = ou_curve(9), WeakResidual(stations=100)
    keys = jax.random.split(jax.random.key(0), 600)
    for beta, size in ((BETA, 0.0), (2.0 * BETA, of_beta(9))):
        energy = ou_energy(beta=beta)
        found = jax.jit(jax.vmap(lambda key, e=energy: residual(curve, e, key)))(keys)
        error = float(found.std()) / 600**0.5
        assert error < 0.05 * of_beta(9)
        assert float(found.mean()) == pytest.approx(size, abs=4.0 * error)


def test_it_is_the_velocity_residual_where_tests_describe_the_error(x64):
    """A wrong rate errs by a linear field, which tests describe; a fast wave they do not."""
    both = lambda curve, V: [
        kind().at_centres(curve, Energy.known(Potential(V), 1))
        for kind in (WeakResidual, VelocityResidual)
    ]
    curve = ou_curve(21, blurred=False)
    weak, full = jax.jit(lambda: both(curve, lambda x: 1.25 * (x**2).sum()))()
    assert float(weak) == pytest.approx(float(full), rel=0.01)
    x = jnp.asarray(np.stack([quantiles(400, 2)[0][0]] * 2))
    rest = Curve(x, jnp.zeros(400), jnp.zeros(()), (0.0, 1.0))
    weak, full = jax.jit(lambda: both(rest, lambda x: jnp.cos(30.0 * x).sum()))()
    assert float(weak) < 0.02 * float(full)


def quantiles(n: int, k: int) -> tuple[list[np.ndarray], list[float]]:
    """Clouds with the normal marginals of the flow, almost without sampling noise."""
    z, times = norm.ppf((np.arange(n) + 0.5) / n), np.linspace(0.0, 1.0, k)
    mean, variance = moments(times)
    return [
        (m + np.sqrt(v) * z)[:, None] for m, v in zip(mean, variance, strict=True)
    ], times.tolist()


def test_observed_clouds_need_no_curve(x64):
    residual, (clouds, times) = WeakResidual(Trapezoid()), quantiles(2000, 21)
    at = jax.jit(lambda beta: residual.on_clouds(clouds, times, bowl_with(RATE, beta)))
    assert float(at(BETA)) < 2e-3 * of_beta(21)
    assert float(at(2.0 * BETA)) == pytest.approx(of_beta(21), rel=0.03)
    # Snapshots may be of any size.
    clouds[3::2] = quantiles(1500, 21)[0][3::2]
    assert float(residual.on_clouds(clouds, times, ou_energy())) < 4e-3 * of_beta(21)


def walk(n: int, gaps: int, dt: float, force, beta: float, dim: int = 1, seed: int = 0):
    """Individuals followed by Euler's steps, as clouds and times."""
    rng = np.random.default_rng(seed)
    x = [rng.normal(size=(n, dim))]
    for _ in range(gaps):
        x.append(x[-1] + dt * force(x[-1]) + np.sqrt(2.0 * beta * dt) * rng.normal(size=(n, dim)))
    return x, (dt * np.arange(gaps + 1)).tolist()


def test_followed_individuals_add_their_noise(x64):
    """2 beta / n for each gap and each of two independent tests: a coordinate and its square."""
    clouds, times = walk(200, 150, 1e-3, lambda x: -RATE * x, BETA)
    found = WeakResidual(Forward(), tests=0).on_clouds(clouds, times, ou_energy())
    assert float(found) == pytest.approx(2.0 * BETA / 200 * 2 * 150, rel=0.3)


def test_the_units_of_the_energy_change_nothing(x64):
    clouds, times = quantiles(200, 6)
    terms = Potential(lambda x: 0.5 * (x**2).sum()) + Entropy(BETA) + Interaction(lambda r: r**2)
    units = Units((0.7,), 3.0, -1.0, 5.0)
    plain, scaled = Energy.known(terms, 1), terms.init(np.eye(2, 1), units, jax.random.key(0))
    for measured in (action, WeakResidual(Trapezoid()).on_clouds):
        one, other = (float(measured(clouds, times, energy)) for energy in (plain, scaled))
        assert one == pytest.approx(other, rel=1e-6)


def test_the_action_of_an_exact_flow_is_its_closed_form(x64):
    r"""$E V = a(t)(m^2 + \sigma^2)/2$ for $V = a(t)\,x^2/2$, and the best a is the true one."""
    clouds, times = quantiles(4000, 101)
    mean, variance = moments(np.asarray(times))
    square = mean**2 + variance

    def exact(a, slope):
        rates = 0.5 * a**2 * square - 0.5 * slope * square - BETA * a
        return 0.5 * (a[-1] * square[-1] - a[0] * square[0]) + np.trapezoid(rates, times)

    for a in (1.2, 1.7):
        found = float(action(clouds, times, ou_energy(rate=a)))
        assert found == pytest.approx(exact(np.full(101, a), np.zeros(101)), rel=2e-3)
    rising = Potential(lambda x, t: 0.5 * (1.0 + 2.0 * t**2) * (x**2).sum())
    found = action(clouds, times, Energy.known(rising + Entropy(BETA, learn=False), 1))
    t = np.asarray(times)
    assert float(found) == pytest.approx(exact(1.0 + 2.0 * t**2, 4.0 * t), rel=2e-3)
    rates = (1.0, 1.5, 2.0)
    parabola = np.polyfit(rates, [float(action(clouds, times, ou_energy(a))) for a in rates], 2)
    assert -parabola[1] / (2.0 * parabola[0]) == pytest.approx(RATE, rel=2e-3)


def tracked(x, dt, slope):
    """The likelihood of paths x (k, n, 1): squared steps beyond the drift, times beta."""
    gone = jnp.diff(x, axis=0) + dt * jax.vmap(slope)(x[:-1])
    return (gone**2).sum(axis=(0, 2)).mean() / (2.0 * dt)


def test_on_labelled_paths_the_action_is_their_likelihood(x64):
    r"""Ito: $V(x') - V(x) = V'\Delta x + V''\Delta x^2/2$, exactly for $V = c_0 x + c_1 x^2$."""
    clouds, times = walk(50, 300, 1e-2, lambda x: -RATE * x, BETA)
    x, dt = np.stack(clouds), times[1]
    excess = (np.diff(x, axis=0) ** 2).mean(axis=(1, 2)).sum() - 2.0 * BETA * times[-1]
    still = float(tracked(x, dt, jnp.zeros_like))

    def by_action(c0, c1):
        V = Potential(lambda y: c0 * y.sum() + c1 * (y**2).sum())
        return action(clouds, times, Energy.known(V + Entropy(BETA, learn=False), 1), Forward())

    for c0, c1 in ((0.3, 0.0), (-0.2, 0.9)):
        likely = float(tracked(x, dt, lambda y, a=c0, b=c1: a + 2.0 * b * y))
        expected = likely - still + c1 * excess
        assert float(by_action(c0, c1)) == pytest.approx(expected, abs=1e-9)


def test_on_labelled_paths_it_finds_what_the_likelihood_finds(x64):
    """One minimum over a linear V and W, far closer than either is to the truth."""
    pull = lambda z: z * jnp.exp(-(z**2))  # W' of W = -exp(-r^2) / 2
    pulled = lambda y: pull(y - y.T).mean(axis=1, keepdims=True)
    force = jax.jit(lambda y: -y - 1.2 * pulled(y))
    clouds, times = walk(100, 1000, 2e-3, lambda y: np.asarray(force(y)), BETA)
    x, dt, true = np.stack(clouds), times[1], np.array([0.0, 0.5, 0.6])

    def by_paths(c):
        return tracked(x, dt, lambda y: c[0] + 2.0 * c[1] * y + 2.0 * c[2] * pulled(y))

    def by_action(c):
        V = Potential(lambda y: c[0] * y.sum() + c[1] * (y**2).sum())
        W = Interaction(lambda r: -c[2] * jnp.exp(-(r**2)))
        return action(clouds, times, Energy.known(V + W + Entropy(BETA, learn=False), 1), Forward())

    zero = jnp.zeros(3)
    bend, other = (np.asarray(jax.jit(jax.hessian(f))(zero)) for f in (by_paths, by_action))
    np.testing.assert_allclose(bend, other, rtol=1e-6, atol=1e-9)
    minimum = lambda f: np.linalg.solve(bend, -np.asarray(jax.jit(jax.grad(f))(zero)))
    likely, found = minimum(by_paths), minimum(by_action)
    length = lambda c: float(np.sqrt(c @ bend @ c))
    assert length(found - likely) < 0.15 * length(likely - true)


def gauged(a: float, dim: int = 2) -> Energy:
    terms = Potential(lambda x: 0.3 * (x**4).sum() + a * (x**2).sum()) + Entropy(BETA)
    return Energy.known(terms + Interaction(lambda r: jnp.exp(-(r**2)) - a * r**2), dim)


def test_centred_populations_cannot_tell_a_bowl_from_a_repulsion(x64):
    """V + a|x|^2 with W - a r^2 adds the constant force 2 a mean, and nothing where that is 0."""
    x = np.random.default_rng(0).normal(size=(6, 20, 2))
    x -= x.mean(axis=1, keepdims=True)
    times = tuple(np.linspace(0.0, 1.0, 6).tolist())

    of_curve = jax.jit(lambda curve, a: WeakResidual().at_centres(curve, gauged(a)))

    def both(shift):
        at = x + shift
        curve = Curve(jnp.asarray(at), jnp.zeros(20), inverse_softplus(np.array(0.2)), times)
        for a in (0.0, 0.7):
            yield float(of_curve(curve, a))
            yield float(WeakResidual(Trapezoid()).on_clouds(list(at), times, gauged(a)))

    curve, cloud, curve_too, cloud_too = both(0.0)
    assert curve_too == pytest.approx(curve, rel=1e-5)
    assert cloud_too == pytest.approx(cloud, rel=1e-5)
    curve, cloud, curve_too, cloud_too = both(1.0)
    assert abs(curve_too - curve) > 0.05 * curve
    assert abs(cloud_too - cloud) > 0.05 * cloud


def test_nobody_is_paired_with_oneself(x64):
    """A kernel that gives everybody the velocity 1 / n gives 1 - 1 / n from the n - 1 others."""
    clouds, times = quantiles(5, 4)
    curve = Curve(jnp.asarray(np.stack(clouds)), jnp.zeros(5), jnp.zeros(()), tuple(times))
    known = [VectorKernel(lambda z: jnp.ones(1)), VectorField(lambda x: 0.8 * jnp.ones(1))]
    for of in (
        lambda energy: WeakResidual(Trapezoid()).on_clouds(clouds, times, energy),
        lambda energy: WeakResidual(alpha=0.5)(curve, energy, jax.random.key(0)),
    ):
        pairs, alone = (float(of(Energy.known(term, 1))) for term in known)
        assert pairs == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_gradients_of_networks_are_slopes(x64, alpha):
    """Of every array of the energy: the slope along a random direction, by central differences."""
    curve, energy = small_problem()
    residual = WeakResidual(Trapezoid(), alpha=alpha, tests=6)
    step = jax.jit(jax.value_and_grad(lambda e: residual(curve, e, jax.random.key(0))))
    rng, h = np.random.default_rng(0), 1e-5
    named, shape = jax.tree_util.tree_flatten_with_path(energy)
    leaves, grads = [leaf for _, leaf in named], jax.tree.leaves(step(energy)[1])
    for i, (path, leaf) in enumerate(named):
        name = jax.tree_util.keystr(path)
        if name.endswith("scale"):
            continue  # a size that is not learned
        way = rng.normal(size=leaf.shape)
        at = lambda size, i=i, way=way: float(
            step(shape.unflatten([*leaves[:i], leaves[i] + size * way, *leaves[i + 1 :]]))[0]
        )
        slope = float((np.asarray(grads[i]) * way).sum())
        assert np.isfinite(slope)
        assert (at(h) - at(-h)) / (2.0 * h) == pytest.approx(slope, rel=1e-4, abs=1e-6), name


def test_what_averages_cannot_tell_is_refused():
    curve, key = ou_curve(4), jax.random.key(0)
    clouds, times = quantiles(5, 3)
    crowd = Energy.known(Potential(lambda x: x.sum()) + sf.InternalEnergy(lambda r: r**2), 1)
    for asked in (
        lambda: WeakResidual()(curve, crowd, key),
        lambda: WeakResidual(Forward()).on_clouds(clouds, times, crowd),
        lambda: action(clouds, times, crowd),
    ):
        with pytest.raises(sf.BadInput, match=r"energy: InternalEnergy\(U\) reads the density"):
            asked()
    turning = Energy.known(VectorKernel(lambda z: -z), 1)
    with pytest.raises(sf.BadInput, match="the action is of gradients only, got VectorKernel"):
        action(clouds, times, turning)
    for asked in (
        lambda: WeakResidual().on_clouds(clouds, times, ou_energy()),
        lambda: action(clouds, times, ou_energy(), sf.Midpoint()),
    ):
        with pytest.raises(sf.BadInput, match=r"scheme must be Forward\(\), Backward\(\) or"):
            asked()
    with pytest.raises(sf.BadInput, match="times must increase"):
        action(clouds, [0.0, 2.0, 1.0], ou_energy())
    with pytest.raises(sf.BadInput, match="got 3 and 2"):
        action(clouds, [0.0, 2.0], ou_energy())


@pytest.mark.parametrize(("n", "dim"), [(1, 1), (3, 12)])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_few_particles_and_many_dimensions_have_finite_gradients(n, dim, alpha):
    x = np.random.default_rng(0).normal(size=(4, n, dim))
    x[1] = x[0]  # a gap without motion
    times = (0.0, 0.2, 0.5, 1.0)
    curve = Curve(jnp.asarray(x, float), jnp.zeros(n), jnp.asarray(-1.0), times)
    terms = Potential(hidden=(4,)) + Entropy(0.1) + Interaction(hidden=(4,))
    model = curve, terms.init(np.eye(5, dim), Units.identity(dim), jax.random.key(0))
    residual = WeakResidual(alpha=alpha)
    step = jax.jit(jax.value_and_grad(lambda m: residual(*m, jax.random.key(0))))
    value, slopes = step(model)
    assert np.isfinite(float(value))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_settings_are_checked_and_are_no_parameters():
    assert not jax.tree.leaves(WeakResidual(alpha=0.5, weight=1.0, stations=3))
    for wrong in ({"tests": -1}, {"alpha": 2.0}, {"weight": -1.0}, {"stations": 0}):
        with pytest.raises(sf.BadInput, match=next(iter(wrong))):
            WeakResidual(**wrong)
    with pytest.raises(sf.BadInput, match="scheme must be one such as"):
        WeakResidual(scheme="midpoint")


@pytest.mark.parametrize("alone", [True, pytest.param(False, marks=pytest.mark.full)])
def test_a_fit_uses_and_stores_it(tmp_path, alone):
    data = sf.datasets.double_well(dim=2, n=80, key=0)[0]
    residual = WeakResidual(tests=8) if alone else sf.VelocityResidual() + WeakResidual(weight=0.5)
    short = sf.Optimiser(steps=10)
    method = sf.Stitching(particles=20, nodes=8, residual=residual, optimiser=short)
    if alone:
        assert "weak residual weight 5, 8 short waves" in method.describe(data)
        assert method.resolved(data).residual.stations == 8
    fit = sf.fit(data, method, progress=False)
    assert fit.status.ok
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert again.method.residual == fit.method.residual
    np.testing.assert_array_equal(fit.flow.sample([0.5], 9), again.flow.sample([0.5], 9))
