"""How far a run of many runs is: a bar in a terminal or a notebook, nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from html import escape
from typing import Any, Protocol

from rich import progress
from rich.console import Console


class Bar(Protocol):
    """What is told how far it is."""

    def begun(self, left: int) -> None:
        """So many runs are to be done."""

    def advance(self) -> None:
        """One more run is done."""


class _Terminal:
    def __init__(self, bar: progress.Progress, name: str) -> None:
        self.bar = bar
        self.line = bar.add_task(name, total=None)

    def begun(self, left: int) -> None:
        self.bar.update(self.line, total=left)

    def advance(self) -> None:
        self.bar.advance(self.line)


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
    """A bar with a name: in the notebook that runs this, else in the console's terminal."""
    if display := _display():
        yield _Notebook(display, name)
        return
    console = console or Console(stderr=True, markup=False, emoji=False)
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("runs, time left"),
        progress.TimeRemainingColumn(),
    )
    shown = progress.Progress(*columns, console=console, transient=True)
    with shown if console.is_terminal else contextlib.nullcontext():  # some versions print a line
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
