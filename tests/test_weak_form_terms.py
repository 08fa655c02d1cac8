"""Fields that turn, growth, and interactions with a direction, found by the weak form."""

import jax
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._energy.simulate import simulate
from stitchflow._weak_form.bases import Bumps, Splines
from stitchflow._weak_form.carry import carry
from stitchflow._weak_form.displacement import DisplacementPush
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.growing import Growing, grown
from stitchflow._weak_form.neighbours import Neighbours
from stitchflow._weak_form.pair_push import PairPush
from stitchflow._weak_form.turning import Turning


def drift_of_everything(x):
    """A drift with a part of every kind."""
    d = x.shape[1]
    bumps = Bumps.for_points(x, (1.0,), 60)
    parts = [Landscape(bumps, 2), Turning.of(bumps, x, alone=False)]
    parts += [DisplacementPush.of(x, (0.8,), 3.0)] if d <= 3 else []
    parts += [PairPush(Splines(3.0, 9, True), "turning")] if d == 2 else []
    return Drift(tuple(parts), Growing.of(bumps, x, x))


@pytest.mark.parametrize("dim", [2, 3])
def test_the_design_is_the_derivative_of_averages(dim):
    """Of every part and of growth, by central differences."""
    rng = np.random.default_rng(0)
    n = 40
    x = rng.normal(size=(n, dim))
    near = Neighbours.within(np.zeros(n, int), np.full(n, 1 / n), np.full(n, 1.0 * n))
    drift, weights = drift_of_everything(x), np.full(n, 1 / n)
    tests = Bumps.for_points(x, (1.5,), 30)
    c, log_beta = 0.05 * rng.normal(size=drift.count), np.log(0.02)

    def averages(c, log_beta):
        seed = np.random.default_rng(3)
        end = carry(drift, c, np.exp(log_beta), x, 0.1, 0.02, 2, near, seed)
        values = np.stack([tests.values(y) for y in end.x])
        values, apart, factors = grown(values, end.gain.factors(weights), weights)
        slopes = np.stack([tests.slopes(y) for y in end.x]) * factors[:, :, None, None]
        return weights @ values.mean(axis=0), end.design(slopes, weights, np.arange(n), apart)

    design, step = averages(c, log_beta)[1], 1e-4
    for part, own in drift.each():
        way = np.zeros(drift.count)
        way[own] = rng.normal(size=part.count)
        ends = [averages(c + s * step * way, log_beta)[0] for s in (1, -1)]
        numeric = (ends[0] - ends[1]) / (2 * step)
        size = 0.01 * np.abs(numeric).max()
        np.testing.assert_allclose(design[:, :-1] @ way, numeric, atol=size, err_msg=str(part))
    ends = [averages(c, log_beta + s * step)[0] for s in (1, -1)]
    numeric = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(design[:, -1], numeric, atol=0.01 * np.abs(numeric).max())


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_a_field_that_turns_has_no_divergence_and_no_mean(dim):
    x = np.random.default_rng(1).normal(size=(200, dim)) + 0.3
    bumps = Bumps.for_points(x, (1.5,), 30)
    field = Turning.of(bumps, x, alone=False)
    c = np.random.default_rng(2).normal(size=field.count)
    velocity = lambda x: -field.features(x) @ c
    np.testing.assert_allclose(velocity(x).mean(axis=0), 0.0, atol=1e-9)
    steps = 1e-4 * np.eye(dim)
    flows = [velocity(x + e)[:, a] - velocity(x - e)[:, a] for a, e in enumerate(steps)]
    np.testing.assert_allclose(sum(flows), 0.0, atol=1e-9)


STIFF, TURN, BETA = 1.0, 2.0, 0.2
QUARTER = np.array([[0.0, -1.0], [1.0, 0.0]])


def moved(rng, x, gap, turn):
    """Individuals of dX = -STIFF X dt + turn J X dt + sqrt(2 BETA) dB after a gap."""
    c, s = np.cos(turn * gap), np.sin(turn * gap)
    decay = np.exp(-STIFF * gap)
    noise = np.sqrt(BETA / STIFF * (1 - decay**2)) * rng.normal(size=x.shape)
    return decay * x @ np.array([[c, -s], [s, c]]).T + noise


