"""What differs between two conditions: intervals, an answer, and its refusals."""

import json

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._judging.compare import _answer
from stitchflow.cli import main
from test_per_condition import FORM, springs


@pytest.fixture(scope="module")
def fitted() -> sf.Fit:
    return sf.fit(springs(0.6), sf.WeakForm(FORM), progress=False)


@pytest.fixture(scope="module")
def compared(fitted) -> sf.Comparison:
    return sf.compare(fitted, "treated", "control")


def test_a_difference_is_told_with_its_size(compared):
    """V = x^2 / 2 -+ 0.6 x: the force of treated minus that of control is 1.2."""
    assert compared.differs is True
    force, speed, size = compared
    assert force.low < 1.2 < force.high
    assert force.value == pytest.approx(1.2, abs=0.3)
    assert 0.0 < size.low < size.value < size.high
    assert (force.dimension, speed.dimension) == (0, None)
    assert "landscapes of their own" in compared.sentences[0]
    assert compared.replicated
    assert "leaving out one group" in compared.sentences[1]
    assert compared.sentences[0] in " ".join(str(compared).split())


def test_the_other_way_round_changes_signs(compared):
    x = np.linspace(-0.5, 1.5, 5)[:, None]
    one, groups = compared._contrast.of("treated", "control")
    other, same = compared._contrast.of("control", "treated")
    np.testing.assert_allclose(other.force(x).mean, -one.force(x).mean)
    np.testing.assert_allclose(same, -groups)
    # The difference of V is -1.2 x.
    fall = compared.potential(x).mean
    assert fall[-1] - fall[0] == pytest.approx(-2.4, abs=0.6)


def test_errors_are_not_below_those_of_resampled_groups(compared):
    """A jackknife of two groups of a condition: the sum of (c_1 - c_2)^2 / 4 over conditions."""
    x = np.linspace(0.0, 1.0, 3)[:, None]
    known, groups = compared._contrast.of("treated", "control")
    one, two = compared._contrast.without, known.force_rows(x)[:, 0]
    assert [len(each) for each in one] == [2, 2]
    assert groups.shape == (known.drift.count, 4)
    own = np.sqrt(((two @ groups) ** 2).sum(axis=1)) * known.units.speed
    assert (compared.force(x).sd[:, 0] >= own - 1e-12).all()
    assert compared.multiple == pytest.approx(2.92, abs=0.01)  # of Student's t with 2 degrees


def test_no_difference_and_no_replicates_are_said():
    data = springs(0.0)
    plain = sf.Snapshots.from_table(
        data.x, data.times[data.index], conditions=np.asarray(data.conditions)
    )
    with pytest.warns(sf.DataWarning, match="no replicates under control, treated"):
        fit = sf.fit(plain, sf.WeakForm(FORM), progress=False)
    found = sf.compare(fit, "treated", "control")
    assert found.differs is False
    assert not found.replicated
    assert "no replicates" in found.sentences[1]
    assert found[0].low < 0.0 < found[0].high


def test_answers():
    assert _answer(asked=True, holds=True, most=9.0) is True
    assert _answer(asked=True, holds=False, most=0.1) is None
    assert _answer(asked=False, holds=True, most=0.4) is False
    assert _answer(asked=False, holds=True, most=0.6) is None


def test_what_cannot_be_compared_is_refused(fitted):
    with pytest.raises(ValueError, match="'other' is unknown; conditions are control, treated"):
        sf.compare(fitted, "control", "other")
    with pytest.raises(ValueError, match="two conditions, got 'control' twice"):
        sf.compare(fitted, "control", "control")
    nearest = sf.fit(springs(0.0, n=10), sf.Nearest(), progress=False)
    with pytest.raises(sf.NotAvailable, match="PerCondition"):
        sf.compare(nearest, "control", "treated")


def test_a_run_is_compared_on_the_command_line(tmp_path, capsys, fitted, compared):
    run, lines = str(tmp_path / "run"), tmp_path / "lines.jsonl"
    fitted.save(run)
    with pytest.raises(SystemExit) as ended:
        main(["compare", run, "treated", "control", "--json", str(lines)])
    assert ended.value.code == 0
    assert "landscapes of their own" in " ".join(capsys.readouterr().out.split())
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["metric"] for row in rows] == ["force-0", "speed", "size"]
    assert rows[0]["value"] == pytest.approx(compared[0].value)
    assert rows[0]["differs"] is True
    with pytest.raises(SystemExit) as ended:
        main(["compare", run, "treated", "placebo"])
    assert ended.value.code == 2
    assert "'placebo' is unknown" in capsys.readouterr().err


def test_the_command_line_asks_for_a_difference_by_a_setting():
    method = sf.WeakForm().with_settings({"conditions": True})
    assert repr(method.energy) == repr(FORM)


@pytest.mark.full
def test_cells_have_the_difference(tmp_path):
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    data = springs(0.6, n=60)
    obs = {"day": data.times[data.index], "dish": data.groups, "arm": data.conditions}
    index = [f"cell{k}" for k in range(len(data.x))]
    adata = anndata.AnnData(
        np.zeros((len(data.x), 1)), obs=pandas.DataFrame(obs, index=index), obsm={"X_pca": data.x}
    )
    keys = {"group_key": "dish", "condition_key": "arm"}
    sf.tl.fit(adata, "day", method=sf.WeakForm(FORM), **keys, progress=False)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    again = anndata.read_h5ad(tmp_path / "cells.h5ad")
    found = sf.tl.compare(again, "treated", "control")
    assert found.differs is True
    v, x = again.obs["stitchflow_difference"].to_numpy(), data.x[:, 0]
    assert np.polyfit(x, v, 1)[0] == pytest.approx(-1.2, abs=0.4)
    assert (again.obs["stitchflow_difference_sd"] > 0).all()


def test_the_difference_is_drawn(compared):
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = sf.pl.difference(compared, springs(0.6, n=20))
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y, compared.potential(np.asarray(x)[:, None]).mean)
    assert "treated minus control" in ax.get_title()
    plt.close(ax.figure)
