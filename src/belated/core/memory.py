"""The memory that the open episodes of a run will need, and whether it is available."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from belated.core.arrays import Ints
from belated.core.contract import Agent, nested
from belated.core.delays.arithmetic import NEVER, missing_feedback

LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)
"""The files in which Linux reports the memory limit of a container, and its current use."""


def open_bytes(agent: object) -> int:
    """The largest memory that an open episode takes in an agent, in bytes; 0 if unknown.

    The agent, or the agent inside a wrapper, reports it as `open_bytes`.
    """
    telling = [one for one in nested(agent) if hasattr(type(one), "open_bytes")]
    return int(telling[0].open_bytes) if telling else 0  # type: ignore[attr-defined]


def needed(agent: Agent, delays: Ints, record_bytes: int) -> tuple[int, int]:
    """Lower and upper bounds on the bytes that the open episodes of a run take.

    The lower bound is the size of the records that wait to be delivered. An agent may keep less
    than it reports, since policies are shared by version and stored as differences.

    Args:
        agent: the agent of the run.
        delays: (K,) the delays of the feedback.
        record_bytes: the size of the records of one episode.
    """
    waiting = most_open(np.where(delays == NEVER, 0, delays))  # lost records do not wait
    certain = waiting * record_bytes
    return certain, certain + most_open(delays) * open_bytes(agent)


def most_open(delays: Ints) -> int:
    """The largest number of episodes that are open at once, for delays (K,)."""
    return 1 + int(missing_feedback(delays).max(initial=0))


def available() -> int | None:
    """The bytes of memory that this process may still use; None if the system does not say."""
    found = []
    for limit, used in LIMITS:
        numbers = [_number(limit), _number(used)]
        if numbers[0] is not None and numbers[1] is not None:
            found.append(max(0, numbers[0] - numbers[1]))
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = {line.split(":")[0]: line.split()[1] for line in lines}
        found.append(1024 * int(free["MemAvailable"]))
    except (OSError, KeyError, ValueError, IndexError):
        pass
    return min(found, default=None)


def check_room(agent: Agent, delays: Ints, record_bytes: int, *, runs: int = 1) -> None:
    """Raise `ValueError` if a run cannot fit into memory; warn if it may not.

    runs: the number of such runs at the same time.
    """
    certain, most = (runs * number for number in needed(agent, delays, record_bytes))
    room = available()
    if room is None or most <= room:
        return
    opened = most_open(delays)
    where = f"{opened} open episodes" if runs == 1 else f"{opened} open episodes in {runs} runs"
    free = f"{_gigabytes(room)} of memory are free"
    if certain > room:
        raise ValueError(
            f"delays must leave fewer episodes open: the records of {where} take "
            f"{_gigabytes(certain)}, and {free}"
        )
    warnings.warn(
        f"up to {where} may take up to {_gigabytes(most)}, and {free}; shorter delays or a smaller "
        "problem need less",
        stacklevel=3,
    )


def _number(place: str) -> int | None:
    try:
        return int(Path(place).read_text(encoding="ascii"))
    except (OSError, ValueError):  # "max" stands for no limit
        return None


def _gigabytes(number: int) -> str:
    return f"{number / 1e9:.2g} GB"
