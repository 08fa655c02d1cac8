"""One map: here, on local workers, on a cluster; every job counted once, whoever dies."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import stitchflow as sf
from stitchflow._command.fit_file import crossval_rows
from stitchflow._files.lines import append_json, read_lines

TINY = sf.Stitching(
    optimiser=sf.Optimiser(steps=10),
    particles=8,
    nodes=4,
    consistency=sf.Consistency(steps=0),
)


def moving() -> sf.Snapshots:
    x = np.random.default_rng(0).normal(size=(3, 30, 1))
    return sf.Snapshots.from_arrays([cloud + k for k, cloud in enumerate(x)], [0.0, 1.0, 2.0])


class Unreadable(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def trouble(kind):
    if kind == "raises":
        raise ZeroDivisionError("nothing to divide by")
    if kind == "raises what does not travel":
        raise Unreadable(1, 2)
    if kind == "returns what does not travel":
        return threading.Lock()
    return kind


@pytest.fixture(scope="module")
def address():
    """A real scheduler with a worker that shares this process."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    ) as cluster:
        yield cluster.scheduler_address


def test_here_jobs_are_done_in_their_order():
    assert list(sf.run_all(abs, [-2, 1, -3], progress=False)) == [(-2, 2), (1, 1), (-3, 3)]
    assert list(sf.run_all(abs, [], cluster=2, progress=False)) == []


def test_here_needs_no_dask():
    words = (
        "import sys, stitchflow as sf\n"
        "assert dict(sf.run_all(abs, [-1], progress=False)) == {-1: 1}\n"
        "assert not {'dask', 'distributed'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", words], check=True)


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_failure_comes_back_and_the_others_go_on(where, request):
    cluster = None if where == "here" else request.getfixturevalue("address")
    kinds = ["raises", "raises what does not travel", "fine"]
    found = dict(sf.run_all(trouble, kinds, cluster=cluster, progress=False))
    assert found.pop("fine") == "fine"
    assert isinstance(found["raises"], ZeroDivisionError)
    assert "1" in str(found["raises what does not travel"])
    assert all(isinstance(error, Exception) for error in found.values())


def test_results_that_do_not_travel_are_failures(address):
    kinds = ["returns what does not travel", "fine"]
    found = dict(sf.run_all(trouble, kinds, cluster=address, progress=False))
    assert isinstance(found[kinds[0]], TypeError)
    assert "On the worker" in found[kinds[0]].__notes__[0]
    assert found["fine"] == "fine"


@pytest.mark.parametrize("cluster", [0, -1, 1.5, True, "nowhere", "12"])
def test_what_names_no_cluster_is_refused_at_once(cluster):
    with pytest.raises((ValueError, TypeError), match="cluster"):
        sf.run_all(abs, [1], cluster=cluster)
    with pytest.raises((ValueError, TypeError), match="cluster"):
        sf.cross_validate(moving(), ["nearest"], cluster=cluster)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"stitchflow\[cluster\]"):
        sf.run_all(abs, [1], cluster=2)


def test_a_silent_address_is_named():
    import dask.config

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        pytest.raises(OSError, match=r"no scheduler answers at tcp://127\.0\.0\.1:1"),
    ):
        list(sf.run_all(abs, [1], cluster="tcp://127.0.0.1:1", progress=False))


def test_the_environment_and_the_default_client_are_left_alone(address):
    from distributed import default_client

    before = dict(os.environ)
    list(sf.run_all(abs, [1], cluster=address, progress=False))
    assert dict(os.environ) == before
    with pytest.raises(ValueError, match="No client"):
        default_client()


@pytest.mark.parametrize("method", [*sf.METHODS, TINY], ids=str)
def test_methods_travel(method):
    method = sf.METHODS[method]() if isinstance(method, str) else method
    assert pickle.loads(pickle.dumps(method)) == method


def test_snapshots_travel():
    data = sf.Snapshots.from_table(
        np.arange(8.0)[:, None], np.repeat([0.0, 1.0], 4), groups=np.tile(["a", "b"], 4)
    )
    other = pickle.loads(pickle.dumps(data))
    assert other.fingerprint == data.fingerprint
    assert other.groups.tolist() == data.groups.tolist()


@pytest.mark.parametrize("name", ["nearest", "ot-linear"])
def test_fits_travel(name):
    fit = sf.fit(moving(), sf.METHODS[name](), progress=False)
    other = pickle.loads(pickle.dumps(fit))
    sample = lambda found: np.asarray(found.flow.sample([0.5], 20, key=0))
    np.testing.assert_array_equal(sample(other), sample(fit))


