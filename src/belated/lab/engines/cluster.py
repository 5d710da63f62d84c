"""A Ray cluster: one that runs at an address, or one that is started on this machine.

The machines of a cluster need this package but no shared disk: results are returned as bytes. A
cluster that is started here listens on the loopback interface only.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

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

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray reads this when imported: a cluster of one machine, on the loopback interface."""

SILENT = {"RAY_USAGE_STATS_ENABLED": "0"}
"""Ray reads this when it starts a cluster: it sends no usage statistics."""


@contextlib.contextmanager
def opened(experiment: Experiment, jobs: int) -> Iterator[Perform]:
    """A cluster that does at most `jobs` runs at once. Without tasks there is no connection.

    The cluster is the one that this process is connected to, else the one at RAY_ADDRESS, else
    one that is started here with `jobs` processors. Ray retries a task whose worker dies.
    """
    address = os.environ.get("RAY_ADDRESS")
    with environment({} if address else LOOPBACK):
        ray = _ray()
    connected = ray.is_initialized()
    here: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
    if address and not connected:
        _knock(address)

    def perform(tasks: Sequence[Task]) -> Iterator[Attempt]:
        if not tasks:
            return
        try:
            if not connected:
                with environment(SILENT):
                    ray.init(
                        address=address or "local",
                        logging_level="error",
                        log_to_driver=False,
                        **here,
                    )
        except (OSError, RuntimeError, ray.exceptions.RayError) as error:
            if not address:
                raise
            raise _unreachable(address, error) from None
        remote = ray.remote(
            num_cpus=1, max_retries=ATTEMPTS - 1, runtime_env={"env_vars": ONE_THREAD}
        )(attempt)
        shared = ray.put(experiment)
        waiting = deque(tasks)
        running: dict[Any, Task] = {}
        while waiting or running:
            while waiting and len(running) < jobs:
                task = waiting.popleft()
                running[remote.remote(shared, task)] = task
            (done, *_), _ = ray.wait(list(running))
            task = running.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError as error:
                yield died(task, type(error).__name__)

    try:
        yield perform
    finally:
        if not connected:
            ray.shutdown()


def _knock(address: str) -> None:
    """Check that something listens at the address; Ray would wait for two minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not port.isdecimal():
        return  # "auto", or another form that only Ray understands
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str, error: Exception) -> ValueError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return ValueError(
        f"RAY_ADDRESS must be the address of a running Ray cluster, got {address!r}: {reason}"
    )


def _ray() -> Any:
    try:
        import ray  # noqa: PLC0415
    except ImportError:
        raise ValueError("--engine ray needs the package ray: pip install 'belated[ray]'") from None
    return ray
