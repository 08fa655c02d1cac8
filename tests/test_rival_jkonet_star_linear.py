"""JKOnet*'s linear variant is least squares, and finds what its features span."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._measure.kde import Cloud
from stitchflow.rivals._jko import Marginals, origins
from stitchflow.rivals._jkonet_star_linear import (
    normal_equations,
    ridge_solution,
    with_coefficients,
)

TIMES = np.array([0.0, 0.2, 0.3, 0.7])  # uneven


@pytest.fixture(scope="module")
def quadratic() -> sf.Snapshots:
    """The scheme's own steps for V = |x|^2."""
    clouds = [np.random.default_rng(0).normal(size=(200, 2)) + 1.0]
    for tau in np.diff(TIMES):
        clouds.append(clouds[-1] / (1.0 + 2.0 * tau))
    return sf.Snapshots.from_arrays(clouds, TIMES)


def problem(data: sf.Snapshots, method: sf.JKOnetStarLinear):
    units = data.units
    cloud = np.asarray(units.space_in(data.x))
    energy = method.energy_form.init(cloud, units, jax.random.key(0))
    marginals = Marginals.of(data, units, energy.needs_density)
    return energy, marginals, jnp.asarray(origins(data, units), float)


@pytest.mark.full
def test_coefficients_are_those_of_numpys_least_squares(x64, quadratic):
    method = sf.JKOnetStarLinear(centres=6, degree=2, entropy=True, interaction=True, ridge=1e-3)
    energy, seen, came = problem(quadratic, method)
    solution = ridge_solution(*normal_equations(energy, seen, came)[:2], method.ridge)
    rows, target = [], []
    for k, tau in enumerate(np.diff(np.asarray(seen.times))):
        x, w = seen.points[k + 1][None], seen.weights[k + 1][None]
        field = jax.tree.map(lambda a, k=k: a[k + 1][None], seen.field)
        middle = (0.5 * (seen.times[k] + seen.times[k + 1]))[None]
        design = [term.design(x, middle, Cloud(x, w), field)[0] for term in energy.terms]
        root = np.sqrt(tau * np.asarray(w))[0][:, None]
        a = root[:, :, None] * np.concatenate(design, axis=-1)
        rows.append(a.reshape(-1, a.shape[-1]))
        target.append((-root * np.asarray(x[0] - came[k]) / tau).reshape(-1))
    a, b = np.concatenate(rows), np.concatenate(target)
    penalty = np.sqrt(method.ridge) * np.diag(np.linalg.norm(a, axis=0))
    exact = np.linalg.lstsq(
        np.concatenate([a, penalty]), np.concatenate([b, np.zeros(len(penalty))]), rcond=None
    )[0]
    np.testing.assert_allclose(solution, exact, rtol=1e-5, atol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize("time_degree", [0, 2])
def test_the_design_times_the_coefficients_is_the_gradient(x64, quadratic, time_degree):
    method = sf.JKOnetStarLinear(
        centres=5, degree=3, time_degree=time_degree, entropy=True, interaction=True
    )
    energy, seen, _ = problem(quadratic, method)
    x, t, w = seen.points[1:3], seen.times[1:3], seen.weights[1:3]
    field = jax.tree.map(lambda a: a[1:3], seen.field)
    design = [term.design(x, t, Cloud(x, w), field) for term in energy.terms]
    count = sum(part.shape[-1] for part in design)
    solution = np.random.default_rng(1).normal(size=count)
    solution[-1] = 0.7  # beta
    gradient = with_coefficients(energy, solution).gradient(x, t, Cloud(x, w), field)
    np.testing.assert_allclose(np.concatenate(design, -1) @ solution, gradient, atol=1e-8)


def test_a_quadratic_potential_is_exact_and_comes_back(quadratic, tmp_path):
    fit = sf.fit(quadratic, sf.JKOnetStarLinear(centres=20, ridge=1e-7), key=0, progress=False)
    x = quadratic.cloud(2)
    np.testing.assert_allclose(fit.energy.force(x), -2.0 * x, atol=0.03)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert again.method == fit.method
    np.testing.assert_array_equal(again.energy.force(x), fit.energy.force(x))


def test_backward_diffusion_is_refused():
    """A cloud that contracts onto nothing asks for a negative beta."""
    shape = np.random.default_rng(0).normal(size=(150, 1))
    data = sf.Snapshots.from_arrays([shape, 0.8 * shape, 0.7 * shape, 0.65 * shape], range(4))
    method = sf.JKOnetStarLinear(centres=1, degree=1, entropy=True)
    fit = sf.fit(data, method, key=0, progress=False)
    assert fit.energy.beta == 0.0
