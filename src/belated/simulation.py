"""Let an agent learn from late feedback in a known world, with exact regret."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from belated.core import checks
from belated.core.arrays import Floats, Ints
from belated.core.contract import PATHS, Agent, Decision, Episode, check_is_agent, nested
from belated.core.delays import (
    NEVER,
    DelayLine,
    DelayModel,
    OutcomeDependentDelay,
    PlayedEpisode,
    as_delays,
    is_oblivious,
    is_per_step,
    missing_feedback,
    of_episodes,
    total_delay,
)
from belated.core.inbox import Inbox
from belated.linear.reward import Reward
from belated.linear.worlds import DecisionWorld
from belated.tabular.costs import expected
from belated.tabular.hindsight import Best, CostsOf, compared, score, verdict
from belated.tabular.records import Costs, StepCost, Trajectory
from belated.tabular.world import World, walker

Play = Callable[[Any], tuple[Any, ...]]
"""A function that plays an episode and returns its records: its path, if any, and its outcome.

The outcome is the costs that the agent may see, or the reward of a decision, if it reports.
"""

Progress = Callable[[range], Iterable[int]]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The result of a simulation, episode by episode. Values are exact, by dynamic programming.

    Attributes:
        values: (K,) expected cost of the policy that was played.
        realised: (K,) cost that was suffered.
        comparator: (K,) expected cost of the best fixed policy in hindsight.
        uniform: (K,) expected cost of uniform play.
        best_policy: (H, S, A) the best fixed policy in hindsight; None for decisions with
            features, whose comparator is the best action for every visitor, and whose costs are
            negated outcomes.
        delays: (K,) delays of the feedback, `NEVER` where it was lost; of its last piece where it
            arrived in pieces.
        missing: (K,) number of episodes up to this one whose feedback has not arrived at its end.
        diagnostics: the agent's own numbers at the end of the run.
        means: the same run with `values`, `comparator` and `uniform` for the mean costs, where
            costs have independent noise; None where they have none.
        best: the costs of other comparators; see `dynamic_regret` and `regret_so_far`. None for
            decisions with features.
        step_delays: (K, H) delays of the single costs if each had its own; otherwise None.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> run = bl.simulate(world, bl.recommend(world.problem), episodes=10)
        >>> run.values.shape, run.missing.max()
        ((10,), np.int64(0))
    """

    values: Floats
    realised: Floats
    comparator: Floats
    uniform: Floats
    best_policy: Floats | None
    delays: Ints
    missing: Ints
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    means: "Run | None" = None
    best: Best | None = field(default=None, repr=False)
    step_delays: Ints | None = None

    @property
    def optimum(self) -> float:
        """Total expected cost of the best fixed policy over all K episodes."""
        return float(self.comparator.sum())

    @property
    def regret(self) -> Floats:
        """(K,) cumulative regret against the best policy of the whole run; the last one is R_K."""
        return np.cumsum(self.values - self.comparator)

    @property
    def dynamic_regret(self) -> Floats:
        """(K,) cumulative regret against the best policy of every single episode.

        Of decisions with features it is `regret`, whose comparator is the best for every visitor.
        """
        return self.regret if self.best is None else np.cumsum(self.values - self.best.each)

    @property
    def regret_so_far(self) -> Floats:
        """(K,) regret of the first k episodes against the best fixed policy of these episodes.

        It may decrease; its last value is R_K. The best policy of the whole run may be a bad one
        for its beginning, so that `regret` is negative there and this is not. Of decisions with
        features it is `regret`.
        """
        total = np.cumsum(self.values)
        return self.regret if self.best is None else total - self.best.so_far

    @property
    def score(self) -> float:
        """Cost on a scale from the best fixed policy (0) to uniform play (1).

        NaN if uniform play is as good as the best fixed policy.
        """
        return score(self.values, self.comparator, self.uniform)

    @property
    def mean_values(self) -> Floats:
        """(K,) expected cost of the policies that were played, in expectation over the noise."""
        return (self.means or self).values

    @property
    def score_on_means(self) -> float:
        """The score for the mean costs, without the noise of the costs.

        The comparator is the best fixed policy for the mean costs. If an episode visits one cell
        many times, this varies much less between seeds than `score`; without noise both agree.
        """
        return (self.means or self).score

    @property
    def verdict(self) -> str:
        """What is wrong with the learning curve; empty if the agent has learned."""
        return verdict(self.values, self.comparator, self.uniform)

    @property
    def total_delay(self) -> int:
        """Sum of all delays, each cut off at the end of the run."""
        return total_delay(self.delays)

    def __repr__(self) -> str:
        tenth = max(1, len(self.values) // 10)
        parts = self.values[:tenth], self.values[-tenth:], self.comparator, self.uniform
        if self.best_policy is None:
            told = "decisions: outcome per decision {} at first, {} at the end; best policy {}"
            means = [f"{-part.mean():.4g}" for part in parts]
        else:
            told = "episodes: cost per episode {} at first, {} at the end; best fixed policy {}"
            means = [f"{part.mean():.3f}" for part in parts]
        score = "undefined" if math.isnan(self.score) else f"{self.score:.2f}"
        told += f", uniform play {{}}; regret {self.regret[-1]:.1f}, score {score}"
        text = f"Run of {len(self.values)} {told.format(*means)}"
        return f"{text}\nWARNING: {self.verdict}" if self.verdict else text


KEPT_BYTES = 2**26
"""Up to this size the costs of a run are computed once; above it, whenever they are needed."""


def drawn_delays(delays: Any, episodes: int, rng: Generator, horizon: int) -> Ints:
    """The delays of a run: drawn from a model, or checked if they are given as numbers.

    They have shape (K,), or (K, H) if every step has its own delay. Those of a model that looks at
    what happened are 0 and are drawn after every episode.
    """
    if delays is None or not is_oblivious(delays):
        return np.zeros((episodes, horizon) if is_per_step(delays) else episodes, dtype=np.int64)
    if hasattr(delays, "draw"):
        delays = delays.draw(episodes, rng)
    raw = np.asarray(delays)
    given = as_delays("delays", raw.reshape(-1) if raw.ndim == 2 else delays)
    if len(raw) != episodes:
        raise ValueError(f"delays must hold episodes = {episodes} numbers, got {len(raw)}")
    if raw.shape[1:] not in ((), (horizon,)):
        raise ValueError(
            f"delays must be {horizon} per episode, one for every step, got {raw.shape[1]}"
        )
    return given.reshape(raw.shape)


def delays_in(world: World, model: DelayModel, episodes: int, seed: int) -> Ints:
    """The delays (K,) that `simulate` draws from a model with this seed, for any agent."""
    return drawn_delays(model, episodes, _chances(seed)[2], world.problem.horizon)


def _chances(seed: int) -> tuple[Generator, int, Generator]:
    """The generator of the paths, the seed of the costs, and the generator of the delays."""
    paths, costs, delays = SeedSequence(checks.integer("seed", seed, 0)).spawn(3)
    of_costs = int(costs.generate_state(1, np.uint64)[0])
    return default_rng(paths), of_costs, default_rng(delays)


def drive(
    agent: Agent,
    play: Play,
    delays: Ints,
    *,
    paths: str,
    progress: Progress | None = None,
    begin: Callable[[int], Any] | None = None,
) -> None:
    """Run the feedback loop: begin an episode, play it, and pass the agent the records due.

    Args:
        agent: a fresh agent; it must number its episodes 0, 1, 2, ...
        play: plays an episode and returns its records.
        delays: the delays (K,) of the feedback; or (K, H), if the cost of every step arrives
            separately. An `Inbox` then assembles the costs; one is added if the agent has none.
            Under full information the cost function arrives with its last step. They are read
            after the episode was played.
        paths: "late" or "at once"; see `simulate`.
        progress: wraps the range of episodes.
        begin: begins an episode, in place of `agent.begin_episode`.
    """
    pieces = delays.ndim == 2 and agent.information == "bandit"
    if pieces and not any(isinstance(one, Inbox) for one in nested(agent)):
        agent = Inbox(agent)
    line: DelayLine[Any] = DelayLine()
    for k in (progress or iter)(range(len(delays))):
        episode = agent.begin_episode() if begin is None else begin(k)
        if episode.number != k:
            raise ValueError(
                "agent must be fresh and number its episodes 0, 1, 2, ..., got "
                f"{checks.show(episode.number)} for episode {k}"
            )
        records = play(episode)
        now, late = (records[:-1], records[-1:]) if paths == "at once" else ((), records)
        if pieces:
            for h, cost in enumerate(records[-1].values.tolist()):
                line.push([StepCost(k, h, cost)], int(delays[k, h]))
            came = [d for d in delays[k].tolist() if d != NEVER]
            line.push(late[:-1], max(came, default=NEVER))
        else:
            line.push(late, int(delays[k].max()))
        agent.observe([*now, *line.release(k)])


def simulate(
    world: World | DecisionWorld,
    agent: Agent,
    *,
    delays: DelayModel | OutcomeDependentDelay | Ints | None = None,
    episodes: int = 500,
    seed: int = 0,
    paths: str = "late",
    progress: Progress | None = None,
) -> Run:
    """Let an agent learn in a world whose feedback arrives late.

    Args:
        world: the true world; the agent never sees it. Decisions with features are a world too:
            see `belated.environments.conversions`.
        agent: a fresh agent; its `information` decides which costs it is shown.
        delays: a model, or (K,) whole numbers if several agents must face the same delays. By
            default there are none. A model that depends on what happened (`delays.delay_of`,
            `by_action`, `by_outcome`) draws after every episode; bounds that assume oblivious
            delays do not hold then. With `delays.per_step`, or (K, H) whole numbers, the cost of
            every step arrives separately, and an `Inbox` around the agent assembles them. Under
            full information an episode is complete when the cost of its last step has arrived.
        episodes: K.
        seed: the seed of the paths, the costs and the delays; each has its own generator, so that
            delays and costs do not depend on the agent.
        paths: "late": the path arrives together with the costs; "at once": the path arrives at
            the end of its episode and only the costs are late.
        progress: wraps the range of episodes, e.g. `rich.progress.track` or `tqdm.tqdm`.

    Returns:
        A `Run`.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> run = bl.simulate(world, bl.recommend(world.problem), episodes=10)
        >>> len(run.regret)
        10
    """
    check_is_agent("agent", agent)
    episodes = checks.integer("episodes", episodes, 1, checks.ROOM)
    checks.choice("paths", paths, PATHS)
    if isinstance(world, DecisionWorld):
        if is_per_step(delays):
            raise ValueError(f"delays must be one per decision, which has one step, got {delays!r}")
        return _decided(world, agent, delays, episodes, seed, progress)
    checks.instance("world", world, World)
    if agent.problem.shape != world.problem.shape:
        raise ValueError(
            f"agent must be made for the world's (H, S, A) = {world.problem.shape}, "
            f"got {agent.problem.shape}"
        )
    rng, of_costs, delays_rng = _chances(seed)
    mdp, process = world.mdp, world.costs.seeded(of_costs)
    drawn = drawn_delays(delays, episodes, delays_rng, mdp.problem.horizon)
    keeps = lru_cache(KEPT_BYTES // (8 * math.prod(process.shape)))
    costs_at, means_at = keeps(process.at), keeps(partial(expected, process))
    noisy = hasattr(process, "expected")
    values = np.zeros((2, episodes))  # for the drawn costs, and for their means
    realised = np.zeros(episodes)
    walk = walker(mdp, costs_at, means_at if noisy else None, agent.information, values, rng)

    def play(episode: Episode) -> tuple[Trajectory, Costs]:
        k = episode.number
        path, shown, met = walk(episode)
        realised[k] = np.add.reduce(met)
        if not is_oblivious(delays):
            played = PlayedEpisode(k, path.actions, met, path.states)
            drawn[k] = delays.after(played, delays_rng)  # type: ignore[union-attr]
        return path, shown

    drive(agent, play, drawn, paths=paths, progress=progress)

    complete = of_episodes(drawn)

    def measured(values: Floats, kept: CostsOf, costs: CostsOf, means: Run | None = None) -> Run:
        """The run by these costs, which are kept as long as the best policy is sought."""
        best, comparator, uniform = compared(mdp, kept, episodes)
        return Run(
            values,
            realised,
            comparator,
            uniform,
            best,
            delays=complete,
            missing=missing_feedback(complete),
            diagnostics=dict(agent.diagnostics()),
            means=means,
            best=Best(mdp, costs, episodes),
            step_delays=drawn if drawn.ndim == 2 else None,
        )

    means = measured(values[1], means_at, partial(expected, process)) if noisy else None
    return measured(values[0], costs_at, process.at, means)


def _decided(
    world: DecisionWorld,
    agent: Any,
    delays: Any,
    episodes: int,
    seed: int,
    progress: Progress | None,
) -> Run:
    """Let an agent decide for every visitor of a run.

    The value of a decision is exact: the expected outcome under the probabilities that the agent
    states. The comparator is the best action for every visitor. Costs are negated outcomes.
    """
    if agent.problem != world.problem:
        raise ValueError(f"agent must be made for {world.problem!r}, got {agent.problem!r}")
    visits_rng, _, rng = _chances(seed)
    visits = world.visits(episodes, visits_rng)
    given = of_episodes(drawn_delays(delays, episodes, rng, 1))
    values, realised = np.zeros((2, episodes))
    drawn = np.full(episodes, NEVER)

    def play(decision: Decision) -> tuple[Reward, ...]:
        k, action = decision.number, decision.action
        brings = float(visits.outcomes[k, action])
        values[k] = -np.dot(decision.probabilities, visits.means[k])
        realised[k] = -brings
        if brings == world.silence:
            return ()
        drawn[k] = given[k]
        if not is_oblivious(delays):
            drawn[k] = delays.after(PlayedEpisode(k, np.array([action]), np.array([brings])), rng)
        elif delays is None and visits.delays is not None:
            drawn[k] = visits.delays[k, action]
        return (Reward(k, brings),)

    drive(
        agent,
        play,
        drawn,
        paths="late",
        progress=progress,
        begin=lambda k: agent.decide(visits.at(k)),
    )
    return Run(
        values,
        realised,
        comparator=-visits.means.max(axis=1),
        uniform=-visits.means.mean(axis=1),
        best_policy=None,
        delays=drawn,
        missing=missing_feedback(drawn),
        diagnostics=dict(agent.diagnostics()),
    )
