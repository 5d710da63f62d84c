"""How fast the service is, and what it keeps in memory; written to benchmarks/SERVICE.md.

python benchmarks/service.py                            all: the speeds take two minutes, the memory
                                                        over a million episodes some twenty
python benchmarks/service.py speeds                     one section; the other stays as it is
python benchmarks/service.py decisions                  decisions with 10, 100, 1,000 features
python benchmarks/service.py memory --episodes 20000    fewer episodes
"""

import argparse
import asyncio
import json
import os
import sqlite3
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import service_decisions
import service_memory
from service_server import CONNECTIONS, Connection, Server, connected, timed


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


async def speeds(server: Server, directory: Path, seconds: float) -> list[str]:
    """Requests of the robot and the shop, and a mixed load."""
    async with connected(server.port) as connections:
        lines = await requests(server, connections, seconds)
        lines += await feedback(server, connections, directory, int(750 * seconds))
    async with connected(server.port) as connections:  # idle ones were closed
        return lines + await mixed(connections, 2 * seconds)


async def requests(server: Server, connections: list[Connection], seconds: float) -> list[str]:
    base = "/v1/learners/robot"
    empties, decides = [], []
    episodes = iter(await begun(connections, "robot", int(3000 * seconds)))
    pairs = ((e, h) for e in episodes for h in range(10))

    def decide():
        e, h = next(pairs)
        return "POST", f"{base}/decide", {"episode": e, "step": h, "state": 0}

    async def rate(work) -> tuple[float, np.ndarray, float]:
        """Requests per second, their times, and the processor seconds of each."""
        times, _, took, spent = await timed(server, connections, work, seconds / 2)
        return len(times) / took, times, spent / len(times)

    for _ in range(3):
        empties.append(await rate(lambda: ("GET", "/healthz")))
        decides.append(await rate(decide))
    begins = await rate(lambda: ("POST", "/v1/learners/shop/episodes", {}))
    ratios = [r / e for (e, *_), (r, *_) in zip(empties, decides, strict=True)]
    empty, decided = (np.median([r for r, *_ in each]) for each in (empties, decides))
    empty_cost, decide_cost = (
        1e6 * np.median([cost for *_, cost in each]) for each in (empties, decides)
    )
    rows = [
        ("empty route (`GET /healthz`)", empty, None),
        ("decide", decided, np.concatenate([times for _, times, _ in decides])),
        ("begin (shop)", *begins[:2]),
    ]
    lines = [
        "`python benchmarks/service.py speeds`: uvicorn with one process, SQLite on disk, "
        f"{CONNECTIONS} connections, client and server "
        f"on one machine with {os.cpu_count()} cores that it does not have to itself. The robot "
        "has 20 states, 4 actions and 10 steps; the shop has 3 actions. Every answer is on disk "
        "before it is sent.",
        "",
        "| request | per second | p50 | p99 |",
        "|---|---|---|---|",
    ]
    for name, found, times in rows:
        parts = ("-", "-") if times is None else map(milliseconds, np.percentile(times, (50, 99)))
        lines.append(f"| {name} | {found:,.0f} | {' | '.join(parts)} |")
    return [
        *lines,
        "",
        f"Decisions are served at {np.median(ratios):.2f} of the rate of the empty route (median "
        f"of {len(ratios)} rounds in turn; {min(ratios):.2f} to {max(ratios):.2f}). In processor "
        f"time, which other programs disturb less, the empty route takes {empty_cost:.0f} us and a "
        f"decision {decide_cost:.0f} us with its commit: {empty_cost / decide_cost:.2f}.",
    ]


async def feedback(
    server: Server, connections: list[Connection], directory: Path, episodes: int
) -> list[str]:
    """Durable records per second, in batches, against single commits."""
    alone = single_commits(directory)
    numbers = await begun(connections, "robot", episodes)
    records = [{"episode": e, "step": h, "cost": 0.5} for e in numbers for h in range(10)]
    batches = [records[i : i + 500] for i in range(0, len(records), 500)]
    left = iter(batches)

    def work():
        found = next(left, None)
        body = {"records": found}
        return None if found is None else ("POST", "/v1/learners/robot/feedback/batch", body)

    times, _, took, _ = await timed(server, connections[:4], work, 60.0)
    found = len(times) / took
    alone = (alone + single_commits(directory)) / 2  # before and after
    return [
        "",
        f"Feedback in batches of 500 single costs: {500 * found:,.0f} durable records a second, "
        f"{500 * found / alone:.0f} times the {alone:,.0f} rows a second of single synchronous "
        "commits on the same disk.",
    ]


async def mixed(connections: list[Connection], seconds: float) -> list[str]:
    """Episodes of the shop from begin to feedback, while the agent learns."""
    times: dict[str, list[float]] = {"begin": [], "decide": [], "feedback": []}
    end = time.perf_counter() + seconds
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
        f"while the agent learns: {len(times['begin']) / seconds:,.0f} episodes a second.",
        "",
        "| request | p50 | p99 |",
        "|---|---|---|",
    ]
    for name, found in times.items():
        lines.append(
            f"| {name} | {' | '.join(map(milliseconds, np.percentile(found, (50, 99))))} |"
        )
    return lines


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


SECTIONS = {"speeds": "Speed", "decisions": "Decisions with features", "memory": "Memory"}
RESULTS = Path(__file__).parent / "SERVICE.md"
TITLE = "# The service"


def replaced(text: str, title: str, lines: list[str]) -> str:
    """The text with this section in the place of that with the same title, or at the end."""
    parts = [part for part in text.split("\n## ") if part.strip()]
    written = "\n".join([title, "", *lines]) + "\n"
    same = [i for i, part in enumerate(parts) if part.startswith(f"{title}\n")]
    if same:
        parts[same[0]] = written
    else:
        parts.append(written)
    return "\n\n## ".join(part.strip("\n") for part in parts) + "\n"


def measured(
    name: str, directory: Path, seconds: float, episodes: int, minutes: float
) -> list[str]:
    """A section, from a separate server."""
    if name == "decisions":
        return service_decisions.decisions(directory, seconds)
    data = directory / "data"
    if name == "speeds":
        with Server(directory) as server:
            return asyncio.run(speeds(server, data, seconds))
    inside = str(Path(service_memory.__file__).resolve())
    with Server(directory, inside, options=(str(episodes),)) as server:
        return asyncio.run(service_memory.memory(server, data, episodes, minutes))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the service on this machine.")
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--episodes", type=int, default=1_000_000, help="for the memory")
    parser.add_argument("--minutes", type=float, default=240, help="of the memory, at most")
    parser.add_argument("--seconds", type=float, default=4.0, help="for each speed")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the file whose sections change")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.sections if name not in SECTIONS]:
        parser.error(f"sections must be among {', '.join(SECTIONS)}, got {', '.join(unknown)}")
    text = TITLE
    if chosen.sections and chosen.out.exists():
        text = chosen.out.read_text(encoding="utf-8")
    for name in chosen.sections or SECTIONS:
        with tempfile.TemporaryDirectory(dir=".") as place:
            directory = Path(place)
            (directory / "data").mkdir()
            lines = measured(name, directory, chosen.seconds, chosen.episodes, chosen.minutes)
        text = replaced(text, SECTIONS[name], lines)
        chosen.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
