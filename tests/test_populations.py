"""Populations that are followed as wholes: V, W and beta against exact transitions."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._weak_form.bases import Bumps, Splines
from stitchflow._weak_form.populations import Populations
from stitchflow._weak_form.round_bumps import RoundBumps

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
        seen.append(rng.permuted(x, axis=1) if False else shuffled(x, rng))
        centre = x.mean(axis=1, keepdims=True)
        slow, fast = moved(np.repeat(centre, N, axis=1), STIFF), moved(x - centre, STIFF + SPRING)
        kick = slow.mean(axis=1, keepdims=True)
        x = kick + fast - fast.mean(axis=1, keepdims=True)
        # The mean of N independent kicks has the variance of one over N, as a centre has.
    return seen


def shuffled(x, rng):
    """The members of each population in another order."""
    order = rng.permuted(np.broadcast_to(np.arange(x.shape[1]), x.shape[:2]), axis=1)
    return np.take_along_axis(x, order[:, :, None], axis=1)


def snapshots(seen, gap, redrawn=None):
    count, size = seen[0].shape[:2]
    groups = np.repeat(np.arange(count), size)
    clouds = [cloud.reshape(-1, cloud.shape[2]) for cloud in seen]
    return sf.Snapshots.from_arrays(clouds, gap * np.arange(len(seen)), groups=[groups] * len(seen))


@pytest.fixture(scope="module")
def fitted():
    data = snapshots(springs(200, 20, 0.1, 0), 0.1)
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
    print(wrong, slope / (SPRING * r), beta)
    assert wrong < 0.1
    assert np.sqrt(((slope - SPRING * r) ** 2).mean() / (SPRING**2 * (r**2).mean())) < 0.1
    assert abs(beta.mean - BETA) < 3.0 * beta.sd
    assert beta.sd < 0.02 * BETA
