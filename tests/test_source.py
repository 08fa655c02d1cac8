"""What the package never does: run text as code, start a shell, unpickle, call home."""

import ast
import socket
from pathlib import Path

import numpy as np

import stitchflow as sf
from falling import falling, known_fit, well
from stitchflow.report import write_report

SOURCE = Path(sf.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
NETWORK = {"socket", "urllib", "http", "requests", "pooch", "ftplib", "ssl"}
UNSAFE = {"pickle", "marshal", "shelve", "ctypes", "cloudpickle", "joblib"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def calls(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}


def test_no_text_is_run_and_no_file_is_unpickled():
    # Jobs travel between this process and its own workers as pickles; no file ever does.
    assert [path.stem for path in FILES if imports(path) & UNSAFE] == ["cluster"]
    # One program is started, our own probe, by its path and without a shell.
    assert [path.stem for path in FILES if "subprocess" in imports(path)] == ["declared"]
    for path in FILES:
        assert "shell=" not in path.read_text(), path
        assert not calls(path) & {"eval", "exec", "compile", "os.system", "os.popen"}, path
        assert "allow_pickle=True" not in path.read_text(), path


def test_only_datasets_can_reach_the_network():
    using = {path.relative_to(SOURCE).parts[0] for path in FILES if imports(path) & NETWORK}
    assert using == {"datasets"}


def test_a_fit_its_file_and_its_report_make_no_connection(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    fit = sf.fit(falling(), sf.Nearest(), progress=False)
    fit.save(tmp_path / "run")
    assert np.isfinite(sf.load(tmp_path / "run").flow.sample([1.0], 5)).all()
    write_report(known_fit(sf.Potential(well)), tmp_path / "report.html")


def test_everything_hostile_in_a_table_of_a_notebook_is_text():
    fit = known_fit(sf.Potential(well))
    fit.status = sf.Status(False, "<script>alert(1)</script>")
    assert "<script>" not in fit._repr_html_()
