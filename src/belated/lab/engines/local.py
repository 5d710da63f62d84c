"""Processes on this machine. They share compiled kernels through numba's cache."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from belated.lab.engines.outcome import (
    ATTEMPTS,
    ONE_THREAD,
    Attempt,
    Perform,
    attempt,
    died,
    environment,
)
from belated.lab.spec import Experiment, Task


@dataclass(slots=True)
class Worker:
    """A worker process.

    Attributes:
        process: the process.
        pipe: our end of its pipe.
        up: whether it has reported that it has started.
        task: the task that it works on.
    """

    process: SpawnProcess
    pipe: Connection
    up: bool = False
    task: Task | None = None


@contextlib.contextmanager
def opened(experiment: Experiment, jobs: int) -> Iterator[Perform]:
    """Start `jobs` processes. A task whose worker dies is tried again in another process."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(  # this is a worker that imports the script that started it
            'belated: a script that runs experiments must do so under if __name__ == "__main__":'
        )
    workers: list[Worker] = []

    def perform(tasks: Sequence[Task]) -> Iterator[Attempt]:
        waiting = deque(tasks)
        for worker in workers[: len(waiting)]:
            _give(worker, waiting.popleft())
        return _outcomes(experiment, workers, waiting)

    try:
        for _ in range(jobs):
            workers.append(_start(experiment))
        yield perform
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()


def _outcomes(
    experiment: Experiment, workers: list[Worker], waiting: deque[Task]
) -> Iterator[Attempt]:
    deaths: Counter[Task] = Counter()
    stillborn = 0
    while busy := {worker.pipe: worker for worker in workers if worker.task is not None}:
        for pipe in wait(list(busy)):
            worker = busy[pipe]  # type: ignore[index]
            task = worker.task
            assert task is not None
            outcome = None
            try:
                outcome = worker.pipe.recv()
            except (EOFError, OSError):
                worker.process.join()
                how = f"exit code {worker.process.exitcode}"
                if worker.up:
                    deaths[task] += 1
                else:
                    stillborn += 1
                    if stillborn == ATTEMPTS:
                        raise ChildProcessError(
                            f"{ATTEMPTS} workers died before they could begin ({how})"
                        ) from None
                worker.pipe.close()
                workers[workers.index(worker)] = worker = _start(experiment)
                if deaths[task] < ATTEMPTS:
                    _give(worker, task)
                    continue
                outcome = died(task, how)
            if outcome is None:
                worker.up = True
                stillborn = 0
                continue
            worker.task = None
            if waiting:
                _give(worker, waiting.popleft())
            yield outcome


def _start(experiment: Experiment) -> Worker:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_work, args=(experiment, theirs), daemon=True
    )
    resource_tracker.ensure_running()  # started inside the block below, it would unblock the signal
    with environment(ONE_THREAD), _interrupts_blocked():
        process.start()
    theirs.close()
    return Worker(process, ours)


def _give(worker: Worker, task: Task) -> None:
    worker.task = task
    with contextlib.suppress(OSError):  # a dead worker is detected while waiting for it
        worker.pipe.send(task)


def _work(experiment: Experiment, pipe: Connection) -> None:
    """Send None when started, then an outcome for every task, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        pipe.send(None)
        while True:
            pipe.send(attempt(experiment, pipe.recv()))


def _end_with_parent() -> None:
    """Exit when the parent process dies."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C; they end when this process does."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
