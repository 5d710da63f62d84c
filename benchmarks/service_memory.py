"""What the server keeps in memory while episodes come and go and some never report.

Most visitors are inside the server's process, where they call what a request calls; over HTTP alone
a million would take hours. The others come over HTTP meanwhile.

    python benchmarks/service_memory.py serve.toml EPISODES    a server with visitors inside
"""

import asyncio
import json
import random
import re
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import numpy as np
import uvicorn
from service_server import Connection, Server, ready

from belated.service.config import load
from belated.service.learner import Learner
from belated.service.run import SWITCH, listener
from belated.service.wire import Asked

BASE = "/v1/learners/shop"
POINTS = 25
INSIDE, OUTSIDE = 400, 4
"""Visitors at once: inside, and over HTTP."""
LOST, DECIDED, TWICE = 0.05, 0.1, 0.02
"""Shares: of episodes that never report, of those for which the server decides, of batches that
are sent a second time."""
WAIT, BATCH = 500, 250
"""Episodes that end before feedback is sent, and episodes of a batch; a tenth of it over HTTP."""
BEHIND = 20
"""Calls that may wait for the agent before visitors inside wait too: a queue that grows is memory
that grows, up to `limits.waiting`."""
ENOUGH = "enough"
"""A file beside the configuration that ends the visits."""
Ask = Callable[[str, dict], Awaitable[dict]]


class Shop:
    """Visitors, and their feedback on its way. name: what their keys begin with."""

    def __init__(self, name: str, part: float = 1.0) -> None:
        self.begun = self.lost = self.late = 0
        self.waiting: deque[list[dict]] = deque()
        self._wait, self._batch = int(part * WAIT), int(part * BATCH)
        self._name = name
        self._rng = random.Random(0)
        self._keys = count()

    async def visit(self, ask: Ask) -> None:
        """One episode, and the feedback that is due."""
        episode = (await ask("episodes", {"key": f"{self._name} {next(self._keys)}"}))["episode"]
        records: list[dict] = [{"episode": episode, "costs": [0.5]}]
        if self._rng.random() < DECIDED:
            await ask("decide", {"episode": episode, "step": 0, "state": 0})
        else:
            path = {"states": [0, 0], "actions": [self._rng.randrange(3)]}
            records.append({"episode": episode, "path": path})
        self.begun += 1
        if self._rng.random() < LOST:
            self.lost += 1
        else:
            self.waiting.append(records)
        if len(self.waiting) >= self._wait + self._batch:
            await self.report(ask)

    async def report(self, ask: Ask) -> None:
        """Send a batch of the oldest feedback, in any order."""
        number = min(self._batch, len(self.waiting))
        records = [record for _ in range(number) for record in self.waiting.popleft()]
        self._rng.shuffle(records)
        found = (await ask("feedback/batch", {"records": records}))["outcomes"]
        assert {told["outcome"] for told in found} <= {"taken", "late"}
        pairs = zip(records, found, strict=True)
        self.late += sum("costs" in r and told["outcome"] == "late" for r, told in pairs)
        if self._rng.random() < TWICE:
            found = (await ask("feedback/batch", {"records": records}))["outcomes"]
            assert {told["outcome"] for told in found} <= {"duplicate", "late"}


def over(connection: Connection) -> Ask:
    """Ask over HTTP."""

    async def ask(path: str, body: dict) -> dict:
        status, answer = await connection.ask("POST", f"{BASE}/{path}", body)
        assert status == 200, (status, answer)
        return json.loads(answer)

    return ask


def within(learner: Learner) -> Ask:
    """Ask as a request does once it is read."""

    async def ask(path: str, body: dict) -> dict:
        while learner.session.runner.waiting > BEHIND:
            await asyncio.sleep(0.01)
        if path == "episodes":
            return {"episode": (await learner.ask(lambda s: s.begin(body))).episode}
        if path == "decide":
            await learner.ask(lambda s: s.decide(Asked(**body)))
            return {}
        outcomes = await learner.ask(lambda s: s.feed(body["records"]))
        return {"outcomes": [{"outcome": outcome.outcome} for outcome in outcomes]}

    return ask


