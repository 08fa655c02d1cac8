"""The weak form against closed forms: Ornstein-Uhlenbeck, double wells, pairs, and its refusals."""

import jax
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._energy.simulate import simulate
from stitchflow._weak_form.bases import Block, Bumps, Splines
from stitchflow._weak_form.carry import carry
from stitchflow._weak_form.drift_parts import Drift, Landscape
from stitchflow._weak_form.evidence import Equations, solve
from stitchflow._weak_form.fitted import SplineSum
from stitchflow._weak_form.moments import Gap, Moments, Window, gaps_of
from stitchflow._weak_form.noise import SameIndividuals, observe_all
from stitchflow._weak_form.pair_push import Geometry, Neighbours, PairPush
from stitchflow._weak_form.rest import at_rest

STIFF, BETA = 2.0, 0.5


def ou_cloud(rng, n, t):
    """Draws of dX = -STIFF X dt + sqrt(2 BETA) dB at a time, from N(1, 1) at time zero."""
    return ou_paths(rng, rng.normal(size=(n, 1)) + 1.0, np.array([0.0, t]))[-1]


def ou_paths(rng, x, times):
    clouds = [x]
    for gap in np.diff(times):
        decay = np.exp(-STIFF * gap)
        noise = np.sqrt(BETA / STIFF * (1 - decay**2)) * rng.normal(size=x.shape)
        x = decay * x + noise
        clouds.append(x)
    return clouds


@pytest.fixture(scope="module")
def ou():
    rng = np.random.default_rng(0)
    times = np.linspace(0.0, 1.0, 11)
    clouds = ou_paths(rng, rng.normal(size=(1000, 1)) + 1.0, times)
    shuffled = [cloud[rng.permutation(len(cloud))] for cloud in clouds]
    return clouds, shuffled, times


def test_carried_moments_are_those_of_an_ornstein_uhlenbeck_process():
    """Mean and second moment after a gap, and their derivatives, in expectation."""
    bumps = Bumps(np.zeros((1, 1)), np.ones(1))
    drift = Drift((Landscape(bumps),))
    stiff, beta, gap, n = 1.5, 0.4, 0.3, 4000
    c = np.array([0.0, 0.5 * stiff, 0.0])  # V = stiff x^2 / 2
    x = np.random.default_rng(1).normal(size=(n, 1))
    end = carry(drift, c, beta, x, 0.0, gap, 16, None, np.random.default_rng(0))
    decay = np.exp(-stiff * gap)
    noise = beta / stiff * (1 - decay**2)
    assert end.x.mean() == pytest.approx(decay * x.mean(), abs=1e-4)
    assert (end.x**2).mean() == pytest.approx(decay**2 * (x**2).mean() + noise, rel=5e-3)
    assert end.spread.mean() * beta == pytest.approx(noise, rel=2e-3)
    # By the coefficient of x^2 / 2: the derivative of decay * mean.
    by_stiff = 0.5 * end.tangents(np.arange(n))[..., 1].mean()
    assert by_stiff == pytest.approx(-gap * decay * x.mean(), abs=2e-4)
    by_log_beta = (2 * end.x * end.by_log_beta).mean()
    assert by_log_beta == pytest.approx(noise, rel=5e-3)


def test_the_design_is_the_derivative_of_the_prediction():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    bumps = Bumps.for_points(x, (1.0,), 100)
    near = Neighbours.within(np.zeros(60, int), np.full(60, 1 / 60), np.full(60, 60.0))
    pairs = (PairPush(Splines(3.0, 9, True), "interaction"),)
    pairs += (PairPush(Splines(3.0, 9, False), "turning"),)
    drift = Drift((Landscape(bumps), *pairs))
    c = 0.1 * rng.normal(size=drift.count)

    def end(c):
        return carry(drift, c, 0.05, x, 0.0, 0.02, 1, near, np.random.default_rng(3))

    way = rng.normal(size=drift.count)
    numeric = (end(c + 1e-5 * way).x - end(c - 1e-5 * way).x) / 2e-5
    found = end(c).tangents(np.arange(60))[..., :-1] @ way
    np.testing.assert_allclose(found, numeric.mean(axis=0), atol=2e-3 * abs(numeric).max())


