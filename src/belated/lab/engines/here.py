"""Run tasks in this process, one after the other, if functions cannot be sent to another one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from belated.lab.engines.outcome import Attempt, Perform, attempt
from belated.lab.spec import Experiment, Task


@contextlib.contextmanager
def opened(experiment: Experiment, jobs: int) -> Iterator[Perform]:
    """Each task runs when its outcome is requested; more than one job is refused."""
    if jobs > 1:
        raise ValueError(f'jobs must be 1 with the engine "here", got {jobs}')

    def perform(tasks: Sequence[Task]) -> Iterator[Attempt]:
        return (attempt(experiment, task) for task in tasks)

    yield perform
