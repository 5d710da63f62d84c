"""Diagnostics as JSON lines: one object per line, for any tool that plots numbers over time."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TextIO

import numpy as np

from belated.core import checks
from belated.core.contract import Agent, check_is_agent


def write_diagnostics(
    agent: Agent, to: str | os.PathLike[str] | TextIO, **more: float | str | None
) -> dict[str, float | str | None]:
    """Append the diagnostics of an agent to a file as one line of JSON, and return them.

    Args:
        agent: any agent or inbox.
        to: the path of a file to append to, or a text stream such as `sys.stdout`.
        more: further fields of the line, e.g. `time=time.time()`.

    Numbers that are not finite become null, because JSON has no such numbers.
    """
    check_is_agent("agent", agent)
    found = agent.diagnostics()
    twice = sorted(set(found) & set(more))
    if twice:
        raise ValueError(f"more must have other names than the diagnostics, got {twice[0]!r}")
    told = {name: _plain(name, value) for name, value in {**more, **found}.items()}
    line = json.dumps(told, allow_nan=False) + "\n"
    if isinstance(to, str | os.PathLike):
        with Path(to).open("a", encoding="utf-8") as file:
            file.write(line)
    elif hasattr(to, "write"):
        to.write(line)
    else:
        raise ValueError(f"to must be a path or a text stream, got {checks.show(to)}")
    return told


def _plain(name: str, value: object) -> float | str | None:
    """A value for JSON; numbers of NumPy become plain numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str):
        return value
    raise ValueError(f"{name} must be a number, a text or None, got {checks.show(value)}")
