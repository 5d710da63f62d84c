"""Diagnostics as JSON lines: one object per line, for any tool that draws numbers over time."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TextIO

from belated import checks
from belated.agents.contract import Agent, check_is_agent


def write_diagnostics(
    agent: Agent, to: str | os.PathLike[str] | TextIO, **more: float | str | None
) -> dict[str, float | str | None]:
    """Append the diagnostics of an agent to a file as one line of JSON, and return them.

    Args:
        agent: any agent or inbox.
        to: a file that is opened at its end, or a text stream such as `sys.stdout`.
        more: what else the line shall say, e.g. `time=time.time()`.

    Numbers that are not finite become null, which JSON can hold.
    """
    check_is_agent("agent", agent)
    told: dict[str, float | str | None] = {
        name: value if math.isfinite(value) else None for name, value in agent.diagnostics().items()
    }
    twice = sorted(set(told) & set(more))
    if twice:
        raise ValueError(f"more must have other names than the diagnostics, got {twice[0]!r}")
    told = {**more, **told}
    line = json.dumps(told, allow_nan=False) + "\n"
    if isinstance(to, str | os.PathLike):
        with Path(to).open("a", encoding="utf-8") as file:
            file.write(line)
    elif hasattr(to, "write"):
        to.write(line)
    else:
        raise ValueError(f"to must be a path or a text stream, got {checks.show(to)}")
    return told
