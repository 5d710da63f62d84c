"""How fast the service decides with features, and how soon it is back after a kill."""

import asyncio
import json
import signal
import time
from pathlib import Path

import numpy as np
from service_server import CONNECTIONS, UNLIMITED, Connection, Server, ready

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


async def timed(server: Server, connections: list[Connection], work, seconds: float) -> tuple:
    """Times of requests, answers, and the processor seconds that the server took in all."""
    times: list[float] = []
    answers: list[bytes] = []
    before, end = server.processor(), time.perf_counter() + seconds

    async def drive(connection: Connection) -> None:
        while (now := time.perf_counter()) < end:
            status, body = await connection.ask(*work())
            assert status == 200, (status, body[:200])
            times.append(time.perf_counter() - now)
            answers.append(body)

    await asyncio.gather(*map(drive, connections))
    return np.array(times), answers, server.processor() - before


async def capacity(server: Server, seconds: float) -> list[str]:
    """Processor time of single decisions and of batches, for each number of features."""
    connections = await ready(server.port)
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
        times, _, empty = await timed(server, connections, lambda: ("GET", "/healthz"), seconds / 2)
        empty = 1e6 * empty / len(times)
        times, answers, alone = await timed(server, connections, single, seconds)
        alone = 1e6 * alone / len(times)
        records = [{"episode": json.loads(a)["episode"], "reward": 1.0} for a in answers[::10]]
        await connections[0].ask("POST", f"{base}/feedback/batch", {"records": records[:1000]})
        many, _, together = await timed(server, connections[:1], batch, seconds)
        together = 1e6 * together / (len(many) * BATCHES[d])
        p50, p99 = 1e3 * np.percentile(times, (50, 99))
        lines.append(
            f"| {d:,} | {empty:.0f} us | {alone:.0f} us ({empty / alone:.2f}) | "
            f"{together:.0f} us ({alone / together:.0f} times) | {p50:.0f} ms | {p99:.0f} ms |"
        )
    for connection in connections:
        connection.close()
    return lines


async def mixed(server: Server, seconds: float) -> list[str]:
    """Decisions and reports one after the other, while the agent learns and snapshots are made."""
    connections = await ready(server.port)
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
    for connection in connections:
        connection.close()
    return [
        "",
        f"Mixed load, {CONNECTIONS} clients that decide with 10 features and report at once, with "
        f"a snapshot every 2,000 events: {'; '.join(told)}.",
    ]


async def fill(server: Server) -> None:
    """Open `OPEN` decisions."""
    connection = (await ready(server.port))[0]
    rng = np.random.default_rng(2)
    body = {"decisions": [{"features": features(rng, 10)} for _ in range(1000)]}
    for _ in range(OPEN // 1000):
        status, answer = await connection.ask("POST", "/v1/learners/mail10/decide/batch", body)
        assert status == 200, answer[:200]
    connection.close()


def decisions(directory: Path, seconds: float) -> list[str]:
    """The section."""
    lines = [ABOUT, ""]
    for measured, config in ((capacity, CONFIG), (mixed, CONFIG.replace("body", f"{OFTEN}body"))):
        server = Server(directory, config=config)
        try:
            lines += asyncio.run(measured(server, seconds))
        finally:
            server.stop()
    server = Server(directory, config=CONFIG)
    try:
        asyncio.run(fill(server))
    finally:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    start = time.perf_counter()
    server = Server(directory, config=CONFIG)
    try:
        asyncio.run(_first(server))
        took, used = time.perf_counter() - start, server.processor()
    finally:
        server.stop()
    return [
        *lines,
        "",
        f"After `kill -9` with {OPEN:,} more open decisions the server was ready after {took:.1f} "
        f"s, {used:.1f} s of processor time.",
    ]


async def _first(server: Server) -> None:
    for connection in await ready(server.port):
        connection.close()
