"""What each condition adds to the energy that all share."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._judging.judge import Sample
from stitchflow._weak_form.bases import Block, Bumps
from stitchflow._weak_form.choices import Stages
from stitchflow._weak_form.deviation import Deviation, shared_drift, to_shared
from stitchflow._weak_form.drift_parts import Drift, Landscape

FORM = sf.Potential() + sf.PerCondition(sf.Potential()) + sf.Entropy()
PULL, BETA = 1.0, 0.2


def springs(push: float, seed: int = 0, n: int = 100, dishes: int = 2) -> sf.Snapshots:
    """V = x^2 / 2 -+ push x: exact draws of an Ornstein-Uhlenbeck process of each condition."""
    rng, rows = np.random.default_rng(seed), []
    for condition, sign in (("control", -1.0), ("treated", 1.0)):
        for dish in range(dishes):
            for t in (0.0, 0.4, 0.8, 1.2):
                decay = np.exp(-PULL * t)
                mean = sign * push * (1 - decay) + 1.5 * decay
                sd = np.sqrt(BETA * (1 - decay**2) + 0.5 * decay**2)
                for x in mean + sd * rng.normal(size=n):
                    rows.append((x, t, f"{condition}{dish}", condition))
    x, t, groups, conditions = zip(*rows, strict=True)
    told = {"groups": np.array(groups), "conditions": np.array(conditions)}
    return sf.Snapshots.from_table(np.array(x)[:, None], t, **told)


@pytest.fixture(scope="module")
def different() -> sf.Fit:
    return sf.fit(springs(0.6), sf.WeakForm(FORM), progress=False)


def test_a_difference_is_found_and_deviations_sum_to_zero(different):
    """The force of V = x^2/2 -+ 0.6 x differs by 1.2 everywhere, and the mean is -x."""
    x, energy = np.linspace(-0.5, 1.5, 9)[:, None], different.energy
    assert "conditions differ in V" in str(different.status)
    force = {name: np.asarray(energy.of(name).force(x)) for name in energy.conditions}
    apart = (force["treated"] - force["control"]).ravel()
    assert np.abs(apart.mean() - 1.2) < 0.25
    np.testing.assert_allclose(
        0.5 * (force["treated"] + force["control"]), energy.force(x), atol=1e-5
    )
    assert energy.beta == pytest.approx(BETA, abs=0.1)
    assert energy.of("treated").beta == energy.beta


def test_standard_errors_are_those_of_the_condition(different):
    x, known = np.linspace(-0.5, 1.5, 5)[:, None], different.uncertainty
    own = different.flow.of("treated").uncertainty
    np.testing.assert_allclose(
        own.potential(x).mean, different.energy.of("treated").potential(x), atol=1e-4
    )
    change = known.difference("treated", "control")
    two = own.force(x).mean - known.of("control").force(x).mean
    np.testing.assert_allclose(change.force(x).mean, two, atol=1e-9)
    assert (np.abs(change.force(x).mean + 0.0 - 1.2) < 4 * change.force(x).sd + 0.1).all()


def test_individuals_of_a_condition_are_moved_by_its_energy(different):
    """From x0 = 0 the means part by 2 * 0.6 (1 - exp(-t)), the same noise in both."""
    flow, x0 = different.flow, np.zeros((400, 1))
    ends = {c: np.asarray(flow.of(c).simulate(x0, [0.0, 1.0])[-1]).mean() for c in flow.conditions}
    parted = ends["treated"] - ends["control"]
    assert parted == pytest.approx(1.2 * (1 - np.exp(-1.0)), abs=0.2)
    labels = np.repeat(["control", "treated", "other"], 400)
    path = Sample(np.zeros((1200, 1)), conditions=labels).carried(flow, [0.0, 1.0], 0)
    means = [path[-1, labels == c].mean() for c in ("control", "treated", "other")]
    assert means[1] - means[0] == pytest.approx(parted, abs=0.15)
    assert means[0] < means[2] < means[1]  # an unknown condition is moved by what all share


def test_each_condition_is_scored_by_its_own_energy(different):
    test = springs(0.6, seed=1, n=60)
    asked = {"metrics": ("w1",), "protocols": ("rollout",)}
    own = sf.evaluate(different, test, **asked).mean("rollout")
    alone = sf.evaluate(different, test.of("treated"), **asked).mean("rollout")
    swapped = np.where(test.conditions == "control", "treated", "control")
    wrong = sf.Snapshots.from_table(test.x, test.times[test.index], conditions=swapped)
    assert alone < 0.25
    # Pooled clouds hide who is where; one condition under the other's name does not.
    assert sf.evaluate(different, wrong.of("treated"), **asked).mean("rollout") > 2 * alone
    assert own < 0.25


def test_a_run_keeps_its_conditions(different, tmp_path):
    different.save(tmp_path / "run")
    again, x = sf.load(tmp_path / "run"), np.linspace(-1.0, 2.0, 7)[:, None]
    assert again.energy.conditions == again.flow.conditions == ("control", "treated")
    for name in again.energy.conditions:
        np.testing.assert_array_equal(
            again.energy.of(name).potential(x), different.energy.of(name).potential(x)
        )
        known = again.flow.of(name).uncertainty.potential(x)
        np.testing.assert_allclose(known.sd, different.flow.of(name).uncertainty.potential(x).sd)
    assert again.flow.of("control").data.condition_names == ("control",)
    assert repr(again.method.energy) == repr(FORM)


def test_without_a_difference_there_is_none():
    fit = sf.fit(springs(0.0), sf.WeakForm(FORM), progress=False)
    x = np.linspace(-1.0, 2.0, 7)[:, None]
    assert "no difference between conditions" in str(fit.status)
    np.testing.assert_array_equal(
        fit.energy.of("control").potential(x), fit.energy.of("treated").potential(x)
    )


def test_unknown_conditions_are_refused(different):
    for part in (different.energy, different.flow, different.uncertainty):
        with pytest.raises(ValueError, match="'other' is unknown; conditions are control, treated"):
            part.of("other")
    with pytest.raises(ValueError, match="is the same under all conditions"):
        sf.Energy.known(sf.Potential(lambda x: x.sum()), 1).of("control")
    with pytest.raises(sf.NotAvailable, match="of all conditions alike"):
        sf.Flow().of("control")


def test_what_cannot_deviate_is_refused():
    data, entropy = springs(0.0, n=20), sf.Entropy()
    with pytest.raises(ValueError, match="two conditions or more, got none"):
        sf.fit(sf.Snapshots.from_arrays(data.clouds, data.times), sf.WeakForm(FORM))
    with pytest.raises(ValueError, match="beside a shared Potential"):
        sf.WeakForm(sf.PerCondition(sf.Potential()) + entropy)
    with pytest.raises(ValueError, match="WeakForm learns PerCondition"):
        sf.WeakForm(sf.Potential() + sf.PerCondition(sf.Interaction()))
    with pytest.raises(ValueError, match="beside it does not"):
        sf.WeakForm(sf.Potential() + sf.PerCondition(sf.Potential(time_varying=True)))
    with pytest.raises(ValueError, match="are shared"):
        sf.PerCondition(entropy)
    with pytest.raises(TypeError, match="such as Potential"):
        sf.PerCondition(lambda x: x)
    with pytest.raises(ValueError, match="WeakForm"):
        sf.Stitching(energy=FORM)


# The mathematics of deviations.


def drift_of(labels: tuple[str, ...], which: int | None) -> Drift:
    bumps = Bumps(np.array([[0.0], [1.0], [0.2]]), np.array([2.0, 2.0, 0.5]))
    return Drift((Landscape(bumps), Deviation(Landscape(bumps.wider(1.0)), labels, which)))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_deviations_of_all_conditions_sum_to_zero_and_are_alike(count):
    labels = tuple("abcde"[:count])
    parts = [drift_of(labels, k).parts[1] for k in range(count)]
    c = np.random.default_rng(0).normal(size=parts[0].count)
    np.testing.assert_allclose(sum(part.own(c) for part in parts), 0.0, atol=1e-12)
    np.testing.assert_allclose([np.sum(part.shares**2) for part in parts], 1 - 1 / count)


def test_features_and_maps_agree_with_the_slope():
    """A drift under a condition is the plain drift with the mapped coefficients."""
    rng, labels = np.random.default_rng(0), ("a", "b", "c")
    x = rng.normal(size=(6, 1))
    for k in range(3):
        drift = drift_of(labels, None).under(k)
        c = rng.normal(size=drift.count)
        slope = drift.slope(x[None], 0.5, c, None)[0]
        none = np.zeros((6, 1, 0))
        np.testing.assert_allclose(drift.features(x, 0.5, none) @ c, slope)
        ones = np.ones((1, 1, 6))
        np.testing.assert_allclose(drift.gather(ones, x, 0.5, none) @ c, slope.sum(axis=0))
        mapped = to_shared(drift, drift.parts[1].contrasts[k]) @ c
        np.testing.assert_allclose(shared_drift(drift).slope(x[None], 0.5, mapped, None)[0], slope)


def test_deviations_are_used_first_and_left_out_last():
    plain = [Block("V", np.eye(2))]
    first = [*plain, Block("deviation", np.eye(2), spare=1, first=True)]
    stages = Stages({(0, 0.0): plain, (1, 0.0): first})
    assert set(stages.allowed) == {(1, 0.0)}
    assert not stages.ended(True, 12)
    assert set(stages.allowed) == {(0, 0.0), (1, 0.0)}
    assert stages.ended(True, 12)
    assert Stages({(1, 0.0): first}).number == 1
