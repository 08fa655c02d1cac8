"""Diagnosis: gradient flows are told from rotating ones, on curves known in closed form."""

import json
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stitchflow as sf
from stitchflow._energy.energy import Energy
from stitchflow._judging.change import LEVEL, Change, change
from stitchflow._judging.diagnose import _everybody, diagnose
from stitchflow._judging.diagnosis import Carried, as_good
from stitchflow._judging.on_curve import BETAS, dissipation, draw_from
from stitchflow._judging.regression import fields_at
from stitchflow._measure.curve import inverse_softplus
from stitchflow._method.contract import Fit
from stitchflow._stitching.stitched_flow import StitchedFlow

TIMES = np.linspace(0.0, 1.0, 5)


def curve_of(path, nodes):
    """A stitched fit whose particles follow `path(x0, t)`, with a quadratic energy."""
    rng = np.random.default_rng(0)
    x0 = rng.normal(size=(150, 2)) + np.array([2.0, 0.0])
    times = np.linspace(0.0, 1.0, nodes)
    particles = np.stack([path(x0, t) for t in times])
    curve = sf.Curve(
        jnp.asarray(particles, float), jnp.zeros(150), jnp.full(2, -3.0), tuple(times.tolist())
    )
    energy = Energy.known(sf.Potential(lambda x: 0.5 * (x**2).sum()), 2)
    flow = StitchedFlow(curve, energy, energy.units)
    return Fit(sf.Stitching(), flow, energy, sf.Status(True, "made"), {}, 0, 0.0, times=TIMES)


def shrinking(x, t):
    return x * np.exp(-t)


def turning(x, t):
    c, s = np.cos(2.0 * t), np.sin(2.0 * t)
    return np.exp(-t) * x @ np.array([[c, s], [-s, c]])


def seen(path, seed, n=150, width=0.5):
    """Other individuals at each of five times, which follow `path`."""
    starts = np.random.default_rng(seed).normal(size=(5, n, 2)) * width + np.array([2.0, 0.0])
    clouds = [path(x0, t) for x0, t in zip(starts, TIMES, strict=True)]
    return sf.Snapshots.from_arrays(clouds, TIMES)


@pytest.fixture(scope="module")
def gradient_flow():
    return diagnose(curve_of(shrinking, 30), test=seen(shrinking, 1))


def test_a_gradient_flow_is_called_one(gradient_flow):
    found = gradient_flow
    assert found.explained > 0.98
    assert found.non_gradient < 0.05
    assert found.is_gradient_flow is True
    assert "consistent with a gradient flow" in str(found)
    # The population's mean falls from 2 to 0.74 in four gaps; only the sampling is left.
    assert found.one_step.energy < 0.2 < 0.3 < found.one_step.standing_still


def test_a_gradient_flow_is_not_claimed_without_individuals_that_show_it(gradient_flow):
    unseen = replace(gradient_flow, change=None)
    assert unseen.is_gradient_flow is None
    assert "no individuals were at hand" in unseen.sentences[0]
    unjudged = replace(gradient_flow, one_step=None)
    assert unjudged.is_gradient_flow is None
    assert "no score of held-out individuals" in unjudged.sentences[0]
    worse = replace(gradient_flow, one_step=Carried(0.4, 0.3))
    assert worse.is_gradient_flow is None
    assert "nearer to the next snapshot than standing still" in worse.sentences[0]


def test_without_motion_nothing_is_called_a_gradient_flow_or_a_rotation():
    """The curve shrinks, or turns, as a fit to noise may; the individuals do neither."""
    rest = lambda x, t: x
    shrinks = diagnose(curve_of(shrinking, 30), test=seen(rest, 1))
    assert shrinks.explained > 0.98
    assert not shrinks.predicts
    for found in (shrinks, replace(shrinks, non_gradient=0.9, non_gradient_interval=(0.8, 0.9))):
        assert found.change.rest > LEVEL
        assert found.is_gradient_flow is None
        assert "no motion beyond sampling noise" in found.sentences[0]
        assert "%" not in str(found)
    grows = replace(shrinks, change=Change(rest=0.005, in_place=0.4))
    assert grows.is_gradient_flow is None
    assert "Proportions change, but nobody needs to have moved" in grows.sentences[0]


