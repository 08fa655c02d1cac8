"""Every method keeps the contract: the same calls, answered or refused with a reason."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._parts import described

STEPS = 4
SMALL = {"particles": 20, "nodes": 5, "layers": 2, "batch": 64, "individuals": 16}
SMALL |= {"centres": 5, "degree": 2, "moves": 2, "inner": 2}
HIDDEN = (8,)
TIMES = [0.0, 1.0, 3.0]
N = 20  # points of every cloud that is asked about: one compilation does for all calls


def small(method):
    """The same method with hardly any budget: whatever counts steps counts few.

    Consistency has tests of its own and is as much to compile as all the rest of a fit.
    """
    changes = {}
    for part in dataclasses.fields(method):
        value = getattr(method, part.name)
        if part.name in SMALL:
            changes[part.name] = SMALL[part.name]
        elif part.name.endswith("hidden"):
            changes[part.name] = HIDDEN
        elif isinstance(value, sf.Energy):
            changes[part.name] = sf.Energy(tuple(narrow(term) for term in value.terms))
        elif isinstance(value, sf.Consistency):
            changes[part.name] = dataclasses.replace(value, steps=0)
        elif part.name == "steps":
            changes[part.name] = STEPS
        elif dataclasses.is_dataclass(value) and hasattr(value, "steps"):
            changes[part.name] = dataclasses.replace(value, steps=STEPS)
    return dataclasses.replace(method, **changes)


def narrow(term):
    """A potential with few neurons; methods that learn the same terms then share programs."""
    if isinstance(term, sf.Potential):
        return sf.Potential(hidden=HIDDEN, time_varying=term.time_varying)
    return term


@pytest.fixture(scope="module")
def data():
    """Unequal counts at uneven times; a fifth of each snapshot is far off and has no weight."""
    rng, clouds, weights = np.random.default_rng(0), [], []
    for t, n in zip(TIMES, (50, 60, 40), strict=True):
        cloud = rng.normal(size=(n, 2)) * (1.0 + 0.2 * t) + np.array([t, 0.0])
        cloud[: n // 5] += 8.0
        clouds.append(cloud)
        weights.append(np.where(np.arange(n) < n // 5, 0.0, 1.0 + rng.uniform(size=n)))
    return sf.Snapshots.from_arrays(clouds, TIMES, weights)


# V(x, t) is another potential in the same method, and one of them is fitted in test_cli.py.
VARYING = {"stitching-varying", "stitching-paper-varying"}
FOLLOWING = {"tracks"}  # the methods that need ids
FULL = [pytest.param(m, marks=pytest.mark.full) if m in VARYING else m for m in sf.METHODS]


@pytest.fixture(scope="module", params=FULL)
def fit(request, data):
    if request.param in FOLLOWING:
        data = replace(data, ids=np.concatenate([np.arange(n) for n in data.counts]))
    return sf.fit(data, small(sf.METHODS[request.param]()), key=3, progress=False)


def test_a_fit_says_what_it_is(fit):
    assert isinstance(fit, sf.Fit)
    assert type(sf.METHODS[fit.method.name]()) is type(fit.method)
    assert fit.status.ok, fit.status
    assert fit.method.name in fit.summary()
    assert all(np.isfinite(v).all() for stage in fit.history for v in stage.values())
    np.testing.assert_array_equal(fit.times, TIMES)


def test_marginals(fit):
    times = [0.0, 0.4, 3.0]
    answer = answered(fit.flow, "sample", times, N)
    if isinstance(answer, sf.NotAvailable):
        assert answer.method == fit.method.name
        return
    clouds = np.asarray(fit.flow.sample(times, N, key=0))
    assert clouds.shape == (3, N, 2)
    assert np.isfinite(clouds).all()
    np.testing.assert_array_equal(clouds, fit.flow.sample(times, N, key=0))
    assert clouds[0].mean() < 0.8, "individuals without weight are 8 away, a fifth of all"


@pytest.mark.parametrize(("call", "shape"), [("log_density", (N,)), ("score", (N, 2))])
def test_densities_or_a_reason(fit, data, call, shape):
    answer = answered(fit.flow, call, data.cloud(2)[-N:], 2.0)
    if isinstance(answer, sf.NotAvailable):
        assert answer.method == fit.method.name
        assert answer.call == call
        assert answer.reason
    else:
        assert answer.shape == shape
        assert np.isfinite(answer).all()


def test_velocities(fit, data):
    # At a snapshot nobody has to be carried there first, which would be programs of another size.
    values = np.asarray(fit.flow.velocity(data.cloud(0)[-N:], TIMES[0]))
    assert values.shape == (N, 2)
    assert np.isfinite(values).all()


def test_dynamics(fit, data):
    x0 = data.cloud(0)[-N:]
    way = np.asarray(fit.flow.simulate(x0, TIMES, key=5))
    assert way.shape == (3, N, 2)
    assert np.isfinite(way).all()
    np.testing.assert_allclose(way[0], x0, atol=1e-5)
    back = np.asarray(fit.flow.simulate(way[-1], TIMES[::-1], ode=True))
    assert back.shape == way.shape
    assert np.isfinite(back).all()


def test_an_energy_answers_or_is_none(fit, data):
    if fit.energy is None:
        return
    x = data.cloud(1)[-N:]
    assert np.isfinite(np.asarray(fit.energy.potential(x, 1.0))).all()
    assert np.asarray(fit.energy.force(x, 1.0)).shape == x.shape
    assert np.asarray(fit.energy.velocity(x, 1.0, x)).shape == x.shape
    assert fit.energy.beta >= 0.0


def test_saved_and_loaded_fits_answer_alike(fit, data, tmp_path):
    fit.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    assert again.method.name == fit.method.name
    kept = [described(f.method, leave_out=("energy",)) for f in (fit, again)]
    assert kept[0] == kept[1]
    assert again.steps == fit.steps
    assert (again.energy is None) == (fit.energy is None)
    assert_same_answers(fit, again, data)


def test_the_same_seed_gives_the_same_fit(fit, data):
    assert_same_answers(fit, sf.fit(fit.data, fit.method, key=3, progress=False), data)


def test_bad_queries_are_refused_by_name(fit):
    with pytest.raises(ValueError, match="x0"):
        fit.flow.simulate(np.zeros((3, 5)), TIMES)
    with pytest.raises(ValueError, match="n must"):
        fit.flow.sample([0.0], 0)


def answered(flow, call, *arguments) -> np.ndarray | sf.NotAvailable:
    try:
        return np.asarray(getattr(flow, call)(*arguments))
    except sf.NotAvailable as refusal:
        return refusal


def assert_same_answers(one: sf.Fit, other: sf.Fit, data: sf.Snapshots) -> None:
    x0 = data.cloud(0)[-N:]
    ways = [np.asarray(f.flow.simulate(x0, TIMES, key=5)) for f in (one, other)]
    np.testing.assert_array_equal(*ways)
    clouds = [answered(f.flow, "sample", [0.4], N) for f in (one, other)]
    if not isinstance(clouds[0], sf.NotAvailable):
        np.testing.assert_array_equal(*clouds)