def draws(seed, turn, n=400):
    """Other individuals at each time, who start off centre."""
    rng, times = np.random.default_rng(seed), np.linspace(0.0, 1.0, 8)
    start = lambda: np.array([1.5, 0.0]) + 0.5 * rng.normal(size=(n, 2))
    return sf.Snapshots.from_arrays([moved(rng, start(), t, turn) for t in times], times)


def paths(seed, turn, n=300, snapshots=11):
    """The same individuals, who are followed."""
    rng, times = np.random.default_rng(seed), 0.1 * np.arange(snapshots)
    clouds = [np.array([1.5, 0.0]) + 0.5 * rng.normal(size=(n, 2))]
    for _ in times[1:]:
        clouds.append(moved(rng, clouds[-1], 0.1, turn))
    return sf.Snapshots.from_arrays(clouds, times, paired=True)


WIDE = sf.Basis(widths=(1.0, 0.5))
TURNING = sf.Potential() + sf.VectorField(divergence_free=True) + sf.Entropy()


@pytest.mark.full
def test_a_population_that_turns():
    data = draws(3, TURN)
    fit = sf.fit(data, sf.WeakForm(TURNING, basis=WIDE), progress=False)
    middle = data.x.mean(axis=0)
    found = fit.uncertainty.field(middle + np.array([[1.0, 0.0]]))
    turn, error = found.mean[0, 1], found.sd[0, 1]
    assert error < 0.1 * TURN
    assert abs(turn - TURN) < max(3.0 * error, 0.1 * TURN)
    assert fit.energy.beta == pytest.approx(BETA, rel=0.25)
    x = data.x[::10]
    drift = np.asarray(fit.energy.force(x)) + np.asarray(fit.energy.field(x))
    true = -STIFF * x + TURN * x @ QUARTER.T
    assert ((drift - true) ** 2).sum() < 0.02 * (true**2).sum()
    np.testing.assert_allclose(fit.uncertainty.field(x).mean, fit.energy.field(x), atol=1e-3)


def test_without_turning_the_field_is_nothing():
    data = draws(3, 0.0)
    fit = sf.fit(data, sf.WeakForm(TURNING, basis=WIDE), progress=False)
    field, force = (np.asarray(call(data.x)) for call in (fit.energy.field, fit.energy.force))
    assert (field**2).sum() < 0.03**2 * (force**2).sum()
    assert "no field" in fit.status.message


@pytest.mark.parametrize("field", [sf.VectorField(), sf.VectorField(divergence_free=True)])
def test_a_field_by_itself(field):
    """A free one takes the whole drift; one without divergence what turns."""
    data = paths(0, TURN)
    basis = sf.Basis(widths=(1.0,))
    energy = sf.Energy((field, sf.Entropy()))
    fit = sf.fit(data, sf.WeakForm(energy, basis=basis), progress=False)
    x = data.x[::10]
    found = np.asarray(fit.energy.field(x))
    np.testing.assert_allclose(fit.uncertainty.field(x).mean, found, atol=1e-3)
    if not field.divergence_free:
        true = -STIFF * x + TURN * x @ QUARTER.T
        assert ((found - true) ** 2).sum() < 0.02 * (true**2).sum()
    else:
        e = 1e-2 * np.eye(2)
        ends = [np.asarray(fit.energy.field(x + s * a)) for a in e for s in (1, -1)]
        turn = (ends[0] - ends[1])[:, 1] - (ends[2] - ends[3])[:, 0]
        assert turn.mean() / 2e-2 == pytest.approx(2.0 * TURN, rel=0.3)
    with pytest.raises(sf.BadInput, match="no potential"):
        fit.uncertainty.potential(x)


def clusters(seed, rate, n=500):
    """Two clusters that stay where they are, one of which grows faster by `rate`."""
    rng, times = np.random.default_rng(seed), np.linspace(0.0, 2.0, 9)
    sides = [np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-rate * t)), 2.0, -2.0) for t in times]
    clouds = [(side + 0.3 * rng.normal(size=n))[:, None] for side in sides]
    return sf.Snapshots.from_arrays(clouds, times)


