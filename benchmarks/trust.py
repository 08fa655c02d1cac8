"""Faults on purpose: killed fits, generated inputs, corrupted models, many fits in one process.

`make trust` runs all four within a budget and adds a line each to `results/trust.jsonl`; a line
says how many were tried, and names what failed; the latest of each are a table of
`docs/reliability.md`. `--only` and `--seed` choose; other seeds try other cases.
"""

import argparse
import contextlib
import faulthandler
import hashlib
import io
import itertools
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

import jax
import numpy as np

import faults
import stitchflow as sf
from marked_pages import ROOT, fill
from paper.tables import markdown
from stitchflow import cli
from stitchflow._command import fit_file as _runs
from stitchflow._command.fit_file import fit_file, keep_compilations
from stitchflow._files.lines import append_json, read_lines
from stitchflow._reading.formats import Columns
from stitchflow._reading.tables import read_table
from stitchflow._storage.run_state import PLAN, whole_model
from stitchflow._storage.save import load, plain

LINES = ROOT / "results" / "trust.jsonl"
# Long enough for all three stages, small enough for seconds.
TINY = {"steps": 500, "particles": 10, "nodes": 6, "hidden": (4,), "batch": 32}
TIMES = np.array([0.0, 0.4, 1.0])
SECONDS = 45  # after which one input counts as a hang; a look into a damaged HDF5 may take 30


