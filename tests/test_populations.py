"""Populations that are followed as wholes: V, W and beta against exact transitions."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._weak_form.bases import Bumps, Splines
from stitchflow._weak_form.basis import Basis
from stitchflow._weak_form.problem import Problem
from stitchflow._weak_form.round_bumps import RoundBumps
from stitchflow._weak_form.whole_populations import Populations

STIFF, SPRING, BETA, N = 1.5, 2.0, 0.5, 6
LEARNED = sf.Potential() + sf.Interaction(radial=True) + sf.Entropy()


def springs(count, times, gap, seed, offset=1.0):
    """Populations in a bowl whose members are joined by springs, exactly.

    V = STIFF/2 |x|^2 and W = SPRING/2 r^2: the centre relaxes with the rate STIFF, displacements
    from the centre with STIFF + SPRING.
    """
    rng = np.random.default_rng(seed)

    def moved(z, rate):
        keep = np.exp(-rate * gap)
        return keep * z + np.sqrt(BETA / rate * (1.0 - keep**2)) * rng.normal(size=z.shape)

    x, seen = offset + 0.7 * rng.normal(size=(count, N, 2)), []
    for _ in range(times):
        seen.append(shuffled(x, rng))
        centre = x.mean(axis=1, keepdims=True)
        slow, fast = moved(np.repeat(centre, N, axis=1), STIFF), moved(x - centre, STIFF + SPRING)
        # The mean of N independent kicks has the variance of one over N, as a centre has.
        x = slow.mean(axis=1, keepdims=True) + fast - fast.mean(axis=1, keepdims=True)
    return seen


def shuffled(x, rng):
    """The members of each population in another order."""
    order = rng.permuted(np.broadcast_to(np.arange(x.shape[1]), x.shape[:2]), axis=1)
    return np.take_along_axis(x, order[:, :, None], axis=1)


def snapshots(seen, gap):
    count, size = seen[0].shape[:2]
    groups = np.repeat(np.arange(count), size)
    clouds = [cloud.reshape(-1, cloud.shape[2]) for cloud in seen]
    return sf.Snapshots.from_arrays(clouds, gap * np.arange(len(seen)), groups=[groups] * len(seen))


@pytest.fixture(scope="module")
def fitted():
    data = snapshots(springs(400, 17, 0.1, 0), 0.1)
    return sf.fit(data, sf.WeakForm(LEARNED), progress=False), data


def test_bowl_springs_and_noise_are_found_without_knowing_members(fitted):
    fit, _ = fitted
    assert "whole populations" in fit.status.message
    rng = np.random.default_rng(1)
    x, r = 0.6 * rng.normal(size=(200, 2)), np.linspace(0.3, 1.5, 30)
    force, beta = fit.uncertainty.force(x), fit.uncertainty.beta
    wrong = np.sqrt(((force.mean + STIFF * x) ** 2).sum() / (STIFF**2 * (x**2).sum()))
    step = 1e-3
    w = lambda at: np.asarray(fit.energy.interaction(at), float)
    slope = (w(r + step) - w(r - step)) / (2 * step)
    assert wrong < 0.1
    # Only a sixth of W' acts between two members, so that it is told to a fifth or so.
    assert np.sqrt(((slope - SPRING * r) ** 2).mean() / (SPRING**2 * (r**2).mean())) < 0.35
    assert abs(beta.mean - BETA) < 3.0 * beta.sd
    assert beta.sd < 0.04 * BETA


def test_populations_that_are_drawn_anew_are_not_followed():
    rng = np.random.default_rng(0)
    own = 3.0 * rng.normal(size=(1000, 1, 2))  # dishes that differ and stay where they are
    drawn = [own + rng.normal(size=(1000, N, 2)) for _ in range(6)]
    assert Populations.of(LEARNED, snapshots(drawn, 0.1)) is None
    followed = springs(1000, 6, 0.1, 0)
    whole, plain = snapshots(followed, 0.1), sf.Potential() + sf.Entropy()
    assert Populations.of(LEARNED, whole) is not None
    assert Problem.of(plain, Basis(), whole).crowd is not None
    assert Problem.of(plain, Basis(), whole, wholes=False).crowd is None
    assert Problem.of(plain, Basis(), whole, grows=True).crowd is None
    assert Populations.of(LEARNED, snapshots(springs(1000, 6, 3.0, 0), 3.0)) is None
    few = [cloud[:20] for cloud in followed]
    assert Populations.of(LEARNED, snapshots(few, 0.1)) is None
    uneven = snapshots(followed, 0.1).take(np.arange(1, 6 * 1000 * N))
    assert Populations.of(LEARNED, uneven) is None


def test_second_derivatives_of_all_functions_are_those_of_finite_differences():
    rng = np.random.default_rng(0)
    x, step = rng.normal(size=(20, 2)), 1e-4
    led = Bumps(rng.normal(size=(3, 2)), np.array([1.0, 0.5, 0.7]))
    bumps = RoundBumps(led.centres, led.widths, np.array([0.1, -0.2]), Splines(4.0, 9, False))
    moved = [x + step * sign * e for e in np.eye(2) for sign in (1.0, -1.0)]
    values = [bumps.values(y) for y in moved]
    slopes = np.stack([values[0] - values[1], values[2] - values[3]], axis=1) / (2 * step)
    np.testing.assert_allclose(bumps.slopes(x), slopes, atol=1e-5)
    bends = sum(values) - 4 * bumps.values(x)
    np.testing.assert_allclose(bumps.laplacians(x), bends / step**2, atol=1e-4)
    c = rng.normal(size=bumps.count)
    ends = [bumps.slope(y, c) for y in moved]
    hessian = np.stack([ends[0] - ends[1], ends[2] - ends[3]], axis=2) / (2 * step)
    np.testing.assert_allclose(bumps.hessian(x, c), hessian, atol=1e-3)


def test_a_saved_fit_answers_alike(fitted, tmp_path):
    fit, _ = fitted
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    x, r = np.array([[0.1, 0.2], [1.0, -0.5]]), np.array([0.5, 1.0])
    np.testing.assert_allclose(again.energy.potential(x), fit.energy.potential(x), rtol=1e-5)
    np.testing.assert_allclose(again.energy.interaction(r), fit.energy.interaction(r), rtol=1e-5)
    np.testing.assert_allclose(again.uncertainty.force(x).sd, fit.uncertainty.force(x).sd)
    known = fit.uncertainty.potential(x)
    np.testing.assert_allclose(fit.energy.potential(x), known.mean, rtol=1e-3, atol=1e-4)
