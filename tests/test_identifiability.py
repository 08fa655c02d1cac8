"""What data determine of an energy: populations of which the answer is known."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest

import stitchflow as sf
from falling import Falling, known_fit, well
from stitchflow._energy.simulate import simulate
from stitchflow._judging.bands import interaction_band, longest_line, potential_band
from stitchflow._judging.change import Change
from stitchflow._judging.diagnosis import Diagnosis
from stitchflow._judging.identifiability import BOWL, FACTOR, Determined, Direction, Shown
from stitchflow._judging.identify import identifiability
from stitchflow._weak_form.information import Information
from stitchflow._weak_form.problem import Problem
from stitchflow.report import write_report

STIFF, BETA = 2.0, 0.5
PAIRS = sf.Potential() + sf.Interaction() + sf.Entropy()


def ou(n, times, paired=False, seed=0):
    """Individuals of dX = -STIFF X dt + sqrt(2 BETA) dB that start at N(1, 1)."""
    rng = np.random.default_rng(seed)
    x, clouds = rng.normal(size=(n, 1)) + 1.0, []
    for k, t in enumerate(times):
        if not paired:  # other individuals at every time
            x, gap = rng.normal(size=(n, 1)) + 1.0, t
        else:
            gap = t - times[k - 1] if k else 0.0
        decay = np.exp(-STIFF * gap)
        x = decay * x + np.sqrt(BETA / STIFF * (1 - decay**2)) * rng.normal(size=x.shape)
        clouds.append(x)
    return sf.Snapshots.from_arrays(clouds, times, paired=paired)


def attracted(places, n=150, seed=0):
    """Populations around some places, each attracted by itself and all of them by the origin."""
    energy = sf.Energy.known(
        sf.Potential(lambda x: 0.5 * (x**2).sum())
        + sf.Interaction(lambda r: -(np.e ** (-0.5 * r**2)))
        + sf.Entropy(0.1, learn=False),
        2,
    )
    rng, times, clouds = np.random.default_rng(seed), 0.05 * np.arange(15), []
    for k, place in enumerate(places):
        x = 1.2 * rng.normal(size=(n, 2))
        x = jax.numpy.asarray(x - x.mean(axis=0) + np.array([place, 0.0]), float)
        moved = np.asarray(simulate(energy, x, times, jax.random.key(k)))
        clouds.append([cloud[rng.permutation(n)] for cloud in moved])
    groups = None if len(places) == 1 else [np.repeat(np.arange(len(places)), n)] * len(times)
    together = [np.concatenate(parts) for parts in zip(*clouds, strict=True)]
    return sf.Snapshots.from_arrays(together, times, groups=groups)


@pytest.fixture(scope="module")
def far():
    """An Ornstein-Uhlenbeck process far from equilibrium."""
    return sf.fit(ou(2000, np.linspace(0.0, 1.0, 6)), sf.WeakForm(), progress=False)


@pytest.fixture(scope="module")
def near():
    """The same with few individuals, where only words and pictures are asked for."""
    return sf.fit(ou(500, np.linspace(0.0, 1.0, 6)), sf.WeakForm(), progress=False)


@pytest.fixture(scope="module")
def centred():
    return sf.fit(attracted([0.0]), sf.WeakForm(PAIRS), progress=False)


def test_far_from_equilibrium_everything_is_determined(far):
    """With 2,000 individuals at each time; 500 tell beta to a fifth."""
    found = sf.diagnose(far, far.data)
    told = found.identifiability
    assert {term.term: term.level for term in told.terms} == {
        "V": "determined",
        "beta": "determined",
    }
    assert told.direction(FACTOR).error < 0.2
    assert told.determined
    assert "V is determined: the force of V on the individuals is known to" in str(found)
    assert "mean zero over the individuals and W goes to zero far away" in str(found)
    assert found.is_gradient_flow is None
    unturned = replace(found, change=Change(0.005, 0.001))  # motion that growth does not explain
    assert unturned.is_gradient_flow is None
    assert "the method has no curve" in unturned.sentences[0]
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["identifiability"]["sentences"] == list(told.sentences)
    assert plain["identifiability"]["terms"][0]["level"] == "determined"


def test_at_rest_the_common_factor_is_unknown():
    rng = np.random.default_rng(2)
    data = sf.Snapshots.from_arrays([rng.normal(size=(300, 1)) for _ in range(5)], range(5))
    found = sf.diagnose(sf.fit(data, sf.WeakForm(), progress=False), data).identifiability
    assert found.direction(FACTOR).error > 1.0
    assert found.least.name == FACTOR
    assert {term.level for term in found.terms} == {"not determined"}
    assert found.determined is False
    assert "by a common factor would look the same, as at rest" in str(found)


@pytest.mark.slow
def test_a_centred_population_does_not_tell_attraction_from_a_bowl(centred):
    """Groups at two places do: their means move by V alone."""
    one = identifiability(centred)
    assert one.least.name == BOWL
    assert one.direction(BOWL).error > 0.5
    assert one.term("W").level == "not determined"
    assert "is then a convention" in str(one)
    apart = sf.fit(attracted([3.0, -3.0]), sf.WeakForm(PAIRS), progress=False)
    two = identifiability(apart)
    assert two.direction(BOWL).amount < 0.1 * one.direction(BOWL).amount
    assert two.direction(BOWL).error < 0.1 * one.direction(BOWL).error
    assert two.term("V").level == "determined"
    assert one.direction(FACTOR).error < 0.1  # it moves, so that the size is told
    # The change of V and that of W cancel: on a centred population nobody is pushed.
    v, w = (np.array(shown.change) for shown in one.shown)
    assert np.corrcoef(v, np.array(one.shown[0].at) ** 2)[0, 1] ** 2 > 0.95
    assert np.corrcoef(w, np.array(one.shown[1].at) ** 2)[0, 1] ** 2 > 0.95


@pytest.mark.slow
def test_errors_say_that_another_range_would_do_as_well(centred):
    """The chosen range sets W to zero; with the others, the error holds the true W."""
    r = np.array([1.0])
    found = centred.uncertainty.interaction(r)
    gap = np.abs(found.mean + np.exp(-0.5))
    assert (gap > 0.5).all()
    assert (gap < 1.645 * found.sd).all()
    assert (found.sd < 3.0 * np.exp(-0.5)).all()
    assert identifiability(centred).term("W").error > 0.5


def test_the_information_of_followed_individuals_is_that_of_their_paths():
    """For V = c x^2 it is the sum of (2 x)^2 dt / (2 beta), and for log beta half a number each."""
    times = np.linspace(0.0, 0.2, 21)
    data = ou(400, times, paired=True)
    method = sf.WeakForm(basis=sf.Basis(widths=(2.0,)))
    fit = sf.fit(data, method, progress=False)
    problem = Problem.of(method.energy, method.basis, data)
    found = Information.of(problem, fit.uncertainty)
    x = np.asarray(data.units.space_in(data.x[data.index < 20]), np.float64)
    beta = np.exp(fit.uncertainty.log_beta)
    expected = float((4.0 * x**2).sum()) * (1 / 20) / (2.0 * beta)
    assert found.matrix[1, 1] == pytest.approx(expected, rel=0.1)
    assert found.matrix[-1, -1] == pytest.approx(0.5 * 400 * 20, rel=0.05)
    direction = np.zeros(len(fit.uncertainty.c) + 1)
    direction[1] = 1.0
    assert found.error(direction) == pytest.approx(expected**-0.5, rel=0.05)
    twice = Information.of(problem, fit.uncertainty, 2.0)
    np.testing.assert_allclose(twice.matrix, 2.0 * found.matrix)
    assert found.bowl() is None


def test_a_fit_without_standard_errors_is_told_by_a_weak_form(near):
    told = near.energy, near.status
    other = sf.Fit(sf.Stitching(), Falling(1), *told, [], 0, 0.0, data=near.data)
    found, own = identifiability(other), identifiability(near)
    assert found.estimated
    assert "The fit has no standard errors" in str(found)
    assert found.term("V").share == pytest.approx(own.term("V").share, rel=1e-6)


def test_what_cannot_be_told_says_why():
    fit = known_fit(sf.Potential(well))
    found = sf.diagnose(fit).identifiability
    assert found.determined is None
    assert "cannot tell, Potential(known V(x)) is not of the terms" in str(found)
    fit.data = None
    assert "cannot tell, no individuals were at hand" in str(identifiability(fit))
    with pytest.raises(sf.BadInput, match="no standard errors to draw: no individuals"):
        sf.pl.identifiability(sf.diagnose(fit))


def test_a_loaded_run_is_told_as_the_fit_was(far, tmp_path):
    far.save(tmp_path / "run")
    assert identifiability(sf.load(tmp_path / "run")).terms == identifiability(far).terms


def test_levels_have_the_words_of_their_errors():
    levels = [Determined("V", 1.0, e, 1.0).level for e in (0.1, 0.3, 0.7)]
    assert levels == ["determined", "roughly determined", "not determined"]
    little = Determined("W", 0.01, 0.02, 1.0)
    assert little.level == "small"
    assert little.sentence == "W is small: the force of W between pairs is below 4 % of all forces"
    unknown = Determined("beta", 1.0, 3.0)
    assert unknown.interval[1] > 100.0
    assert unknown.sentence.startswith("beta is not determined by these data: 1, 90 % interval")
    assert not Direction(BOWL, 20.0, 3.0).determined
    assert "more than 10 times all forces" in Direction(BOWL, 20.0, 3.0).sentence


def test_bands_are_1645_standard_errors_in_the_gauge_that_is_stated(far):
    band = potential_band(far, far.data)
    line, s, seen = longest_line(far.data, len(band.at), 0.15)
    known = far.uncertainty.potential(line)
    np.testing.assert_allclose(band.value, known.mean)
    np.testing.assert_allclose(band.high - band.low, 2 * 1.645 * known.sd)
    assert seen[0] > s[0]
    plain = potential_band(known_fit(sf.Potential(well)), known_fit(sf.Potential(well)).data)
    assert not plain.known
    with pytest.raises(sf.BadInput):
        interaction_band(far, far.data)


def test_the_report_shows_bands_and_what_is_assumed(near, tmp_path):
    write_report(near, tmp_path / "report.html", test=near.data.subsample(100))
    page = (tmp_path / "report.html").read_text()
    assert 'class="area"' in page
    assert "Bands hold given the smoothness" in page
    assert "with its 90 % band; shaded where 98 % of the individuals are, assumed elsewhere" in page
    assert "90 % interval" in page
    assert "By convention V has mean zero" in page
    assert "The energy, and what the data determine of it" in page


@pytest.fixture
def drawn():
    """A diagnosis that needs no fit."""
    r = np.linspace(0.0, 3.0, 20)
    shown = Shown("W", tuple(r), tuple(-np.exp(-(r**2))), tuple(0.1 * (9.0 - r**2)))
    told = sf.Identifiability(
        terms=(Determined("V", 1.0, 0.1, 1.0), Determined("W", 0.5, 0.4, 1.0)),
        directions=(Direction(BOWL, 0.8, 0.1),),
        least=Direction(BOWL, 0.8, 0.1, (("V", 0.8), ("W", 0.8))),
        shown=(shown,),
    )
    return Diagnosis(0.9, 1.0, 0.0, (0.0, 0.02), identifiability=told)


def test_pictures_of_what_is_determined(drawn):
    plt = pytest.importorskip("matplotlib.pyplot")
    _, (left, right) = plt.subplots(1, 2)
    assert sf.pl.identifiability(drawn, ax=left) is left
    assert [t.get_text() for t in left.get_yticklabels()] == ["V", "W", "attraction\nor a bowl"]
    assert sf.pl.least_determined(drawn, ax=right) is right
    assert right.get_title() == "least determined:\nattraction or a bowl"
    with pytest.raises(sf.BadInput, match="term must be one of W; got 'V'"):
        sf.pl.least_determined(drawn, "V")
    with pytest.raises(sf.BadInput, match="nothing was told"):
        sf.pl.identifiability(replace(drawn, identifiability=None))
    plt.close("all")


def test_a_section_and_an_interaction_have_their_bands(far):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = sf.pl.section(far)
    assert ax.get_xlabel() == "dimension 1"
    assert "90 % band" in [text.get_text() for text in ax.get_legend().get_texts()]
    plain = sf.pl.section(known_fit(sf.Potential(well)))
    assert "90 % band" not in [text.get_text() for text in plain.get_legend().get_texts()]
    plt.close("all")
