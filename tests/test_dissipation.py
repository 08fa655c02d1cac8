"""The energy-dissipation form equals the velocity residual up to quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stitchflow import (
    Curve,
    DissipationResidual,
    Energy,
    Entropy,
    Interaction,
    InternalEnergy,
    Potential,
    VectorKernel,
    VelocityResidual,
)
from stitchflow._measure.curve import inverse_softplus
from stitchflow._measure.kde import Cloud, Field
from test_residual import ou_curve, ou_energy

pytestmark = pytest.mark.full


def both(curve, energy, draws: int):
    """Both residuals over many keys."""
    keys = jax.random.split(jax.random.key(0), draws)
    kinds = (DissipationResidual(stations=1000), VelocityResidual(stations=1000, widening=1.0))
    return [np.asarray(jax.jit(jax.vmap(lambda k, r=r: r(curve, energy, k)))(keys)) for r in kinds]


@pytest.mark.parametrize(("rate", "exact"), [(1.7, True), (1.2, False)])
def test_it_is_the_velocity_residual_of_an_ou_flow(x64, rate, exact):
    curve = ou_curve(41, 1.7, np.sqrt(0.4 / 1.7), False)
    lost, velocity = both(curve, ou_energy(rate, 0.4), 4000)
    error = 4.0 * float(np.std(lost - velocity)) / np.sqrt(4000)
    assert lost.mean() == pytest.approx(velocity.mean(), abs=error)
    assert error < 0.08 * (1.0 if exact else velocity.mean())  # the draws can tell
    if exact:
        assert abs(lost.mean()) < error + 1e-3


def test_at_the_centres_of_a_quadratic_potential_they_are_equal(x64):
    curve = ou_curve(9, 1.7, 0.5, True)
    bowl = Energy.known(Potential(lambda x: 0.6 * (x**2).sum()), 2)
    for kinetic, ridge in ((1.0, 0.0), (2.0, 0.3)):
        settings = {"kinetic": kinetic, "ridge": ridge}
        lost = DissipationResidual(**settings).at_centres(curve, bowl)
        assert float(lost) == pytest.approx(
            float(VelocityResidual(**settings).at_centres(curve, bowl)), rel=1e-12
        )


@pytest.mark.full
def test_a_changing_potential_adds_its_heat(x64):
    """The lemma as it stands, with the integral of E[d_t V], to second order in the steps."""

    def gap(k: int) -> float:
        curve = ou_curve(k, 1.7, 0.5, False)
        energy = Energy.known(Potential(lambda x, t: (1.0 + t**2) * jnp.cos(x).sum()), 2)
        potential, x, times = energy.terms[0].potential, curve.particles[:, 0], curve.nodes
        work = 2.0 * jnp.diff(potential(x[jnp.array([0, -1])], times[jnp.array([0, -1])]))[0]
        heat = jax.grad(lambda t: potential(x, t).sum())(times)
        velocity = jnp.gradient(x, times[1] - times[0], axis=0)
        slope = jax.grad(lambda y: potential(y, times).sum())(x)
        squares = (velocity**2 + slope**2).sum(1)
        lemma = work - 2.0 * jnp.trapezoid(heat, times) + jnp.trapezoid(squares, times)
        return float(DissipationResidual().at_centres(curve, energy) - lemma)

    gaps = np.abs([gap(k) for k in (41, 81, 161)])
    assert gaps[0] < 1e-2
    np.testing.assert_allclose(np.log2(gaps[:-1] / gaps[1:]), 2.0, atol=0.35)


def straight(k: int) -> Curve:
    share = jnp.linspace(0.0, 1.0, k)[:, None, None]
    ends = jnp.asarray([[[-1.0], [0.5], [0.7]], [[0.0], [1.5], [-0.4]]])
    x = (1.0 - share) * ends[0][None] + share * ends[1][None]
    times = tuple(np.linspace(0.0, 0.8, k).tolist())
    return Curve(x, jnp.asarray([0.2, -0.2, 0.1]), inverse_softplus(np.array([0.6])), times)


@pytest.mark.parametrize(
    "term",
    [
        Entropy(0.5),
        Interaction(lambda r: jnp.cos(2.0 * r)),
        InternalEnergy(lambda r: r**2),
        VectorKernel(lambda z: jnp.tanh(z)),
    ],
    ids=["entropy", "W", "U", "K"],
)
def test_it_is_the_velocity_residual_for_every_term(x64, term, monkeypatch):
    """The identity is of one measure, so each draw meets all centres, its own among them."""
    everybody = lambda self, centres, logits, own=None: Cloud(centres, jax.nn.softmax(logits, 1))
    monkeypatch.setattr(Curve, "cloud", everybody)
    energy = Energy.known(Potential(lambda x: jnp.cos(2.0 * x).sum()) + term, 1)
    lost, velocity = both(straight(33), energy, 4000)
    error = 4.0 * float(np.std(lost - velocity)) / np.sqrt(4000)
    assert lost.mean() == pytest.approx(velocity.mean(), abs=error + 2e-3)
    assert error < 0.1 * velocity.mean()


def test_the_local_energy_has_the_functional_for_its_mean(x64):
    curve = straight(2)
    energy = Energy.known(Potential(lambda x: (x**2).sum()) + Interaction(lambda r: r**2), 1)
    x = curve.particles
    cloud, nothing = curve.cloud(x, curve.node_logits), Field()
    w = np.asarray(cloud.weights)
    squares = np.asarray(x)[..., 0] ** 2
    pairs = (np.asarray(x)[:, :, None, 0] - np.asarray(x)[:, None, :, 0]) ** 2
    expected = (w * squares).sum(1) + 0.5 * np.einsum("si,sj,sij->s", w, w, pairs)
    np.testing.assert_allclose(energy.functional(curve.nodes, cloud, nothing), expected)


def test_wider_kernels_are_refused():
    with pytest.raises(ValueError, match="widening must be 1"):
        DissipationResidual(widening=1.5)
