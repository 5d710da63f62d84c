"""Let an agent learn from late feedback in a known world, with exact regret."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import PATHS, Agent, check_is_agent
from belated.core.delays import DelayLine, DelayModel, as_delays, missing_feedback, total_delay
from belated.core.delays import none as no_delays
from belated.core.records import Episode
from belated.core.score import score, verdict
from belated.tabular.costs import CostProcess
from belated.tabular.kernels import planning
from belated.tabular.planning import best_policy, occupancy
from belated.tabular.records import Costs, Record, Trajectory, suffered
from belated.tabular.world import World

Play = Callable[[Episode], tuple[Trajectory, Costs]]
"""A source of episodes: it plays one and returns the path and the costs to be shown."""

Progress = Callable[[range], Iterable[int]]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What happened in each episode. All values are exact, by dynamic programming.

    Attributes:
        values: (K,) expected cost of the policy that was played.
        realised: (K,) cost that was suffered.
        comparator: (K,) expected cost of the best fixed policy in hindsight.
        uniform: (K,) expected cost of uniform play.
        best_policy: (H, S, A) the best fixed policy in hindsight.
        delays: (K,) delays of the feedback, `NEVER` where it was lost.
        missing: (K,) number of episodes up to this one whose feedback has not arrived at its end.
        diagnostics: the agent's own numbers at the end of the run.
    """

    values: Floats
    realised: Floats
    comparator: Floats
    uniform: Floats
    best_policy: Floats
    delays: Ints
    missing: Ints
    diagnostics: Mapping[str, float] = field(default_factory=dict)

    @property
    def optimum(self) -> float:
        """Total expected cost of the best fixed policy over all K episodes."""
        return float(self.comparator.sum())

    @property
    def regret(self) -> Floats:
        """(K,) cumulative regret against the best policy of the whole run; the last one is R_K."""
        total: Floats = np.cumsum(self.values - self.comparator)
        return total

    @property
    def score(self) -> float:
        """Cost on a scale from the best fixed policy (0) to uniform play (1).

        NaN if uniform play is as good as the best fixed policy.
        """
        return score(self.values, self.comparator, self.uniform)

    @property
    def verdict(self) -> str:
        """What is wrong with the learning curve; empty if the agent has learned."""
        return verdict(self.values, self.comparator, self.uniform)

    @property
    def total_delay(self) -> int:
        """Sum of all delays, each cut off at the end of the run."""
        return total_delay(self.delays)

    def __repr__(self) -> str:
        K = len(self.values)
        tenth = max(1, K // 10)
        score = "undefined" if math.isnan(self.score) else f"{self.score:.2f}"
        text = (
            f"Run of {K} episodes: cost per episode {self.values[:tenth].mean():.3f} at first, "
            f"{self.values[-tenth:].mean():.3f} at the end; best fixed policy "
            f"{self.optimum / K:.3f}, uniform play {self.uniform.mean():.3f}; "
            f"regret {self.regret[-1]:.1f}, score {score}"
        )
        return f"{text}\nWARNING: {self.verdict}" if self.verdict else text


KEPT_BYTES = 2**26
"""The costs of a run are kept for the comparator up to this size; above it they are asked again."""


def drawn_delays(
    delays: DelayModel | Ints | None,
    episodes: int,
    rng: np.random.Generator,
    costs: CostProcess | None = None,
) -> Ints:
    """The delays (K,) of a run: drawn from a model, or checked if they are given as numbers."""
    if delays is None or hasattr(delays, "draw"):
        delays = (no_delays() if delays is None else delays).draw(episodes, rng, costs)
    given = as_delays("delays", delays)
    if len(given) != episodes:
        raise ValueError(f"delays must hold episodes = {episodes} numbers, got {len(given)}")
    return given


def delays_in(world: World, model: DelayModel, episodes: int, seed: int) -> Ints:
    """The delays (K,) that `simulate` draws from a model with this seed, for any agent."""
    _, costs, rng = _seeded(world, seed)
    return drawn_delays(model, episodes, rng, costs)


def _seeded(
    world: World, seed: int
) -> tuple[np.random.Generator, CostProcess, np.random.Generator]:
    """The generator of the paths, the seeded costs, and the generator of the delays."""
    paths, costs, delays = np.random.SeedSequence(checks.integer("seed", seed, 0)).spawn(3)
    process = world.costs.seeded(int(costs.generate_state(1, np.uint64)[0]))
    return np.random.default_rng(paths), process, np.random.default_rng(delays)


def drive(
    agent: Agent, play: Play, delays: Ints, *, paths: str, progress: Progress | None = None
) -> None:
    """Run the feedback loop: begin an episode, play it, and show the agent what is due.

    Args:
        agent: a fresh agent; it must number its episodes 0, 1, 2, ...
        play: plays an episode and returns its path and its costs.
        delays: the delays (K,) of the feedback.
        paths: "late" or "at once"; see `simulate`.
        progress: wraps the range of episodes.
    """
    line: DelayLine[Record] = DelayLine()
    episodes = range(len(delays))
    for k in episodes if progress is None else progress(episodes):
        episode = agent.begin_episode()
        if episode.number != k:
            raise ValueError(
                "agent must be fresh and number its episodes 0, 1, 2, ..., got "
                f"{checks.show(episode.number)} for episode {k}"
            )
        path, costs = play(episode)
        now: list[Record] = [path] if paths == "at once" else []
        line.push([costs] if now else [path, costs], int(delays[k]))
        agent.observe(now + line.release(k))


def simulate(
    world: World,
    agent: Agent,
    *,
    delays: DelayModel | Ints | None = None,
    episodes: int = 500,
    seed: int = 0,
    paths: str = "late",
    progress: Progress | None = None,
) -> Run:
    """Let an agent learn in a world whose feedback arrives late.

    Args:
        world: the true world; the agent never sees it.
        agent: a fresh agent; its `information` decides which costs it is shown.
        delays: a model, or (K,) whole numbers if several agents must face the same delays. By
            default there are none.
        episodes: K.
        seed: decides the paths, the costs and the delays, each by its own generator, so that
            the delays and the costs do not depend on the agent.
        paths: "late": the path arrives together with the costs; "at once": the path arrives at
            the end of its episode and only the costs are late.
        progress: wraps the range of episodes, e.g. `rich.progress.track` or `tqdm.tqdm`.

    Returns:
        A `Run`.
    """
    checks.instance("world", world, World)
    check_is_agent("agent", agent)
    episodes = checks.integer("episodes", episodes, 1, checks.ROOM)
    checks.choice("paths", paths, PATHS)
    if agent.problem.shape != world.problem.shape:
        raise ValueError(
            f"agent must be made for the world's (H, S, A) = {world.problem.shape}, "
            f"got {agent.problem.shape}"
        )
    rng, process, delays_rng = _seeded(world, seed)
    drawn = drawn_delays(delays, episodes, delays_rng, process)

    mdp = world.mdp
    dynamics = mdp.transitions
    start = mdp.problem.start_probabilities
    values = np.zeros(episodes)
    realised = np.zeros(episodes)
    total = np.zeros(process.shape)
    kept: list[Floats] | None = [] if episodes * total.nbytes <= KEPT_BYTES else None

    def play(episode: Episode) -> tuple[Trajectory, Costs]:
        k = episode.number
        path = mdp.play(episode.policy, rng, k)
        cost = process.at(k)
        if kept is not None:
            kept.append(cost)
        values[k] = planning.start_value(dynamics.rows, cost, frozen(episode.policy), start)
        met = suffered(cost, path)
        realised[k] = met.sum()
        np.add(total, cost, out=total)
        return path, Costs(k, cost if agent.information == "full" else met)

    drive(agent, play, drawn, paths=paths, progress=progress)

    best, _ = best_policy(mdp, total)
    measures = []
    for policy in (best, np.full(best.shape, 1.0 / best.shape[2])):
        reach = occupancy(mdp, policy)
        measures.append(reach if process.shape[0] > 1 else reach.sum(axis=0, keepdims=True))
    again = (process.at(k) for k in range(episodes)) if kept is None else kept
    fixed = np.array([[float(np.vdot(reach, cost)) for reach in measures] for cost in again])
    return Run(
        values=values,
        realised=realised,
        comparator=fixed[:, 0],
        uniform=fixed[:, 1],
        best_policy=best,
        delays=drawn,
        missing=missing_feedback(drawn),
        diagnostics=dict(agent.diagnostics()),
    )
