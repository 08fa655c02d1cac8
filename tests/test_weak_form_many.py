"""The weak form in many dimensions: leading directions, and springs in all others."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._weak_form.frame import Frame
from stitchflow._weak_form.solve import temperature
from stitchflow._weak_form.springs import Averages, Springs

BETA, DIM = 0.3, 8
TIMES = np.linspace(0.0, 1.5, 4)
RATES = np.linspace(0.4, 2.0, DIM)
TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(DIM, DIM)))[0]


def spring_cloud(rng, n, t, rates):
    """Draws of dX = -rates X dt + sqrt(2 BETA) dB at a time, from N(0.5, 0.3^2)."""
    decay = np.exp(-rates * t)
    start = 0.5 + 0.3 * rng.normal(size=(n, len(rates)))
    return decay * start + np.sqrt(BETA / rates * (1 - decay**2)) * rng.normal(size=start.shape)


def averages(clouds):
    powers = [[(cloud**p).mean(axis=0) for p in (1, 2, 3, 4)] for cloud in clouds]
    return Averages.of(TIMES / 1.5, np.array([len(c) for c in clouds], float), np.array(powers))


@pytest.fixture(scope="module")
def turned():
    rng = np.random.default_rng(0)
    clouds = [spring_cloud(rng, 500, t, RATES) @ TURN for t in TIMES]
    data = sf.Snapshots.from_arrays(clouds, TIMES)
    return data, sf.fit(data, sf.WeakForm(basis=sf.Basis(bumps=60)), progress=False)


def test_predicted_averages_are_those_of_an_ornstein_uhlenbeck_process():
    rng = np.random.default_rng(1)
    springs = Springs(averages([spring_cloud(rng, 50, t, RATES) for t in TIMES]), ())
    way = np.stack([-2.0 * RATES, 0.5 * RATES, np.full(DIM, 0.5), np.full(DIM, np.log(0.09))])
    mean, variance, decay, noise = springs.predicted(way, np.log(BETA))
    t = (TIMES / 1.5)[:, None]
    left = np.exp(-RATES * t)
    np.testing.assert_allclose(mean, 2.0 + left * (0.5 - 2.0), rtol=1e-9)
    np.testing.assert_allclose(variance, left**2 * 0.09 + BETA / RATES * (1 - left**2), rtol=1e-9)
    np.testing.assert_allclose(decay, np.broadcast_to(np.exp(-RATES / 3.0), (3, DIM)), rtol=1e-9)
    np.testing.assert_allclose(variance[1], decay[0] ** 2 * variance[0] + noise[0], rtol=1e-9)


@pytest.mark.parametrize("same", [False, True])
def test_springs_find_stiffness_and_beta_with_honest_errors(same):
    """Standardised errors of log beta over eight data sets have about unit size."""
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        clouds = [spring_cloud(rng, 400, t, RATES) for t in TIMES / 1.5]
        if same:
            for k in range(1, len(clouds)):
                decay = np.exp(-RATES / 3.0)
                noise = np.sqrt(BETA / RATES * (1 - decay**2)) * rng.normal(size=(400, DIM))
                clouds[k] = decay * clouds[k - 1] + noise
        springs, log_beta, found = Springs(averages(clouds), tuple(clouds)), np.log(0.1), None
        for _ in range(6):
            found = springs.fit(log_beta, same, found)
            log_beta += found.step
        assert abs(found.step) < 1e-3
        errors.append((log_beta - np.log(BETA)) * np.sqrt(found.information))
        assert np.sqrt(((2.0 * found.c[0, 1] - RATES) ** 2).mean()) < 0.4
    assert 0.5 < np.sqrt(np.mean(np.square(errors))) < 1.6


def test_directions_that_vary_together_are_no_independent_witnesses():
    """Several copies of one direction tell beta no better than the one."""
    rng = np.random.default_rng(3)
    one = [spring_cloud(rng, 500, t, RATES[:1]) for t in TIMES / 1.5]
    many = [np.repeat(cloud, 12, axis=1) for cloud in one]
    alone, copies = (Springs(averages(c), tuple(c)).fit(np.log(BETA), False) for c in (one, many))
    assert copies.information == pytest.approx(alone.information, rel=0.05)


def test_force_and_noise_in_eight_turned_dimensions(turned):
    data, fit = turned
    force = -((data.x @ TURN.T) * RATES) @ TURN
    gap = np.asarray(fit.energy.force(data.x)) - force
    assert (gap**2).sum() < 0.05 * ((force - force.mean(axis=0)) ** 2).sum()
    known = fit.uncertainty.beta
    assert known.sd < 0.1 * BETA
    assert abs(known.mean - BETA) < 3.0 * known.sd
    x = data.x[:40]
    np.testing.assert_allclose(fit.uncertainty.force(x).mean, fit.energy.force(x), atol=1e-3)
    np.testing.assert_allclose(
        fit.uncertainty.potential(x).mean, fit.energy.potential(x), atol=1e-3
    )
    assert (fit.uncertainty.force(x).sd > 0).all()
    assert np.asarray(fit.energy.potential(data.x)).mean() == pytest.approx(0.0, abs=1e-2)


def test_saved_loaded_and_diagnosed(turned, tmp_path):
    data, fit = turned
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    x = data.x[:10]
    np.testing.assert_array_equal(again.energy.potential(x), fit.energy.potential(x))
    np.testing.assert_array_equal(again.uncertainty.force(x).sd, fit.uncertainty.force(x).sd)
    found = sf.diagnose(fit, data).identifiability
    assert found.term("beta") is not None


def test_the_frame_is_found_in_one_pass(monkeypatch):
    """Parts of the data of any size give the same directions and averages."""
    rng = np.random.default_rng(4)
    data = sf.Snapshots.from_arrays([rng.normal(size=(90, 7)) * np.arange(1, 8)] * 2, [0.0, 1.0])
    whole = Frame.of(data, 5)
    monkeypatch.setattr("stitchflow._weak_form.constants.CHUNK", 17)
    parts = Frame.of(data, 5)
    np.testing.assert_allclose(parts.axes, whole.axes, atol=1e-9)
    np.testing.assert_allclose(np.abs(whole.axes).argmax(axis=0), np.arange(7)[::-1])
    seen = parts.springs(data, 1).seen
    inside = (data.x[:90] - np.asarray(data.units.centre)) / data.units.length
    z = inside @ whole.axes[:, 5:]
    np.testing.assert_allclose(seen.mean[0], z.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(seen.variance[1], z.var(axis=0, ddof=1), rtol=1e-6)


def test_the_temperature_is_the_mean_square_that_is_left():
    assert temperature([np.full(50, 3.0), np.full(50, 3.0)], None) == pytest.approx(9.0)
    assert temperature([np.full(100, 0.1)], None) == 1.0