def falling(rng: np.random.Generator, n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Individuals that relax towards zero, which an energy explains."""
    clouds = [(rng.normal(size=(n, 2)) * 0.3 + 2.0) * np.exp(-t) for t in TIMES]
    return np.concatenate(clouds), np.repeat(TIMES, n)


def write_data(folder: Path) -> Path:
    x, t = falling(np.random.default_rng(0))
    np.savez(folder / "data.npz", x=x, t=t)
    return folder / "data.npz"


def in_child(work, *arguments) -> int:
    """The process id of a fork that does the work; this process never wakes JAX, so it may fork."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(*arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def tiny_fit(data: Path, run: Path, resume: bool) -> None:
    keep_compilations()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # Every look is kept, so that a fit of a second has many places to go on from.
    _runs.Checkpoint = lambda path: sf.Checkpoint(path, seconds=0.0)
    method = sf.Stitching().with_settings(TINY)
    fit_file(read_table(data), Columns(), method, run, resume=resume, progress=False)


def fingerprint(run: Path) -> str:
    """What a fit found; its header must match its arrays."""
    found = whole_model(run)
    finished = (run / "header.json", run / "arrays.npz")
    assert found.places == finished, f"{run} is not finished"
    return hashlib.sha256(found.arrays).hexdigest()


def kills(count: int, seed: int, until: float, folder: Path) -> dict:
    """SIGKILL at random moments; each is followed by a resume, which may be killed in turn.

    Before that, a run is ended just before each of its renames and removals of files in turn,
    beside those of checkpoints that are written, which random moments hit often enough; each is
    resumed twice.
    """
    data = write_data(folder)
    for name in ("warm", "whole"):  # the first fills the cache of compiled programs
        start = time.monotonic()
        assert os.waitpid(in_child(tiny_fit, data, folder / name, False), 0)[1] == 0
        lasts = time.monotonic() - start
    expected, done, finished, wrong = fingerprint(folder / "whole"), 0, 0, []
    stages, rng = Counter(), np.random.default_rng(seed)
    changes = 0
    for run in (folder / f"change{k}" for k in itertools.count(1)):
        pid = in_child(faults.ending_before, changes + 1, tiny_fit, data, run, False)
        if os.waitpid(pid, 0)[1] == 0:
            break
        changes += 1
        for _ in range(2):
            pid = in_child(tiny_fit, data, run, (run / PLAN).exists())
            if os.waitpid(pid, 0)[1] or fingerprint(run) != expected:
                wrong.append(f"change {changes}: not resumed, or to other numbers")
    while done < count and time.monotonic() < until:
        run, status = folder / f"run{finished}", 9
        while status:
            pid = in_child(tiny_fit, data, run, (run / PLAN).exists())
            time.sleep(rng.uniform(0.0, lasts) if done < count else 0)
            if done < count:
                os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
            if os.WIFSIGNALED(status):
                done += 1
                stages[len(list(run.glob("checkpoint*.npz")))] += 1
            elif status:
                wrong.append(f"resume {finished} exited with {os.WEXITSTATUS(status)}")
                break
        finished += 1
        if not status and fingerprint(run) != expected:
            wrong.append(f"run {finished} gave other numbers")
    return {
        "kills": done,
        "changes": changes,
        "runs_finished": finished,
        "seconds_whole": round(lasts, 2),
        "checkpoints_at_kill": {str(k): v for k, v in sorted(stages.items())},
        "wrong": wrong,
    }


@contextlib.contextmanager
def no_longer_than(seconds: int):
    def late(*_):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(2 * seconds)  # where no signal is heard
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def command(arguments: list[str]) -> str:
    """The one line with which a command refuses, run in this process."""
    out, err, code = io.StringIO(), io.StringIO(), None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main(arguments)
    except SystemExit as end:
        code = end.code
    said = err.getvalue()
    if code != 2 or not said.startswith("stitchflow: ") or said.count("\n") != 1:
        raise AssertionError(f"exit code {code}, and on stderr {said!r}")
    return said


def inputs(count: int, seed: int, until: float, folder: Path) -> dict:
    """Generated tables and files: an answer or one line, soon, in bounded memory."""
    taken = folder / "taken"  # a run is there already: what is read well is refused for that
    taken.mkdir()
    (taken / "plan.json").write_text("{}")
    tally, wrong, slowest = Counter(), [], 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(count):
        if time.monotonic() > until:
            break
        kind, rng = faults.KINDS[i % len(faults.KINDS)], np.random.default_rng([seed, i])
        start = time.monotonic()
        try:
            with no_longer_than(SECONDS):
                if kind == "arrays":
                    outcome = faults.through_snapshots(rng)
                else:
                    path, options = faults.data_file(rng, kind, folder)
                    method = "stitching" if rng.random() < 0.1 else "nearest"
                    call = ["fit", str(path), "--out", str(taken), "--method", method, *options]
                    said = command(call)
                    outcome = "accepted" if "already holds a run" in said else "refused"
                    named = f"data.{kind}" in said or said.startswith("stitchflow: --")
                    assert outcome == "accepted" or named, said
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome = "wrong"
            wrong.append(f"{kind} {i}: {error!r}"[:300])
        slowest = max(slowest, time.monotonic() - start)
        tally[f"{kind} {outcome}"] += 1
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "inputs": sum(tally.values()),
        "outcomes": dict(sorted(tally.items())),
        "seconds_slowest": round(slowest, 2),
        "peak_growth_mib": round((after - before) / 1024),
        "wrong": wrong[:20],
        "wrong_count": len(wrong),
    }


def same(a: sf.Fit, b: sf.Fit) -> bool:
    (head, arrays), (other, others) = plain(a), plain(b)
    same_names = head == other and arrays.keys() == others.keys()
    return same_names and all(np.array_equal(arrays[n], others[n], True) for n in others)


