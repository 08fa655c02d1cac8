"""Where averages tell the energy, stitching takes it from them and fits the curve under it."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._stitching.anchor import arrival_ratio

SHORT = {"optimiser": sf.Optimiser(steps=200), "particles": 60, "nodes": 10}
TOLD = {**SHORT, "anchor": sf.ByAverages()}


def falling(stiffness: float, beta: float, n: int = 150) -> sf.Snapshots:
    """Exact draws of an Ornstein-Uhlenbeck process from N(3, 0.1)."""
    rng, times, clouds = np.random.default_rng(1), np.linspace(0.0, 1.0, 6), []
    for t in times:
        shrunk = np.exp(-stiffness * t)
        variance = 0.1 * shrunk**2 + beta / stiffness * (1.0 - shrunk**2)
        clouds.append(3.0 * shrunk + np.sqrt(variance) * rng.normal(size=(n, 1)))
    return sf.Snapshots.from_arrays(clouds, times)


@pytest.fixture(scope="module")
def data() -> sf.Snapshots:
    return falling(2.0, 0.4)


@pytest.fixture(scope="module")
def fit(data: sf.Snapshots) -> sf.Fit:
    return sf.fit(data, sf.Stitching(**TOLD), progress=False)


@pytest.fixture(scope="module")
def told(data: sf.Snapshots) -> sf.Flow:
    return sf.fit(data, sf.WeakForm(), progress=False).flow


def test_energy_is_the_weak_forms(told, fit):
    x = np.linspace(0.0, 3.0, 7)[:, None]
    np.testing.assert_allclose(fit.energy.force(x), told.energy.force(x), rtol=1e-5)
    assert fit.energy.beta == pytest.approx(told.energy.beta, rel=1e-6)


def test_sizes_are_right_within_their_errors(fit):
    beta = fit.uncertainty.beta
    assert abs(beta.mean - 0.4) < 3.0 * beta.sd < 0.6
    x = np.linspace(0.0, 3.0, 7)[:, None]
    force = fit.uncertainty.force(x)
    assert (np.abs(force.mean + 2.0 * x) < 4.0 * force.sd).all()
    assert "told by averages" in str(fit.status)


def test_the_curve_is_fitted(data, fit):
    sample = np.asarray(fit.flow.sample([0.6], 4000, key=0))[0]
    assert sample.mean() == pytest.approx(3.0 * np.exp(-1.2), abs=0.1)


def test_a_run_keeps_energy_and_errors(fit, tmp_path):
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    x = np.linspace(0.0, 3.0, 5)[:, None]
    np.testing.assert_allclose(again.energy.force(x), fit.energy.force(x), rtol=1e-6)
    np.testing.assert_allclose(again.uncertainty.force(x).sd, fit.uncertainty.force(x).sd)
    assert (
        repr(again.method.energy)
        == repr(fit.method.energy)
        == "Potential(V(x)) + " + ("Entropy(beta=auto, learn=True)")
    )


def test_without_it_networks_are_trained(data):
    few = sf.Stitching(optimiser=sf.Optimiser(steps=2), particles=20, nodes=6)
    fit = sf.fit(data, few, progress=False)
    assert fit.method.anchor == sf.NoAnchor()
    assert sf.Stitching().resolved(data).anchor == sf.ByAverages()
    with pytest.raises(sf.NotAvailable, match="ensembles"):
        fit.uncertainty  # noqa: B018


def asked(energy: sf.Energy, data: sf.Snapshots, **settings) -> object:
    return sf.ByAverages(**settings).estimate(energy, data, data.units)


def test_what_averages_do_not_tell_is_left_to_networks(data):
    porous = sf.Potential() + sf.InternalEnergy(lambda r: r**2)
    assert asked(porous, data) is None
    # Without noise and without pairs the residual has no kernel in it.
    assert asked(sf.Energy((sf.Potential(),)), data) is None
    # Nothing is explained to within a tenth of its noise.
    assert asked(sf.Potential() + sf.Entropy(), data, misfit=0.01) is None


def test_snapshots_that_arrive_elsewhere_are_noticed(data, told):
    assert arrival_ratio(told, data) < 1.5
    assert arrival_ratio(told, falling(1.0, 0.4)) > 3.0


def test_individuals_without_weight_do_not_count(data, told):
    weights = np.where(np.arange(len(data.x)) % 3 == 0, 0.0, 1.0)
    some = sf.Snapshots.from_table(data.x, data.times[data.index], weights=weights)
    assert arrival_ratio(told, some) < 1.5


def test_a_negative_misfit_is_refused():
    with pytest.raises(ValueError, match="misfit"):
        sf.ByAverages(misfit=-1.0)
