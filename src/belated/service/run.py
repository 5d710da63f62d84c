"""Run a server from its configuration until a signal stops it; the demonstration has customers."""

import asyncio
import contextlib
import gc
import logging
import random
import sched
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from belated.client import Client, ServiceError
from belated.core import checks, saving
from belated.service.app import Service
from belated.service.config import POSTGRES, Config, LearnerConfig, load
from belated.service.decider import opened
from belated.service.learner import Learner, rehearse
from belated.service.tables import PostgresTables, SQLiteTables, StorageError, Tables

SWITCH = 0.001
"""Seconds after which the thread that learns yields to the one that answers requests."""
COLLECT = (10_000, 50, 50)
"""Thresholds of the garbage collector: rare, since there are many open episodes without cycles."""
DRAIN = 10
"""Seconds that requests have to end when the server stops."""


def application(config: Config) -> Service:
    """The application of a configuration; `ValueError` if strangers could use it."""
    if not config.tokens and not config.loopback:
        raise ValueError(
            f"tokens are required to listen on {config.host!r}; without any, host must be a "
            "loopback address such as 127.0.0.1 (belated token makes a token)"
        )
    learners = [Learner(one, opener(config, one), config.limits) for one in config.learners]
    return Service(learners, config)


def opener(config: Config, learner: LearnerConfig) -> Callable[..., Tables]:
    """A function that opens the tables of a learner.

    Its arguments say whether to create them, and whether to write beside another process.
    """
    if config.storage.startswith(POSTGRES):
        return lambda create, joins=False: PostgresTables(
            config.storage, learner.name, config.url, joins=joins
        )
    path = Path(config.storage) / f"{learner.name}.sqlite"
    return lambda create, joins=False: SQLiteTables(path, create=create)


def warm_up(path: Path | None) -> list[str]:
    """Compile everything that the learners of a configuration need; returns their names."""
    config = load(path)
    for learner in config.learners:
        rehearse(learner.fresh())
    return [learner.name for learner in config.learners]


def extract(path: Path, name: str, out: Path) -> None:
    """Write the agent of a stopped learner, everything learned, to a file for `belated.load`.

    Open episodes are forgotten in the file; the learner itself does not change.
    """
    config = load(path)
    by_name = {learner.name: learner for learner in config.learners}
    learner = by_name[checks.choice("learner", name, by_name)]
    try:
        with contextlib.closing(opener(config, learner)(True)) as db:
            session = opened(db, learner, config.limits)
            with db.transaction():
                session.catch_up(every=True)
            session.runner.learn_all()
    except StorageError as error:
        raise ValueError(f"learner {name}: {error}") from None
    agent = session.runner.agent
    for number in agent.open_episodes():
        agent.forget(number)
    saving.save(agent, out)


def listener(config: Config, port: int) -> uvicorn.Config:
    """The settings of uvicorn for this configuration."""
    return uvicorn.Config(
        application(config),
        host=config.host,
        port=port,
        http=Connection,
        access_log=False,
        ws="none",
        log_config=None,
        server_header=False,
        proxy_headers=False,  # nothing depends on what a client claims
        timeout_graceful_shutdown=DRAIN,
    )


def serve(path: Path | None, port: int | None = None) -> int:
    """Run a server until a signal stops it. path: of the configuration, or the demonstration."""
    config = load(path)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # simulated customers ask often
    sys.setswitchinterval(SWITCH)
    gc.set_threshold(*COLLECT)
    settings = listener(config, config.port if port is None else port)
    gc.freeze()  # modules stay; collecting them again would take a tenth of a second
    listening = bound(settings)
    shown = "[::1]" if ":" in config.host else config.host
    url = f"http://{shown}:{listening.getsockname()[1]}"
    print(f"belated serves {url}", flush=True)
    if path is None:
        threading.Thread(target=visit, args=(url,), daemon=True).start()
    server = uvicorn.Server(settings)
    server.run(sockets=[listening])
    return 0 if server.started else 1


def bound(settings: uvicorn.Config) -> socket.socket:
    """The socket that listens; an address in use raises `OSError` here instead of an exit.

    Its connections inherit TCP_NODELAY. Without it the body of an answer, which is sent after the
    head, waits until the client has acknowledged the head: 40 ms on a connection that is kept open.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    place, backlog = (settings.host, settings.port), settings.backlog
    listening = socket.create_server(place, family=family, backlog=backlog, dualstack_ipv6=both)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


LONGEST_HEAD = 65_536
"""The largest number of bytes of a head."""
HEAD_PATIENCE = 30.0
"""Seconds within which a head must be complete."""


class Connection(HttpToolsProtocol):
    """A connection that limits the head of a request: its length, and the time until it is whole.

    The parser has no limit of its own, so a client could send a head without an end. While one
    comes, the timer of a connection without requests closes this one too.
    """

    _head: int | None = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head before they are parsed."""
        if self._head is not None:
            self._head += len(data.partition(b"\r\n\r\n")[0])
        if (self._head or 0) > LONGEST_HEAD:
            self.send_400_response(f"a head must have at most {LONGEST_HEAD} bytes")
        else:
            super().data_received(data)
            if self._head is not None:
                self._wait()

    def on_message_begin(self) -> None:
        """Wait for the end of the head that has begun."""
        super().on_message_begin()
        if self._head is None:
            self._head, self._since = 0, self.loop.time()

    def on_headers_complete(self) -> None:
        """Wait no longer."""
        self._head = None
        super().on_headers_complete()

    def _wait(self) -> None:
        """Set the timer, which the next bytes or the end of the connection stop."""
        end = self._since + HEAD_PATIENCE
        self.timeout_keep_alive_task = self.loop.call_at(end, self.timeout_keep_alive_handler)


PAUSE = 0.5
"""Seconds between two customers."""
DELAY = 20.0
"""Seconds that a purchase takes on average."""


def visit(url: str) -> None:
    """Visit the learner `mail` until the process ends; purchases come some seconds later."""
    rng, purchases = random.Random(), sched.scheduler()
    with Client(url, "mail", patience=3600.0) as mail:
        while True:
            age = rng.randint(18, 80)
            asked = {"age": age, "country": rng.choice(["dk", "se"])}
            buys = {"plain": 0.08, "question": 0.25 if age < 45 else 0.05, "discount": 0.15}
            with contextlib.suppress(ServiceError):  # such as too many open decisions, for a while
                made = mail.decide(features=asked)
                if rng.random() < buys[made.name or ""]:
                    reward = round(rng.uniform(5.0, 50.0), 2)
                    sale = {"key": made.key, "reward": reward, "event": "purchase"}
                    purchases.enter(rng.expovariate(1.0 / DELAY), 0, mail.feedback, ([sale],))
                purchases.run(blocking=False)
            time.sleep(PAUSE)
