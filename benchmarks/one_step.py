"""Tables of one step: the planner for tables against the learner for decisions on one-hot features.

    python benchmarks/one_step.py [--seeds 4] [--episodes 1200] [--write]

Arms and a few states, under costs that stay, change in every way, or are rare successes; every
outcome reports, or only successes do. Both see the same states, costs and delays. The score is that
of the suite, on mean costs: 0 is the best fixed policy in hindsight, 1 is uniform play. --write
puts the table into benchmarks/ONE_STEP.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import belated as bl
from belated.core.arrays import Floats
from belated.tabular.costs import CostProcess

PAGE = Path(__file__).with_name("ONE_STEP.md")
DEADLINE = 300
"""Episodes after which silence counts as a failure, for learners that need a deadline."""


@dataclass(frozen=True)
class Case:
    """States, actions, costs by number of episodes, delays, and whether a cost of 1 is silent."""

    name: str
    states: int
    actions: int
    costs: Callable[[np.random.Generator, int, tuple[int, int, int]], CostProcess]
    delays: Any
    silent: bool = False


def steady(low: float = 0.0, high: float = 1.0) -> Any:
    """Fixed means, and coins around them."""
    return lambda rng, K, shape: bl.costs.stochastic(
        rng.uniform(low, high, shape), seed=int(rng.integers(2**32))
    )


def turning(count: int, share: float, how: Any, low: float = 0.0, high: float = 1.0) -> Any:
    """Several cost functions that take turns, or drift; each stays for a share of the run."""
    return lambda rng, K, shape: bl.costs.noisy(
        how([rng.uniform(low, high, shape) for _ in range(count)], max(1, int(share * K))),
        seed=int(rng.integers(2**32)),
    )


def improving(rng: np.random.Generator, K: int, shape: tuple[int, int, int]) -> CostProcess:
    """The worst action becomes the best one in the middle."""
    before = rng.uniform(0.4, 0.9, shape)
    after = before.copy()
    for s in range(shape[1]):
        after[0, s, before[0, s].argmax()] = 0.1
    process = bl.costs.changing([before, after], [K // 2])
    return bl.costs.noisy(process, seed=int(rng.integers(2**32)))


def blocks(rng: np.random.Generator, K: int, shape: tuple[int, int, int]) -> CostProcess:
    """The costs of the lower bound."""
    return bl.costs.blocks(shape[1], shape[2], 40, seed=int(rng.integers(2**32)))


LATE, RARE = bl.delays.geometric(20), bl.delays.geometric(60)
CASES = (
    Case("4 arms", 1, 4, steady(), LATE),
    Case("20 arms", 1, 20, steady(), LATE),
    Case("4 arms, faint differences", 1, 4, steady(0.4, 0.6), LATE),
    Case("4 arms, fixed delay of 150", 1, 4, steady(), bl.delays.fixed(150)),
    Case("6 states, 4 actions", 6, 4, steady(), LATE),
    Case("6 states, 4 actions, heavy tails", 6, 4, steady(), bl.delays.heavy_tailed(1.2)),
    Case("4 arms, rare successes", 1, 4, steady(0.9, 0.98), RARE),
    Case("3 states, 4 actions, rare successes", 3, 4, steady(0.88, 0.98), RARE),
    Case("8 arms, switches", 1, 8, turning(4, 0.25, bl.costs.switching), LATE),
    Case("4 states, 3 actions, switches", 4, 3, turning(3, 0.25, bl.costs.switching), LATE),
    Case("4 states, 3 actions, drift", 4, 3, turning(3, 0.25, bl.costs.drifting), LATE),
    Case("8 arms, fast cycle", 1, 8, turning(3, 0.004, bl.costs.switching), LATE),
    Case("8 arms, hidden improvement", 1, 8, improving, LATE),
    Case("8 arms, the lower bound's blocks", 1, 8, blocks, bl.delays.fixed(19)),
    Case("4 arms, only successes report", 1, 4, steady(0.9, 0.98), RARE, True),
    Case("3 states, 4 actions, only successes report", 3, 4, steady(0.88, 0.98), RARE, True),
    Case("4 arms, half succeed, only successes report", 1, 4, steady(0.3, 0.7), RARE, True),
    Case("4 arms, a switch, only successes report", 1, 4,
         turning(2, 0.5, bl.costs.switching, 0.7, 1.0), RARE, True),
)  # fmt: skip


class Table:
    """A learner for tables; if only successes report, silence is a failure at the deadline."""

    def __init__(self, case: Case, seed: int, *, hold: bool = False) -> None:
        start = (1.0 / case.states,) * case.states
        problem = bl.Problem(case.states, case.actions, 1, start)
        agent = bl.recommend(problem, information="bandit", seed=seed)
        if case.silent:
            agent = bl.Inbox(agent, deadline=DEADLINE, default=1.0, hold=hold)
        self._agent, self._rng = agent, np.random.default_rng([seed, 9])

    def decide(self, state: int) -> tuple[int, Floats]:
        """The action, and the probabilities of all (A,)."""
        episode = self._agent.begin_episode()
        action, _ = episode.act(0, state, self._rng)
        return action, episode.probabilities(0, state)

    def observe(self, came: list[bl.Costs]) -> None:
        """Take costs."""
        if isinstance(self._agent, bl.Inbox):
            self._agent.take(came)
        else:
            self._agent.observe(came)


class Sampler:
    """The learner for decisions; a state is a one-hot vector."""

    def __init__(self, case: Case, seed: int, **given: Any) -> None:
        width = case.states if case.states > 1 else None
        choice = bl.Choice(actions=case.actions, features=width)
        silence = -1.0 if case.silent else None
        self._agent = bl.LinearSampler(choice, silence=silence, seed=seed, **given)
        self._rows = np.eye(case.states) if width else None

    def decide(self, state: int) -> tuple[int, Floats]:
        """The action, and the probabilities of all (A,)."""
        made = self._agent.decide(None if self._rows is None else self._rows[state])
        return made.action, made.probabilities

    def observe(self, came: list[bl.Costs]) -> None:
        """Take costs."""
        self._agent.observe([bl.Reward(one.episode, -float(one.values[0])) for one in came])


LEARNERS: dict[str, Callable[[Case, int], Any]] = {
    "planner": Table,
    "planner, held to the deadline": lambda case, seed: Table(case, seed, hold=True),
    "sampler": Sampler,
}


def play(case: Case, learner: Any, K: int, seed: int) -> float:
    """The score of a learner in a case."""
    rng = np.random.default_rng([seed, len(case.name), case.actions])
    shape = (1, case.states, case.actions)
    process = case.costs(rng, K, shape)
    states = rng.integers(0, case.states, K)
    waits = case.delays.draw(K, rng)
    line: bl.DelayLine[bl.Costs] = bl.DelayLine()
    value, total = np.zeros(K), np.zeros((case.states, case.actions))
    uniform = 0.0
    for k in range(K):
        means = bl.costs.expected(process, k)[0]
        s = int(states[k])
        action, policy = learner.decide(s)
        value[k] = policy @ means[s]
        total[s] += means[s]
        uniform += means[s].mean()
        cost = float(process.at(k)[0, s, action])
        if not (case.silent and cost == 1.0):
            line.push([bl.Costs(k, [cost])], int(waits[k]))
        learner.observe(line.release(k))
    best = total.min(axis=1).sum()
    return float((value.sum() - best) / (uniform - best))


def main() -> None:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--episodes", type=int, default=1200)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = [f"| case | {' | '.join(LEARNERS)} |", f"| --- |{' ---: |' * len(LEARNERS)}"]
    print("\n".join(lines), flush=True)
    means: dict[str, list[float]] = {}
    for case in CASES:
        cells = []
        for name, make in LEARNERS.items():
            if "held" in name and not case.silent:
                cells.append("")
                continue
            found = [
                play(case, make(case, 500 + seed), given.episodes, 500 + seed)
                for seed in range(given.seeds)
            ]
            half = 1.96 * np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else 0.0
            means.setdefault(name, []).append(float(np.mean(found)))
            cells.append(f"{np.mean(found):.2f} ± {half:.2f}")
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    if given.write:
        about = (
            "# Tables of one step\n\n"
            f"`python benchmarks/one_step.py --seeds {given.seeds} --episodes {given.episodes} "
            "--write` writes this page anew: scores on\nmean costs, 0 is the best fixed policy in "
            "hindsight and 1 uniform play; means and 95 % intervals over\nseeds from 500 on. Where "
            f"only successes report, the planner learns of a failure after {DEADLINE} episodes;\n"
            "held to the deadline, it learns of successes then, too. The sampler has its floor of "
            "1 %. Therefore\n`recommend(problem)` gives the planner, and `recommend(problem, "
            "silence=1.0)` the sampler as a `TableSampler`.\n\n"
        )
        PAGE.write_text(about + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
