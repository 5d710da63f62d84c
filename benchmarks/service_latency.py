"""A decision against a bare route: latency over kept connections, and processor time per request.

The bare route is Starlette's, which parses the same JSON and answers as many bytes, on uvicorn with
httptools and uvloop, in a process of its own. A decision has 10 features and 4 actions, and its
answer is sent when it is on disk. The two take turns, so that other programs on the machine disturb
both; the figures are the medians of all rounds.

    python benchmarks/service_latency.py [--storage postgresql://...] [--place directory]
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from itertools import cycle
from pathlib import Path

import numpy as np
from service_server import UNLIMITED, Server, connected, timed

BARE = """
import json, socket, sys
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def decide(request):
    json.loads(await request.body())
    told = {"episode": 17, "step": 0, "action": 1, "probability": 0.25, "created": True}
    return JSONResponse(told)

async def ready(request):
    return JSONResponse({})

listening = socket.create_server(("127.0.0.1", 0))
listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(f"listens on :{listening.getsockname()[1]}", flush=True)
app = Starlette(routes=[
    Route("/v1/learners/ten/decide", decide, methods=["POST"]), Route("/readyz", ready)
])
uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="error")).run(sockets=[listening])
"""
LEARNER = """
[[learners]]
name = "ten"
actions = 4
features = 10
"""


NAMES = ("bare route", "decision")


def body(rng: random.Random) -> dict:
    return {"features": [round(rng.gauss(0.0, 1.0), 6) for _ in range(10)]}


async def measured(server: Server, connections: int, seconds: float, batch: int = 1) -> list[float]:
    """Decisions per second, milliseconds at p50 and p99, microseconds of processor time each."""
    rng = random.Random(0)
    bodies = [body(rng) for _ in range(500)]
    path, asked = "decide", cycle(bodies)
    if batch > 1:
        path, asked = "decide/batch", cycle([{"decisions": bodies[:batch]}])

    def work() -> tuple:
        return "POST", f"/v1/learners/ten/{path}", next(asked)

    async with connected(server.port, connections) as links:
        await timed(server, links, work, 0.5)
        times, _, took, spent = await timed(server, links, work, seconds)
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    return [batch * len(times) / took, p50, p99, 1e6 * spent / (batch * len(times))]


def synced(place: Path) -> float:
    """Milliseconds of a write of 12 kB that is on disk when it ends: the median of many."""
    times = []
    with (place / "synced").open("wb", buffering=0) as file:
        for _ in range(300):
            start = time.perf_counter()
            file.write(bytes(12_288))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
            file.seek(0 if file.tell() > 1e6 else file.tell())
    return 1e3 * float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare a decision with a bare route.")
    parser.add_argument("--storage", default="data", help="a directory, or a PostgreSQL URL")
    parser.add_argument("--place", default=".", help="where the directory of the run is made")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    config = UNLIMITED.replace('"data"', json.dumps(chosen.storage)) + LEARNER
    with tempfile.TemporaryDirectory(dir=chosen.place) as place:
        servers = {}
        for name, command in zip(NAMES, (("-c", BARE), ()), strict=True):
            (Path(place) / name).mkdir()
            servers[name] = Server(Path(place) / name, *command, config=config)
        cases = {(name, n, 1): [] for n in (1, 16) for name in servers}
        cases["decision", 1, 500] = []
        disk = []
        for _ in range(chosen.rounds):
            disk.append(synced(Path(place)))
            for (name, connections, batch), rows in cases.items():
                work = measured(servers[name], connections, chosen.seconds, batch)
                rows.append(asyncio.run(work))
        for server in servers.values():
            server.stop()
    print("| request | connections | per second | p50 | p99 | processor time |")
    print("|---|---|---|---|---|---|")
    for (name, connections, batch), rows in cases.items():
        rate, p50, p99, cost = np.median(rows, axis=0)
        what = name if batch == 1 else f"batch of {batch}"
        print(f"| {what} | {connections} | {rate:,.0f} | {p50:.2f} ms | {p99:.1f} ms | "
              f"{cost:,.0f} us |")  # fmt: skip
    low, middle, high = compared(cases, 16, 3) ** -1.0
    print(f"\nIn processor time with 16 connections a decision has {middle:.2f} of the rate of the "
          f"bare route ({high:.2f} to {low:.2f}).")  # fmt: skip
    low, middle, high = compared(cases, 1, 1)
    print(f"With one connection p50 is {middle:.1f} times that of the bare route ({low:.1f} to "
          f"{high:.1f}).\nA bare write of 12 kB to this disk takes {np.median(disk):.2f} ms "
          f"({min(disk):.2f} to {max(disk):.2f}).")  # fmt: skip


def compared(cases: dict, connections: int, place: int) -> np.ndarray:
    """How many times as much a decision takes, round by round: least, median, most."""
    bare, mine = (np.array(cases[name, connections, 1])[:, place] for name in NAMES)
    return np.quantile(mine / bare, [0.0, 0.5, 1.0])


if __name__ == "__main__":
    main()
