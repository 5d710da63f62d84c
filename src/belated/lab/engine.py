"""Run tasks by joblib: in processes of this machine, in this process, or on a cluster.

A worker writes no files: its result is bytes, which the calling process keeps.
"""

import contextlib
import os
import signal
import socket
import threading
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import resource_tracker
from pickle import PicklingError
from typing import Any
from unittest.mock import patch

import joblib
from joblib.externals.loky import get_reusable_executor
from joblib.externals.loky.backend import resource_tracker as loky_tracker

from belated.lab.spec import Experiment, Task
from belated.lab.task import perform, rehearse

ENGINES = ("local", "here", "ray", "dask")
"""Processes of this machine, this process, or a cluster of Ray or Dask."""
REHEARSAL = Task("", "", -1)
"""The task of building everything once, so that a wrong value is found before anything is run."""
ATTEMPTS = 3
"""The number of attempts of a task whose worker dies."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
"""Workers share the cores. With one thread each, sums are also the same on every machine."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""A cluster that is started here reports nothing, and listens on the loopback interface only."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task and its result, or the reason of its failure.

    Attributes:
        task: the task.
        rows: the rows of the run, as a Parquet file; None if the task failed.
        seconds: the processor time of the run, which differs between repetitions.
        reason: why it failed, in one line.
        trace: the traceback, if it raised.
    """

    task: Task
    rows: bytes | None
    seconds: float | None = None
    reason: str = ""
    trace: str = ""


def attempt(experiment: Experiment, task: Task) -> Attempt:
    """Run a task in this process. An exception becomes part of the outcome."""
    try:
        if task == REHEARSAL:
            rehearse(experiment)
            return Attempt(task, b"")
        return Attempt(task, *perform(experiment, task))
    except Exception as error:
        said = isinstance(error, ValueError) and task == REHEARSAL  # a sentence for the user
        reason = str(error) if said else f"{type(error).__name__}: {error}"
        return Attempt(task, None, reason=" ".join(reason.split()), trace=traceback.format_exc())


def outcomes(
    experiment: Experiment, tasks: Sequence[Task], jobs: int, engine: str = "local"
) -> Generator[Attempt, None, None]:
    """The outcomes of the tasks, in the order in which they finish; at most `jobs` run at once.

    A rehearsal is run alone. A worker that dies takes its pool with it. The tasks that had been
    started are then tried again, each alone, so that the one whose worker dies is known.
    """
    waiting, deaths = deque(tasks), Counter[Task]()
    with _backend(engine, jobs) as backend:
        while waiting:
            started: list[Task] = []
            alone = waiting[0] == REHEARSAL or deaths[waiting[0]] > 0
            with joblib.parallel_config(**backend):
                parallel = joblib.Parallel(  # joblib would run one job in this process
                    n_jobs=max(2, jobs),
                    pre_dispatch=1 if alone else jobs,
                    batch_size=1,
                    return_as="generator_unordered",
                )
            try:
                for outcome in _each(parallel, _given(experiment, waiting, started, alone)):
                    started.remove(outcome.task)
                    yield outcome
            except Exception as error:  # of a worker or the cluster, not of a task
                if not started:
                    raise
                deaths.update(started)
                waiting.extendleft(reversed([one for one in started if deaths[one] < ATTEMPTS]))
                how = f"its worker died {ATTEMPTS} times ({type(error).__name__}: {error}"
                # what cannot be sent is no death: it would not be sent with another task either
                unsent = str(error) * isinstance(error, PicklingError)
                yield from (
                    Attempt(one, None, reason=how.partition(". ")[0] + ")", trace=unsent)
                    for one in started
                    if deaths[one] == ATTEMPTS
                )


def _each(parallel: joblib.Parallel, calls: Iterator[Any]) -> Iterator[Attempt]:
    """The results one by one; if the caller stops early, calls under way are cancelled."""
    found: Any = None
    try:
        with _deferred():
            found = parallel(calls)
        # `yield from` would close it outside of the block below
        for outcome in found:  # noqa: UP028
            yield outcome
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib warns of calls that are cancelled
            if found is not None:
                found.close()


@contextlib.contextmanager
def _deferred() -> Iterator[None]:
    """Handle Ctrl-C after the block. Processes started inside ignore it.

    Inside an import, compiled packages would turn it into other exceptions; while workers start,
    one would be left half started. Blocking the signal in this thread is not enough: another
    thread may receive it, and Python would still run its handler here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    blocks = hasattr(signal, "pthread_sigmask")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if blocks else set()
    try:
        yield
    finally:
        if blocks:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGINT, usual)
        for number in came:
            signal.raise_signal(number)


def _given(
    experiment: Experiment, waiting: deque[Task], started: list[Task], alone: bool
) -> Iterator[Any]:
    """The calls for joblib; a task is noted as started when it is given to a worker."""
    while waiting and not (alone and started):
        started.append(waiting.popleft())
        yield joblib.delayed(attempt)(experiment, started[-1])


@contextlib.contextmanager
def _backend(engine: str, jobs: int) -> Iterator[dict[str, Any]]:
    """The arguments of `joblib.parallel_config`; what was started for them ends afterwards."""
    if engine == "here":
        yield {"backend": "sequential"}
    elif engine == "ray":
        with _ray(jobs):
            yield {"backend": "ray"}
    elif engine == "dask":
        yield {"backend": "dask", "scheduler_host": os.environ.get("DASK_SCHEDULER_ADDRESS")}
    else:
        # the trackers would warn of what a stop leaves
        with patch.dict(os.environ, PYTHONWARNINGS="ignore:resource_tracker"):
            for tracker in (resource_tracker, loky_tracker):
                tracker.ensure_running()  # started later, they would unblock Ctrl-C
        try:
            yield {
                "backend": "loky",
                "inner_max_num_threads": 1,
                "initializer": _end_with,
                "initargs": (os.getpid(),),
            }
        finally:
            get_reusable_executor(reuse=True).shutdown(kill_workers=True)


def _end_with(parent: int) -> None:
    """Exit when the process that started this worker ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _ray(jobs: int) -> Iterator[None]:
    """Connect to the Ray cluster at RAY_ADDRESS, else start one here, unless there is one."""
    address = os.environ.get("RAY_ADDRESS")
    with patch.dict(os.environ, {} if address else QUIET):
        try:
            ray: Any = import_module("ray")
            backend: Any = import_module("ray.util.joblib.ray_backend").RayBackend
        except ImportError:
            missing = "--engine ray needs the package ray: pip install 'belated[ray]'"
            raise ValueError(missing) from None
        connected = ray.is_initialized()
        if not connected:
            here = {} if address else {"num_cpus": max(2, jobs), "include_dashboard": False}
            workers = {"env_vars": ONE_THREAD}
            try:
                _knock(address or "")
                ray.init(
                    address or "local",
                    logging_level="error",
                    log_to_driver=False,
                    runtime_env=workers,
                    **here,
                )
            except (OSError, OverflowError, RuntimeError, ray.exceptions.RayError) as error:
                if not address:
                    raise
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                raise ValueError(
                    "RAY_ADDRESS must be the address of a running Ray cluster, "
                    f"got {address!r}: {reason}"
                ) from None
    # its pool reports every result when it comes, although it inherits from one that does not
    backend.supports_return_generator = True
    joblib.register_parallel_backend("ray", backend)
    try:
        yield
    finally:
        if not connected:
            ray.shutdown()


def _knock(address: str) -> None:
    """Check that something listens at HOST:PORT; Ray would wait for two minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if port.isdecimal():  # "auto" and other forms are Ray's to understand
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
