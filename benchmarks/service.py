"""How fast the service is, and what it keeps in memory; written to benchmarks/SERVICE.md.

python benchmarks/service.py                      two minutes
python benchmarks/service.py --episodes 1000000   memory over a million episodes: hours
"""

import argparse
import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

CONNECTIONS = 64
SECONDS = 4.0
CONFIG = """
storage = "data"
port = 0
[limits]
rate = 1e9
burst = 1e9
waiting = 1000000
open = 1000000
[[learners]]
name = "shop"
problem = { states = 1, actions = 3, horizon = 1 }
deadline_episodes = 2000
remember = 2000
default = 1.0
[[learners]]
name = "robot"
problem = { states = 20, actions = 4, horizon = 10, homogeneous = true }
deadline_episodes = 100000
"""


class Server:
    """A server in its own process."""

    def __init__(self, directory: Path) -> None:
        (directory / "serve.toml").write_text(CONFIG)
        self._log = (directory / "log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "belated", "serve", "serve.toml"],
            cwd=directory,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        while not (found := re.search(r":(\d+)\n", (directory / "log").read_text())):
            assert self.process.poll() is None, (directory / "log").read_text()
            time.sleep(0.05)
        self.port = int(found[1])

    def memory(self) -> float:
        """Resident megabytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Ask it to end."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self._log.close()


class Connection:
    """HTTP/1.1 with as little work as possible, so that the server is what is measured."""

    async def open(self, port: int) -> "Connection":
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of the answer."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + content)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer)[1])
        return int(answer[9:12]), await self._reader.readexactly(length)

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


async def ready(port: int) -> list[Connection]:
    while True:
        try:
            connections = [await Connection().open(port) for _ in range(CONNECTIONS)]
            while (await connections[0].ask("GET", "/readyz"))[0] != 200:
                await asyncio.sleep(0.1)
            return connections
        except ConnectionError:
            await asyncio.sleep(0.1)


async def rate(connections: list[Connection], work, seconds: float = SECONDS) -> tuple:
    """Requests per second and their times; `work` is asked for the next request."""
    end = time.perf_counter() + seconds
    times: list[float] = []

    async def drive(connection: Connection) -> None:
        while (now := time.perf_counter()) < end and (request := work()) is not None:
            status, _ = await connection.ask(*request)
            assert status == 200, (status, request)
            times.append(time.perf_counter() - now)

    start = time.perf_counter()
    await asyncio.gather(*map(drive, connections))
    return len(times) / (time.perf_counter() - start), np.array(times)


async def begun(connections: list[Connection], name: str, count: int) -> list[int]:
    numbers: list[int] = []

    async def drive(connection: Connection, share: int) -> None:
        for _ in range(share):
            status, body = await connection.ask("POST", f"/v1/learners/{name}/episodes", {})
            assert status == 200, body
            numbers.append(json.loads(body)["episode"])

    each = -(-count // len(connections))
    await asyncio.gather(*(drive(connection, each) for connection in connections))
    return numbers


def single_commits(directory: Path, seconds: float = 2.0) -> float:
    """Rows per second if each is committed alone, to the same disk."""
    db = sqlite3.connect(directory / f"{time.monotonic_ns()}.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, written TEXT)")
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        db.execute("INSERT INTO rows (written) VALUES (?)", ("x" * 80,))
        count += 1
    db.close()
    return count / seconds


async def speeds(server: Server, directory: Path) -> list[str]:
    connections = await ready(server.port)
    base = "/v1/learners/robot"
    empties, decides = [], []
    episodes = iter(await begun(connections, "robot", 4000))
    pairs = ((e, h) for e in episodes for h in range(10))

    def decide():
        e, h = next(pairs)
        return "POST", f"{base}/decide", {"episode": e, "step": h, "state": 0}

    costs: dict[str, list[float]] = {"empty": [], "decide": []}

    async def measured(name: str, work) -> tuple:
        before = server.processor()
        found, times = await rate(connections, work, SECONDS / 2)
        costs[name].append((server.processor() - before) / len(times))
        return found, times

    for _ in range(3):
        empties.append((await measured("empty", lambda: ("GET", "/healthz")))[0])
        decides.append(await measured("decide", decide))
    begins = await rate(connections, lambda: ("POST", "/v1/learners/shop/episodes", {}), 2.0)
    empty, decided = np.median(empties), np.median([r for r, _ in decides])
    ratios = [r / e for e, (r, _) in zip(empties, decides, strict=True)]
    empty_cost, decide_cost = (1e6 * np.median(costs[name]) for name in ("empty", "decide"))
    rows = [
        ("empty route (`GET /healthz`)", empty, None),
        ("decide", decided, np.concatenate([t for _, t in decides])),
        ("begin (shop)", *begins),
    ]
    lines = ["| request | per second | p50 | p99 |", "|---|---|---|---|"]
    for name, found, times in rows:
        parts = ("-", "-") if times is None else map(milliseconds, np.percentile(times, (50, 99)))
        lines.append(f"| {name} | {found:,.0f} | {' | '.join(parts)} |")
    lines += [
        "",
        f"Decisions are served at {np.median(ratios):.2f} of the rate of the empty route (median "
        f"of {len(ratios)} rounds in turn; {min(ratios):.2f} to {max(ratios):.2f}). In processor "
        f"time, which other programs disturb less, the empty route takes {empty_cost:.0f} us and a "
        f"decision {decide_cost:.0f} us with its commit: {empty_cost / decide_cost:.2f}.",
    ]
    lines += await feedback(connections, directory)
    return lines + await mixed(await ready(server.port))  # idle connections were closed


async def feedback(connections: list[Connection], directory: Path) -> list[str]:
    """Durable records per second, in batches, against single commits."""
    alone = single_commits(directory)
    numbers = await begun(connections, "robot", 3000)
    records = [{"episode": e, "step": h, "cost": 0.5} for e in numbers for h in range(10)]
    batches = [records[i : i + 500] for i in range(0, len(records), 500)]
    left = iter(batches)

    def work():
        found = next(left, None)
        body = {"records": found}
        return None if found is None else ("POST", "/v1/learners/robot/feedback/batch", body)

    found, _ = await rate(connections[:4], work, 60.0)
    alone = (alone + single_commits(directory)) / 2  # before and after
    return [
        "",
        f"Feedback in batches of 500 single costs: {500 * found:,.0f} durable records a second, "
        f"{500 * found / alone:.0f} times the {alone:,.0f} rows a second of single synchronous "
        "commits on the same disk.",
    ]


async def mixed(connections: list[Connection]) -> list[str]:
    """Episodes of the shop from begin to feedback, while the agent learns."""
    times: dict[str, list[float]] = {"begin": [], "decide": [], "feedback": []}
    end = time.perf_counter() + 2 * SECONDS
    base = "/v1/learners/shop"

    async def visitor(connection: Connection) -> None:
        while time.perf_counter() < end:
            marks = [time.perf_counter()]
            _, body = await connection.ask("POST", f"{base}/episodes", {})
            episode = json.loads(body)["episode"]
            marks.append(time.perf_counter())
            where = {"episode": episode, "step": 0, "state": 0}
            await connection.ask("POST", f"{base}/decide", where)
            marks.append(time.perf_counter())
            record = {"episode": episode, "costs": [0.5]}
            await connection.ask("POST", f"{base}/feedback", record)
            marks.append(time.perf_counter())
            for name, (a, b) in zip(times, pairwise(marks), strict=True):
                times[name].append(b - a)

    await asyncio.gather(*map(visitor, connections))
    lines = [
        "",
        f"Mixed load, {CONNECTIONS} clients that begin, decide and report one after the other "
        f"while the agent learns: {len(times['begin']) / (2 * SECONDS):,.0f} episodes a second.",
        "",
        "| request | p50 | p99 |",
        "|---|---|---|",
    ]
    for name, found in times.items():
        lines.append(
            f"| {name} | {' | '.join(map(milliseconds, np.percentile(found, (50, 99))))} |"
        )
    for connection in connections:
        connection.close()
    return lines


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


async def memory(server: Server, episodes: int) -> list[str]:
    """Resident memory while episodes of the shop come and go, of which 5 % never report."""
    connections = await ready(server.port)
    rng = np.random.default_rng(0)
    base = "/v1/learners/shop"
    seen, done = [], 0
    per_block = max(1, episodes // 10)

    async def visitors(connection: Connection, count: int) -> None:
        for _ in range(count):
            _, body = await connection.ask("POST", f"{base}/episodes", {})
            episode = json.loads(body)["episode"]
            where = {"episode": episode, "step": 0, "state": 0}
            await connection.ask("POST", f"{base}/decide", where)
            if rng.random() > 0.05:
                record = {"episode": episode, "costs": [0.5]}
                await connection.ask("POST", f"{base}/feedback", record)

    for _ in range(10):
        await asyncio.gather(*(visitors(c, per_block // CONNECTIONS + 1) for c in connections))
        done += (per_block // CONNECTIONS + 1) * CONNECTIONS
        seen.append((done, server.memory()))
    for connection in connections:
        connection.close()
    cells = [f"| {n:,} | {mb:.0f} MB |" for n, mb in seen]
    return [
        "",
        "Memory of the server while episodes of the shop come and go, of which 5 % never report "
        "(deadline: 2,000 episodes; 2,000 closed ones are remembered):",
        "",
        "| episodes | resident |",
        "|---|---|",
        *cells,
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=20_000, help="for the memory")
    options = parser.parse_args()
    lines = [
        "# The service",
        "",
        f"`python benchmarks/service.py --episodes {options.episodes}`: uvicorn with one process, "
        f"SQLite on disk, {CONNECTIONS} connections, client and server on one machine with "
        f"{os.cpu_count()} cores that it does not have to itself. The robot has 20 states, 4 "
        "actions and 10 steps; the shop has 3 actions. Every answer is on disk before it is sent.",
        "",
    ]
    for part in ("speeds", "memory"):
        with tempfile.TemporaryDirectory(dir=".") as place:
            directory = Path(place)
            (directory / "data").mkdir()
            server = Server(directory)
            try:
                lines += asyncio.run(
                    speeds(server, directory / "data")
                    if part == "speeds"
                    else memory(server, options.episodes)
                )
            finally:
                server.stop()
    (Path(__file__).parent / "SERVICE.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
