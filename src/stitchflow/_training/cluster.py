"""Many independent jobs: in this process, on local workers, or on any Dask cluster."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from traceback import format_exc
from typing import Any, TypeVar

import jax

from stitchflow._status import BadInput
from stitchflow._types import check_count
from stitchflow.tracking import tqdm

Job = TypeVar("Job")
Result = TypeVar("Result")
ClusterLike = int | str | None  # local workers, a scheduler's address, or this process

SHOWN = 40  # characters of a job beside the bar
# Settings of JAX that workers take over: the precision, and the cache of compiled programs.
PRECISION = ("jax_enable_x64",)
STORE = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


def run_all(
    function: Callable[[Job], Result],
    jobs: Iterable[Job],
    *,
    cluster: ClusterLike = None,
    label: str = "jobs",
    progress: bool = True,
) -> Iterator[tuple[Job, Result | Exception]]:
    """Run a function once for each job, here or on several workers, and yield results as they come.

    A job that fails is yielded with its exception, and the other jobs continue. Jobs of a worker
    that dies are repeated by another one.

    Arguments:
        function: what is called with each job. With a cluster it is pickled by value, so that
            functions of a notebook can be used.
        jobs: the arguments of the calls, such as seeds or data sets.
        cluster: None runs jobs here one after another; a number starts that many local workers,
            each with its share of the cores; a text such as "tcp://host:8786" is the scheduler of a
            running Dask cluster.
        label: the words in front of the progress bar.
        progress: whether the progress bar is shown.

    Returns:
        An iterator over pairs of a job and its result, in the order in which jobs finish.

    Examples:
        >>> dict(sf.run_all(lambda n: n * n, [2, 3], progress=False))
        {2: 4, 3: 9}
        >>> fit_one = lambda seed: sf.fit(data, key=seed, progress=False)        # doctest: +SKIP
        >>> fits = dict(sf.run_all(fit_one, range(20), cluster=4))               # doctest: +SKIP
    """
    check_cluster(cluster)
    return _with_bar(function, list(jobs), cluster, label, progress)


def check_cluster(cluster: Any) -> None:
    """Refuse a value that is no cluster, or one that needs an extra that is not installed."""
    if cluster is None:
        return
    if isinstance(cluster, str):
        if ":" not in cluster:
            raise BadInput(f"cluster must be an address such as tcp://host:8786, got {cluster!r}")
    else:
        check_count(cluster, "cluster")
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ImportError("cluster needs Dask: pip install 'stitchflow[cluster]'") from None


def _with_bar(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    cluster: ClusterLike,
    label: str,
    progress: bool,
) -> Iterator[tuple[Job, Result | Exception]]:
    bar = tqdm(total=len(jobs), desc=label, unit="job", disable=not progress, leave=False)
    with ExitStack() as stack:
        stack.enter_context(bar)
        if cluster is None or not jobs:
            outcomes = _here(function, jobs, bar)
        else:
            some = cluster if isinstance(cluster, str) else min(cluster, len(jobs))
            outcomes = _there(function, jobs, *_open(some, stack))
        for job, found in outcomes:
            bar.set_postfix_str(str(job)[:SHOWN])
            bar.update()
            yield job, found


def _here(function: Callable, jobs: Sequence[Any], bar: tqdm) -> Iterator[tuple[Any, Any]]:
    for job in jobs:
        bar.set_postfix_str(str(job)[:SHOWN])
        try:
            found = function(job)
        except Exception as error:
            found = error
        yield job, found


def _there(
    function: Callable, jobs: Sequence[Any], client: Any, settings: dict[str, Any]
) -> Iterator[tuple[Any, Any]]:
    import cloudpickle
    from distributed import as_completed

    waiting, running = iter(jobs), {}
    done = as_completed(loop=client.loop, with_results=True, raise_errors=False)

    def top_up() -> None:
        # Read again each time: clusters grow and shrink, and may start without workers.
        # One job a thread: Dask counts the death of a worker against the jobs that wait there, too.
        room = max(1, sum(client.nthreads().values())) - len(running)
        for job in islice(waiting, max(0, room)):
            # Bytes, because Dask searches other arguments for tasks, and waits forever for results
            # that cannot be unpickled.
            packed = cloudpickle.dumps((function, job, settings))
            future = client.submit(_work, packed, pure=False)
            running[future.key] = job
            done.add(future)

    top_up()
    for future, found in done:
        job = running.pop(future.key)
        # Released: otherwise Dask would compute the result again if its worker died.
        future.release()
        top_up()
        yield job, _unpacked(found)


def _work(packed: bytes) -> bytes:
    """One job on a worker, from bytes to the bytes of its result or of its exception."""
    import cloudpickle

    try:
        function, job, settings = pickle.loads(packed)
        for name, value in settings.items():
            jax.config.update(name, value)
        return cloudpickle.dumps(function(job))
    except Exception as error:
        error.add_note(f"On the worker:\n{format_exc()}")
        try:
            found = cloudpickle.dumps(error)
            pickle.loads(found)
        except Exception:  # not every exception can be pickled
            found = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        return found


def _unpacked(found: Any) -> Any:
    """The result or the exception of a job, or the error of the cluster where there is neither."""
    if isinstance(found, BaseException):
        return found
    if isinstance(found, tuple):  # Dask's (type, exception, traceback)
        return found[1]
    try:
        return pickle.loads(found)
    except Exception as error:
        return error


def _open(cluster: int | str, stack: ExitStack) -> tuple[Any, dict[str, Any]]:
    """A client, closed with `stack`, and the settings of JAX that its workers take over."""
    from distributed import Client

    if isinstance(cluster, int):
        local = stack.enter_context(_local(cluster))
        client = Client(local, set_as_default=False)
        return stack.enter_context(client), _settings(PRECISION + STORE)
    try:
        client = Client(cluster, set_as_default=False)
    except (OSError, ValueError) as error:
        raise OSError(f"cluster: no scheduler answers at {cluster} ({error})") from None
    return stack.enter_context(client), _settings(PRECISION)


@contextmanager
def _local(workers: int) -> Iterator[Any]:
    """Workers on this machine, which end with this process even if it is killed."""
    from distributed import LocalCluster

    before, lent = set(os.environ), set()
    try:
        with LocalCluster(
            n_workers=workers,
            threads_per_worker=1,  # one fit at a time in a process
            env={"NPROC": str(max(1, _cores() // workers))},  # the threads of XLA's pool
            memory_limit=0,  # a fit has no data to spill to disk: a limit would only stop it
            dashboard_address="127.0.0.1:0",  # any free port: clusters may run side by side
        ) as cluster:
            lent = set(os.environ) - before  # Dask sets the workers' variables here as well
            yield cluster
    finally:
        for name in lent:
            os.environ.pop(name, None)


def _settings(names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(jax.config, name) for name in names}


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
