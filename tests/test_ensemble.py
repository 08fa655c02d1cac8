"""Ensembles: trained together, each on its own bootstrap, with bands that mean something."""

import numpy as np
import pytest

import stitchflow as sf

QUICK = sf.Stitching(optimiser=sf.Optimiser(steps=200), particles=30, nodes=8)
TIMES = [0.0, 0.5, 1.0]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return sf.Snapshots.from_arrays([rng.normal(size=(80, 2)) + 2.0 * t for t in TIMES], TIMES)


@pytest.fixture(scope="module")
def ensemble(data):
    return sf.fit_ensemble(data, QUICK, members=4, progress=False)


def test_members_differ_and_all_answer(ensemble, data):
    assert len(ensemble) == 4
    assert repr(ensemble) == "Ensemble(4 bootstraps of stitching)"
    for member in ensemble.members:
        assert member.status.ok
        assert np.isfinite(np.asarray(member.flow.sample([0.5], 50))).all()
    spread = ensemble.potential(data.cloud(0))
    assert spread.mean.shape == spread.sd.shape == (80,)
    assert (spread.sd > 0).all()
    assert ensemble.force(data.cloud(0)).mean.shape == (80, 2)
    assert set(ensemble.spread()) == {"V", "force", "velocity"}


def test_a_diagnosis_tells_the_spread(ensemble):
    found = sf.diagnose(ensemble)
    assert found.spread == ensemble.spread()
    assert "between members" in found.sentences[1]


def test_the_band_is_around_the_moving_mean(ensemble):
    band = ensemble.band(TIMES, n=300)
    assert band.mean.shape == (3, 2)
    assert (band.low < band.mean).all()
    assert (band.mean < band.high).all()
    np.testing.assert_allclose(band.mean[:, 0], [0.0, 1.0, 2.0], atol=0.5)
    wide = ensemble.band(TIMES, level=0.99, n=300)
    assert (wide.high - wide.low > band.high - band.low).all()


@pytest.mark.full
def test_a_seed_ensemble_sees_the_same_individuals(data):
    seeds = sf.fit_ensemble(data, QUICK, members=2, bootstrap=False, progress=False)
    first, second = (member.data.weights for member in seeds.members)
    np.testing.assert_array_equal(first, second)
    again = sf.fit_ensemble(data, QUICK, members=2, bootstrap=False, progress=False)
    np.testing.assert_array_equal(
        seeds.members[1].flow.curve.particles, again.members[1].flow.curve.particles
    )


def test_bootstraps_keep_the_individuals_and_their_number(data):
    again = data.reweighted(3)
    np.testing.assert_array_equal(again.x, data.x)
    sums = np.bincount(again.index, weights=again.weights)
    np.testing.assert_allclose(sums, data.counts)
    assert 0.25 < (again.weights == 0).mean() < 0.5  # about 1/e are left out
    paired = sf.Snapshots.from_arrays(data.clouds, TIMES, paired=True).reweighted(0)
    np.testing.assert_array_equal(paired.cloud_weights(0), paired.cloud_weights(2))


def test_bad_requests_are_named(data):
    with pytest.raises(TypeError, match="Stitching"):
        sf.fit_ensemble(data, sf.Nearest())
    with pytest.raises(ValueError, match="members"):
        sf.fit_ensemble(data, members=1)
