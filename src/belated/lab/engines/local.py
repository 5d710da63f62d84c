"""Spawned processes on this machine. They share the compiled kernels through numba's cache."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from belated.lab.engines.outcome import ATTEMPTS, ONE_THREAD, Outcome, attempt, died
from belated.lab.spec import Experiment, Task


@dataclass(slots=True)
class Worker:
    """A process, our end of its pipe, and what it is working on."""

    process: SpawnProcess
    pipe: Connection
    task: Task | None = None


def run(experiment: Experiment, tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Run tasks in `jobs` processes. A task whose worker dies is tried again, elsewhere."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(  # a worker that imports the script that started it
            'belated: a script that runs experiments must do so under if __name__ == "__main__":'
        )
    waiting = deque(tasks)
    deaths: Counter[Task] = Counter()
    workers = [_start(experiment) for _ in range(min(jobs, len(waiting)))]
    try:
        while waiting or any(worker.task for worker in workers):
            for worker in workers:
                if worker.task is None and waiting:
                    _give(worker, waiting.popleft())
            busy = {worker.pipe: worker for worker in workers if worker.task is not None}
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                task = worker.task
                assert task is not None
                try:
                    yield worker.pipe.recv()
                    worker.task = None
                except (EOFError, OSError):
                    deaths[task] += 1
                    worker.process.join()
                    if deaths[task] < ATTEMPTS:
                        waiting.appendleft(task)
                    else:
                        yield died(task, f"exit code {worker.process.exitcode}")
                    worker.pipe.close()
                    workers[workers.index(worker)] = _start(experiment)
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()


def _start(experiment: Experiment) -> Worker:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_work, args=(experiment, theirs), daemon=True
    )
    resource_tracker.ensure_running()  # starting it later would undo what _deaf does
    with _environment(ONE_THREAD), _deaf():
        process.start()
    theirs.close()
    return Worker(process, ours)


def _give(worker: Worker, task: Task) -> None:
    worker.task = task
    with contextlib.suppress(OSError):  # a dead worker is noticed when it is waited for
        worker.pipe.send(task)


def _work(experiment: Experiment, pipe: Connection) -> None:
    """Answer tasks with outcomes until the other end is gone, be it killed or done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send(attempt(experiment, pipe.recv()))


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Processes started inside do not hear Ctrl-C; they end when we do."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
