"""The built wheel, alone in an empty environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.full
def test_a_wheel_without_extras_runs_the_demo(tmp_path):
    def run(*command) -> str:
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(
            [str(part) for part in command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("stitchflow-*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", wheel)
    printed = run(tmp_path / "empty" / "bin" / "stitchflow", "demo", "--out", tmp_path / "demo")
    assert "rollout" in printed
    assert "pictures need matplotlib: install stitchflow[plot]" in printed
    assert "a report needs jinja2; install stitchflow[report]" in printed
    assert (tmp_path / "demo" / "header.json").exists()
    run(python, "-m", "pip", "install", "-q", f"{wheel}[report]")
    run(tmp_path / "empty" / "bin" / "stitchflow", "report", tmp_path / "demo")
    assert "What moves this population" in (tmp_path / "demo" / "report.html").read_text()
