"""The density residual: exact flows, and the paper's integral."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow import Curve, DensityResidual, Energy, Entropy, Potential
from stitchflow._measure.curve import inverse_softplus
from stitchflow._stitching.start import start_model
from test_residual import ORDERS, SCHEMES, ou_curve, ou_energy

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", ["forward", "midpoint", "trapezoid"])
def test_the_exact_ou_flow_has_no_residual_to_the_order_of_the_scheme(x64, name):
    rate, beta = 1.7, 0.4
    residual = DensityResidual(SCHEMES[name], stations=1000, widening=1.0)
    keys, energy = jax.random.split(jax.random.key(0), 100), ou_energy(rate, beta)
    at = jax.jit(lambda curve: jax.vmap(lambda key: residual(curve, energy, key))(keys).mean())
    coarse, fine = (float(at(ou_curve(k, rate, np.sqrt(beta / rate), True))) for k in (41, 81))
    assert np.log2(coarse / fine) == pytest.approx(2 * ORDERS[name], abs=0.25)


@pytest.mark.full
def test_another_energy_has_the_residual_of_the_closed_form(x64):
    r"""Of $u = am + kz$ under N(m, h^2), $E(\nabla\cdot u + u s)^2 = |am|^2/h^2 + 2dk^2$."""
    rate, wrong, beta, h, k = 1.7, 1.2, 0.4, 0.5, 201
    curve, stiff = ou_curve(k, rate, h, False), wrong - beta / h**2
    means = 5.0 * (1.0 - np.exp(-2 * rate)) / (2 * rate)  # int |m|^2 dt
    exact = (wrong - rate) ** 2 * means / h**2 + 4.0 * stiff**2
    residual = DensityResidual(stations=1000, widening=1.0)
    energy = ou_energy(wrong, beta)
    estimate = lambda key: residual(curve, energy, key)
    found = jax.jit(jax.vmap(estimate))(jax.random.split(jax.random.key(0), 200))
    assert float(found.mean()) == pytest.approx(exact, abs=4.0 * float(found.std()) / 200**0.5)
    at_centres = residual.at_centres(curve, energy)
    assert float(at_centres) == pytest.approx(4.0 * stiff**2, rel=1e-9)  # z = 0


@pytest.mark.parametrize("relative", [True, False])
def test_the_integral_is_the_papers(x64, relative):
    """Its mean is the integral of the Fokker-Planck defect, by autodiff on a grid."""
    curve = Curve(
        jnp.asarray([[[-1.0], [0.5]], [[0.0], [1.5]]]),
        jnp.asarray([0.2, -0.2]),
        inverse_softplus(np.array([0.6])),
        (0.0, 0.8),
    )
    energy = Energy.known(Potential(lambda x: jnp.cos(2.0 * x).sum()) + Entropy(0.3), 1)
    grid, middle = jnp.linspace(-6.0, 7.0, 2001), jnp.asarray(0.4)
    rho = lambda x, t: jnp.exp(curve.at(t).log_density(x[None, None])[0])
    slope = lambda x: -2.0 * jnp.sin(2.0 * x) + 0.3 * jax.grad(rho)(x, middle) / rho(x, middle)
    defect = lambda x: (
        jax.grad(rho, 1)(x, middle) - jax.grad(lambda y: rho(y, middle) * slope(y))(x)
    )
    density = jax.vmap(lambda x: rho(x, middle))(grid)
    scale = density if relative else jnp.ones_like(density)
    exact = 0.8 * jnp.trapezoid((jax.jit(jax.vmap(defect))(grid) / scale) ** 2 * density, grid)
    residual = DensityResidual(relative=relative, widening=1.0)
    estimate = jax.jit(jax.vmap(lambda k: residual(curve, energy, k)))
    found = estimate(jax.random.split(jax.random.key(0), 10_000))
    error = 4.0 * float(found.std()) / np.sqrt(10_000)
    assert float(found.mean()) == pytest.approx(float(exact), abs=error)


def test_residuals_add():
    data = sf.datasets.double_well(dim=2, n=80, key=0)[0]
    both = sf.VelocityResidual(weight=2.0) + DensityResidual(weight=0.5, widening=1.0)
    small = {"particles": 20, "nodes": 8, "optimiser": sf.Optimiser(steps=5)}
    method = sf.Stitching(residual=both, **small).resolved(data)
    assert method.residual.first.stations == method.residual.second.stations == 8
    assert "residual weight 2" in method.describe(data)
    curve, energy = start_model(method.plan(data), data, *jax.random.split(jax.random.key(0)))

    @jax.jit
    def sums(key):
        one, other = jax.random.split(key)
        velocity = method.residual.first(curve, energy, one)
        density = method.residual.second(curve, energy, other)
        return method.residual(curve, energy, key), 2.0 * velocity + 0.5 * density

    np.testing.assert_allclose(*sums(jax.random.key(1)), rtol=1e-5)


@pytest.mark.full
def test_fits_use_and_store_every_residual(tmp_path):
    data = sf.datasets.double_well(dim=2, n=80, key=0)[0]
    density, lost = DensityResidual(alpha=0.5), sf.DissipationResidual(alpha=0.5)
    residual, short = sf.VelocityResidual() + density + lost, sf.Optimiser(steps=10)
    method = sf.Stitching(particles=20, nodes=8, residual=residual, optimiser=short)
    fit = sf.fit(data, method, progress=False)
    assert fit.status.ok
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert again.method.residual == fit.method.residual
    np.testing.assert_array_equal(fit.flow.sample([0.5], 9), again.flow.sample([0.5], 9))
