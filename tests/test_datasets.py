"""Simulated experiments: shapes, splits, and physics that can be checked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow import datasets
from stitchflow._energy.simulate import simulate


@pytest.mark.parametrize("name", datasets.POTENTIALS)
def test_potentials_have_finite_forces(name):
    """All points but those on a potential's own creases."""
    x = jnp.asarray(np.random.default_rng(0).uniform(-4.0, 4.0, size=(200, 2)))
    force = jax.vmap(jax.grad(datasets.POTENTIALS[name]))(x)
    assert jnp.isfinite(force).all()
    assert (float(jnp.abs(force).max()) > 0) == (name != "flat")


def test_potentials_at_hand_computed_points():
    value = lambda name, *x: float(datasets.POTENTIALS[name](jnp.asarray(x, float)))
    assert value("styblinski_tang", 1.0, 0.0) == pytest.approx(-5.0)
    assert value("sphere", 1.0, 2.0) == pytest.approx(-50.0)
    assert value("watershed", 2.0, 1.0) == pytest.approx(2.2)
    assert value("relu", 1.0, -3.0) == pytest.approx(-50.0)
    assert value("wavy_plateau", 0.0, 1.0) == pytest.approx(2.0 - 2.5)
    assert value("bohachevsky", 0.0, 0.0) == pytest.approx(-7.0)
    assert value("zigzag_ridge", 0.0, 1.0) == pytest.approx(2.0)


@pytest.mark.full
def test_synthetic_snapshots_follow_the_flow():
    """The sphere's flow is known: x(t) = x(0) exp(20 t)."""
    train, test, _ = datasets.synthetic("sphere", n=200)
    assert train.paired
    assert train.counts.tolist() == test.counts.tolist() == [100] * 6
    np.testing.assert_allclose(train.paths[5], train.paths[0] * np.exp(20 * 0.05), rtol=2e-3)
    one_step = datasets.synthetic("sphere", n=200, euler=True).train.paths
    np.testing.assert_allclose(one_step[1], one_step[0] * 1.2, rtol=1e-5)
    unpaired = datasets.synthetic("sphere", n=200, paired=False).train
    assert unpaired.ids is None
    assert not set(map(tuple, unpaired.cloud(0))) & set(map(tuple, unpaired.cloud(1)))
    with pytest.raises(ValueError, match="name must be one of flowers"):
        datasets.synthetic("cube")


def test_creases_do_not_stop_the_simulation():
    """Individuals that reach a crease of holder_table stay there, and everybody stays finite."""
    train, _, energy = datasets.synthetic("holder_table", n=200)
    assert np.isfinite(train.x).all()
    values = [float(np.mean(energy.potential(cloud))) for cloud in train.clouds]
    assert (np.diff(values) < 0).all()


def test_the_wavy_valley_is_followed():
    train, test, energy = datasets.wavy_valley()
    assert train.times.tolist() == [0.0, 5.0, 10.0, 20.0, 30.0]
    assert train.paths.shape == test.paths.shape == (5, 20, 2)
    assert (np.diff(train.paths[:, :, 0].mean(1)) > 0).all()
    floor = np.sin(0.5 * np.pi * train.paths[1:, :, 0])
    assert np.abs(train.paths[1:, :, 1] - floor).mean() < 0.3
    assert energy.beta == pytest.approx(0.00625)


@pytest.mark.parametrize(("regime", "times", "count"), [("dense", 20, 500), ("terminal", 2, 500)])
def test_line_wells_relax_to_their_wells(regime, times, count):
    train, _, _ = datasets.line_wells(regime)
    assert len(train) == times
    assert train.counts.tolist() == [count] * times
    assert np.abs(train.cloud(times - 1)).mean() == pytest.approx(7.0 * (1 - np.exp(-4)), rel=0.05)
    with pytest.raises(ValueError, match="regime must be one of dense"):
        datasets.line_wells("drip")


def test_the_chiral_kernel_is_odd_and_turns():
    z = jnp.asarray([0.7, -0.4])
    kernel = datasets.chiral_kernel
    np.testing.assert_allclose(kernel(z), -kernel(-z), atol=1e-6)
    jacobian = jax.jacobian(kernel)(z)
    assert abs(float(jacobian[1, 0] - jacobian[0, 1])) > 0.01
    assert jnp.isfinite(kernel(jnp.zeros(2))).all()


def test_the_chiral_system_turns_as_the_file_does(data_folder):
    """Mean angular velocity about the centre at t in 50..200: -0.006 (PROTOCOLS.md)."""
    file = np.load(data_folder / "chiral.npz")
    x0 = jnp.asarray(file["x"][file["t"] == 50.0], float)
    times = np.array([50.0, 100.0, 200.0])
    path = np.asarray(simulate(datasets.chiral_energy(), x0, times, jax.random.key(0), ode=True))
    turned = []
    for a, t in ((path[1], 100.0), (path[2], 200.0)):
        truth = file["x"][file["t"] == t]
        turned.append(np.sqrt(((a - truth) ** 2).sum(1)).mean())
    spread = np.sqrt((np.asarray(x0) ** 2).sum(1)).mean()
    assert turned[0] < 0.1 * spread  # the same individuals, simulated to the same places


