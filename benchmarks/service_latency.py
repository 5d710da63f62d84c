"""A decision against a bare route: latency over kept connections, and processor time per request.

The bare route is Starlette's, which parses the same JSON and answers as many bytes, on uvicorn with
httptools and uvloop, in a process of its own. A decision has 10 features and 4 actions, and its
answer is sent when it is on disk.

    python benchmarks/service_latency.py [--storage postgresql://...]
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path

import numpy as np
from service_server import UNLIMITED, Connection, Server, ready

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


def body(rng: random.Random) -> dict:
    return {"features": [round(rng.gauss(0.0, 1.0), 6) for _ in range(10)]}


async def measured(server: Server, connections: int, seconds: float, batch: int = 1) -> tuple:
    """Decisions per second, milliseconds at p50 and p99, microseconds of processor time each."""
    rng = random.Random(0)
    links = await ready(server.port)
    while len(links) > connections:
        links.pop().close()
    times: list[float] = []

    async def ask(link: Connection, end: float) -> None:
        while time.perf_counter() < end:
            asked = body(rng)
            path = "decide"
            if batch > 1:
                asked, path = {"decisions": [body(rng) for _ in range(batch)]}, "decide/batch"
            start = time.perf_counter()
            status, _ = await link.ask("POST", f"/v1/learners/ten/{path}", asked)
            assert status == 200, status
            times.append(time.perf_counter() - start)

    await asyncio.gather(*(ask(link, time.perf_counter() + 1.0) for link in links))
    times.clear()
    before, start = server.processor(), time.perf_counter()
    await asyncio.gather(*(ask(link, start + seconds) for link in links))
    took, spent = time.perf_counter() - start, server.processor() - before
    for link in links:
        link.close()
    p50, p99 = 1e3 * np.quantile(times, [0.5, 0.99])
    return batch * len(times) / took, p50, p99, 1e6 * spent / (batch * len(times))


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare a decision with a bare route.")
    parser.add_argument("--storage", default="data", help="a directory, or a PostgreSQL URL")
    parser.add_argument("--seconds", type=float, default=5.0)
    chosen = parser.parse_args()
    config = UNLIMITED.replace('"data"', json.dumps(chosen.storage)) + LEARNER
    print("| request | connections | per second | p50 | p99 | processor time |")
    print("|---|---|---|---|---|---|")
    costs: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=".") as place:
        directory = Path(place)
        for name, command in (("bare route", ("-c", BARE)), ("decision", ())):
            server = Server(directory, *command, config=config)
            for connections in (1, 16):
                found = asyncio.run(measured(server, connections, chosen.seconds))
                costs[name] = found[3]
                rate, p50, p99, cost = found
                print(f"| {name} | {connections} | {rate:,.0f} | {p50:.1f} ms | {p99:.1f} ms | "
                      f"{cost:,.0f} us |", flush=True)  # fmt: skip
            if name == "decision":
                rate, p50, p99, cost = asyncio.run(measured(server, 1, chosen.seconds, 500))
                print(f"| batch of 500 | 1 | {rate:,.0f} | {p50:.1f} ms | {p99:.1f} ms | "
                      f"{cost:,.0f} us |", flush=True)  # fmt: skip
            server.stop()
    share = costs["bare route"] / costs["decision"]
    print(f"\nIn processor time a decision has {share:.2f} of the rate of the bare route.")


if __name__ == "__main__":
    main()
