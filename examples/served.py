"""Twenty robots learn through the server, over links that lose and repeat requests.

The server is the real one, `belated serve` in a process of its own with SQLite on disk, and both
sides of every link are real: one request in ten is lost on the way there, one in ten on the way
back, and `belated.client` tries again.

The robots explore a grid with slippery floor. Each fetches the policy of its episode, walks, and
reports its path and costs when it is back in range, or never.

The figure has the learning curves beside those of the simulator: the same agents, worlds and delays
in one process without a network.

pip install 'belated[lab,serve]'
"""

import asyncio
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from drawing import BLUE, VERMILION, axes, save, smooth

import belated as bl
from belated.client import AsyncClient

SEEDS, SIMULATED = 2, 20  # runs through the server, and beside it
ROBOTS, ROUNDS = 20, 9
WINDOW = 20  # episodes over which a curve is averaged
LOST, OUT_OF_RANGE = 0.1, 0.2  # requests, and answers; reports that never come
WORLD = bl.environments.gridworld(size=4, slip=0.1, horizon=10)
CONFIG = """
storage = "data"
port = 0
"""
LEARNERS = """
[[learners]]
name = "robots-{seed}"
problem = {{ states = 16, actions = 4, horizon = 10, homogeneous = true }}
information = "full"
"""


@contextmanager
def server(directory: Path):
    """`belated serve` in a process of its own; the address."""
    learners = [LEARNERS.format(seed=seed) for seed in range(SEEDS)]
    (directory / "serve.toml").write_text(CONFIG + "".join(learners))
    process = subprocess.Popen(
        [sys.executable, "-m", "belated", "serve", "serve.toml"],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, "the server did not start"
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()


class Lossy(httpx.AsyncHTTPTransport):
    """A link that loses requests and answers."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._rng = rng

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, or lose it, or lose the answer."""
        if self._rng.random() < LOST:
            raise httpx.ConnectError("lost on the way there")
        answer = await super().handle_async_request(request)
        if self._rng.random() < LOST:
            await answer.aread()
            await answer.aclose()
            raise httpx.ReadError("lost on the way back")
        return answer


def reports(seed: int) -> np.ndarray:
    """The delay of each report, in episodes of the fleet; reports come at the end of a round."""
    rng = np.random.default_rng(seed)
    episodes = ROBOTS * ROUNDS
    drawn = bl.delays.lost(OUT_OF_RANGE, bl.delays.geometric(30)).draw(episodes, rng)
    left = ROBOTS - 1 - (np.arange(episodes) + drawn) % ROBOTS
    return np.where(drawn == bl.NEVER, drawn, drawn + left)


async def robots(url: str, seed: int) -> tuple[np.ndarray, dict]:
    """The expected costs of the fleet's policies, and the status of its learner."""
    rng = np.random.default_rng([seed, 1])
    delays, line, values = reports(seed), bl.DelayLine(), np.zeros(ROBOTS * ROUNDS)
    costs = WORLD.costs.seeded(seed)
    link = Lossy(rng)  # the same for all
    name = f"robots-{seed}"
    fleet = [AsyncClient(url, name, timeout=60, transport=link) for _ in range(ROBOTS)]

    async def walk(robot: AsyncClient) -> int:
        number = await robot.begin()
        policy = await robot.policy(number)
        path = WORLD.mdp.play(policy, rng, number)
        paid = costs.at(number)
        values[number] = bl.planning.policy_values(WORLD.mdp, policy, paid)[0][
            0, WORLD.problem.start
        ]
        line.push([path, bl.Costs(number, paid)], int(delays[number]))
        return number

    for _ in range(ROUNDS):
        newest = max(await asyncio.gather(*map(walk, fleet)))
        told = [[] for _ in fleet]  # what each robot reports
        for record in line.release(newest):
            told[record.episode % ROBOTS].append(record)
        await asyncio.gather(*(r.feedback(t) for r, t in zip(fleet, told, strict=True) if t))
        await learned(fleet[0])
    status = await fleet[0].status()
    for robot in fleet:
        await robot.close()
    return values, status


async def learned(client: AsyncClient) -> None:
    """Wait until the agent has learned from all feedback; between real rounds it has hours."""
    while (await client.status())["waiting"]:
        await asyncio.sleep(0.05)


def simulated_robots(seed: int) -> np.ndarray:
    """The same fleet in the simulator."""
    problem = bl.Problem(16, 4, 10, homogeneous=True)
    agent = bl.recommend(problem, information="full")
    episodes = ROBOTS * ROUNDS
    delays = reports(seed)
    return bl.simulate(WORLD, agent, delays=delays, episodes=episodes, seed=seed).values


async def served(url: str) -> list[tuple[np.ndarray, dict]]:
    """Everything at once: the fleets of all seeds."""
    async with httpx.AsyncClient() as web:
        while (await web.get(f"{url}/readyz", timeout=60)).status_code != 200:
            await asyncio.sleep(0.2)
    return await asyncio.gather(*(robots(url, seed) for seed in range(SEEDS)))


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, server(Path(directory)) as url:
        fleets = asyncio.run(served(url))
    figure, left = axes()
    print(f"{'mean of the last quarter, by run':34} {'served':>16} {'simulated':>16}")
    compare(left, "robots: expected cost", fleets, map(simulated_robots, range(SIMULATED)))
    counts = (status := fleets[0][1])["counts"]
    told = ", ".join(f"{counts.get(kind, 0)} {kind}" for kind in ("taken", "duplicate"))
    print(f"robots-0: {status['begun']} episodes begun, {status['open']} open; records: {told}")
    best = bl.planning.best_policy(WORLD.mdp, WORLD.costs.at(0))[1]
    left.axhline(best, color="0.5", linestyle=":")
    left.annotate("best policy", (WINDOW, best), va="top", color="0.35")
    left.set(xlabel="episode of the fleet", ylabel="expected cost", ylim=(0, None))
    left.set_title(f"{ROBOTS} robots, {OUT_OF_RANGE:.0%} of reports never come", fontsize=10)
    left.legend(frameon=False)
    print(f"Figure: {save(figure, 'served')}")


def compare(on, name: str, through: list, beside: Iterable[np.ndarray]) -> None:
    """Draw the served runs over the range of the simulated ones, and print where they end."""
    served, simulated = np.array([values for values, _ in through]), np.array(list(beside))
    at = np.arange(WINDOW, served.shape[1] + 1)
    low, middle, high = np.quantile(smooth(simulated, WINDOW)[:, WINDOW - 1 :], (0, 0.5, 1), axis=0)
    on.fill_between(at, low, high, color=VERMILION, alpha=0.2, linewidth=0)
    on.plot(at, middle, color=VERMILION, label=f"simulated: median and range of {SIMULATED} runs")
    for i, run in enumerate(smooth(served, WINDOW)[:, WINDOW - 1 :]):
        on.plot(at, run, color=BLUE, linewidth=1, label=None if i else "through the server")
    last = [runs[:, -served.shape[1] // 4 :].mean(axis=1) for runs in (served, simulated)]
    print(f"{name:34} {spread(last[0]):>16} {spread(last[1]):>16}")


def spread(values: np.ndarray) -> str:
    """From the least to the greatest."""
    return f"{values.min():.2f} to {values.max():.2f}"


if __name__ == "__main__":
    main()