def test_pair_pushes_are_derivatives_of_splines():
    rng = np.random.default_rng(4)
    x, splines = rng.normal(size=(12, 2)), Splines(4.0, 10, True)
    near = Neighbours.within(np.zeros(12, int), np.ones(12), np.full(12, 12.0))
    c = rng.normal(size=10)
    table = SplineSum(jax.numpy.asarray(splines.unfold(c)))
    energy = lambda x: sum(
        float(table(jax.numpy.array([np.linalg.norm(x[i] - x[j]) / 4.0]))[0])
        for i in range(12)
        for j in range(i)
    )
    push = PairPush(splines, "interaction")
    found = push.push(Geometry.at(near, x), c) * 12 / 11 * 11  # a mean over eleven others
    numeric = np.zeros_like(x)
    for i in range(12):
        for a in range(2):
            step = np.zeros_like(x)
            step[i, a] = 1e-2
            numeric[i, a] = (energy(x + step) - energy(x - step)) / 2e-2
    np.testing.assert_allclose(found, numeric, atol=0.03 * np.abs(numeric).max())
    np.testing.assert_allclose(push.each_push(Geometry.at(near, x)) @ c * 12, found, atol=1e-9)


def test_strengths_by_evidence_follow_the_signal():
    """A block without signal gets a large precision; the other one the inverse of its variance."""
    rng = np.random.default_rng(5)
    blocks = [Block("signal", np.eye(80)[:, :40]), Block("none", np.eye(80)[:, 40:])]
    truth = np.concatenate([2.0 * rng.normal(size=40), np.zeros(40)])
    a = np.concatenate([rng.normal(size=(2000, 80)), np.zeros((2000, 1))], axis=1)
    equations = Equations(80)
    y = a[:, :-1] @ truth + rng.normal(size=2000)
    equations.add(a, y, np.zeros(2000), np.ones(2000))
    found = solve(equations, blocks, learn_beta=False)
    assert found.precisions[0] == pytest.approx(0.25, rel=0.5)
    assert found.precisions[1] > 100.0
    np.testing.assert_allclose(found.mean[:40], truth[:40], atol=0.15)


def test_potential_and_noise_of_an_ornstein_uhlenbeck_process(ou):
    _, shuffled, times = ou
    fit = sf.fit(sf.Snapshots.from_arrays(shuffled, times), sf.WeakForm(), progress=False)
    assert "same individuals" in fit.status.message
    known = fit.uncertainty.beta
    assert known.sd < 0.1 * BETA
    assert abs(known.mean - BETA) < 3.0 * known.sd
    assert f"beta = {known.mean:.4g} ± {known.sd:.2g}" in fit.summary()
    x = np.linspace(-1.0, 2.0, 20)[:, None]
    np.testing.assert_allclose(fit.energy.force(x), -STIFF * x, atol=0.35)
    # The gauge: V has mean zero over all individuals.
    assert np.asarray(fit.energy.potential(np.concatenate(shuffled))).mean() == pytest.approx(
        0, abs=1e-3
    )


def test_other_individuals_at_each_time():
    rng = np.random.default_rng(7)
    times = np.linspace(0.0, 1.0, 6)
    clouds = [ou_cloud(rng, 700, t) for t in times]
    fit = sf.fit(sf.Snapshots.from_arrays(clouds, times), sf.WeakForm(), progress=False)
    assert "other individuals" in fit.status.message
    known = fit.uncertainty.beta
    assert known.sd < 0.2 * BETA
    assert abs(known.mean - BETA) < 3.0 * known.sd
    x = np.linspace(0.0, 2.0, 9)[:, None]
    force = fit.uncertainty.force(x)
    assert (np.abs(force.mean + STIFF * x) < 3.0 * force.sd).all()
    assert np.sqrt(((force.mean + STIFF * x) ** 2).mean() / ((STIFF * x) ** 2).mean()) < 0.25


