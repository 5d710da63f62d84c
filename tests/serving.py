"""Servers for tests, in their own process or in this one, and fingerprints of learners."""

import asyncio
import hashlib
import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import tomli_w
import uvicorn

from belated.core.tree import freeze
from belated.service.config import from_table
from belated.service.run import application, opener, serve
from belated.service.runner import restore, wanted
from belated.service.tables import StorageError
from limits import FULL, LIMIT, until

TLS = httpx.create_ssl_context()
"""For clients of tests: one of its own takes a client longer than all of its requests."""
SHOP = {
    "name": "shop",
    "problem": {"states": 1, "actions": 3, "horizon": 1},
    "deadline_episodes": 200,
    "default": 1.0,
}
ROBOT = {
    "name": "robot",
    "problem": {"states": 3, "actions": 2, "horizon": 2},
    "agent": {"kind": "oppo", "costs": "averaged", "update": {"kind": "softmax"}},
}


def config(tmp_path, **changes):
    """The table of a server with a shop and a robot."""
    table = {"learners": [SHOP, ROBOT], "storage": str(tmp_path / "data"), "port": 0}
    return {**table, **changes}


class Server:
    """A server in a process of its own; `url` is its address."""

    def __init__(self, directory, table, **options):
        path = Path(directory) / "serve.toml"
        path.write_text(tomli_w.dumps(table))
        self.log = open(Path(directory) / "server.log", "a+")  # noqa: SIM115 - closed by stop
        place = self.log.tell()
        self.process = self._started(path, **options)
        self.url = self._address(place)

    def _started(self, path, **options):
        return subprocess.Popen(
            [sys.executable, "-m", "belated", "serve", str(path)],
            stdout=self.log, stderr=subprocess.STDOUT, cwd=path.parent, **options,
        )  # fmt: skip

    def _address(self, place):
        def told():
            text = Path(self.log.name).read_text()[place:]
            assert self.process.poll() is None, text
            return re.search(r"serves (http://\S+)", text)

        return until(told, "the server did not start")[1]

    def ready(self):
        def answers():
            assert self.process.poll() is None, Path(self.log.name).read_text()
            with suppress(httpx.TransportError):
                return httpx.get(f"{self.url}/readyz", timeout=LIMIT, verify=TLS).status_code == 200

        until(answers, "the server did not become ready")
        return self

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT)
        self.log.close()


class Forked(Server):
    """A server that is forked from a process with everything compiled, so that it starts fast."""

    def _started(self, path):
        forks = multiprocessing.get_context("forkserver")
        forks.set_forkserver_preload(["rehearsed"])
        process = forks.Process(target=_serve, args=(path, self.log.name))
        process.start()
        process.poll = lambda: process.exitcode
        process.wait = process.join
        process.send_signal = lambda number: os.kill(process.pid, number)
        return process


def _serve(path, log):
    written = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(written, stream)
    os.chdir(path.parent)
    sys.exit(serve(path))


@contextmanager
def running(directory, table, **options):
    server = Server(directory, table, **options)
    try:
        yield server.ready()
    finally:
        if server.process.poll() is None:
            server.stop()


def learner(table, name):
    return next(item for item in from_table(table).learners if item.name == name)


def claimed(table, name):
    """The tables of a stopped learner; a database may notice a moment later that it stopped."""

    def opened():
        try:
            return opener(from_table(table), learner(table, name))(True)
        except StorageError as error:
            if not error.taken:
                raise
            return None

    return until(opened, "the learner stays taken")


TABLES = {
    "episodes": "number", "decisions": "number, step", "outcomes": "number, fact", "changes": "seq"
}  # fmt: skip


def restored(table, name, *, snapshots=True):
    """A stopped learner, restored and with nothing left to learn, and the rows of its tables."""
    made = learner(table, name)
    db = claimed(table, name)
    try:
        runner = restore(db, made, snapshots=snapshots)
        rows = {
            table: db.all(f"SELECT * FROM {table} WHERE learner = ? ORDER BY {order}", name)
            for table, order in TABLES.items()
        }
    finally:
        db.close()
    assert runner.differing == 0
    runner.learn_all()
    told = {"seq": runner.seq, "snapshot": runner.snapshot}
    return SimpleNamespace(runner=runner, wanted=wanted(runner.agent, made.fresh()), **told), rows


def same_from_snapshot_and_rows(table, name):
    """Check that a learner is the same from its snapshot and from all its rows; returns both."""
    stopped, rows = restored(table, name)
    never, _ = restored(table, name, snapshots=False)
    assert fingerprint(stopped.runner.agent) == fingerprint(never.runner.agent)
    assert stopped.runner.version == never.runner.version
    return stopped, rows


def fingerprint(item):
    """A text of everything that decides what an agent does next.

    The sequences of a verdict are left out: a look moves them, and no row is written of a look.
    """

    def plain(value):
        value = np.asarray(value)
        return [str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]

    def without_looks(tree):
        if not isinstance(tree, dict):
            return tree
        looks = ("_asked", "_outside", "_followed", "_sequences")
        return {k: without_looks(v) for k, v in tree.items() if k not in looks}

    return json.dumps(without_looks(freeze(item)), sort_keys=True, default=plain)


def full():
    return FULL


class InProcess:
    """An application in this process, in an event loop of its own thread."""

    def __init__(self, table):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.app = application(from_table(table))
        self._call(self._open())
        self.ready()

    def _call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT)

    async def _open(self):
        self._lifespan = self.app.running()
        await self._lifespan.__aenter__()
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def ready(self):
        why = [one.why for one in self.app.learners.values()]
        until(lambda: self.request("GET", "/readyz").status_code == 200, why, pause=0.005)

    def request(self, method, path, **options):
        return self._call(self._client.request(method, path, **options))

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def close(self):
        async def end():
            await self._client.aclose()
            await self._lifespan.__aexit__(None, None, None)

        self._call(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Listening(InProcess):
    """An application that listens on a port, for browsers; `url` is its address."""

    async def _open(self):
        await super()._open()
        options = {"port": 0, "lifespan": "off", "log_level": "error"}
        self._server = uvicorn.Server(uvicorn.Config(self.app, **options))
        self._serving = asyncio.create_task(self._server.serve())
        while not self._server.started:
            await asyncio.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def close(self):
        async def end():
            self._server.should_exit = True
            await self._serving

        self._call(end())
        super().close()
