"""Count the files of the package that an episode, a feedback over HTTP and the demo run through.

    python tools/walk.py

The files are those of which the profiler sees a function, in any thread, when everything is
imported and compiled. CONTRIBUTING.md describes both walks; a test keeps them short.
"""

import asyncio
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import belated as bl

PACKAGE = Path(bl.__file__).parent
EPISODE, FEEDBACK = 12, 12
DEMO, DEMO_HERE = 18, 53
"""The most files that a walk may run through.

The demo is walked twice: `belated run demo`, in the process of the command, which leaves worlds and
agents to its workers; and with `--engine here`, where all of it is one process.
"""


class Walk:
    """The files of the package that run while `recording` is set, in their order.

    aside: a thread whose calls do not count. learned: whether the thread of the learner has learned
    while `recording` was set.
    """

    def __init__(self) -> None:
        self.recording = self.learned = False
        self.aside: int | None = None
        self._seen: dict[str, None] = {}

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Called by the interpreter whenever a function is called."""
        if not self.recording or threading.get_ident() == self.aside:
            return
        if event == "call":
            self._seen[frame.f_code.co_filename] = None
        elif event == "return" and frame.f_code.co_qualname == "AgentRunner.learn":
            self.learned = True

    def files(self) -> list[str]:
        """The files, relative to the package."""
        paths = map(Path, self._seen)
        return [str(p.relative_to(PACKAGE)) for p in paths if p.is_relative_to(PACKAGE)]


def bandit_episode() -> list[str]:
    """The walk of one episode of the recommended agent, with its path and costs."""
    agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=2), information="bandit")
    rng = np.random.default_rng(0)

    def play() -> None:
        episode = agent.begin_episode()
        for h in range(2):
            episode.act(h, 0, rng)
        agent.observe([bl.Costs(episode.number, [0.5, 0.5])])

    return _walked(lambda walk: _thrice(walk, play))


def http_feedback() -> list[str]:
    """The walk of the outcome of one decision: from the request to what the learner has learned."""
    return _walked(lambda walk: asyncio.run(_served(walk)))


def demo(engine: str = "local") -> list[str]:
    """The walk of `belated run demo` in this process, with a few episodes."""
    from belated import cli  # noqa: PLC0415 - the lab is an extra

    def command() -> None:
        with tempfile.TemporaryDirectory() as directory, redirect_stdout(io.StringIO()):
            few = ["--engine", engine, "--episodes", "20", "--seeds", "1", "--out", directory]
            assert cli.main(["run", "demo", *few]) == 0

    def twice(walk: Walk) -> None:
        for walk.recording in (False, True):
            command()
        walk.recording = False

    return _walked(twice)


def _thrice(walk: Walk, play: Callable[[], object]) -> None:
    for last in (False, False, True):
        walk.recording = last
        play()
    walk.recording = False


async def _served(walk: Walk) -> None:
    import httpx  # noqa: PLC0415 - the service is an extra

    from belated.service.config import from_table  # noqa: PLC0415
    from belated.service.run import application  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as directory:
        shop = {"name": "shop", "actions": ["plain", "question"], "features": 2}
        app = application(from_table({"learners": [shop], "storage": directory}))
        transport = httpx.ASGITransport(app)
        async with (
            app.running(),
            httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):

            async def until(path: str, done: Callable[[Any], bool]) -> None:
                while not done(await client.get(path)):
                    await asyncio.sleep(0.01)

            await until("/readyz", lambda answer: answer.status_code == 200)
            base = "/v1/learners/shop"
            for last in (False, False, True):
                asked = {"features": [1.0, 2.0]}
                made = await client.post(f"{base}/decide", json=asked)
                walk.recording = last
                sent = {"episode": made.json()["episode"], "reward": 12.5}
                answer = await client.post(f"{base}/feedback", json=sent)
                assert answer.status_code == 200, answer.text
                walk.aside = threading.get_ident()  # the answer is sent; the learner learns
                if last:
                    await until("/healthz", lambda _: walk.learned)
                walk.recording, walk.aside = False, None


def _walked(run: Callable[[Walk], object]) -> list[str]:
    """The files that a program runs through while it records."""
    walk = Walk()
    threading.setprofile(walk.note)
    sys.setprofile(walk.note)
    try:
        run(walk)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return walk.files()


if __name__ == "__main__":
    walks = {
        "bandit_episode": bandit_episode,
        "http_feedback": http_feedback,
        "demo, in the process of the command": demo,
        "demo, with --engine here": partial(demo, "here"),
    }
    for name, walk in walks.items():
        walked = walk()
        print(f"{name}: {len(walked)} files", *walked, sep="\n  ")
