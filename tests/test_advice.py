"""What is said of data before a fit, with a way out; and silence where all is well."""

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._data.advice import advice

RNG = np.random.default_rng(0)


def moving(change=lambda x, k: x, n=50, times=(0.0, 1.0, 2.0, 3.0), groups=None) -> sf.Snapshots:
    clouds = [change(RNG.normal(size=(n, 2)) + k, k) for k in range(len(times))]
    t = np.repeat(times, [len(cloud) for cloud in clouds])
    return sf.Snapshots.from_table(np.concatenate(clouds), t, groups=groups)


def burst(n: int) -> sf.Snapshots:
    return moving(n=8, times=[*np.linspace(0.0, 0.01, n), *np.linspace(0.5, 1.0, n)])


BATCH = np.tile(np.repeat(["left", "right"], 25), 4)

ADVICE = {
    "few points": (moving(n=3), "3 individuals a time are few for 2 dimensions: reduce"),
    "many dimensions": (
        moving(lambda x, k: RNG.normal(size=(50, 2000)) + k),
        "50 individuals a time are few for 2000 dimensions",
    ),
    "small snapshot": (
        moving(lambda x, k: x[:4] if k == 2 else x),
        "the snapshots at t = 2 are far smaller than the others",
    ),
    "single point": (moving(lambda x, k: x[:1] if k == 1 else x), "the snapshots at t = 1 are"),
    "batch": (moving(lambda x, k: x + 30.0 * (k == 1)), "everybody at t = 1 is away from"),
    "groups apart": (
        moving(lambda x, k: x + 30.0 * (np.arange(50) >= 25)[:, None], groups=BATCH),
        "the groups at t = 0, 1, 2, 3 do not overlap",
    ),
    "constant": (moving(lambda x, k: x * [1.0, 0.0]), "dimensions 1 are constant: leave them"),
    "duplicated": (moving(lambda x, k: x[:, [0, 1, 0]]), "dimensions 2 repeat earlier ones"),
    "scales": (moving(lambda x, k: x * [1e12, 1e-12]), "measure them in like units"),
    "far from zero": (moving(lambda x, k: x + 1e9), "subtract the mean first"),
    "outlier": (
        moving(lambda x, k: x + 1e4 * (k == 3) * np.eye(50)[:, 7:8]),
        "100% of the variance of all individuals comes from row 157, so that the others hardly",
    ),
    "copies": (moving(lambda x, k: np.repeat(x[:10], 5, axis=0)), "are copies of others"),
}


@pytest.mark.parametrize("name", ADVICE)
def test_what_a_fit_cannot_mend_is_said_with_a_way_out(name):
    data, words = ADVICE[name]
    said = advice(data)
    assert len(said) == 1
    assert words in said[0]


def test_gaps_that_no_node_falls_into_are_said():
    (said,) = advice(burst(20), 50)
    assert "no node of the curve falls into" in said
    assert "raise nodes above 50" in said
    assert advice(burst(20), 400) == []
    assert advice(burst(4), 25) == []


@pytest.mark.parametrize(
    "data",
    [
        moving(),
        moving(lambda x, k: x + 20.0 * k),  # far, but onwards
        moving(groups=BATCH),
        moving(n=10, times=np.linspace(0.0, 4.0, 100)),
        moving(lambda x, k: x * 1e-12),
        moving(lambda x, k: x * 1e12),
        moving(times=(-3.0, -1.0, 0.5, 7.0)),
    ],
)
def test_nothing_is_said_of_ordinary_data(data):
    assert advice(data, max(25, min(50, 5 * len(data)))) == []


def test_a_fit_warns():
    data, words = ADVICE["batch"]
    with pytest.warns(sf.DataWarning, match=words):
        sf.fit(data, sf.Nearest(), progress=False)
