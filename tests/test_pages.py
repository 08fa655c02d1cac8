"""The documentation runs and is complete: tutorials, the extension page, the list of names."""

import subprocess
import sys
from inspect import get_annotations, getdoc

import jax.numpy as jnp
import numpy as np
import pytest

import stitchflow as sf
from pages import DOCS, blocks, commands, public_names, run_page
from stitchflow import bench, cli
from stitchflow._stitching import defaults as _defaults

TUTORIALS = sorted(path.stem for path in (DOCS / "tutorials").glob("*.md"))
ELSEWHERE = {"single-cell"}  # test_tl_tutorial.py
IN_MAKE_TEST = "compare"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
    sf.METHODS.pop("gaussian", None)
    sf.metrics.DISTANCES.pop("mean", None)


def arrays(names):
    assert names["likeness"] > 0.9


def interacting(names):
    assert names["likeness"] > 0.9
    assert names["misses"]["V and W"] < 0.6 * names["misses"]["V alone"]


def non_gradient(names):
    assert names["diagnosis"].is_gradient_flow is False
    assert names["rollouts"]["with a field"] < 0.7 * names["rollouts"]["potential alone"]
    assert names["likeness"] > 0.8


def own_energy(names):
    assert names["known"].energy.beta == pytest.approx(0.1)
    assert abs(float(names["wells"].place) - 1.0) < 0.15


def compare(names):
    assert names["scores"].methods == ["stitching", "nearest", "ot-linear"]
    assert len(names["rows"]) > 0


def conditions(names):
    assert names["found"].differs is True
    assert names["found"][0].low < names["effect"][0] < names["found"][0].high


def large(names):
    one, shared = (names[name].energy.force(names["look"].x) for name in ("fit", "shared"))
    np.testing.assert_allclose(one, shared, atol=0.05 * float(jnp.abs(one).max()))


CHECKS = {f.__name__.replace("_", "-"): f for f in (arrays, interacting, non_gradient)}
CHECKS |= {f.__name__.replace("_", "-"): f for f in (own_energy, compare, large, conditions)}


def test_every_tutorial_is_run_somewhere():
    assert set(TUTORIALS) == set(CHECKS) | ELSEWHERE


def run_commands(page):
    for arguments in commands(page):
        with pytest.raises(SystemExit) as ended:
            cli.main(arguments)
        assert ended.value.code == 0, arguments


@pytest.mark.parametrize(
    "tutorial",
    [
        pytest.param(name, marks=[] if name == IN_MAKE_TEST else pytest.mark.full)
        for name in sorted(CHECKS)
    ],
)
def test_a_tutorial_runs(tutorial):
    page = f"tutorials/{tutorial}.md"
    CHECKS[tutorial](run_page(page))
    run_commands(page)


@pytest.mark.full
@pytest.mark.parametrize("page", ["index.md", "report.md"])
def test_a_page_of_defaults_runs_at_a_small_budget(page, monkeypatch):
    monkeypatch.setattr(_defaults, "STEPS", 60)
    assert run_page(page)["fit"].status.ok


@pytest.mark.full
def test_the_commands_of_the_first_page_run(monkeypatch):
    from cells import moving_blobs

    monkeypatch.setattr(_defaults, "STEPS", 60)
    moving_blobs().write_h5ad("cells.h5ad")
    run_commands("index.md")


@pytest.mark.full
def test_the_page_on_many_fits_runs_as_a_program(tmp_path):
    (script,) = blocks("cluster.md", "```python")
    (tmp_path / "sweep.py").write_text(script)
    done = subprocess.run([sys.executable, "sweep.py"], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert all(sf.load(f"runs/{seed}").status.ok for seed in range(4))


def check_the_example_method(names):
    fit, again, data = names["fit"], names["again"], names["data"]
    assert again.method == fit.method
    for protocol in ("marginal", "one-step", "rollout"):
        rows = [r for r in names["scores"] if r.protocol == protocol and r.time is None]
        assert rows[0].value < 1.4 * rows[0].floor
    assert {row.protocol for row in names["compared"]} == {"interpolate", "forecast"}
    # Its velocity is that of its marginals: the density is constant along the flow, up to volume.
    x, t, dt = data.cloud(1)[:50], 1.5, 1e-3
    ahead = x + dt * np.asarray(fit.flow.velocity(x, t))
    change = np.asarray(fit.flow.log_density(ahead, t + dt) - fit.flow.log_density(x, t)) / dt
    rate = fit.flow.moved(t)
    volume = np.trace(np.linalg.solve(rate[1].T, rate[3].T))
    np.testing.assert_allclose(change, -volume, atol=2e-2)
    with pytest.raises(sf.NotAvailable):
        again.flow.score(x, t)


def test_the_example_method_keeps_the_contract():
    check_the_example_method(run_page("extend.md", first=2))


@pytest.mark.full
def test_the_extension_page_runs():
    names = run_page("extend.md")
    assert all(names[name].status.ok for name in ("gathered", "capped", "other"))


def test_what_the_reference_shows_says_what_it_is():
    """A member without a docstring is left out of it."""
    kinds = (sf.Snapshots, sf.Energy, sf.Scores, sf.CrossValidation, sf.Diagnosis, sf.Ensemble)
    names = [(kind, name) for kind in kinds for name in vars(kind) if name[0] != "_"]
    members = [(kind, name) for kind, name in names if name not in get_annotations(kind)]
    bare = [f"{kind.__name__}.{name}" for kind, name in members if not getdoc(getattr(kind, name))]
    assert bare == []
    fields = sf.Fit.__dataclass_fields__
    assert [name for name in fields if f"\n    {name}: " not in (getdoc(sf.Fit) or "")] == []


def test_the_reference_lists_every_public_name():
    listed = (DOCS / "api.md").read_text().split()
    modules = {"": sf, ".tl": sf.tl, ".pl": sf.pl, ".report": sf.report, ".bench": bench}
    modules[".datasets"] = sf.datasets
    names = {
        f"stitchflow{place}.{name}"
        for place, module in modules.items()
        for name in public_names(module)
    }
    assert len(names) > 100
    whole = {f"stitchflow{place}" for place in modules}
    assert names - set(listed) - whole == set()
