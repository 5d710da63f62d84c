"""How fast the service decides with features, and how soon it is back after a kill."""

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from service_server import CONNECTIONS, UNLIMITED, Connection, Server, connected, timed

SIZES = (10, 100, 1000)
BATCHES = {10: 1000, 100: 1000, 1000: 100}
"""Decisions of one request, by features."""
OPEN = 100_000
OFTEN = "snapshot = 2000\n"
"""Under mixed load, so that several snapshots are made in a few seconds."""
CONFIG = f"{UNLIMITED}body = 50000000\n" + "".join(
    f'[[learners]]\nname = "mail{d}"\nactions = ["a", "b", "c", "d"]\nfeatures = {d}\n'
    for d in SIZES
)
ABOUT = (
    "`python benchmarks/service.py decisions`: learners with 4 actions, a snapshot every 20,000 "
    "events as usual; processor time of the server per request, with its commit, which other "
    "programs disturb less than wall-clock time. In brackets: the rate relative to the empty "
    "route, and that of a batch (1,000 decisions; 100 with 1,000 features) relative to single "
    "decisions. "
    f"{CONNECTIONS} connections; client and server share a machine that they do not have to "
    "themselves."
)


def features(rng: np.random.Generator, d: int) -> list[float]:
    return rng.normal(size=d).round(3).tolist()


async def capacity(server: Server, connections: list[Connection], seconds: float) -> list[str]:
    """Processor time of single decisions and of batches, for each number of features."""
    rng = np.random.default_rng(0)
    lines = [
        "| features | empty route | one decision | of a batch | one decision, p50 | p99 |",
        "|---|---|---|---|---|---|",
    ]
    for d in SIZES:
        base = f"/v1/learners/mail{d}"
        rows = [features(rng, d) for _ in range(200)]

        def single(base=base, rows=rows):
            return "POST", f"{base}/decide", {"features": rows[rng.integers(len(rows))]}

        body = {"decisions": [{"features": rows[i % 200]} for i in range(BATCHES[d])]}

        def batch(base=base, body=body):
            return "POST", f"{base}/decide/batch", body

        await timed(server, connections, single, 1.0)  # the first requests of a process are slow
        route = lambda: ("GET", "/healthz")  # noqa: E731
        times, *_, empty = await timed(server, connections, route, seconds / 2)
        empty = 1e6 * empty / len(times)
        times, answers, _, alone = await timed(server, connections, single, seconds)
        alone = 1e6 * alone / len(times)
        records = [{"episode": json.loads(a)["episode"], "reward": 1.0} for a in answers[::10]]
        await connections[0].ask("POST", f"{base}/feedback/batch", {"records": records[:1000]})
        many, *_, together = await timed(server, connections[:1], batch, seconds)
        together = 1e6 * together / (len(many) * BATCHES[d])
        p50, p99 = 1e3 * np.percentile(times, (50, 99))
        lines.append(
            f"| {d:,} | {empty:.0f} us | {alone:.0f} us ({empty / alone:.2f}) | "
            f"{together:.0f} us ({alone / together:.0f} times) | {p50:.0f} ms | {p99:.0f} ms |"
        )
    return lines


async def mixed(server: Server, connections: list[Connection], seconds: float) -> list[str]:
    """Decisions and reports one after the other, while the agent learns and snapshots are made."""
    rng = np.random.default_rng(1)
    base = "/v1/learners/mail10"
    times: dict[str, list[float]] = {"decide": [], "feedback": []}
    end = time.perf_counter() + seconds

    async def visitor(connection: Connection) -> None:
        while (start := time.perf_counter()) < end:
            body = {"features": features(rng, 10)}
            _, answer = await connection.ask("POST", f"{base}/decide", body)
            middle = time.perf_counter()
            record = {"episode": json.loads(answer)["episode"], "reward": float(rng.normal())}
            await connection.ask("POST", f"{base}/feedback", record)
            times["decide"].append(middle - start)
            times["feedback"].append(time.perf_counter() - middle)

    await asyncio.gather(*map(visitor, connections))
    told = [
        f"{name} p50 {p50:.0f} ms, p99 {p99:.0f} ms"
        for name, found in times.items()
        for p50, p99 in [1e3 * np.percentile(found, (50, 99))]
    ]
    return [
        "",
        f"Mixed load, {CONNECTIONS} clients that decide with 10 features and report at once, with "
        f"a snapshot every 2,000 events: {'; '.join(told)}.",
    ]


async def fill(server: Server, connections: list[Connection], seconds: float) -> None:
    """Open `OPEN` decisions, however long it takes."""
    rng = np.random.default_rng(2)
    body = {"decisions": [{"features": features(rng, 10)} for _ in range(1000)]}
    for _ in range(OPEN // 1000):
        status, answer = await connections[0].ask("POST", "/v1/learners/mail10/decide/batch", body)
        assert status == 200, answer[:200]


async def nothing(server: Server, connections: list[Connection], seconds: float) -> None:
    """Only connect, which waits until the server is ready."""


def measured(work: Callable[..., Awaitable], server: Server, seconds: float = 0.0) -> Any:
    """What work over connections to a server finds."""

    async def run() -> Any:
        async with connected(server.port) as connections:
            return await work(server, connections, seconds)

    return asyncio.run(run())


def decisions(directory: Path, seconds: float) -> list[str]:
    """The section."""
    lines = [ABOUT, ""]
    for work, config in ((capacity, CONFIG), (mixed, CONFIG.replace("body", f"{OFTEN}body"))):
        with Server(directory, config=config) as server:
            lines += measured(work, server, seconds)
    with Server(directory, config=CONFIG) as server:
        measured(fill, server)
        server.process.send_signal(signal.SIGKILL)
    start = time.perf_counter()
    with Server(directory, config=CONFIG) as server:
        measured(nothing, server)
        took, used = time.perf_counter() - start, server.processor()
    return [
        *lines,
        "",
        f"After `kill -9` with {OPEN:,} more open decisions the server was ready after {took:.1f} "
        f"s, {used:.1f} s of processor time.",
    ]