def test_the_cis_truth_carries_the_file_into_its_ring(data_folder):
    """From the file's own start: mean radius on the way out, and the ring's width at late times.

    The radius tells the unit of time (within 2 %), the width tells beta (within 5 %, which is four
    standard deviations over seeds): 0.073 in the file, 0.016 with a beta of 9e-5.
    """
    file = np.load(data_folder / "cis.npz")
    radius = np.linalg.norm(file["x"], axis=1).reshape(201, 310)
    times = np.concatenate([[0.0, 5.0, 10.0, 20.0], np.arange(100.0, 201.0, 10.0)])
    x0 = jnp.asarray(file["x"][file["t"] == 0.0], float)
    path = np.asarray(simulate(datasets.cis_energy(), x0, times, jax.random.key(0)))
    ours, theirs = np.linalg.norm(path, axis=2), radius[times.astype(int)]
    np.testing.assert_allclose(theirs.mean(axis=1)[1:4], [1.44, 1.69, 1.93], atol=0.006)
    np.testing.assert_allclose(ours.mean(axis=1)[1:4], theirs.mean(axis=1)[1:4], rtol=0.02)
    late = theirs[4:].std(axis=1).mean()
    assert late == pytest.approx(0.073, abs=5e-4)
    assert ours[4:].std(axis=1).mean() == pytest.approx(late, rel=0.05)


def test_the_cis_beta_is_the_noise_of_the_file(data_folder):
    """Half the variance that increments of followed particles gain in one index, by coordinate.

    Differences of successive increments remove the drift: each holds the noise of two indices.
    """
    file = np.load(data_folder / "cis.npz")
    assert (file["id"].reshape(201, 310) == np.arange(310)).all()
    bends = np.diff(file["x"].astype(float).reshape(201, 310, 2), n=2, axis=0)
    measured = (bends**2).mean() / 4.0
    assert measured == pytest.approx(0.0020, abs=5e-5)
    assert datasets.cis_energy().beta == pytest.approx(measured, rel=0.03)


def test_three_marginals_contract_and_spread():
    """Under V = 5|x|^2 a coordinate falls as exp(-10 t) and gains the variance of an OU process."""
    train, test, energy = datasets.three_marginals("quadratic", n=20_000)
    assert energy.beta == pytest.approx(0.1)
    for data in (train, test):
        assert data.times.tolist() == [0.0, 0.01, 0.02]
        assert not data.paired
        for t, cloud in zip(data.times, data.clouds, strict=True):
            shrunk = np.exp(-20.0 * t)
            expected = 16.0 / 3.0 * shrunk + 0.01 * (1.0 - shrunk)
            assert cloud.var(axis=0) == pytest.approx(expected, rel=0.02)
    with pytest.raises(ValueError, match="name must be one of quadratic, flowers"):
        datasets.three_marginals("cube")


def test_populations_move_by_their_own_members():
    """One Euler step from the same start: half of the steps' variance is beta, the rest drift."""
    train, test, energy = datasets.populations("E", dt=0.001, snapshots=2, count=300)
    assert train.counts.tolist() == [3000, 3000]
    assert test.counts.tolist() == [300, 300]
    assert not set(train.groups) & set(test.groups)
    assert train.x[:3000].std() == pytest.approx(0.5, rel=0.03)
    # Noise of single members cancels in moments: d E|x|^2 = (2 E[x . drift] + 4 beta) dt.
    moments = [(cloud**2).sum(1).mean() for cloud in train.clouds]
    x, labels = train.cloud(0), train.groups[train.slice(0)]
    drift = np.concatenate(
        [
            np.asarray(energy.without_noise.velocity(x[labels == g], None, x[labels == g]))
            for g in range(300)
        ]
    )
    expected = (2.0 * (x * drift).sum(1).mean() + 4.0 * energy.beta) * 0.001
    noise = 2.0 * np.sqrt(2.0 * energy.beta * 0.001 * (x**2).sum(1).mean() / len(x))
    assert abs(moments[1] - moments[0] - expected) < 3.0 * noise
    with pytest.raises(ValueError, match="model must be one of A, E"):
        datasets.populations_energy("B")
    with pytest.raises(ValueError, match="dt must be a multiple"):
        datasets.populations("A", dt=0.0005)


def test_populations_relax_as_their_energy_says():
    """The Euler scheme and the library's own simulation with groups agree in distribution."""
    train, _, energy = datasets.populations("A", dt=0.1, snapshots=3, count=400)
    x0, labels = jnp.asarray(train.cloud(0), float), train.groups[train.slice(0)]
    path = np.asarray(simulate(energy, x0, train.times, jax.random.key(0), groups=labels))
    for k in (1, 2):
        ours, theirs = (np.linalg.norm(x, axis=1) for x in (path[k], train.cloud(k)))
        assert ours.mean() == pytest.approx(theirs.mean(), rel=0.03)
        assert ours.std() == pytest.approx(theirs.std(), rel=0.05)


def test_a_whole_chiral_system_hides_nobody():
    train, test, _ = datasets.chiral(snapshots=5, n=40, split=False)
    assert train.counts.tolist() == test.counts.tolist() == [40] * 5
    assert set(train.totals) == {40.0}
    half = datasets.chiral(snapshots=5, n=40)
    assert half.train.counts.tolist() == [20] * 5
    assert set(half.train.totals) == set(half.test.totals) == {40.0}


def test_everything_repeats():
    a, b = datasets.wavy_valley(key=3), datasets.wavy_valley(key=3)
    np.testing.assert_array_equal(a.train.x, b.train.x)
    assert isinstance(a.train, sf.Snapshots)
