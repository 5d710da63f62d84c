"""The progress of an experiment: a bar in a terminal or a notebook, a line per minute elsewhere."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, Protocol

from rich import progress
from rich.console import Console


class Bar(Protocol):
    """Shows how many runs are done."""

    def begun(self, left: int) -> None:
        """Show the number of runs to do."""

    def advance(self) -> None:
        """Show that one more run is done."""


class _Terminal:
    def __init__(self, bar: progress.Progress, name: str) -> None:
        self.bar = bar
        self.line = bar.add_task(name, total=None)

    def begun(self, left: int) -> None:
        self.bar.update(self.line, total=left)

    def advance(self) -> None:
        self.bar.advance(self.line)


EVERY = 60.0
"""Seconds between two lines where there is no terminal."""


class _Log:
    """Lines for a log file with the number of runs done and left, at intervals."""

    def __init__(self, console: Console, name: str) -> None:
        self.console, self.name = console, name
        self.left: int | None = None
        self.done = 0
        self.start = time.monotonic()

    def begun(self, left: int) -> None:
        self.left = left
        self.start = time.monotonic()

    def advance(self) -> None:
        self.done += 1

    def line(self) -> str:
        """The number of runs done and left, and the time for both."""
        if self.left is None:
            return f"belated: {self.name}: starting"
        so_far = time.monotonic() - self.start
        left = self.left - self.done
        text = f"belated: {self.name}: {self.done} of {self.left} runs done, {left} left; "
        text += f"{_minutes(so_far)} so far"
        return f"{text}, about {_minutes(so_far * left / self.done)} left" if self.done else text

    def watch(self, stop: threading.Event) -> None:
        """Print a line at intervals, even while no run ends."""
        while not stop.wait(EVERY):
            self.console.print(self.line(), soft_wrap=True, highlight=False)


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"


@contextlib.contextmanager
def _logged(console: Console, name: str) -> Iterator[Bar]:
    log, stop = _Log(console, name), threading.Event()
    thread = threading.Thread(target=log.watch, args=(stop,), daemon=True)
    thread.start()
    try:
        yield log
    finally:
        stop.set()
        thread.join()


class _Notebook:
    def __init__(self, display: Callable[..., Any], name: str) -> None:
        self.name, self.left, self.done = name, 0, 0
        self.handle = display(self, display_id=True)

    def _repr_html_(self) -> str:
        text = f"{escape(self.name)}: {self.done} of {self.left} runs"
        return f'<progress value="{self.done}" max="{max(self.left, 1)}"></progress> {text}'

    def __repr__(self) -> str:
        return f"{self.name}: {self.done} of {self.left} runs"

    def begun(self, left: int) -> None:
        self.left = left
        self._show()

    def advance(self) -> None:
        self.done += 1
        self._show()

    def _show(self) -> None:
        if self.handle is not None:
            self.handle.update(self)


@contextlib.contextmanager
def bar(name: str, console: Console | None = None) -> Iterator[Bar]:
    """A bar with a name, in a notebook or in a terminal; elsewhere a line every minute."""
    if display := _display():
        yield _Notebook(display, name)
        return
    console = console or Console(stderr=True, markup=False, emoji=False)
    if not console.is_terminal:
        with _logged(console, name) as log:
            yield log
        return
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("runs, time left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True) as shown:
        yield _Terminal(shown, name)


def _display() -> Callable[..., Any] | None:
    """IPython's display, if this runs in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display  # noqa: PLC0415

    found: Callable[..., Any] = display
    return found
