"""The one loop: a world, an agent and delays, and exact regret."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from belated import checks
from belated.agents.contract import Agent
from belated.arrays import Floats, Ints, frozen
from belated.costs import CostProcess
from belated.delays import DelayLine, DelayModel, as_delays
from belated.delays import none as no_delays
from belated.feedback import Costs, Record, suffered
from belated.kernels import planning
from belated.world import World, best_policy, occupancy


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What happened, episode by episode. All values are exact, by dynamic programming.

    Attributes:
        values: (K,) expected cost of the policy that was played.
        realised: (K,) cost that was suffered.
        comparator: (K,) expected cost of the best fixed policy in hindsight.
        best_policy: (H, S, A) that policy.
        delays: (K,) delays of the feedback, `NEVER` where it was lost.
        missing: (K,) episodes up to this one whose feedback had not come by the end of it.
        diagnostics: what the agent said of itself at the end.
    """

    values: Floats
    realised: Floats
    comparator: Floats
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
    def total_delay(self) -> int:
        """Sum of all delays, each cut off at the end of the run."""
        left = len(self.delays) - 1 - np.arange(len(self.delays))
        return int(np.minimum(self.delays, left).sum())


KEPT_BYTES = 2**26
"""Costs are kept for the comparator up to this size of all of them, and asked for again above."""


def missing_feedback(delays: Ints) -> Ints:
    """Episodes up to k whose feedback comes after the end of k, for every k. delays: (K,)."""
    K = len(delays)
    arrival = np.arange(K) + delays
    arrived = np.bincount(arrival[arrival < K], minlength=K)
    missing: Ints = np.arange(1, K + 1) - np.cumsum(arrived)
    return missing


def drawn_delays(
    delays: DelayModel | Ints | None,
    episodes: int,
    rng: np.random.Generator,
    costs: CostProcess | None = None,
) -> Ints:
    """The delays (K,) of a run: drawn from a model, or as they were given; none by default."""
    if delays is None or hasattr(delays, "draw"):
        delays = (no_delays() if delays is None else delays).draw(episodes, rng, costs)
    given = as_delays("delays", delays)
    if len(given) != episodes:
        raise ValueError(f"delays must hold episodes = {episodes} numbers, got {len(given)}")
    return given


def delays_in(world: World, model: DelayModel, episodes: int, seed: int) -> Ints:
    """The delays (K,) that `simulate` would draw from a model, whoever learns."""
    _, costs, rng = _seeded(world, seed)
    return drawn_delays(model, episodes, rng, costs)


def _seeded(
    world: World, seed: int
) -> tuple[np.random.Generator, CostProcess, np.random.Generator]:
    """What a seed decides, apart from one another: the paths, the costs and the delays."""
    paths, costs, delays = np.random.SeedSequence(checks.integer("seed", seed, 0)).spawn(3)
    process = world.costs.seeded(int(costs.generate_state(1, np.uint64)[0]))
    return np.random.default_rng(paths), process, np.random.default_rng(delays)


def simulate(
    world: World,
    agent: Agent,
    *,
    delays: DelayModel | Ints | None = None,
    episodes: int = 500,
    seed: int = 0,
    trajectory: str = "delayed",
    progress: Callable[[range], Iterable[int]] | None = None,
) -> Run:
    """Let an agent learn in a world whose feedback comes late.

    Args:
        world: the truth; the agent never sees it.
        agent: a fresh agent; what it is shown depends on its `information`.
        delays: a model, or (K,) whole numbers when several agents must face the same ones.
            Default: none.
        episodes: K.
        seed: decides the paths, the costs and the delays, each by its own generator, so that the
            delays and the costs do not depend on the agent.
        trajectory: "delayed": the path comes together with the costs; "immediate": the path comes
            at the end of its episode and only the costs are late.
        progress: wraps the range of episodes, e.g. `rich.progress.track` or `tqdm.tqdm`.

    Returns:
        A `Run`.
    """
    checks.instance("world", world, World)
    if not all(hasattr(agent, part) for part in ("problem", "begin_episode", "observe")):
        raise ValueError(f"agent must be an agent, got {checks.show(agent)}")
    episodes = checks.integer("episodes", episodes, 1)
    checks.choice("trajectory", trajectory, ("delayed", "immediate"))
    if agent.problem.shape != world.problem.shape:
        raise ValueError(
            f"agent must be made for the world's (H, S, A) = {world.problem.shape}, "
            f"got {agent.problem.shape}"
        )
    rng, costs, delays_rng = _seeded(world, seed)
    drawn = drawn_delays(delays, episodes, delays_rng, costs)

    mdp = world.mdp
    dynamics = mdp.transitions
    start = mdp.problem.start_probabilities
    values = np.zeros(episodes)
    realised = np.zeros(episodes)
    total = np.zeros(costs.shape)
    shown: list[Floats] | None = [] if episodes * total.nbytes <= KEPT_BYTES else None
    line = DelayLine()
    steps: Iterable[int] = range(episodes)
    if progress is not None:
        steps = progress(range(episodes))
    for k in steps:
        episode = agent.begin_episode()
        path = mdp.play(episode.policy, rng, episode.number)
        cost = costs.at(k)
        if shown is not None:
            shown.append(cost)
        values[k] = planning.start_value(
            dynamics.successors, dynamics.probabilities, cost, frozen(episode.policy), start
        )
        met = suffered(cost, path)
        realised[k] = met.sum()
        total += cost
        record = Costs(episode.number, cost if agent.information == "full" else met)
        now: list[Record] = [path] if trajectory == "immediate" else []
        line.push([record] if trajectory == "immediate" else [path, record], int(drawn[k]))
        agent.observe(now + line.release(episode.number))

    best, _ = best_policy(mdp, total)
    reach = occupancy(mdp, best)
    if costs.shape[0] == 1:
        reach = reach.sum(axis=0, keepdims=True)
    again = (costs.at(k) for k in range(episodes)) if shown is None else shown
    return Run(
        values=values,
        realised=realised,
        comparator=np.array([float(np.vdot(reach, cost)) for cost in again]),
        best_policy=best,
        delays=drawn,
        missing=missing_feedback(drawn),
        diagnostics=dict(agent.diagnostics()),
    )