@pytest.mark.full
def test_growth_of_a_cluster_is_no_motion():
    """Counts tell the difference of rates to 0.08 in one data set."""
    rates = []
    for seed in range(3):
        data = clusters(seed, 1.0)
        fit = sf.fit(data, sf.WeakForm(growth=sf.Growth()), progress=False)
        rate = fit.uncertainty.growth(np.array([[-2.0], [2.0]]))
        rates.append(rate.mean[1] - rate.mean[0])
        assert (rate.sd < 0.1).all()
    assert np.mean(rates) == pytest.approx(1.0, abs=0.15)
    np.testing.assert_allclose(fit.flow.growth(data.x, 0.0).mean(), 0.0, atol=1e-3)
    first, ends = data.cloud(0), data.times[[0, -1]]
    moved = np.asarray(fit.flow.simulate_same(first, ends))[-1]
    assert (np.sign(moved) == np.sign(first)).all(), "nobody goes over to the other cluster"
    for side in (-1, 1):
        own = np.sign(first[:, 0]) == side
        assert moved[own].mean() == pytest.approx(2.0 * side, abs=0.15)
    grown = np.asarray(fit.flow.simulate(first, ends))[-1]
    assert (grown > 0).mean() == pytest.approx((data.cloud(8) > 0).mean(), abs=0.05)
    with pytest.raises(sf.NotAvailable, match="size of the population"):
        fit.flow.mass(1.0)


def selected(seed, strength, n=800):
    """Gaussians of dX = -X dt + sqrt(0.6) dB that multiply at the rate strength * x.

    They stay Gaussian: v' = -2 v + 0.6 and m' = -m + strength v, from v = 2 and m = 0.
    """
    rng, times = np.random.default_rng(seed), np.linspace(0.0, 1.5, 9)
    clouds = []
    for t in times:
        v = 0.3 + 1.7 * np.exp(-2 * t)
        m = strength * (0.3 * (1 - np.exp(-t)) + 1.7 * (np.exp(-t) - np.exp(-2 * t)))
        clouds.append((m + np.sqrt(v) * rng.normal(size=n))[:, None])
    return sf.Snapshots.from_arrays(clouds, times)


def test_selection_of_an_ornstein_uhlenbeck_process():
    fit = sf.fit(selected(0, 1.0), sf.WeakForm(growth=sf.Growth()), progress=False)
    rate = fit.uncertainty.growth(np.array([[-0.5], [1.5]]))
    slope = 0.5 * (rate.mean[1] - rate.mean[0])
    assert slope == pytest.approx(1.0, abs=0.2)
    assert fit.energy.beta == pytest.approx(0.3, abs=0.12)
    x = np.linspace(-1.0, 1.5, 6)[:, None]
    np.testing.assert_allclose(fit.energy.force(x), -x, atol=0.5)


def test_without_selection_the_rate_is_nothing():
    fit = sf.fit(selected(0, 0.0), sf.WeakForm(growth=sf.Growth()), progress=False)
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    assert np.abs(fit.flow.growth(x, 0.0)).max() < 0.05


def longish(z):
    """A W that reaches farther along the second coordinate than along the first."""
    return -2.0 * np.e ** (-(z[0] ** 2) - 0.25 * z[1] ** 2)


@pytest.mark.full
def test_an_interaction_with_a_direction():
    wide = sf.Potential(lambda x: 0.5 * (x**2).sum()) + sf.Entropy(0.1, learn=False)
    energy = sf.Energy.known(wide + sf.Interaction(longish, radial=False), 2)
    rng, times = np.random.default_rng(0), 0.05 * np.arange(20)
    x0 = 1.5 * rng.normal(size=(120, 2)) + np.array([0.5, 0.0])
    way = simulate(energy, jax.numpy.asarray(x0, float), times, jax.random.key(0))
    clouds = [np.asarray(cloud)[rng.permutation(120)] for cloud in way]
    form = sf.Potential() + sf.Interaction(radial=False) + sf.Entropy()
    fit = sf.fit(sf.Snapshots.from_arrays(clouds, times), sf.WeakForm(form), progress=False)
    side = np.linspace(-1.5, 1.5, 11)
    z = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    found, true = (np.asarray(e.interaction(z)) for e in (fit.energy, energy))
    assert np.corrcoef(found, true)[0, 1] ** 2 > 0.7
    np.testing.assert_allclose(found, fit.energy.interaction(-z), atol=1e-4)
    across, along = np.asarray(fit.energy.interaction(np.eye(2)))
    assert along < across, "it reaches farther along the second coordinate"
    assert abs(float(fit.energy.interaction([[30.0, 0.0]])[0])) < 1e-6
    known = fit.uncertainty.interaction(z)
    np.testing.assert_allclose(known.mean, found, atol=1e-3)
    assert (known.sd > 0).all()
    with pytest.raises(sf.BadInput, match="no radial interaction"):
        fit.energy.interaction([1.0])


