"""The default method, with all its stages, on flows whose energy is known: V and beta as they are.

Heights and noise are compared as they come out, not up to a factor: a fit whose V and beta are both
half of the truth has the right pattern, predicts well and is wrong.
"""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow.datasets import double_well
from stitchflow.metrics import raw_r2

SMALL = sf.Stitching(particles=60, nodes=11, optimiser=sf.Optimiser(steps=500))
RATE, BETA = 1.5, 0.3


def relaxing(n: int, times=(0.0, 0.25, 0.5, 0.75, 1.0)) -> sf.Snapshots:
    """The Ornstein-Uhlenbeck process of V = RATE x^2 / 2 and noise BETA, from N(2, 0.3^2)."""
    rng, clouds = np.random.default_rng(0), []
    for t in times:
        left = np.exp(-RATE * t)
        spread = np.sqrt((0.3 * left) ** 2 + BETA / RATE * (1.0 - left**2))
        clouds.append(2.0 * left + spread * rng.normal(size=(n, 1)))
    return sf.Snapshots.from_arrays(clouds, times)


def bowl() -> sf.Energy:
    terms = sf.Potential(lambda x: 0.5 * RATE * (x**2).sum()) + sf.Entropy(BETA, learn=False)
    return sf.Energy.known(terms, 1)


def missed(fit: sf.Fit, truth: sf.Energy) -> tuple[float, float, float]:
    """Errors at the individuals: of V and of its slope as shares of the truth's, of beta."""
    x = fit.data.x
    learned, true = (np.asarray(energy.potential(x)) for energy in (fit.energy, truth))
    force, exact = (np.asarray(energy.force(x)) for energy in (fit.energy, truth))
    slope = ((force - exact) ** 2).mean() / (exact**2).mean()
    return 1.0 - raw_r2(learned, true), float(slope), fit.energy.beta / truth.beta - 1.0


def test_an_ou_flow_has_its_own_noise_and_potential():
    fit = sf.fit(relaxing(300), SMALL, progress=False)
    assert fit.status.ok
    assert "told by averages" in str(fit.status)
    of_potential, of_slope, of_beta = missed(fit, bowl())
    assert of_potential < 0.06
    assert of_slope < 0.1
    assert abs(of_beta) < 0.3


def test_a_double_well_has_its_own_noise_and_potential():
    data, truth = double_well(dim=1, n=300, key=0)
    fit = sf.fit(data, SMALL, progress=False)
    assert "told by averages" in str(fit.status)
    of_potential, of_slope, of_beta = missed(fit, truth)
    assert of_potential < 0.06
    assert of_slope < 0.1
    assert abs(of_beta) < 0.3


@pytest.mark.full
@pytest.mark.parametrize("dim", [1, 2])
def test_double_wells_are_recovered_with_defaults(dim):
    data, truth = double_well(dim=dim, n=500, key=0)
    fit = sf.fit(data, progress=False)
    assert fit.status.ok
    of_potential, of_slope, of_beta = missed(fit, truth)
    assert of_potential < 0.05
    assert of_slope < 0.1
    assert abs(of_beta) < 0.3


@pytest.mark.full
def test_a_fit_does_not_mind_how_snapshots_are_cut():
    """Everybody seen at one of thirty nearly equal times instead of one: the same energy."""
    whole = relaxing(300)
    t = whole.times[whole.index]
    t = t + 1e-3 * (np.arange(len(t)) % 30)
    small = sf.Snapshots.from_table(whole.x, t)
    assert len(small) == 150
    fits = [sf.fit(data, SMALL, progress=False) for data in (whole, small)]
    betas = [fit.energy.beta for fit in fits]
    assert betas[1] == pytest.approx(betas[0], rel=0.15)
    forces = [np.asarray(fit.energy.force(whole.x)) for fit in fits]
    assert ((forces[1] - forces[0]) ** 2).mean() < 0.03 * (forces[0] ** 2).mean()
