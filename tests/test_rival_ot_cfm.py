"""Flow matching: the displacement of Gaussians is known in closed form."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow.rivals._pairs import Pairs

MEANS, DEVIATIONS, TIMES = (0.0, 3.0, 2.0), (1.0, 2.0, 1.5), np.array([0.0, 1.0, 1.5])
METHOD = sf.OTCFM(hidden=(32, 32), width=0.0, batch=256, optimiser=sf.Optimiser(600))


@pytest.fixture(scope="module")
def data():
    """Gaussians on a line at uneven times, in unequal numbers, by quantiles: no sampling noise."""
    from scipy.stats import norm

    counts = (400, 300, 500)
    quantiles = [norm.ppf((np.arange(n) + 0.5) / n) for n in counts]
    zipped = zip(MEANS, DEVIATIONS, quantiles, strict=True)
    return sf.Snapshots.from_arrays([(m + s * q)[:, None] for m, s, q in zipped], TIMES)


@pytest.mark.full
def test_gaussians_are_transported_by_the_linear_map_between_them(data):
    flow = sf.fit(data, METHOD, progress=False).flow
    end = np.asarray(flow.simulate(data.cloud(0), TIMES))[1:, :, 0]
    for cloud, mean, deviation in zip(end, MEANS[1:], DEVIATIONS[1:], strict=True):
        assert cloud.mean() == pytest.approx(mean, abs=0.15)
        assert cloud.std() == pytest.approx(deviation, abs=0.15)
    # u(x, t) = (x - 3 t) / (1 + t) + 3 on the first gap
    x = np.linspace(-1.0, 4.0, 20)[:, None]
    np.testing.assert_allclose(flow.velocity(x, 0.5), (x - 1.5) / 1.5 + 3.0, atol=0.4)


def test_identities_are_used_where_they_are_known():
    """Individuals that cross: optimal transport would not let them."""
    x0 = np.random.default_rng(0).normal(size=(300, 1))
    data = sf.Snapshots.from_arrays([x0, x0 + 1.0, -x0], [0.0, 1.0, 2.0], paired=True)
    pairs = Pairs.nearest(data, np.random.default_rng(0))
    starts, ends = (
        np.asarray(data.units.space_out(side))[1, :, 0] for side in (pairs.starts, pairs.ends)
    )
    np.testing.assert_allclose(ends, 1.0 - starts, atol=1e-5)


def test_individuals_without_weight_are_not_coupled(data):
    low = [(cloud[:, 0] < 1.0).astype(float) for cloud in data.clouds]
    weighted = sf.Snapshots.from_arrays(data.clouds, TIMES, low)
    pairs = Pairs.nearest(weighted, np.random.default_rng(0))
    for side in (pairs.starts, pairs.ends):
        assert np.asarray(weighted.units.space_out(side)).max() < 1.0


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="width"):
        sf.OTCFM(width=-1.0)
    with pytest.raises(ValueError, match="batch"):
        sf.OTCFM(batch=0)