def test_averages_of_labelled_individuals_tell_what_following_them_tells(ou):
    """The just-identified case: the action is the likelihood of the paths."""
    clouds, shuffled, times = ou
    basis = sf.Basis(widths=(2.0,))
    followed = sf.Snapshots.from_arrays(clouds, times, paired=True)
    tracked = sf.fit(followed, sf.WeakForm(basis=basis), progress=False)
    unlabelled = sf.fit(
        sf.Snapshots.from_arrays(shuffled, times), sf.WeakForm(basis=basis), progress=False
    )
    assert "followed" in tracked.status.message
    x = np.linspace(-1.0, 2.0, 20)[:, None]
    exact = np.asarray(tracked.energy.force(x))
    np.testing.assert_allclose(unlabelled.energy.force(x), exact, atol=0.25)
    assert tracked.energy.beta == pytest.approx(BETA, rel=0.03)
    assert tracked.uncertainty.beta.sd < unlabelled.uncertainty.beta.sd


def test_a_double_well():
    wells = sf.datasets.line_wells("dense", key=0)
    fit = sf.fit(wells.train, sf.WeakForm(), progress=False)
    assert fit.energy.beta == pytest.approx(1.0, rel=0.1)
    x = wells.test.x
    gap = np.asarray(fit.energy.force(x)) - np.asarray(wells.energy.force(x))
    assert (gap**2).mean() < 0.09 * np.asarray(wells.energy.force(x)).var()


def test_splitting_a_snapshot_changes_little():
    """Forty snapshots of ten at nearly the same times tell what four of a hundred tell."""
    rng = np.random.default_rng(7)
    times = np.linspace(0.0, 1.0, 5)
    whole = [ou_cloud(rng, 600, t) for t in times]
    parts, when = [], []
    for cloud, t in zip(whole, times, strict=True):
        for k, part in enumerate(np.array_split(cloud, 10)):
            parts.append(part)
            when.append(t + 1e-5 * k)
    one = sf.fit(sf.Snapshots.from_arrays(whole, times), sf.WeakForm(), progress=False)
    many = sf.fit(sf.Snapshots.from_arrays(parts, when), sf.WeakForm(), progress=False)
    x = np.linspace(0.0, 2.0, 9)[:, None]
    np.testing.assert_allclose(many.energy.force(x), one.energy.force(x), atol=0.5)


def interacting(seed, n=120, gap=0.05, snapshots=20):
    """Individuals that attract each other by W = -exp(-r^2) in the plane, without a potential."""
    energy = sf.Energy.known(
        sf.Potential(lambda x: 0.5 * (x**2).sum())
        + sf.Interaction(lambda r: -2.0 * np.e ** (-(r**2)))
        + sf.Entropy(0.1, learn=False),
        2,
    )
    rng = np.random.default_rng(seed)
    times = gap * np.arange(snapshots)
    clouds = energy_paths(energy, 1.5 * rng.normal(size=(n, 2)), times, seed)
    return [cloud[rng.permutation(n)] for cloud in clouds], times


def energy_paths(energy, x0, times, seed):
    return np.asarray(simulate(energy, jax.numpy.asarray(x0, float), times, jax.random.key(seed)))


def test_an_interaction_and_its_gauge():
    clouds, times = interacting(0)
    method = sf.WeakForm(sf.Potential() + sf.Interaction() + sf.Entropy())
    fit = sf.fit(sf.Snapshots.from_arrays(clouds, times), method, progress=False)
    r = np.linspace(0.3, 2.0, 20)
    true = -2.0 * np.exp(-(r**2))
    assert np.corrcoef(fit.energy.interaction(r), true)[0, 1] ** 2 > 0.7
    assert abs(float(fit.energy.interaction([30.0])[0])) < 1e-6, "W goes to zero far away"
    known = fit.uncertainty.interaction(r)
    assert known.sd.shape == r.shape
    assert (known.sd > 0).all()
    np.testing.assert_allclose(known.mean, fit.energy.interaction(r), atol=1e-3)


def test_a_turning_kernel():
    rng = np.random.default_rng(8)
    kernel = sf.Energy.known(
        sf.VectorKernel(lambda z: np.array([[0.0, -1.0], [1.0, 0.0]]) @ z / (1.0 + (z**2).sum())), 2
    )
    x0, times = rng.normal(size=(80, 2)), 0.1 * np.arange(15)
    clouds = [c[rng.permutation(80)] for c in energy_paths(kernel, x0, times, 0)]
    method = sf.WeakForm(sf.Energy((sf.VectorKernel(),)))
    fit = sf.fit(sf.Snapshots.from_arrays(clouds, times), method, progress=False)
    z = rng.normal(size=(50, 2))
    found, true = np.asarray(fit.energy.kernel(z)), np.asarray(kernel.kernel(z))
    assert ((found - true) ** 2).sum() < 0.02 * (true**2).sum()
    assert fit.uncertainty.kernel(z).sd.shape == z.shape