def test_no_share_is_printed_that_means_nothing(gradient_flow):
    """An energy that explains less than nothing, as one fitted to shuffled times."""
    found = replace(
        gradient_flow, explained=-30.32, non_gradient=-0.1, non_gradient_interval=(-0.2, 0.004)
    )
    assert found.is_gradient_flow is None
    assert "explains none of the fitted motion" in found.sentences[0]
    assert "remove none of the rest (90 % interval 0 to 0 %)" in found.sentences[0]
    assert not re.search(r"-\d+ %", str(found))


def test_the_printed_range_of_beta_holds_the_printed_beta(gradient_flow):
    """What the profile of a fit to noise was: less than the fitted beta explains more."""
    shares = (0.78, 0.79, 0.788, 0.776, 0.754, 0.677, 0.559, -0.335)
    profile = [(0.0151 * b, share) for b, share in zip(BETAS, shares, strict=True)]
    found = as_good(profile, 0.0151)
    assert found is not None
    low, high = found
    assert (low, high) == (0.0, 0.0151)
    found = replace(gradient_flow, beta=0.0151, profile=tuple(profile), beta_interval=(low, high))
    words = "beta = 0.0151, and any value from 0 to 0.0151 explains the motion as well or better"
    assert f"{words} (0.00378 best)" in str(found)
    flat = [(b, 0.9) for b in BETAS]
    assert as_good(flat, 1.0) == (0.0, 4.0)
    open_end = replace(gradient_flow, beta=1.0, profile=tuple(flat), beta_interval=(0.0, 4.0))
    assert "any value from 0 to 4 or more explains the motion as well;" in str(open_end)


def test_a_rotation_is_found_with_an_interval_that_excludes_zero():
    found = replace(diagnose(curve_of(turning, 30)), change=change(seen(turning, 1)))
    assert found.non_gradient > 0.8
    assert found.non_gradient_interval[0] > 0.5
    assert found.is_gradient_flow is False
    assert "not a gradient flow" in str(found)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["sentences"][0] == found.sentences[0]
    assert plain["change"] == {"rest": found.change.rest, "in_place": found.change.in_place}


def test_those_trained_on_and_those_held_out_are_looked_at_together():
    some, others = (seen(shrinking, seed, n) for seed, n in ((1, 20), (2, 30)))
    both = _everybody(some, others)
    np.testing.assert_array_equal(both.counts, 50)
    np.testing.assert_array_equal(both.times, TIMES)
    followed = sf.Snapshots.from_arrays(some.clouds, TIMES, paired=True)
    assert _everybody(followed, others) is followed
    assert _everybody(None, others) is others
    assert _everybody(some, None) is some


def test_a_rotation_shows_in_the_data_where_the_fitted_curve_has_none():
    """Other individuals at every time; the fit would have it shrink without turning."""
    rng, times = np.random.default_rng(1), np.linspace(0.0, 2.0, 6)
    clouds = [turning(rng.normal(size=(150, 2)) * [1.0, 0.2], t) for t in times]
    fit = curve_of(shrinking, 30)
    assert diagnose(fit).non_gradient < 0.05
    found = diagnose(fit, sf.Snapshots.from_arrays(clouds, times))
    assert found.non_gradient_interval[0] > 0.2
    assert found.is_gradient_flow is False


