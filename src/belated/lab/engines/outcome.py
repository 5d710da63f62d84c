"""The outcomes that an engine returns."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from belated.lab.spec import Experiment, Task
from belated.lab.task import Result, perform

ATTEMPTS = 3
"""The number of attempts of a task whose worker dies."""

ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}
"""Workers share the cores. With one thread each, sums are also the same on every machine."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A task and its result, or the reason of its failure.

    Attributes:
        task: the task.
        result: None if the task failed.
        reason: why it failed, in one line.
        trace: the traceback, if it raised.
    """

    task: Task
    result: Result | None
    reason: str = ""
    trace: str = ""


Perform = Callable[[Sequence[Task]], Iterator[Attempt]]
"""The function that an open engine yields."""


def attempt(experiment: Experiment, task: Task) -> Attempt:
    """Run a task in this process. An exception becomes part of the outcome."""
    try:
        return Attempt(task, perform(experiment, task))
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Attempt(task, None, reason, traceback.format_exc())


def died(task: Task, how: str) -> Attempt:
    """The outcome of a task whose worker died at every attempt."""
    return Attempt(task, None, f"its worker died {ATTEMPTS} times ({how})")


@contextlib.contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables temporarily."""
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
