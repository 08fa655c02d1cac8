"""The command line."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from stitchflow._command import options as _options
from stitchflow._status import BadInput, require

app = typer.Typer(
    help="Learn the energy behind population snapshots, and the curve that joins them.",
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
console = Console(markup=False, emoji=False)  # paths may hold brackets and colons

# Errors that are shown to the user as one sentence: bad input, and what the system reports.
ANSWERED = (BadInput, OSError, ImportError)


def _say_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"stitchflow {version('stitchflow')}")
        raise typer.Exit


@app.callback()
def _start(
    version: Annotated[
        bool,
        typer.Option("--version", help="print the version", callback=_say_version, is_eager=True),
    ] = False,
) -> None:
    from stitchflow._command.fit_file import keep_compilations

    keep_compilations()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="where to write")] = Path("stitchflow-demo"),
) -> None:
    """Simulate a double well, fit it, score it, and draw it, in less than a minute."""
    from stitchflow._command.demo import run_demo

    run_demo(out, console)


@app.command(epilog=_options.FIT_EXAMPLES)
def fit(
    data: _options.Data,
    out: _options.Out,
    time_key: _options.TimeKey = None,
    rep: _options.Rep = None,
    columns: _options.Features = None,
    weight_key: _options.WeightKey = None,
    id_key: _options.IdKey = None,
    group_key: _options.GroupKey = None,
    condition_key: _options.ConditionKey = None,
    total: _options.Total = None,
    hold_out: _options.HoldOut = None,
    test_fraction: _options.TestFraction = 0.2,
    method: _options.MethodName = "stitching",
    time_varying: _options.TimeVarying = False,
    interaction: _options.WithInteraction = False,
    no_entropy: _options.NoEntropy = False,
    select: _options.Select = False,
    ensemble: _options.Members = None,
    seed: _options.Seed = 0,
    set_: _options.Settings = None,
    resume: _options.Resume = False,
    overwrite: _options.Overwrite = False,
) -> None:
    """Learn what moves a population that was seen at two times or more.

    Individuals need not be seen twice: it may be other cells at each time. The result is the
    landscape on which individuals move downhill, how strongly they move at random, where the
    population is between the times, and scores on individuals that were kept aside.
    """
    import jax

    from stitchflow._command.fit_file import fit_file, for_training
    from stitchflow._command.selecting import check_selecting, method_for
    from stitchflow._method.contract import Method, method_named
    from stitchflow._reading.formats import Columns
    from stitchflow._reading.tables import read_table
    from stitchflow._status import DataWarning
    from stitchflow._stitching.named_settings import parse_settings
    from stitchflow._storage.run_data import held_out
    from stitchflow._storage.run_state import can_resume

    if not 0.0 <= test_fraction < 1.0:
        raise BadInput(f"--test-fraction must be in [0, 1), got {test_fraction:g}")
    terms = {"time_varying": time_varying, "interaction": interaction, "no_entropy": no_entropy}
    chosen = method_named(method, "--method")
    settings = parse_settings(set_ or [], chosen.setting_names)
    if select:
        check_selecting(chosen, terms, settings)
    chosen = chosen.with_settings(settings, **terms)
    if ensemble is not None and type(chosen).fit_together is Method.fit_together:
        raise BadInput(f"--ensemble: ensembles are made of stitching, not of {chosen.name}")
    if total is not None and not (math.isfinite(total) and total > 0):
        raise BadInput(f"--total must be a number above 0, got {total:g}")
    features = None if columns is None else tuple(columns.split(","))
    names = Columns(time_key, rep, features, weight_key, id_key, group_key, total, condition_key)
    with _notes():
        file = read_table(data, names)
    left_out = _times(hold_out, "--hold-out", file.labels)
    train = for_training(file, left_out, test_fraction, seed)[1]
    console.print(f"{data}: {file.snapshots!r}")
    console.print(f"learning from {train!r}")
    device = jax.devices()[0]
    console.print(f"device: {device.platform} ({device.device_kind}), {os.cpu_count()} cores")
    found = _supported(train, seed) if select else None
    chosen = chosen if found is None else method_for(chosen, found)
    console.print(chosen.describe(train))
    for words in chosen.advice(train):
        console.print(f"note: {words}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # printed above
        result = fit_file(
            file,
            names,
            chosen,
            out,
            hold_out=left_out,
            fraction=test_fraction,
            seed=seed,
            resume=resume,
            overwrite=overwrite,
            progress=sys.stderr.isatty(),
            selection=None if found is None else found.to_dict(),
        )
    console.print(result.summary())
    console.print(f"wrote {out}/: header.json, arrays.npz, split.npz", soft_wrap=True)
    if can_resume(out):
        console.print("an interrupted fit goes on with --resume")
        raise typer.Exit(1)
    test = held_out(file, out, result.source)
    members = None if ensemble is None else _members(train, chosen, out, ensemble, seed)
    _write_report(result, out, test, members)
    if not result.status.ok:  # the report shows what was found, and its errors
        console.print("this fit is not ok, for the reason in its summary")
        raise typer.Exit(1)
    if test is not None:
        console.print(f"next: stitchflow evaluate {out}")


@app.command()
def report(run: _options.Run) -> None:
    """Write RUN/report.html: a page with verdict, scores and a landscape to play with.

    Example: stitchflow report run
    """
    from stitchflow.report import report_run

    console.print(f"wrote {report_run(run)}", soft_wrap=True)


@app.command()
def evaluate(
    run: _options.Run,
    data: Annotated[Path | None, typer.Option(help="other individuals", metavar="DATA")] = None,
    json: _options.JsonFile = None,
) -> None:
    """Score a run on the individuals it has not seen, beside the floor and trivial baselines."""
    from stitchflow._command.fit_file import json_rows, timed
    from stitchflow._files.lines import append_json
    from stitchflow._judging.evaluate import evaluate as score
    from stitchflow._judging.scores import Scores, table
    from stitchflow._judging.trivial import baselines
    from stitchflow._storage.run_data import open_run

    with _notes():
        result, test = open_run(run, data)
    if test is None:
        raise BadInput(f"{run} held nothing out; name other individuals with --data")
    scores, seconds = timed(score, result, test, progress=sys.stderr.isatty())
    if not scores:
        raise BadInput(f"{run}: no time of the held-out data can be scored")
    if json is not None:
        append_json(json, json_rows(scores, result, None, seconds))
    columns = {result.method.name: scores.by(("w1",)), **baselines(result.data, test)}
    console.print(table(columns, title=f"{run}: {result.status}"))
    others = [row for row in scores if row.time is None and row.metric != "w1"]
    if others:
        means = Scores(others)
        means.start = scores.start
        console.print(table({result.method.name: means}, title="means of other distances"))
    if result.data is None:
        console.print("floors and baselines need the training data, which is not at hand")


@app.command()
def simulate(
    run: _options.Run,
    times: Annotated[
        str,
        typer.Option(
            help="increasing times, as numbers or labels of the data; individuals start at the "
            "first of them",
            metavar="0,1,2",
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="x, t, id, w, group of every point", metavar="FILE.npz")
    ],
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="data file whose individuals of the first of --times start; else 1,000 are drawn "
            "from the fitted population of that time",
            metavar="DATA",
        ),
    ] = None,
    seed: _options.Seed = 0,
) -> None:
    """Drive individuals with the learned energy alone and write their paths.

    They start at the first of --times: the individuals of that time in --from, or without it
    1,000 draws from the fitted population of that time. Times after the last observed one are
    extrapolated, and a note says so.

    Example: stitchflow simulate run --times 0,1,2 --out paths.npz
    """
    import numpy as np

    from stitchflow._judging.judge import Sample
    from stitchflow._reading.formats import Columns
    from stitchflow._reading.tables import read_table
    from stitchflow._status import naming
    from stitchflow._storage.save import load
    from stitchflow._types import as_cloud

    if out.suffix != ".npz":
        raise BadInput(f"--out must end in .npz, got {out}")
    if out.exists():
        raise BadInput(f"--out {out} exists already and is not overwritten")
    _check_folder("--out", out)
    result = load(run)
    when = _times(times, "--times", result.source.get("labels", {}))
    if any(after <= before for before, after in pairwise(when)):
        raise BadInput(f"--times must increase, got {times}")
    if from_ is None:
        with _notes():
            start = Sample(np.asarray(result.flow.sample([when[0]], 1000, key=seed)[0]))
    else:
        with _notes():
            file = read_table(from_, Columns.stored(result.source.get("columns", {})))
        with naming(f"--from {from_}"):
            start = Sample.of(file.snapshots, file.snapshots.at(when[0]))
            as_cloud(start.x, "x", result.flow.dim)
    with _notes():
        path = start.carried(result.flow, when, seed)
    n = path.shape[1]
    columns = {
        "x": path.reshape(-1, path.shape[2]),
        "t": np.repeat(np.asarray(when), n),
        "id": np.tile(np.arange(n), len(when)),
    }
    if start.weights is not None:
        columns["w"] = np.tile(start.weights, len(when))
    if start.groups is not None:
        columns["group"] = np.tile(start.groups, len(when))
    if start.conditions is not None:
        columns["condition"] = np.tile(start.conditions, len(when))
    np.savez(out, **columns)
    console.print(f"wrote {out}: {n} individuals at {len(when)} times", soft_wrap=True)


@app.command()
def crossval(
    data: _options.Data,
    methods: Annotated[
        str | None, typer.Option(help="names of `bench --methods`", metavar="a,b")
    ] = None,
    leave_out: Annotated[
        str,
        typer.Option(
            help="each, groups, conditions, or times (numbers or labels of the data): 1,3 in turn, "
            "1+3 together"
        ),
    ] = "each",
    seeds: Annotated[str, typer.Option(help="one fit a seed", metavar="0,1")] = "0",
    time_key: _options.TimeKey = None,
    rep: _options.Rep = None,
    columns: _options.Features = None,
    weight_key: _options.WeightKey = None,
    id_key: _options.IdKey = None,
    group_key: _options.GroupKey = None,
    condition_key: _options.ConditionKey = None,
    pca: Annotated[int | None, typer.Option(help="components, without what is left out")] = None,
    cluster: Annotated[
        str | None, typer.Option(help="local workers, or a Dask scheduler", metavar="N|ADDRESS")
    ] = None,
    json: _options.JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="a chart", metavar="FILE.png")] = None,
) -> None:
    """Leave times, groups or conditions out, fit each method, and score what it has not seen.

    Example: stitchflow crossval cells.h5ad --time-key day --rep X_pca --leave-out each
    """
    from stitchflow._command.fit_file import crossval_rows
    from stitchflow._files.lines import append_json
    from stitchflow._judging.crossval import cross_validate
    from stitchflow._reading.formats import Columns
    from stitchflow._reading.tables import read_table
    from stitchflow._status import naming

    names = None if methods is None else methods.split(",")
    if not all(seed.strip().isdecimal() for seed in seeds.split(",")):
        raise BadInput(f"--seeds takes whole numbers such as 0,1; got {seeds!r}")
    _check_folder("--json", json)
    _check_folder("--plot", plot)
    if plot is not None:
        _check_chart(plot)
    features = None if columns is None else tuple(columns.split(","))
    keys = Columns(time_key, rep, features, weight_key, id_key, group_key, None, condition_key)
    with _notes():
        table = read_table(data, keys)
    left: Any = leave_out
    if leave_out not in ("each", "groups", "conditions"):
        entries = [entry.replace("+", ",") for entry in leave_out.split(",")]
        left = [_times(entry, "--leave-out", table.labels) for entry in entries]
    console.print(f"{data}: {table.snapshots!r}")
    with naming(str(data)):
        scores = cross_validate(
            table.snapshots,
            names,
            leave_out=left,
            seeds=[int(seed) for seed in seeds.split(",")],
            pca=pca,
            cluster=int(cluster) if cluster and cluster.isdigit() else cluster,
            arrived=None if json is None else lambda rows: append_json(json, crossval_rows(rows)),
            progress=sys.stderr.isatty(),
        )
    console.print(scores)
    if plot is not None:
        from stitchflow import pl

        pl.cross_validation(scores).figure.savefig(plot, dpi=150, bbox_inches="tight")
        console.print(f"wrote {plot}", soft_wrap=True)


@app.command()
def compare(
    run: _options.Run,
    a: Annotated[str, typer.Argument(help="a condition of the run's data", metavar="A")],
    b: Annotated[str, typer.Argument(help="another one", metavar="B")],
    json: _options.JsonFile = None,
) -> None:
    """Say what differs between two conditions of a run, and how sure that is.

    The run was fitted with --condition-key and --method weak-form --set conditions=true.
    """
    from stitchflow._command.fit_file import compared_rows, timed
    from stitchflow._files.lines import append_json
    from stitchflow._judging.compare import compare as compared
    from stitchflow._storage.save import load

    _check_folder("--json", json)
    result = load(run)
    found, seconds = timed(compared, result, a, b)
    if json is not None:
        append_json(json, compared_rows(found, result, seconds))
    console.print(found)


@app.command("select")
def select_terms(
    data: _options.Data,
    time_key: _options.TimeKey = None,
    rep: _options.Rep = None,
    columns: _options.Features = None,
    weight_key: _options.WeightKey = None,
    id_key: _options.IdKey = None,
    group_key: _options.GroupKey = None,
    condition_key: _options.ConditionKey = None,
    total: _options.Total = None,
    seed: _options.Seed = 0,
    json: _options.JsonFile = None,
) -> None:
    """Say which terms of an energy the data support: interaction, turning, growth, ...

    Example: stitchflow select cells.csv --time-key t --columns x,y
    """
    from stitchflow._command.fit_file import timed
    from stitchflow._command.selecting import selected_rows
    from stitchflow._files.lines import append_json
    from stitchflow._reading.formats import Columns
    from stitchflow._reading.tables import read_table
    from stitchflow._status import naming

    _check_folder("--json", json)
    features = None if columns is None else tuple(columns.split(","))
    names = Columns(time_key, rep, features, weight_key, id_key, group_key, total, condition_key)
    with _notes():
        file = read_table(data, names)
    console.print(f"{data}: {file.snapshots!r}")
    with naming(str(data)):
        found, seconds = timed(_supported, file.snapshots, seed)
    if json is not None:
        append_json(json, selected_rows(found, seed, seconds))


@app.command()
def bench(
    task: _options.TaskName = None,
    list_: Annotated[bool, typer.Option("--list", help="the names of all tasks")] = False,
    methods: Annotated[bool, typer.Option("--methods", help="the names of all methods")] = False,
    describe: Annotated[
        bool, typer.Option("--describe", help="with --methods: what each of them is")
    ] = False,
    method: _options.MethodName = "stitching",
    seed: _options.Seed = 0,
    json: _options.JsonFile = None,
    euler: Annotated[bool, typer.Option("--euler", help="data as the published tables'")] = False,
) -> None:
    """Run one task of the benchmark with one method and print its scores.

    Example: stitchflow bench eb-full-varying --method ot-linear --json lines.jsonl
    """
    from stitchflow._files.lines import append_json
    from stitchflow._judging.scores import Row, Scores
    from stitchflow._method.contract import METHODS
    from stitchflow.bench import TASKS, Run

    if describe and not methods:
        raise BadInput("--describe needs --methods")
    if describe:
        for name in METHODS:
            print(f"{name}\n    {_options.described(name)}")
        return
    if list_ or methods:
        for name in TASKS if list_ else METHODS:
            print(name)
        return
    if task is None:
        raise BadInput("bench needs a TASK; `stitchflow bench --list` names them")
    _check_folder("--json", json)
    prepared = Run(task, method, seed, euler).prepare()
    console.print(f"{prepared.run}: {prepared.problem.train!r}")
    result, rows = prepared.carry_out(progress=sys.stderr.isatty())
    if json is not None:
        append_json(json, rows)
    console.print(result.summary())
    names = ("protocol", "metric", "time", "value", "floor")
    means = (row for row in rows if row["time"] is None)
    console.print(Scores(Row(**{name: row[name] for name in names}) for row in means))
    if not result.status.ok:
        raise typer.Exit(1)


def _supported(data: Any, seed: int) -> Any:
    """Which terms are supported, printed as a table and in sentences."""
    from stitchflow._judging.select import select

    found = select(data, seed)
    console.print(found)
    return found


def _members(train: Any, method: Any, out: Path, n: int, seed: int) -> Any:
    """Fit bootstraps of the training individuals and keep them in the run."""
    from stitchflow._files.whole import only_writer
    from stitchflow._status import DataWarning
    from stitchflow._stitching.ensemble import fit_ensemble
    from stitchflow._storage.members import write_members
    from stitchflow._storage.run_state import MEMBERS

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # printed for the whole of the data
        shown = {"members": n, "key": seed, "progress": sys.stderr.isatty()}
        found = fit_ensemble(train, method, **shown)
    with only_writer(out):
        write_members(found, out)
    console.print(f"wrote {out / MEMBERS}: {n} bootstraps", soft_wrap=True)
    return found


def _write_report(result: Any, out: Path, test: Any, members: Any = None) -> None:
    """Write the report; the fit is kept also where that fails."""
    from stitchflow._files.whole import only_writer
    from stitchflow.report import REPORT, write_report

    try:
        with only_writer(out):
            write_report(result, out / REPORT, test=test, members=members)
        console.print(f"wrote {out / REPORT}", soft_wrap=True)
    except ImportError as error:
        console.print(str(error))


@contextmanager
def _notes() -> Iterator[None]:
    """Print what the reader of a file warns about, one line for each warning."""
    from stitchflow._status import DataWarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, DataWarning):
            console.print(f"note: {message}", soft_wrap=True)
        else:
            otherwise(message, category, *rest)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)
        otherwise, warnings.showwarning = warnings.showwarning, show
        yield


def _check_folder(option: str, file: Path | None) -> None:
    """Refuse a file whose directory is not there, before anything is computed."""
    if file is not None and not file.parent.is_dir():
        raise BadInput(f"{option} {file}: there is no directory {file.parent}")


def _check_chart(path: Path) -> None:
    """Refuse a file that no chart can be written to, before anything is fitted."""
    canvas = require("matplotlib.backend_bases", "plot").FigureCanvasBase
    known = canvas.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise BadInput(f"--plot {path} must end in one of .{', .'.join(sorted(known))}")


def _times(text: str | None, option: str, labels: Mapping[str, float]) -> list[float]:
    """Times that are written as numbers or as labels of the data, with commas between them."""
    from stitchflow._reading.time_labels import time_named
    from stitchflow._status import naming

    with naming(f"{option} takes times such as 0,1.5,2"):
        return [] if text is None else [time_named(part, labels) for part in text.split(",")]


def main(arguments: list[str] | None = None) -> Any:
    """Run a command: 0 on success, 2 with one line on bad input, 1 otherwise."""
    if isinstance(sys.stdout, TextIOWrapper):  # the name of a file need not be text
        sys.stdout.reconfigure(errors="surrogateescape")
    try:
        code = app(args=arguments, prog_name="stitchflow", standalone_mode=False)
        if code == 130:  # what typer returns after Ctrl-C
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        print("stitchflow: interrupted", file=sys.stderr)
        code = 1
    except Exception as error:
        # Usage errors are those of click, whose module depends on the version of typer.
        usage = hasattr(error, "format_message")
        said = isinstance(error, ANSWERED)
        if not usage and (os.environ.get("STITCHFLOW_DEBUG") or not said):
            raise
        code = _complain(error.format_message() if usage else str(error))  # type: ignore
    sys.exit(code if isinstance(code, int) else 0)


def _complain(message: str) -> int:
    print(f"stitchflow: {' '.join(message.split())}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()
