"""Without a terminal, a line at intervals reports the runs done and left."""

import io
import time

from rich.console import Console

from belated.lab.run import progressed


def told(monkeypatch, name, number, seconds, **options):
    """What is printed if every one of some runs takes so many seconds."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    console = Console(file=io.StringIO(), markup=False, emoji=False, width=40, **options)

    def runs():
        for i in range(number):
            now[0] += seconds
            yield i

    assert list(progressed(name, runs(), number, console)) == list(range(number))
    return console.file.getvalue()


def test_a_log_says_what_is_done_and_what_is_left(monkeypatch):
    said = told(monkeypatch, "my [grid]", 8, 300)
    assert len(said.splitlines()) == 7
    wanted = "belated: my [grid]: 2 of 8 runs done, 6 left; 10 min so far, about 30 min left\n"
    assert wanted in said
    assert "7.0 h so far, about 7.0 h left\n" in told(monkeypatch, "x", 2, 7 * 3600)


def test_lines_come_at_most_once_a_minute(monkeypatch):
    assert len(told(monkeypatch, "x", 20, 25).splitlines()) == 6


def test_a_quick_run_says_nothing(monkeypatch):
    assert told(monkeypatch, "x", 5, 1) == ""


def test_a_terminal_shows_a_bar(monkeypatch):
    assert "3/3" in told(monkeypatch, "my [grid]", 3, 1, force_terminal=True)
