"""Growth: masses explained by birth and death, not by transport."""

import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from stitchflow._method.dividing import survivors

STEPS = sf.Optimiser(steps=500)
FIRST_STAGE = sf.Consistency(steps=0)


@pytest.fixture(scope="module")
def data():
    """Two still clouds; the right one doubles from one time to the next."""
    rng = np.random.default_rng(0)
    cloud = lambda n, x: rng.normal(size=(n, 1)) * 0.3 + x
    clouds = [np.concatenate([cloud(200, -2.0), cloud(200 * 2**k, 2.0)]) for k in range(3)]
    return sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 2.0])


@pytest.fixture(scope="module")
def grown(data):
    method = sf.Stitching(
        growth=sf.Growth(weight=0.02),
        optimiser=STEPS,
        consistency=FIRST_STAGE,
        particles=60,
        nodes=9,
    )
    return sf.fit(data, method, progress=False)


def test_growth_is_found_where_it_is(grown):
    """The right cloud grows by log 2 a unit of time, the left one not at all."""
    right = float(grown.flow.growth(np.array([[2.0]]), 1.0)[0])
    left = float(grown.flow.growth(np.array([[-2.0]]), 1.0)[0])
    assert right == pytest.approx(np.log(2.0), abs=0.25)
    assert abs(left) < 0.25
    assert grown.flow.mass(2.0) == pytest.approx(1000 / 400, rel=0.1)
    assert "growth" in grown.history[0]


@pytest.mark.full
def test_nobody_is_transported_across_the_gap(grown, data):
    """Without growth the balance can only come from particles that cross to the right."""

    def crossing(fit):
        x = np.asarray(fit.flow.curve.particles)[..., 0]
        return ((x[0] < 0) & (x[-1] > 0)).mean()

    plain = sf.Stitching(optimiser=STEPS, consistency=FIRST_STAGE, particles=60, nodes=9)
    assert crossing(grown) < 0.5 * crossing(sf.fit(data, plain, progress=False))


def test_simulated_populations_shift_to_what_grows(grown, data):
    path = np.asarray(grown.flow.simulate(data.cloud(0), [0.0, 1.0, 2.0]))
    assert path.shape == (3, 400, 1)
    assert (path[0] > 0).mean() == pytest.approx(0.5, abs=0.01)
    assert (path[2] > 0).mean() == pytest.approx(0.8, abs=0.12)


def test_growth_survives_saving(grown, tmp_path):
    grown.save(tmp_path / "run")
    again = sf.load(tmp_path / "run")
    x = np.array([[1.0], [-1.0]])
    np.testing.assert_array_equal(grown.flow.growth(x, 0.5), again.flow.growth(x, 0.5))


def test_a_prior_says_where_growth_is():
    cells = np.linspace(-1.0, 1.0, 50)[:, None]
    prior = sf.growth_prior(cells, cells[:, 0], -cells[:, 0], rate=0.5, neighbours=3)
    here, there = float(prior(jnp.asarray([0.9]))), float(prior(jnp.asarray([-0.9])))
    assert here > 0.5
    assert there == pytest.approx(-here, rel=0.05)
    with pytest.raises(ValueError, match="apoptosis"):
        sf.growth_prior(cells, cells[:, 0], [1.0])


def test_without_growth_there_is_no_rate():
    data = sf.Snapshots.from_arrays([np.eye(5, 2), 1.0 + np.eye(5, 2)], [0.0, 1.0])
    quick = sf.Stitching(optimiser=sf.Optimiser(steps=5), consistency=FIRST_STAGE)
    with pytest.raises(sf.NotAvailable, match="growth"):
        sf.fit(data, quick, progress=False).flow.growth(np.zeros((1, 2)), 0.0)


def test_survivors_are_in_proportion_to_their_gain():
    rows = survivors(np.log(np.array([1.0, 1.0, 2.0, 4.0] * 100)), np.random.default_rng(0))
    counts = np.bincount(rows, minlength=400).reshape(100, 4).sum(0)
    np.testing.assert_allclose(counts, [50, 50, 100, 200], atol=15)


def test_survivors_keep_the_weights_of_their_rows():
    """Weight times gain is what each kind has in the end, counted by the weights of the rows."""
    weights, gain = np.tile([9.0, 1.0], 200), np.tile([1.0, 4.0], 200)
    rngs = [np.random.default_rng(i) for i in range(50)]
    rows = np.stack([survivors(np.log(gain), rng, weights) for rng in rngs])
    share = ((rows % 2 == 1) * weights[None]).sum() / (50 * weights.sum())
    assert share == pytest.approx(4.0 / 13.0, abs=0.01)
    nobody = np.where(np.arange(400) < 100, weights, 0.0)
    assert survivors(np.log(gain), np.random.default_rng(0), nobody).max() < 100
