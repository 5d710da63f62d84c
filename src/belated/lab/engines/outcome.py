"""What an engine hands back, and how a worker makes it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from belated.lab.runs import Result, perform
from belated.lab.spec import Experiment, Task

ATTEMPTS = 3
"""How often a run is tried whose worker dies."""

ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}
"""Workers share the cores among them; one thread each also makes sums the same everywhere."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A task and its result, or why there is none: one line, and the traceback if it raised."""

    task: Task
    result: Result | None
    reason: str = ""
    trace: str = ""


Run = Callable[[Sequence[Task]], Iterator[Outcome]]
"""What an open engine gives."""


def attempt(experiment: Experiment, task: Task) -> Outcome:
    """Run a task in this process; what it raises becomes part of the outcome."""
    try:
        return Outcome(task, perform(experiment, task))
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return Outcome(task, None, reason, traceback.format_exc())


def died(task: Task, how: str) -> Outcome:
    """The outcome of a task whose worker died every time."""
    return Outcome(task, None, f"its worker died {ATTEMPTS} times ({how})")
