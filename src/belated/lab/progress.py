"""The progress of an experiment: a bar in a terminal or a notebook, a line per minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from rich import progress
from rich.console import Console

EVERY = 60.0
"""Seconds between two lines where there is no terminal."""
COLUMNS = (
    progress.TextColumn("{task.description}", markup=False),
    progress.BarColumn(),
    progress.MofNCompleteColumn(),
    progress.TextColumn("runs, time left"),
    progress.TimeRemainingColumn(),
)
_Outcome = TypeVar("_Outcome")


def shown(
    name: str, outcomes: Iterable[_Outcome], total: int, console: Console | None = None
) -> Iterator[_Outcome]:
    """The same outcomes; the number of runs done and left is shown as they come."""
    console = console or Console(stderr=True, markup=False, emoji=False)
    if console.is_terminal or console.is_jupyter:
        with progress.Progress(*COLUMNS, console=console, transient=True) as bar:
            yield from bar.track(outcomes, total, description=name)
        return
    start = last = time.monotonic()
    for done, outcome in enumerate(outcomes, 1):
        yield outcome
        now = time.monotonic()
        if now - last >= EVERY and done < total:
            last, left = now, total - done
            so_far, rest = _minutes(now - start), _minutes((now - start) * left / done)
            text = f"belated: {name}: {done} of {total} runs done, {left} left; "
            console.print(f"{text}{so_far} so far, about {rest} left", soft_wrap=True)


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
