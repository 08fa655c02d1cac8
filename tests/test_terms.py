"""Energy terms: gradients against autodiff, first variations against the functional, units."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import parity
from stitchflow import (
    KDE,
    Energy,
    Entropy,
    Interaction,
    InternalEnergy,
    Potential,
    VectorField,
    VectorKernel,
)
from stitchflow._data.units import Units
from stitchflow._energy.energy import at_one
from stitchflow._energy.pair_terms import distances
from stitchflow._measure.kde import Cloud
from test_kde import parity_kde

T = 0.3


def trig(x):
    return jnp.sin(x).sum() + 0.1 * (x**4).sum()


def moving(x, t):
    return (1.0 + t) * trig(x)


def anisotropic(z):
    return jnp.cos(z[0]) * jnp.exp(-(z**2).sum())


def turning(z):
    return jnp.stack([-z[1], z[0], 0.0 * z[2]]) * jnp.exp(-(z**2).sum())


TERMS = {
    "V network": Potential(hidden=(8, 8)),
    "V(x, t) network": Potential(hidden=(8, 8), time_varying=True),
    "V known": Potential(trig),
    "V(x, t) known": Potential(moving),
    "entropy": Entropy(0.3),
    "porous medium": InternalEnergy(lambda r: r**2),
    "W(r) network": Interaction(hidden=(8, 8)),
    "W(z) network": Interaction(radial=False, hidden=(8, 8)),
    "W(r) known": Interaction(lambda r: -1.5 * jnp.exp(-(r**2))),
    "W(z) known": Interaction(anisotropic, radial=False),
}


@pytest.fixture
def cloud(x64):
    rng = np.random.default_rng(1)
    return jnp.asarray(rng.normal(size=(9, 3)))


def ready(term, cloud, units=None) -> Energy:
    energy = Energy((term,)).init(np.asarray(cloud), units or Units.identity(3), jax.random.key(0))
    # Networks start almost flat; these tests want something to differentiate.
    return jax.tree.map(lambda a: a + 0.1 if eqx_array(a) else a, energy)


def eqx_array(a):
    return isinstance(a, jax.Array) and a.ndim > 0


@pytest.mark.parametrize("name", TERMS)
def test_gradient_is_that_of_the_first_variation(name, cloud):
    energy, rho = ready(TERMS[name], cloud), KDE.uniform(cloud)
    x, t = jnp.asarray(np.random.default_rng(2).normal(size=(4, 3))), jnp.asarray(T)
    first = lambda y: at_one(energy.first_variation, y[None], t, rho, rho.field(y[None]))[0]
    expected = jax.vmap(jax.grad(first))(x)
    # A network's W' is read off a Chebyshev table of its own.
    tolerance = 2e-3 if name == "W(r) network" else 1e-9
    got = at_one(energy.gradient, x, t, rho, rho.field(x))
    np.testing.assert_allclose(got, expected, atol=tolerance)


DIVERGENT = {
    "V network": Potential(hidden=(8,)),
    "V(x, t) known": Potential(moving),
    "entropy": Entropy(0.3),
    "U": InternalEnergy(lambda r: r**3),
    "W(r) known": Interaction(lambda r: -1.5 * jnp.exp(-(r**2))),
    "W(z) known": Interaction(anisotropic, radial=False),
    "K": VectorKernel(lambda z: z**3 - z.sum() * jnp.array([1.0, 2.0, 3.0])),
    "u": VectorField(lambda x: jnp.sin(x) * x[0]),
}


@pytest.mark.parametrize("name", DIVERGENT)
def test_divergence_is_the_trace_of_the_jacobian(name, cloud):
    energy, rho, t = ready(DIVERGENT[name], cloud), KDE.uniform(cloud), jnp.asarray(T)
    x = jnp.asarray(np.random.default_rng(2).normal(size=(4, 3)))

    def slope(y):
        return at_one(energy.gradient, y[None], t, rho, rho.field(y[None]))[0]

    @jax.jit
    def both(x):
        got = at_one(energy.divergence, x, t, rho, rho.moving_field(x, jnp.zeros_like(cloud)))
        return got, jax.vmap(lambda y: jnp.trace(jax.jacfwd(slope)(y)))(x)

    np.testing.assert_allclose(*both(x), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("name", ["V(x, t) known", "W(z) known", "u"])
def test_several_marginals_are_each_their_own(name, cloud):
    """Gradient and divergence of two marginals at once are those of one after the other."""
    energy = ready(DIVERGENT[name], cloud)
    x, t = jnp.stack([cloud[:4], cloud[:4] ** 2]), jnp.asarray([T, 1.0])
    marginals = [KDE.uniform(cloud), KDE.uniform(0.5 * cloud)]
    fields = [rho.field(y) for rho, y in zip(marginals, x, strict=True)]
    both = Cloud(*(jnp.stack([getattr(m, a) for m in marginals]) for a in ("centres", "weights")))
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *fields)
    for function in (energy.gradient, energy.divergence):
        alone = [at_one(function, *one) for one in zip(x, t, marginals, fields, strict=True)]
        np.testing.assert_allclose(function(x, t, both, stacked), jnp.stack(alone), atol=1e-12)


@pytest.mark.parametrize("name", TERMS)
def test_what_a_term_was_told_is_no_parameter(name, cloud):
    leaves = jax.tree.leaves(ready(TERMS[name], cloud))
    assert all(eqx.is_inexact_array(leaf) or callable(leaf) for leaf in leaves)


@pytest.mark.parametrize("name", [n for n in TERMS if n not in ("entropy", "porous medium")])
def test_first_variation_is_the_derivative_of_the_functional(name, cloud):
    """d/de F[(1 - e) rho + e delta_j] = dF(x_j) - E_rho[dF] for terms that see the centres only."""
    energy, rho, t = ready(TERMS[name], cloud), KDE.uniform(cloud), jnp.asarray(T)[None]
    field = jax.tree.map(lambda a: a[None], rho.field(cloud))

    def functional(w):
        return energy.functional(t, Cloud(cloud[None], w[None]), field)[0]

    slope = jax.grad(functional)(rho.weights)
    first = energy.first_variation(cloud[None], t, Cloud(cloud[None], rho.weights[None]), field)[0]
    np.testing.assert_allclose(slope, first, atol=1e-10)


def test_entropy_and_porous_medium_of_a_gaussian(x64):
    """F of N(0, s^2): -beta/2 log(2 pi e s^2), and int rho^2 = 1/(2 s sqrt pi)."""
    s, n = 0.8, 400
    levels = (np.arange(n) + 0.5) / n
    narrow = 0.05
    spread = np.sqrt(s**2 - narrow**2)
    centres = spread * np.asarray(jax.scipy.stats.norm.ppf(levels))
    rho = KDE(jnp.asarray(centres[:, None]), jnp.asarray(narrow), jnp.zeros(n))
    entropy = Energy.known(Entropy(0.3, learn=False), 1).value(rho)
    porous = Energy.known(InternalEnergy(lambda r: r**2), 1).value(rho)
    assert entropy == pytest.approx(-0.3 * 0.5 * np.log(2 * np.pi * np.e * s**2), rel=0.02)
    assert porous == pytest.approx(1.0 / (2.0 * s * np.sqrt(np.pi)), rel=0.02)


def test_porous_medium_velocity_is_minus_the_gradient_of_m_over_m_minus_one_rho(x64):
    """v = -grad (m / (m - 1)) rho^(m - 1) with m = 2: -2 grad rho."""
    rho = KDE.uniform(jnp.asarray(np.random.default_rng(0).normal(size=(6, 2))), 0.7)
    x = jnp.asarray([[0.1, 0.2], [1.0, -0.5]])
    density = lambda y: jnp.exp(rho.log_density(y[None])[0])
    energy = Energy.known(InternalEnergy(lambda r: r**2), 2)
    np.testing.assert_allclose(
        energy.velocity(x, None, rho), -2.0 * jax.vmap(jax.grad(density))(x), atol=1e-12
    )


def test_the_vector_kernel_is_odd_and_pushes(cloud):
    for term in (VectorKernel(hidden=(8,)), VectorKernel(turning)):
        energy = ready(term, cloud)
        z = jnp.asarray(np.random.default_rng(3).normal(size=(5, 3)))
        np.testing.assert_allclose(energy.kernel(z), -energy.kernel(-z), atol=1e-12)
        expected = sum(energy.kernel(z - c[None, :]) for c in cloud) / len(cloud)
        np.testing.assert_allclose(energy.velocity(z, None, cloud), expected, atol=1e-12)


def test_symmetric_interactions_leave_the_centre_of_mass(cloud):
    for name in ("W(r) network", "W(z) network", "W(r) known", "W(z) known"):
        velocity = ready(TERMS[name], cloud).velocity(cloud, None, cloud)
        assert float(jnp.abs(velocity).max()) > 1e-3
        np.testing.assert_allclose(velocity.mean(0), 0.0, atol=1e-10)


def test_the_radial_table_follows_its_network(cloud):
    energy = ready(Interaction(hidden=(64, 64)), cloud)
    (term,) = energy.terms
    r = jnp.linspace(0.0, 0.8 * term.reach, 200)
    exact = jax.vmap(jax.grad(term._of_distance))(r)
    table = term._table(jax.grad(term._of_distance))(r)
    assert float(jnp.abs(table - exact).max()) < 1e-3 * float(jnp.abs(exact).max())


def test_distances_of_a_point_to_itself_have_a_finite_gradient(x64):
    x = jnp.ones((2, 3))
    slope = jax.grad(lambda y: distances(y, y).sum())(x)
    assert jnp.isfinite(slope).all()


def test_parity_of_the_gradient(x64):
    _, rho = parity_kde()
    energy = Energy.known(
        Potential(trig)
        + Entropy(0.3, learn=False)
        + Interaction(lambda r: -1.5 * jnp.exp(-(r**2))),
        3,
    )
    x = jnp.asarray(parity.QUERIES)
    got = at_one(energy.gradient, x, jnp.asarray(1.7), rho, rho.field(x))
    np.testing.assert_allclose(
        got, parity.GRADIENT_OF_FIRST_VARIATION_AT_QUERIES_T1_7, rtol=1e-10, atol=1e-10
    )


def test_units_do_not_change_what_a_known_energy_says(cloud):
    """The same functions in a fit with L = 3 and T = 7: values, forces and velocities agree."""
    units = Units((1.0, -2.0, 0.5), length=3.0, start=-1.0, duration=7.0)
    for name in (
        "V known",
        "V(x, t) known",
        "entropy",
        "porous medium",
        "W(r) known",
        "W(z) known",
    ):
        plain, scaled = ready(TERMS[name], cloud), ready(TERMS[name], cloud, units)
        np.testing.assert_allclose(
            plain.velocity(cloud, T, cloud), scaled.velocity(cloud, T, cloud), atol=1e-9
        )
        assert plain.value(cloud, T) == pytest.approx(scaled.value(cloud, T), abs=1e-9)
        assert plain.beta == pytest.approx(scaled.beta)
        np.testing.assert_allclose(plain.potential(cloud, T), scaled.potential(cloud, T), atol=1e-9)
    r = np.array([0.3, 1.0])
    plain, scaled = ready(TERMS["W(r) known"], cloud), ready(TERMS["W(r) known"], cloud, units)
    np.testing.assert_allclose(plain.interaction(r), scaled.interaction(r), atol=1e-12)


def test_terms_add_and_show():
    energy = Potential() + Entropy(0.1) + Interaction()
    assert [type(t).__name__ for t in energy.terms] == ["Potential", "Entropy", "Interaction"]
    assert repr(Potential(trig) + (Entropy() + Interaction())).startswith("Potential(known V(x))")
    assert repr(Potential()) == "Potential(V(x))"
    assert repr(Potential(time_varying=True)) == "Potential(V(x, t))"
    row = '<th style="text-align:left">beta</th>'
    assert row not in Energy((Entropy(0.1),))._repr_html_()  # nor asked for before there are units
    assert row in Energy.known(Entropy(0.1), 2)._repr_html_()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Potential(hidden=64), "hidden must be a tuple"),
        (lambda: Potential(hidden=(0,)), "hidden width must be at least 1, got 0"),
        (lambda: Potential(3), "function must be a JAX function or None, got 3"),
        (lambda: Entropy(-1.0), "beta must be in"),
        (lambda: Entropy("x"), "beta must be a number, got 'x'"),
        (lambda: Interaction("W"), "function must be"),
        (lambda: VectorKernel(hidden="ab"), "hidden must be a tuple"),
        (lambda: InternalEnergy(2), "U must be a function of the density, got 2"),
        (lambda: Potential() + 3, "unsupported operand"),
        (lambda: Energy((3,)), "sum of terms"),
    ],
)
def test_bad_terms_are_named(make, words):
    with pytest.raises((TypeError, ValueError), match=words.replace("(", r"\(")):
        make()


def test_bad_questions_are_named(cloud):
    energy = ready(Potential(moving), cloud)
    with pytest.raises(ValueError, match="t is needed"):
        energy.potential(cloud)
    with pytest.raises(ValueError, match="x must have 3 dimensions, got 2"):
        energy.potential(cloud[:, :2], 0.0)
    with pytest.raises(ValueError, match="no radial interaction"):
        energy.interaction([1.0])
    with pytest.raises(ValueError, match="no vector kernel"):
        energy.kernel(cloud)
    with pytest.raises(ValueError, match="number of points in measure must be at least 2, got 1"):
        energy.velocity(cloud, 0.0, cloud[:1])
    with pytest.raises(ValueError, match="no parameters yet"):
        Energy((Potential(),)).potential(cloud)
