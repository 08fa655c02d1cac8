"""Plots: drawn on the Axes they are given, with the numbers of the fit."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes

import stitchflow as sf
from falling import three_stages
from stitchflow import pl
from stitchflow._training.history import StageHistory
from stitchflow.pl._axes import category_colours
from stitchflow.pl._clouds import _smooth
from stitchflow.report._line_charts import history_charts

DIMS = [1, 2, 5]
TIMES = [0.0, 0.4, 1.0]
N = 25


def drifting(dim: int) -> sf.Snapshots:
    rng = np.random.default_rng(0)
    return sf.Snapshots.from_arrays([rng.normal(size=(N, dim)) + t for t in TIMES], TIMES)


@pytest.fixture(scope="module", params=DIMS, ids=lambda dim: f"{dim}-D")
def fitted(request) -> tuple[sf.Fit, sf.Snapshots]:
    data = drifting(request.param)
    method = sf.Stitching(
        sf.Potential(hidden=(8,), time_varying=request.param == 2) + sf.Entropy(),
        particles=10,
        nodes=12,
        optimiser=sf.Optimiser(steps=5),
    )
    return sf.fit(data, method, progress=False), data


@pytest.fixture(scope="module")
def still() -> tuple[sf.Fit, sf.Snapshots]:
    data = drifting(2)
    return sf.fit(data, sf.Nearest(), progress=False), data


@pytest.fixture(autouse=True)
def nothing_is_shown(monkeypatch):
    """An unusual backend, which no plot may leave, and no window."""
    plt.switch_backend("svg")

    def forbidden(*_, **__):
        raise AssertionError("a plot showed itself or switched the backend")

    monkeypatch.setattr(plt, "show", forbidden)
    monkeypatch.setattr(plt, "switch_backend", forbidden)
    monkeypatch.setattr(matplotlib, "use", forbidden)
    yield
    assert matplotlib.get_backend() == "svg"
    plt.close("all")


PLOTS = {
    "snapshots": lambda fit, data, **ax: pl.snapshots(data, **ax),
    "snapshots with a fit": lambda fit, data, **ax: pl.snapshots(data, fit, **ax),
    "landscape": lambda fit, data, **ax: pl.landscape(fit, data, grid=12, **ax),
    "landscape at a time": lambda fit, data, **ax: pl.landscape(fit, data, t=0.2, grid=12, **ax),
    "trajectories": lambda fit, data, **ax: pl.trajectories(fit, data.cloud(0), TIMES, n=7, **ax),
    "history": lambda fit, data, **ax: pl.history(fit, **ax),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_draws_on_the_axes_it_is_given(fitted, name):
    figure, (ax, other) = plt.subplots(ncols=2)
    assert PLOTS[name](*fitted, ax=ax) is ax
    figure.canvas.draw()
    assert ax.has_data()
    assert ax.get_title()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert not other.has_data()
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_makes_its_own_axes_when_given_none(fitted, name):
    ax = PLOTS[name](*fitted)
    assert isinstance(ax, Axes)
    assert ax.has_data()
    assert plt.get_fignums() == [ax.figure.number]


def test_snapshots_are_dots_and_samples_are_rings(fitted):
    fit, data = fitted
    ax = pl.snapshots(data, fit, n=10)
    dots, rings = ax.collections[::2], ax.collections[1::2]
    assert len(dots) == len(rings) == len(TIMES)
    for k, (dot, ring) in enumerate(zip(dots, rings, strict=True)):
        assert len(dot.get_offsets()) == len(ring.get_offsets()) == 10
        assert set(dot.get_offsets()[:, 0].tolist()) <= set(data.cloud(k)[:, 0].tolist())
        assert len(dot.get_facecolor()) == 1
        assert len(ring.get_facecolor()) == 0
    assert ax.get_ylabel() == ("jitter" if data.dim == 1 else "dimension 2")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "t = 0",
        "t = 0.4",
        "t = 1",
    ]


def test_the_landscape_is_the_centred_potential(fitted):
    fit, data = fitted
    ax = pl.landscape(fit, data, grid=12)
    low, high = data.x.min(axis=0), data.x.max(axis=0)
    if data.dim == 1:
        (line,) = ax.lines
        v = np.asarray(fit.energy.potential(line.get_xdata()[:, None]))
        np.testing.assert_allclose(line.get_ydata(), v - v.mean(), rtol=1e-5)
        left, right = line.get_xdata()[[0, -1]]
    else:
        assert ax.figure.axes[-1].get_ylabel() == "V"
        left, right = ax.get_xlim()
        bottom, top = ax.get_ylim()
        assert bottom < low[1] < high[1] < top
    assert left < low[0] < high[0] < right
    varying = fit.energy.time_varying
    assert ax.get_title() == "potential V" + (" at t = 0.4" if varying else "")


def test_trajectories_are_the_simulated_paths_over_the_data(fitted):
    fit, data = fitted
    x0 = data.cloud(0)[:7]
    ax = pl.trajectories(fit, x0, TIMES, key=2)
    dots, paths = ax.collections
    seen = data.x[:, :2] if data.dim > 1 else np.stack([data.times[data.index], data.x[:, 0]], 1)
    assert {tuple(row) for row in np.asarray(dots.get_offsets())} == {tuple(row) for row in seen}
    order = np.random.default_rng(0).permutation(7)
    times = np.unique(np.concatenate([np.linspace(a, b, 31) for a, b in pairwise(TIMES)]))
    path = np.asarray(fit.flow.simulate(x0[order], times, key=2))
    pieces = np.array(paths.get_segments()).reshape(len(times) - 1, 7, 2, 2)
    np.testing.assert_array_equal(pieces[1:, :, 0], pieces[:-1, :, 1])  # joined
    shown = [None, 0] if data.dim == 1 else [0, 1]
    for axis, d in enumerate(shown):
        ends = times[[0, -1], None] if d is None else path[[0, -1]][..., d]
        drawn = np.stack([pieces[0, :, 0, axis], pieces[-1, :, 1, axis]])
        np.testing.assert_allclose(drawn, np.broadcast_to(ends, drawn.shape), atol=1e-5)


def test_what_is_averaged_of_a_path_is_its_noise():
    t = np.linspace(0.0, 1.0, 61)[:, None, None]
    bend = np.concatenate([t, np.sin(np.pi * t)], axis=2)
    np.testing.assert_allclose(_smooth(bend), bend, atol=0.05)
    np.testing.assert_allclose(_smooth(bend[..., :1]), bend[..., :1], atol=1e-12)
    noisy = bend + 0.1 * np.random.default_rng(0).normal(size=bend.shape)
    np.testing.assert_allclose(_smooth(noisy)[[0, -1]], noisy[[0, -1]], atol=1e-12)
    # The rest of white noise under a Gaussian of width s is 1 / (2 s sqrt(pi)) of its variance.
    rest = (_smooth(noisy) - _smooth(bend))[10:-10].std() / 0.1
    assert rest == pytest.approx((2.0 * 3.05 * np.sqrt(np.pi)) ** -0.5, rel=0.4)


def test_a_landscape_needs_no_data_but_that_of_the_fit(fitted):
    fit, data = fitted
    alone, given = (pl.landscape(fit, *more, grid=12) for more in ((), (data,)))
    assert alone.get_xlim() == given.get_xlim()
    with pytest.raises(ValueError, match="data is needed: a fit that was loaded"):
        pl.landscape(replace(fit, data=None))


@pytest.mark.parametrize("most", [3, 12, 20])
def test_colours_of_categories_differ(most):
    assert len(set(map(matplotlib.colors.to_hex, category_colours(most)))) == most


def test_a_legend_is_beside_the_axes():
    figure, ax = plt.subplots(layout="constrained")
    pl.snapshots(drifting(2), ax=ax)
    figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1


def test_history_shows_divergence_and_residual(fitted):
    fit, _ = fitted
    ax = pl.history(fit)
    (twin,) = [other for other in ax.figure.axes if other is not ax]
    for axes, name in ((ax, "divergence"), (twin, "residual")):
        (line,) = axes.lines
        np.testing.assert_array_equal(line.get_xdata(), fit.history[0]["step"])
        np.testing.assert_array_equal(line.get_ydata(), fit.history[0][name])
        assert axes.get_ylabel() == name


def test_history_shows_every_stage(fitted):
    fit, _ = fitted
    staged = replace(fit, history=three_stages())
    ax = pl.history(staged)
    twin = ax.figure.axes[-1]
    points = lambda lines: [(tuple(line.get_xdata()), tuple(line.get_ydata())) for line in lines]
    begins = [line.get_xdata()[0] for line in ax.lines if len(set(line.get_xdata())) == 1]
    assert begins == [40, 60]
    assert ax.get_xlabel() == "step\n(consistency from 40, settling from 60)"
    assert points(twin.lines) == [
        ((20, 40), (1.0, 0.5)),
        ((50, 60), (0.4, 0.25)),
        ((75, 90), (0.2, 0.125)),
        ((50, 60), (0.1, 0.03)),
    ]
    assert ((75, 90), (3.5, 3.0)) in points(ax.lines)
    charts = {chart.title: chart for chart in history_charts(staged)}
    assert list(charts) == [
        "Distance from the data (divergence)",
        "Distance from a gradient flow (residual)",
        "Predictions against the data (consistency)",
    ]
    divergence, residual, consistency = charts.values()
    assert residual.alt.endswith("from 1 to 0.125.")
    assert divergence.alt.endswith("from 5 to 3.")
    assert consistency.alt.endswith("from 0.1 to 0.03.")
    assert residual.x_name == "step (consistency after 40, settling after 60)"
    assert len(residual.points.split()) == 6


def test_history_of_other_methods_is_their_loss(fitted):
    fit, _ = fitted
    other = replace(
        fit,
        history=[StageHistory("own", {"step": np.arange(3), "loss": np.array([3.0, 2.0, 1.0])})],
    )
    ax = pl.history(other)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [3.0, 2.0, 1.0])
    assert [part.title for part in history_charts(other)] == ["The loss of the method"]


def test_plots_draw_the_same_thing_twice(fitted):
    fit, data = fitted
    first, second = (pl.snapshots(data, fit, n=10, key=1) for _ in range(2))
    for a, b in zip(first.collections, second.collections, strict=True):
        np.testing.assert_array_equal(a.get_offsets(), b.get_offsets())


def test_a_method_without_energy_or_history_is_named_and_leaves_no_figure(still):
    fit, data = still
    with pytest.raises(ValueError, match="nearest has no energy to draw"):
        pl.landscape(fit, data)
    with pytest.raises(ValueError, match="nearest has no history to draw"):
        pl.history(fit)
    assert plt.get_fignums() == []


def test_without_matplotlib_the_extra_is_named(still, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"install stitchflow\[plot\]"):
        pl.snapshots(still[1])


@pytest.mark.parametrize("module", ["stitchflow", "stitchflow.pl", "stitchflow.cli"])
def test_importing_needs_neither_matplotlib_nor_anndata_nor_pandas(module):
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "stitchflow" in loaded
    assert not loaded & {"matplotlib", "anndata", "pandas"}