async def crowd(shop: Shop, asks: list[Ask], until: Callable[[], bool]) -> None:
    """Visits, one after the other for each way to ask, then all feedback that is left."""

    async def visits(ask: Ask) -> None:
        while not until():
            await shop.visit(ask)

    await asyncio.gather(*map(visits, asks))
    while shop.waiting:
        await shop.report(asks[0])


async def serve(path: Path, episodes: int) -> None:
    """A server, and visitors inside it until this many episodes have begun."""
    settings = listener(load(path), 0)
    sys.setswitchinterval(SWITCH)
    server = uvicorn.Server(settings)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(f"listens on :{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
    live = settings.app.learners["shop"]
    while not live.ready:
        await asyncio.sleep(0.01)
    shop = Shop("inside")
    agent, enough = live.session.runner.agent, path.with_name(ENOUGH)
    until = lambda: agent.begun >= episodes or enough.exists()  # noqa: E731
    await crowd(shop, [within(live)] * INSIDE, until)
    print(f"inside: {shop.begun} {shop.lost} {shop.late}", flush=True)
    await serving


async def memory(server: Server, directory: Path, episodes: int, minutes: float) -> list[str]:
    """Resident memory against episodes, of which there are fewer if time runs out."""
    connections = await ready(server.port, OUTSIDE)
    watch = connections.pop()
    shop, start = Shop("outside", 0.1), time.perf_counter()
    points: list[tuple] = []
    enough = directory.with_name(ENOUGH)

    async def status() -> dict:
        return json.loads((await watch.ask("GET", BASE))[1])

    async def watched() -> None:
        while len(points) < POINTS and not enough.exists():
            begun = (await status())["begun"]
            if begun >= episodes * (len(points) + 1) // POINTS:
                disk = sum(path.stat().st_size for path in directory.glob("shop.sqlite*"))
                took = time.perf_counter() - start
                points.append((begun, server.memory(), disk / 2**20, took))
                shown = "{:,} episodes: {:.1f} MB resident, {:.1f} MB on disk, {:.0f} s"
                print(shown.format(*points[-1]), flush=True)
            if time.perf_counter() - start > 60 * minutes:
                enough.touch()
            await asyncio.sleep(0.2)

    watching = asyncio.create_task(watched())
    await crowd(shop, [over(connection) for connection in connections], watching.done)
    await watching
    while not (inside := re.search(r"inside: (\d+) (\d+) (\d+)", server.said())):
        await asyncio.sleep(0.1)
    there, lost, late = map(int, inside.groups())
    told = await status()
    for connection in (watch, *connections):
        connection.close()
    missing = lost + late + shop.lost + shop.late
    closed = told["counts"]["forgotten"] + told["counts"]["defaulted"]
    assert closed + told["open"] == missing, (told["counts"], told["open"], missing)
    numbers, resident, disk, _ = np.array(points[len(points) // 2 :]).T
    slopes = [2**20 * np.polyfit(numbers, column, 1)[0] for column in (resident, disk)]
    return [
        f"`python benchmarks/service.py memory --episodes {episodes}`: "
        f"{told['begun']:,} episodes of the shop in {points[-1][3] / 60:.0f} minutes, each with a "
        f"key, {shop.begun:,} of them over HTTP and {there:,} by visitors inside the server's "
        f"process. {100 * LOST:.0f} % never report; the deadline of 2,000 episodes had closed "
        f"{closed:,} of {missing:,} by the end, and {told['open']:,} were open. Other feedback "
        f"comes some {WAIT} to {WAIT + BATCH} episodes late, in batches, {100 * TWICE:.0f} % of "
        "them twice. Over the second half the memory "
        f"changes by {slopes[0]:+.1f} bytes per episode and the file by {slopes[1]:+,.0f}.",
        "",
        "| episodes | resident | file |",
        "|---|---|---|",
        *(f"| {n:,} | {mb:.1f} MB | {file:,.0f} MB |" for n, mb, file, _ in points),
    ]


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
