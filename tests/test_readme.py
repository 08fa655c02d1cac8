"""The README's code runs, and its table comes from the committed results."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import stitchflow as sf
from stitchflow._stitching import defaults as _defaults
from stitchflow.datasets import double_well

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_there_are_two_examples_of_five_lines():
    assert [len(block.strip().splitlines()) for block in BLOCKS] == [5, 5]


@pytest.mark.parametrize("steps", [60, pytest.param(_defaults.STEPS, marks=pytest.mark.full)])
@pytest.mark.parametrize("block", BLOCKS, ids=["arrays", "anndata"])
def test_examples_run(block, steps, tmp_path, monkeypatch, capsys):
    """At a small budget; with the defaults, test_demo.py fits the same data."""
    monkeypatch.setattr(_defaults, "STEPS", steps)
    if "anndata" in block:
        anndata = pytest.importorskip("anndata")
        import pandas as pd

        data = double_well(n=60, key=0)[0]
        labels = pd.Index(map(str, range(len(data.x))))
        days = pd.DataFrame({"day": data.times[data.index]}, index=labels)
        cells = anndata.AnnData(data.x, obs=days)
        cells.obsm["X_pca"] = data.x
        cells.write_h5ad(tmp_path / "cells.h5ad")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(block, names)
    assert isinstance(names["fit"], sf.Fit)
    assert names["fit"].status.ok
    assert capsys.readouterr().out


def test_the_table_is_made_of_the_committed_results():
    script = ROOT / "benchmarks" / "readme_table.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
