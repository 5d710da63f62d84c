"""Without a terminal, a line at intervals reports the runs done and left."""

import io
from types import SimpleNamespace

from rich.console import Console

from belated.lab import progress
from limits import until


def console():
    return Console(file=io.StringIO(), markup=False, emoji=False, width=40)


def test_a_log_says_what_is_done_and_what_is_left(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.001)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 0.0))
    shown = console()
    with progress.bar("my [grid]", shown) as bar:
        until(lambda: "belated: my [grid]: starting\n" in shown.file.getvalue())
        bar.begun(8)
        until(lambda: "0 of 8 runs done, 8 left; 0 min so far\n" in shown.file.getvalue())
        for _ in range(3):
            bar.advance()
        wanted = "belated: my [grid]: 3 of 8 runs done, 5 left; 0 min so far, about 0 min left\n"
        until(lambda: wanted in shown.file.getvalue())
    said = shown.file.getvalue()
    assert said == "".join(f"{line}\n" for line in said.splitlines())
    with progress.bar("again", shown):
        pass
    assert shown.file.getvalue().startswith(said)


def test_what_is_left_is_estimated_from_what_is_done(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    log = progress._Log(console(), "x")
    log.begun(8)
    log.advance()
    log.advance()
    now[0] += 600
    assert log.line() == "belated: x: 2 of 8 runs done, 6 left; 10 min so far, about 30 min left"
    now[0] += 6 * 3600
    assert log.line().endswith("6.2 h so far, about 18.5 h left")


def test_a_quick_run_says_nothing(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 1e6)
    shown = console()
    with progress.bar("x", shown) as bar:
        bar.begun(1)
        bar.advance()
    assert shown.file.getvalue() == ""