def test_saved_and_loaded(tmp_path):
    form = sf.Potential() + sf.VectorField() + sf.Interaction(radial=False) + sf.Entropy()
    rng = np.random.default_rng(0)
    clouds = [rng.normal(size=(60, 2)) * (1.0 - 0.2 * t) + [t, 0.0] for t in range(3)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0])
    basis = sf.Basis(widths=(1.0,), ranges=(1.0,))
    method = sf.WeakForm(form, basis=basis, growth=sf.Growth())
    fit = sf.fit(data, method, progress=False)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert repr(again.method.energy) == repr(form)
    assert again.method.basis == basis
    assert again.method.growth is not None
    x = clouds[0][:5]
    for one, other in ((again.energy, fit.energy), (again.uncertainty, fit.uncertainty)):
        for call in ("potential", "force", "field", "interaction"):
            a, b = (getattr(e, call)(x) for e in (one, other))
            np.testing.assert_array_equal(np.stack([*a]), np.stack([*b]))
    np.testing.assert_array_equal(again.uncertainty.growth(x), fit.uncertainty.growth(x))
    np.testing.assert_array_equal(again.flow.growth(x, 0.0), fit.flow.growth(x, 0.0))


class Crowded(sf.InternalEnergy):
    """A term of one's own that reads the density."""


@pytest.mark.parametrize(
    "term", [sf.InternalEnergy(lambda r: r**2), Crowded(lambda r: r**2)], ids=["known", "own"]
)
def test_terms_that_read_the_density_are_refused(term):
    with pytest.raises(sf.BadInput, match="reads the density, which averages do not have"):
        sf.WeakForm(sf.Potential() + term)


def test_other_refusals():
    with pytest.raises(sf.BadInput, match="does not vary in time"):
        sf.WeakForm(sf.Potential() + sf.VectorField(time_varying=True))
    with pytest.raises(sf.BadInput, match="without a prior"):
        sf.WeakForm(growth=sf.Growth(prior=lambda x: x.sum()))
    with pytest.raises(TypeError, match="growth must be a Growth"):
        sf.WeakForm(growth=True)
    x = np.random.default_rng(0).normal(size=(30, 4))
    data = sf.Snapshots.from_arrays([x, x + 0.1], [0.0, 1.0])
    with pytest.raises(sf.BadInput, match="in one to three dimensions, got 4"):
        sf.fit(data, sf.WeakForm(sf.Potential() + sf.Interaction(radial=False)), progress=False)
    line = sf.Snapshots.from_arrays([x[:, :1], x[:, :1] + 0.1], [0.0, 1.0])
    with pytest.raises(sf.BadInput, match="on a line"):
        sf.fit(line, sf.WeakForm(sf.Potential() + sf.VectorField()), progress=False)
    followed = sf.Snapshots.from_arrays([x, x + 0.1], [0.0, 1.0], paired=True)
    with pytest.raises(sf.BadInput, match="do not divide"):
        sf.fit(followed, sf.WeakForm(growth=sf.Growth()), progress=False)


def test_settings_of_the_command_line():
    chosen = sf.WeakForm().with_settings({"field": True, "growth": True, "radial": False})
    assert repr(chosen.energy) == repr(TURNING)
    assert chosen.growth is not None
    paired = sf.WeakForm().with_settings({"radial": False}, interaction=True)
    assert not paired.energy.only(sf.Interaction)[0].radial
    with pytest.raises(sf.BadInput, match="has the settings conditions, field, growth, radial"):
        sf.WeakForm().with_settings({"steps": 3})
    with pytest.raises(sf.BadInput, match="true or false"):
        sf.WeakForm().with_settings({"field": 3})
