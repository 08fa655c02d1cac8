"""Terms written as a user would: what reads the density gets the density, or is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.observations import Observations
from stitchflow._energy.simulate import simulate
from stitchflow._measure.kde import Cloud, Field
from stitchflow._objective.consistency import carry
from stitchflow._stitching.stages import consistency_objective
from stitchflow._stitching.start import start
from stitchflow.tl._dynamics import feels_others


class Diffusing(sf.Term):
    """A copy of `Entropy`, beta E[log rho]."""

    reads_density = True
    beta: float

    def init(self, cloud, units, key):
        return self

    def gradient(self, x, t, cloud, field):
        return self.beta * field.score

    def first_variation(self, x, t, cloud, field):
        return self.beta * (field.log_density + 1.0)

    def local(self, x, t, cloud, field):
        return self.beta * field.log_density

    def divergence(self, x, t, cloud, field):
        return self.beta * field.laplacian

    @property
    def diffusion(self):
        return jnp.asarray(self.beta)

    @property
    def settings(self):
        return {"beta": self.beta}


class Crowding(sf.Term):
    """A copy of `InternalEnergy`, 1/2 int rho^2."""

    reads_density = True

    def init(self, cloud, units, key):
        return self

    def gradient(self, x, t, cloud, field):
        return jnp.exp(field.log_density)[..., None] * field.score

    def first_variation(self, x, t, cloud, field):
        return jnp.exp(field.log_density)

    def local(self, x, t, cloud, field):
        return 0.5 * jnp.exp(field.log_density)

    def divergence(self, x, t, cloud, field):
        return jnp.exp(field.log_density) * (field.laplacian + (field.score**2).sum(-1))

    @property
    def settings(self):
        return {}


class Forgetful(Crowding):
    """The same by somebody who did not say that the density is read."""

    reads_density = False


COPIES = {
    "entropy": (Diffusing(0.3), sf.Entropy(0.3, learn=False)),
    "internal energy": (Crowding(), sf.InternalEnergy(lambda r: 0.5 * r**2)),
}
WELL = sf.Potential(lambda x: 0.1 * (x**2).sum())


@pytest.fixture(params=COPIES)
def both(request):
    return [sf.Energy.known(WELL + term, 2) for term in COPIES[request.param]]


@pytest.fixture
def sums():
    """Both copies in one energy, and both models: programs of the solver take long to make."""
    return [
        sf.Energy.known(WELL + one + other, 2) for one, other in zip(*COPIES.values(), strict=True)
    ]


@pytest.fixture(scope="module")
def data():
    x = 0.5 * np.random.default_rng(0).normal(size=(3, 40, 2))
    return sf.Snapshots.from_arrays(list(x * np.array([1.0, 1.5, 2.0])[:, None, None]), [0, 1, 3])


@pytest.fixture(scope="module")
def curve(data):
    plan = sf.Stitching(particles=12, nodes=4).plan(data)
    return start(plan, data, jax.random.key(0), data.units)


def moved(function, energies):
    """What two energies do to the same cloud, which is not nothing."""
    x = 0.5 * jax.random.normal(jax.random.key(0), (60, 2))
    own, built_in = (np.asarray(function(energy, x)) for energy in energies)
    np.testing.assert_allclose(own, built_in, rtol=1e-4, atol=1e-5)
    # Both spread individuals: what a term gets instead of the density must not pass unseen.
    assert built_in.std() > 1.1 * float(x.std())


@pytest.mark.parametrize("ode", [False, True])
def test_copies_move_individuals_as_their_models_do(sums, ode):
    times = np.array([0.0, 0.5])
    moved(lambda energy, x: simulate(energy, x, times, jax.random.key(1), ode)[-1], sums)


def test_copies_are_carried_in_training_as_their_models_are(sums):
    weights, ends = jnp.full((1, 60), 1.0 / 60), (jnp.asarray(0.0), jnp.asarray(0.5))
    moved(lambda energy, x: carry(energy, x[None], weights, *ends, 8, jax.random.key(1)), sums)


@pytest.mark.parametrize("kind", [sf.VelocityResidual, sf.DissipationResidual, sf.DensityResidual])
def test_a_copy_has_the_residual_of_its_model(both, curve, kind):
    found = [
        (kind().at_centres(curve, energy), kind().monte_carlo(curve, energy, jax.random.key(2)))
        for energy in both
    ]
    np.testing.assert_allclose(*found, rtol=1e-4)
    without = kind().at_centres(curve, sf.Energy.known(WELL, 2))
    assert abs(float(found[0][0] - without)) > 0.01 * abs(float(without))


def test_copies_are_trained_as_their_models_are(sums, curve, data):
    plan, seen = sf.Stitching(particles=12, nodes=4).plan(data), Observations.of(data)
    losses = [
        consistency_objective(plan, curve, energy, seen, jax.random.key(3))[1] for energy in sums
    ]
    np.testing.assert_allclose(*(loss["consistency"] for loss in losses), rtol=1e-3)
    np.testing.assert_allclose(*(loss["residual"] for loss in losses), rtol=1e-4)
    plans = [sf.Stitching(energy).resolved(data) for energy in sums]
    assert plans[0].residual == plans[1].residual
    assert plans[0].consistency == plans[1].consistency


def test_a_copy_of_the_entropy_is_noise_and_beta():
    own, built_in = (sf.Energy.known(WELL + term, 2) for term in COPIES["entropy"])
    assert own.beta == pytest.approx(0.3)
    assert own.without_noise.terms == own.terms[:1]
    cloud = np.random.default_rng(1).normal(size=(30, 2))
    assert own.value(cloud) == pytest.approx(built_in.value(cloud))


def test_a_term_that_does_not_say_so_is_refused_everywhere(curve):
    energy = sf.Energy.known(Forgetful(), 2)
    x, key = jnp.ones((5, 2)) * jnp.arange(5.0)[:, None], jax.random.key(0)
    times, weights = np.array([0.0, 0.1]), jnp.full((1, 5), 0.2)
    for asked in (
        lambda: simulate(energy, x, times, key),
        lambda: simulate(energy, x, times, key, ode=True),
        lambda: carry(energy, x[None], weights, jnp.asarray(0.0), jnp.asarray(1.0), 2, key),
        lambda: energy.velocity(x, None, x),
        lambda: energy.value(x),
        lambda: sf.VelocityResidual().at_centres(curve, energy),
        lambda: sf.VelocityResidual().monte_carlo(curve, energy, key),
        lambda: sf.DissipationResidual().at_centres(curve, energy),
    ):
        with pytest.raises(ValueError, match="Forgetful does not say that it reads the density"):
            asked()


def test_a_density_that_nobody_knows_is_refused():
    x = jnp.ones((1, 3, 2))
    nothing = Cloud(x, jnp.full((1, 3), 1 / 3))
    for term in (Crowding(), sf.Entropy(0.1)):
        with pytest.raises(ValueError, match="density is not known here: it was not computed"):
            sf.Energy.known(term, 2).gradient(x, jnp.zeros(1), nothing, Field())

    class Rising(sf.Potential):
        reads_density = True

    with pytest.raises(ValueError, match="energy must be a Potential for jkonet"):
        sf.JKOnet(Rising())


class Bare(Crowding):
    """A term without what only some residuals ask for."""

    local, divergence = sf.Term.local, sf.Term.divergence


def test_what_a_term_does_not_say_is_never_taken_for_zero(curve):
    energy = sf.Energy.known(Bare(), 2)
    with pytest.raises(sf.NotAvailable, match="write `local` in its class"):
        sf.DissipationResidual().at_centres(curve, energy)
    with pytest.raises(sf.NotAvailable, match="write `local` in its class"):
        energy.value(np.eye(4, 2))
    with pytest.raises(sf.NotAvailable, match="write `divergence` in its class"):
        sf.DensityResidual().at_centres(curve, energy)


def test_cells_move_together_unless_every_drift_says_it_is_alone():
    alone = WELL + sf.VectorField(lambda x: x) + sf.Entropy(0.1)
    assert not feels_others(sf.Energy.known(alone, 2))
    for term in (Crowding(), sf.Interaction(lambda r: r), sf.InternalEnergy(lambda r: r**2)):
        assert feels_others(sf.Energy.known(alone + term, 2))