def test_a_potential_that_varies_in_time():
    rng = np.random.default_rng(9)
    times, x = np.linspace(0.0, 1.0, 11), rng.normal(size=(800, 1))
    clouds = [x]
    for t in times[:-1]:
        for s in range(10):  # V = -4 t x: individuals are pushed faster and faster
            x = x + 0.01 * 4.0 * (t + 0.01 * s) + np.sqrt(0.02 * 0.2) * rng.normal(size=x.shape)
        clouds.append(x[rng.permutation(800)])
    energy = sf.Potential(time_varying=True) + sf.Entropy()
    fit = sf.fit(sf.Snapshots.from_arrays(clouds, times), sf.WeakForm(energy), progress=False)
    for t in (0.25, 0.75):
        cloud = clouds[int(t * 10)]
        assert np.asarray(fit.energy.force(cloud, t)).mean() == pytest.approx(4.0 * t, abs=0.5)
    with pytest.raises(sf.BadInput, match="t is needed"):
        fit.uncertainty.potential(cloud)


def test_saved_and_loaded(ou, tmp_path):
    _, shuffled, times = ou
    fit = sf.fit(sf.Snapshots.from_arrays(shuffled, times), sf.WeakForm(), progress=False)
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    x = np.linspace(-1.0, 2.0, 7)[:, None]
    np.testing.assert_array_equal(again.energy.potential(x), fit.energy.potential(x))
    for call in ("potential", "force"):
        for a, b in zip(
            getattr(again.uncertainty, call)(x), getattr(fit.uncertainty, call)(x), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    assert again.uncertainty.beta == fit.uncertainty.beta
    assert repr(again.method.energy) == repr(fit.method.energy)
    with pytest.raises(sf.NotAvailable, match="weak-form cannot answer sample"):
        again.flow.sample([0.0], 3)


@pytest.mark.parametrize(
    ("energy", "words"),
    [
        (sf.Potential() + sf.InternalEnergy(lambda r: r**2), "cannot learn InternalEnergy"),
        (sf.Potential() + sf.VectorField(lambda x: x), "cannot learn VectorField"),
        (sf.Potential(lambda x: (x**2).sum()) + sf.Entropy(), "cannot learn Potential"),
        (sf.Potential() + sf.Potential(), "one Potential"),
        (sf.Energy((sf.Entropy(),)), "moves individuals"),
        (sf.Potential() + sf.Entropy(learn=False), "needs a beta"),
    ],
)
def test_refusals(energy, words):
    with pytest.raises(sf.BadInput, match=words):
        sf.WeakForm(energy)


def test_other_methods_have_no_standard_errors():
    x = np.linspace(0.0, 1.0, 20)[:, None]
    data = sf.Snapshots.from_arrays([x, x + 1.0], [0.0, 1.0])
    fit = sf.fit(data, sf.OTLinear(), progress=False)
    with pytest.raises(sf.NotAvailable, match="uncertainty"):
        _ = fit.uncertainty


def _some_of(everybody, rows, drift, c, tests, duration):
    """The observation of a gap in which some of all individuals were seen, and the true change."""
    x, n, total = everybody[rows], len(rows), len(everybody)
    whole = Neighbours.within(np.zeros(total, int), np.ones(total), np.full(total, 1.0 * total))
    push, own = drift.only(PairPush)[0]
    force = push.push(Geometry.at(whole, everybody), c[own])[rows]
    near = Neighbours.within(np.zeros(n, int), np.ones(n), np.full(n, 1.0 * total))
    weights = np.full(n, 1 / n)
    here = Window(x, weights, 0.0, None, near)
    there = Window(x - duration * force, weights, duration, None, near)
    gap = Gap(here, there, False, (0, 0))
    moments = Moments([gap], drift, tests, False)
    (_, carried), *_ = moments.carried(c, 0.0)
    return SameIndividuals().observe(moments, gap, carried, c, 1.0)


def test_the_correction_for_unseen_individuals_has_no_bias():
    """Over ways to see 20 of 80: the slope of least squares at the truth is zero on average."""
    rng = np.random.default_rng(10)
    total, n, duration, draws = 80, 20, 1e-3, 300
    everybody = rng.normal(size=(total, 2))
    tests = Bumps.for_points(everybody, (1.0,), 100)
    push = PairPush(Splines(5.0, 8, True), "interaction")
    drift = Drift((Landscape(Bumps(np.zeros((0, 2)), np.zeros(0))), push))
    c, inverse = np.concatenate([np.zeros(5), rng.normal(size=8)]), np.eye(tests.count)
    plain, corrected, residuals, covariances = [], [], [], []
    for _ in range(draws):
        o = _some_of(everybody, rng.permutation(total)[:n], drift, c, tests, duration)
        (errors,) = o.shared
        plain.append((o.design.T @ o.residual)[:-1] @ c)  # along the truth: how far it shrinks
        corrected.append(plain[-1] - errors.of_residual(inverse, None)[:-1] @ c)
        residuals.append(o.residual)
        covariances.append(np.trace(errors.covariance))
    bias, left, error = np.mean(plain), np.mean(corrected), np.std(corrected) / np.sqrt(draws)
    assert bias < -10.0 * error  # least squares shrinks pushes
    assert abs(left) < 3.0 * error + 0.1 * abs(bias)
    # The covariance of a draw without replacement, to within second order in 1 / n.
    assert np.mean(covariances) == pytest.approx(np.trace(np.cov(np.transpose(residuals))), rel=0.2)


def test_how_long_unseen_pushes_last():
    """Individuals who stand still push alike in all gaps; those who are shuffled do not."""
    rng = np.random.default_rng(11)
    x, gaps = rng.normal(size=(40, 2)), 12
    push = PairPush(Splines(5.0, 8, True), "interaction")
    tests = Bumps.for_points(x, (1.0,), 100)
    c = rng.normal(size=8)

    def lasting(places):
        near = Neighbours.within(np.zeros(40, int), np.ones(40), np.full(40, 80.0))
        w = [Window(y, np.full(40, 1 / 40), 0.01 * k, None, near) for k, y in enumerate(places)]
        moments = Moments(gaps_of(w, 0), Drift((push,)), tests, False)
        observed = observe_all(moments, SameIndividuals(), c, 1.0)
        assert observed is not None
        assert len(observed) == gaps
        return observed[0].lasting

    still = lasting([x] * (gaps + 1))
    fresh = lasting([rng.normal(size=(40, 2)) for _ in range(gaps + 1)])
    assert still == pytest.approx(gaps, rel=1e-6)
    assert 1.0 <= fresh < 0.7 * gaps  # whoever is near a place pushes as the one who was there


@pytest.mark.parametrize("dim", [1, 2])
def test_draws_of_one_distribution_tell_no_rate(dim):
    """V / beta is told, and neither of the two: no interval may exclude half or twice of it."""
    rng = np.random.default_rng(2)
    data = sf.Snapshots.from_arrays([rng.normal(size=(300, dim)) for _ in range(5)], range(5))
    assert at_rest(data)
    fit = sf.fit(data, sf.WeakForm(), progress=False)
    assert "nothing changed beyond chance" in fit.status.message
    known, push = fit.uncertainty.beta, fit.uncertainty.force(np.ones((1, dim)))
    assert known.sd > 2.0 * known.mean
    assert (push.sd > 2.0 * np.abs(push.mean)).all()


def test_change_and_the_same_individuals_are_no_rest(ou):
    _, shuffled, times = ou
    assert not at_rest(sf.Snapshots.from_arrays(shuffled, times))
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 2))
    again = [rng.permutation(x + 0.05 * rng.normal(size=x.shape)) for _ in range(5)]
    assert not at_rest(sf.Snapshots.from_arrays(again, range(5)))


def test_few_populations_at_rest_seem_to_change():
    found = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        clouds = [rng.normal(size=(n, 2)) for n in (80, 40, 60)]
        found.append(at_rest(sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0])))
    assert sum(found) >= 54
