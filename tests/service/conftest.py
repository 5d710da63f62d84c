"""A clock that tests set."""

from types import SimpleNamespace

import pytest

from belated.service.session import Clock


@pytest.fixture
def clock(monkeypatch):
    """The clock of servers in this process; `step` sets it forward by some seconds."""
    ahead, real = [0.0], Clock.__call__
    monkeypatch.setattr(Clock, "__call__", lambda self: real(self) + ahead[0])

    def step(seconds):
        ahead[0] += seconds

    class Steps(SimpleNamespace):
        @property
        def days(self):
            return int(ahead[0] // 86_400)

    return Steps(step=step)