def corruptions(count: int, seed: int, until: float, folder: Path) -> dict:
    """Damaged and forged copies of a model: the right one or one sentence."""
    data = write_data(folder)
    tiny_fit(data, folder / "model", False)
    model, tally, wrong = load(folder / "model"), Counter(), []
    contents = {p.name: p.read_bytes() for p in (folder / "model").glob("*.[jn][sp]*")}
    run = folder / "copy"
    run.mkdir()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(count):
        if time.monotonic() > until:
            break
        rng = np.random.default_rng([seed, i])
        # Every fourth is forged by somebody who also mends the hashes.
        forged = i % 4 == 3
        damaged = faults.forged(rng, contents) if forged else faults.damaged(rng, contents)
        for name, content in damaged.items():
            (run / name).write_bytes(content)
        try:
            with no_longer_than(SECONDS):
                found = load(run)
            right = same(found, model)
            outcome = "the right model" if right else "another model"
            if not right and not forged:
                wrong.append(f"{i}: silently another model")
            if not right:
                assert np.isfinite(found.flow.sample([0.5], 3)).all(), "not finite"
        except ValueError as error:
            outcome = "refused"
            if str(run) not in str(error):
                wrong.append(f"{i}: {error!r}"[:300])
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            outcome = "wrong"
            wrong.append(f"{i}: {error!r}"[:300])
        tally[("forged: " if forged else "damaged: ") + outcome] += 1
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "corruptions": sum(tally.values()),
        "outcomes": dict(sorted(tally.items())),
        "peak_growth_mib": round((after - before) / 1024),
        "wrong": wrong[:20],
        "wrong_count": len(wrong),
    }


def resident() -> float:
    """MiB of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def soak(count: int, seed: int, until: float, folder: Path) -> dict:
    """Consecutive fits, each saved, loaded and asked, in one process."""
    keep_compilations()
    x, t = falling(np.random.default_rng(seed))
    data = sf.Snapshots.from_table(x, t)
    method, held, bad = sf.Stitching().with_settings(TINY), [], 0
    for i in range(count):
        if time.monotonic() > until:
            break
        fit = sf.fit(data, method, key=i, progress=False)
        fit.save(folder / "run", overwrite=True)
        answer = sf.load(folder / "run").flow.simulate(x[:20], TIMES, key=i)
        bad += not (fit.status.ok and np.isfinite(answer).all())
        held.append(resident())
    warm = held[min(len(held) - 1, 20)]
    return {
        "fits": len(held),
        "resident_mib_after_20": round(warm, 1),
        "resident_mib_at_end": round(held[-1], 1),
        "growth_percent": round(100 * (held[-1] / warm - 1), 2),
        "bad": bad,
    }


def table(rows: list[dict]) -> str:
    """The latest line of each study, in words."""
    last = {row["study"]: row for row in rows}
    words = {
        "kills": (
            "SIGKILLs of a fit, each resumed",
            "{runs_finished} runs ended, same numbers; so after each of {changes} changes of files",
        ),
        "inputs": ("generated tables and files", "slowest {seconds_slowest:.0f} s"),
        "corruptions": ("damaged or forged models", "memory +{peak_growth_mib} MiB"),
        "soak": ("fits in one process", "memory {growth_percent:+} %"),
    }
    cells = []
    for name in [name for name in words if name in last]:
        row, (what, found) = {"changes": 0, **last[name]}, words[name]
        count = row[{"soak": "fits"}.get(name, name)]
        wrong = row["bad"] if name == "soak" else row.get("wrong_count", len(row["wrong"]))
        cells.append([what, f"{count:,}", str(wrong), found.format(**row), f"{row['seconds']:.0f}"])
    return markdown(["", "cases", "wrong", "found", "s"], cells)


STUDIES = {
    "kills": (kills, 200),
    "inputs": (inputs, 10_000),
    "corruptions": (corruptions, 1000),
    "soak": (soak, 200),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--count", type=int, help="cases of each study")
    parser.add_argument("--budget", type=float, default=15.0, help="minutes for each study")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    os.environ["XDG_CACHE_HOME"] = str(ROOT / "build" / "trust")
    for name in chosen.only:  # kills come first: they fork before JAX is awake
        study, count = STUDIES[name]
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            until = start + 60 * chosen.budget
            found = study(chosen.count or count, chosen.seed, until, Path(folder))
        seconds = round(time.monotonic() - start, 1)
        line = {"study": name, "seed": chosen.seed, **found, "seconds": seconds}
        append_json(LINES, [{**line, "version": sf.__version__}])
        print(json.dumps(line))
    fill(ROOT / "docs" / "reliability.md", "table: benchmarks/trust.py", table(read_lines(LINES)))
    sys.exit(0)


if __name__ == "__main__":
    main()