def test_cross_validation_is_the_same_there_and_each_fit_arrives_once(address, tmp_path):
    data, names, seeds = moving(), ["nearest", "ot-linear"], (0, 1)
    here = sf.cross_validate(data, names, seeds=seeds, progress=False)
    lines = tmp_path / "lines.jsonl"
    there = sf.cross_validate(
        data,
        names,
        seeds=seeds,
        cluster=address,
        arrived=lambda rows: append_json(lines, crossval_rows(rows)),
        progress=False,
    )
    place = lambda r: (r.method, r.seed, r.left_out, r.protocol, r.metric, r.time)
    assert [(*place(row), row.value) for row in there] == [(*place(row), row.value) for row in here]
    assert len(set(map(place, there))) == len(there)
    assert len([json.loads(line) for line in lines.read_text().splitlines()]) == len(here)


def test_a_failure_stops_a_cross_validation(address):
    with pytest.raises(ValueError, match="magic"):
        sf.cross_validate(moving(), ["nearest"], metrics=["magic"], cluster=address, progress=False)


VICTIM = 7


def fit_or_die(seed: int, method: sf.Method, folder: Path) -> tuple[int, sf.Fit]:
    """A fit with its seed; the first worker at the victim is killed before it can answer."""
    mine = {int(path.name.split("-")[0]) for path in folder.glob(f"*-{os.getpid()}")}
    first = not any(folder.glob(f"{VICTIM}-*"))
    (folder / f"{seed}-{os.getpid()}").touch()
    fit = sf.fit(moving(), method, seed, progress=False)
    if seed == VICTIM and first:
        # Answers that nobody has fetched yet die with their worker and are rightly made again.
        wait_until(lambda: mine <= set(counted(folder.parent / "lines")), 600.0)
        time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGKILL)
    return seed, fit


def counted(lines: Path) -> list[int]:
    return [row["seed"] for row in read_lines(lines)]


@pytest.mark.parametrize(
    "method", [sf.OTLinear(), pytest.param(TINY, marks=pytest.mark.full)], ids=["quick", "compiled"]
)
def test_a_sweep_survives_a_killed_worker_and_counts_each_fit_once(method, tmp_path):
    """Two processes, twenty fits, one SIGKILL: the run that was cut off is the only one redone."""
    started = tmp_path / "started"
    started.mkdir()
    found, before = {}, dict(os.environ)
    job = partial(fit_or_die, method=method, folder=started)
    for seed, answer in sf.run_all(job, range(20), cluster=2, progress=False):
        append_json(tmp_path / "lines", [{"seed": seed}])
        found[seed] = answer
    assert sorted(counted(tmp_path / "lines")) == [*range(20)]
    for seed, (own, fit) in found.items():
        assert own == seed
        assert isinstance(fit, sf.Fit)
    starts = [int(path.name.split("-")[0]) for path in started.iterdir()]
    assert sorted(starts) == sorted([*range(20), VICTIM])
    assert dict(os.environ) == before


SCRIPT = """
import os, sys, time
import jax
import stitchflow as sf

def tell(path):
    words = f"{os.getpid()} {os.environ['NPROC']} {jax.config.jax_enable_x64}"
    with open(path + ".part", "w") as file:
        file.write(words)
    os.rename(path + ".part", path)
    time.sleep(600)

if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    list(sf.run_all(tell, sys.argv[1:], cluster=1, progress=False))
"""


def test_workers_take_over_the_settings_and_leave_with_a_killed_parent(tmp_path):
    """A real process, a real SIGKILL: nobody is left to compute unseen."""
    script, told = tmp_path / "script.py", tmp_path / "told"
    script.write_text(SCRIPT)
    parent = subprocess.Popen([sys.executable, str(script), str(told)])
    try:
        wait_until(told.exists, 600.0)
        worker, threads, double = told.read_text().split()
        assert int(threads) == len(os.sched_getaffinity(0))
        assert double == "True"
        os.kill(int(worker), 0)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not Path(f"/proc/{worker}").exists(), 60.0)


def wait_until(holds, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.1)


def die(job: str) -> str:
    if job == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return job


@pytest.mark.full
def test_a_job_that_kills_every_worker_is_given_up():
    found = dict(sf.run_all(die, ["deadly", "a", "b"], cluster=1, progress=False))
    assert type(found.pop("deadly")).__name__ == "KilledWorker"
    assert found == {"a": "a", "b": "b"}