def test_energy_dissipates_at_the_rate_of_a_gradient_flow():
    fit = curve_of(shrinking, 60)
    curve, energy = fit.flow.curve, fit.flow.energy
    ratio = dissipation(curve, energy, draw_from(curve, energy, jax.random.key(0)))
    assert ratio == pytest.approx(1.0, abs=0.02)
    turned = curve_of(turning, 60)
    curve = turned.flow.curve
    # |v|^2 is five times |grad V|^2 here, and the energy still falls by |grad V|^2.
    ratio = dissipation(curve, energy, draw_from(curve, energy, jax.random.key(0)))
    assert ratio == pytest.approx(1.0 / 3.0, abs=0.02)


@pytest.mark.parametrize("width", [0.3, 0.6])
def test_a_diffusing_cloud_dissipates_what_it_has_whatever_its_kernels(width):
    """Heat with beta 1/2: the variance of kernels and centres together grows as 1 + t."""
    times = np.linspace(0.0, 1.0, 21)
    ranks = scipy.stats.norm.ppf((np.arange(400) + 0.5) / 400)[:, None]
    particles = np.stack([ranks * np.sqrt(1.0 + t - width**2) for t in times])
    kernels = inverse_softplus(np.array([width]))
    curve = sf.Curve(jnp.asarray(particles, float), jnp.zeros(400), kernels, tuple(times.tolist()))
    energy = Energy.known(sf.Entropy(0.5), 1)
    ratio = dissipation(curve, energy, draw_from(curve, energy, jax.random.key(0)))
    assert ratio == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_fields_are_gradients_and_divergence_free(dim):
    """By central differences: symmetric Jacobians on one side, traceless ones on the other."""
    rng = np.random.default_rng(0)
    x, step = rng.normal(size=(5, dim)), 1e-5
    shifted = [x + sign * step * e for e in np.eye(dim) for sign in (1, -1)]
    points = np.concatenate([x, *shifted])
    gradients, rotations = fields_at(points, np.random.default_rng(1))
    for fields, kind in ((gradients, "gradient"), (rotations, "rotation")):
        parts = fields[5:].reshape(dim, 2, 5, dim, -1)
        jacobian = (parts[:, 0] - parts[:, 1]) / (2 * step)  # (along, point, component, field)
        if kind == "rotation":
            trace = np.einsum("ipif->pf", jacobian)
            assert np.abs(trace).max() < 1e-5 * np.abs(jacobian).max()
        else:
            skew = jacobian - jacobian.transpose(2, 1, 0, 3)
            assert np.abs(skew).max() < 1e-5 * np.abs(jacobian).max()


def test_methods_without_an_energy_are_refused():
    data = sf.Snapshots.from_arrays([np.eye(5, 2), 1.0 + np.eye(5, 2)], [0.0, 1.0])
    with pytest.raises(sf.NotAvailable, match="nearest"):
        diagnose(sf.fit(data, sf.Nearest(), progress=False))


def test_bad_data_is_named():
    fit, data = curve_of(shrinking, 5), sf.Snapshots.from_arrays([np.zeros((5, 3))], [0.0])
    with pytest.raises(ValueError, match="test must have 2 dimensions, got 3"):
        diagnose(fit, test=data)
    with pytest.raises(TypeError, match="data must be Snapshots, got ndarray"):
        diagnose(fit, np.zeros((5, 2)))


def test_changing_counts_are_mentioned():
    fit = curve_of(shrinking, 20)
    rng = np.random.default_rng(0)
    data = sf.Snapshots.from_arrays([rng.normal(size=(n, 2)) for n in (100, 300)], [0.0, 1.0])
    found = diagnose(fit, data)
    assert found.suggests_growth
    words = "the last snapshot has 3 times as many individuals as the first; if that is how"
    assert words in found.sentences[1]
    assert "consider growth" in found.sentences[1]
    fewer = replace(found, masses=(1.0, 0.5, 0.25))
    assert "the last snapshot has 25% as many individuals as the first" in fewer.sentences[1]
    uneven = replace(found, masses=(1.0, 4.0, 2.0))
    assert "the largest snapshot has 4 times as many individuals as the" in uneven.sentences[1]
