"""Steps of the wall clock of a real server move no deadline and lose nothing."""

import os
import time
from pathlib import Path

import httpx
import pytest

from killing import same_as_never_stopped
from limits import LIMIT, until
from serving import SHOP, Server, config, full, restored

HOUR = 3600.0
TIMED = {k: v for k, v in SHOP.items() if k != "deadline_episodes"} | {"deadline_seconds": HOUR}
LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
PYTHON = """
import os, time
true = time.time
time.time = lambda: true() + float(open(os.environ["STEP"]).read())
"""


class Wall:
    """The wall clock of processes that are started with `environment`; `step` sets it."""

    def __init__(self, directory, how):
        self._file = directory / "step"
        self.step(0.0)
        if how == "libfaketime":
            added = {
                "LD_PRELOAD": str(LIBRARIES[0]),
                "FAKETIME_TIMESTAMP_FILE": str(self._file),
                "FAKETIME_CACHE_DURATION": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        else:
            (directory / "sitecustomize.py").write_text(PYTHON)
            paths = [str(directory), os.environ.get("PYTHONPATH", "")]
            added = {"STEP": str(self._file), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.environment = {**os.environ, **added}

    def step(self, seconds):
        """Set the clock this many seconds before or after the true one from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+.0f}")
        new.replace(self._file)


class Visitor:
    """A client of the shop."""

    def __init__(self, url):
        self._url = f"{url}/v1/learners/shop"

    def _post(self, path, body):
        return httpx.post(f"{self._url}/{path}", json=body, timeout=LIMIT).json()

    def begin(self, key):
        """Begin and decide; returns the episode."""
        episode = self._post("episodes", {"key": key})["episode"]
        self._post("decide", {"episode": episode, "step": 0, "state": 0})
        return episode

    def feed(self, episode):
        return self._post("feedback", {"episode": episode, "costs": [0.25]})["outcome"]

    def status(self):
        """The status after the server has checked its deadlines, which it does every second."""
        time.sleep(1.2)
        return httpx.get(self._url, timeout=LIMIT).json()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["python", "libfaketime"])
def test_steps_of_the_wall_clock_move_no_deadline_while_the_server_runs(tmp_path, how):
    if how == "libfaketime" and not (full() and LIBRARIES):
        pytest.skip("needs BELATED_FULL_TESTS=1 and the package faketime")
    table = config(tmp_path, learners=[TIMED])
    wall = Wall(tmp_path, how)

    def started(step):
        wall.step(step)
        server = Server(tmp_path, table, env=wall.environment).ready()
        return server, Visitor(server.url)

    server, visitor = started(0.0)
    waiting = [visitor.begin(f"waits {i}") for i in range(3)]
    for i, step in enumerate((2 * HOUR, -2 * HOUR)):
        wall.step(step)
        told = visitor.status()
        assert (told["open"], told["counts"]["defaulted"]) == (3, 0)  # no deadline was moved
        assert abs(told["now"] - time.time()) < HOUR / 2
        episode = visitor.begin(f"comes {i}")
        assert visitor.feed(episode) == "taken"
    assert visitor.feed(waiting[0]) == "taken"
    if full():
        server.kill()  # while the wall clock is two hours back
        server = restarts(started, waiting, episode)
    server.stop()

    same_as_never_stopped(table, "shop")
    rows = restored(table, "shop")[1]
    times = [began for _, _, _, _, _, began, *_ in rows["episodes"]]
    assert times == sorted(times)
    fed = [number for _, number, fact, *_ in rows["outcomes"] if fact == "step 0"]
    assert fed == ([*range(6)] if full() else [waiting[0], 3, 4])


def restarts(started, waiting, taken):
    """Restart with the wall clock still back, then forward (the server believes it), then back."""
    server, visitor = started(-2 * HOUR)
    assert visitor.status()["open"] == 2
    assert visitor.begin("waits 1") == waiting[1]
    assert visitor.feed(taken) == "duplicate"
    server.kill()
    server, visitor = started(2 * HOUR)
    until(lambda: visitor.status()["open"] == 0)
    told = visitor.status()
    assert told["counts"]["defaulted"] == 2
    assert told["now"] - time.time() > 1.9 * HOUR
    assert [visitor.feed(number) for number in waiting] == ["duplicate", "late", "late"]
    server.kill()
    server, visitor = started(0.0)
    assert visitor.feed(waiting[1]) != "taken"
    newest = visitor.begin("last")
    assert visitor.status()["open"] == 1
    assert visitor.feed(newest) == "taken"
    return server
