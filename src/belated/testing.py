"""The contract of agents, as checks that anyone can run on an agent of their own.

    from belated.testing import check_agent
    check_agent(lambda: MyAgent(problem))

Every rule below is a function of (make_agent, world), and raises AssertionError with one sentence
when it is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Agent, check_is_agent
from belated.core.delays import NEVER, DelayLine
from belated.core.records import Costs, FeedbackError, Record, Trajectory, suffered
from belated.tabular import costs
from belated.tabular.problem import Problem
from belated.tabular.transitions import Transitions
from belated.tabular.world import MDP, World

MakeAgent = Callable[[], Agent]


class Step(NamedTuple):
    """How the feedback of one episode comes.

    Attributes:
        path: delay of the trajectory.
        costs: delay of the costs.
        pause: whether anything is observed before the next episode begins.
        forget: whether the episode is forgotten as soon as it is played.
    """

    path: int
    costs: int
    pause: bool = True
    forget: bool = False


def check_agent(make_agent: MakeAgent, world: World | None = None, *, seed: int = 0) -> None:
    """Check that agents keep the contract; raise AssertionError with the rule that is broken.

    Args:
        make_agent: makes a fresh agent; called many times.
        world: where it plays; by default a random one for the agent's problem.
        seed: decides the random world and the schedules of feedback.
    """
    if not callable(make_agent):
        raise ValueError(
            f"make_agent must be a function that makes a fresh agent, got {checks.show(make_agent)}"
        )
    agent = make_agent()
    check_is_agent("make_agent()", agent)
    if make_agent() is agent:
        raise ValueError("make_agent must make a fresh agent in every call, got the same one twice")
    _same("a fresh agent must have begun no episode", agent.begun, 0)
    chosen = random_world(agent.problem, seed) if world is None else world
    for rule in RULES:
        try:
            rule(make_agent, chosen, np.random.default_rng(seed))
        except FeedbackError as error:
            raise AssertionError(f"{_name(rule)}: a right record was refused: {error}") from error


def random_world(problem: Problem, seed: int = 0) -> World:
    """Dense random dynamics for a problem, and random costs that change in every episode."""
    rng = np.random.default_rng(seed)
    H, S, A = problem.shape
    T = 1 if problem.homogeneous else H
    p = rng.dirichlet(np.full(S, 0.5), (T, S, A))
    mdp = MDP(Transitions.from_dense(p if T > 1 else p[0]), H, problem.start)
    return World(mdp, costs.sequence(rng.random((EPISODES, H, S, A))))


EPISODES = 40
"""Cost functions of a random world; they come again after that."""


def feedback(
    world: World, agent: Agent, number: int, policy: Floats, rng: np.random.Generator
) -> tuple[Trajectory, Costs]:
    """The two records of an episode that is played now."""
    path = world.mdp.play(policy, rng, number)
    function = world.costs.at(number % EPISODES)
    values = suffered(function, path) if agent.information == "bandit" else function
    return path, Costs(number, values)


def drive(
    world: World, agent: Agent, schedule: Sequence[Step], seed: int, *, overwrite: bool = False
) -> list[Floats]:
    """Play a schedule and return the policies. overwrite: spoil what was handed out."""
    rng = np.random.default_rng(seed)
    line: DelayLine[Record] = DelayLine()
    waiting: list[Record] = []
    policies: list[Floats] = []
    for k, step in enumerate(schedule):
        agent.observe([])
        episode = agent.begin_episode()
        _same("episode numbers must be 0, 1, 2, ...", episode.number, k)
        _same("begun must count the episodes", agent.begun, k + 1)
        check_policy(agent.problem, episode.policy)
        policies.append(episode.policy.copy())
        path, costs = feedback(world, agent, k, episode.policy, rng)
        if overwrite:
            episode.policy[:] = np.nan
        if step.forget:
            agent.forget(k)
        else:
            line.push([path], step.path)
            line.push([costs], step.costs)
        waiting += line.release(k)
        if step.pause:
            agent.observe(waiting)
            waiting = []
    for name, value in agent.diagnostics().items():
        _true(f"diagnostics must be numbers, got {name}", isinstance(value, int | float))
    return policies


def check_policy(problem: Problem, policy: Floats) -> None:
    """A policy has the shape (H, S, A), is writable, and its rows are distributions."""
    _true(
        f"policies must be arrays of shape {problem.shape}, got {checks.show(policy)}",
        isinstance(policy, np.ndarray) and policy.shape == problem.shape,
    )
    _true("policies must be copies that the caller may overwrite", policy.flags.writeable)
    _true("policies must be at least 0 and not NaN", bool(np.all(policy >= 0.0)))
    error = float(np.max(np.abs(policy.sum(axis=2) - 1.0)))
    _true(f"rows of policies must sum to 1, one is off by {error:g}", error < 1e-12)


def any_feedback_is_taken(make: MakeAgent, world: World, rng: np.random.Generator) -> None:
    """At once, late, overlapping, apart, lost, forgotten: policies stay distributions.

    The same calls give the same policies, also if the caller overwrites what it was handed.
    """
    for schedule in schedules(rng, 25):
        seed = int(rng.integers(1000))
        first = drive(world, make(), schedule, seed)
        again = drive(world, make(), schedule, seed, overwrite=True)
        same = all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        _true("the same calls must give the same policies, whatever the caller does to them", same)


def schedules(rng: np.random.Generator, episodes: int) -> list[list[Step]]:
    """Ways in which feedback can come."""

    def delay() -> int:
        return NEVER if rng.random() < 0.2 else int(rng.integers(0, 7))

    def steps(make: Callable[[], Step]) -> list[Step]:
        return [make() for _ in range(episodes)]

    def together(**more: bool) -> Step:
        d = delay()
        return Step(d, d, **more)

    return [
        steps(lambda: Step(0, 0)),
        steps(together),
        steps(lambda: Step(0, delay())),
        steps(lambda: together(pause=bool(rng.random() < 0.5))),
        steps(lambda: Step(delay(), delay(), bool(rng.random() < 0.7), bool(rng.random() < 0.1))),
        steps(lambda: Step(NEVER, NEVER)),
    ]


def bad_records_change_nothing(make: MakeAgent, world: World, rng: np.random.Generator) -> None:
    """A record that cannot be right raises FeedbackError, and nothing of its batch is taken."""
    seed = int(rng.integers(1000))
    for name in bad_records(world, make(), *_example(world, make)):
        agent, twin = make(), make()
        for one in (agent, twin):
            drive(world, one, [Step(1, 2)] * 6, seed)
        mine, other = np.random.default_rng(seed), np.random.default_rng(seed)
        path, costs = _played(world, agent, mine)
        twin_records = _played(world, twin, other)
        try:
            agent.observe(bad_records(world, agent, path, costs)[name])  # type: ignore[arg-type]
        except FeedbackError as error:
            _true("an error must be one line", "\n" not in str(error))
        else:
            raise AssertionError(f"FeedbackError must be raised for {name}")
        _same(f"nothing may change after {name}", agent.diagnostics(), twin.diagnostics())
        agent.observe([path, costs])
        twin.observe(twin_records)
        after, expected = agent.begin_episode().policy, twin.begin_episode().policy
        _true(f"nothing may be taken of a batch with {name}", np.array_equal(after, expected))


def bad_records(world: World, agent: Agent, path: Trajectory, costs: Costs) -> dict[str, object]:
    """Batches that cannot be right, beside a good pair of records of an open episode."""
    H, S, A = world.problem.shape
    n = path.episode
    states, actions, values = path.states.copy(), path.actions.copy(), costs.values
    bandit = agent.information == "bandit"
    beyond = states.copy()
    beyond[-1] = S
    bad: dict[str, object] = {
        "costs of an episode never begun": [Costs(n + 100, values)],
        "a path of an episode never begun": [Trajectory(n + 100, states, actions)],
        "costs twice": [costs, Costs(n, values)],
        "costs of a wrong shape": [Costs(n, np.zeros((H + 1,) if bandit else (H, S + 1, A)))],
        "costs of the other information": [Costs(n, np.zeros((H, S, A) if bandit else (H,)))],
        "a path that is too long": [
            Trajectory(n, np.append(states, states[-1]), np.append(actions, 0))
        ],
        "a state out of range": [Trajectory(n, beyond, actions)],
        "an action out of range": [Trajectory(n, states, np.full(H, A))],
        "no record": [None],
        "no list": 7,
        "a good record and a bad one": [path, costs, Costs(n + 100, values)],
    }
    never = np.flatnonzero(world.problem.start_probabilities == 0.0)
    if len(never):
        elsewhere = states.copy()
        elsewhere[0] = never[-1]
        bad["a start that is impossible"] = [Trajectory(n, elsewhere, actions)]
    return bad


def second_records_are_refused(make: MakeAgent, world: World, rng: np.random.Generator) -> None:
    """A second path and second costs of an episode raise FeedbackError."""
    agent = make()
    path, costs = _played(world, agent, rng)
    if agent.uses_paths:
        _refused("two paths of one episode in a batch", agent, [path, path])
        agent.observe([path])
        _refused("a second path", agent, [path])
        agent.observe([costs])
    else:
        agent.observe([path, costs])
    _refused("second costs", agent, [costs])
    agent.begin_episode()
    _, costs = _played(world, agent, rng)
    agent.observe([costs])
    _refused("second costs before the path", agent, [costs])


def episodes_can_be_forgotten(make: MakeAgent, world: World, rng: np.random.Generator) -> None:
    """Forgetting twice is no error; forgetting what was not begun is one."""
    agent = make()
    _not_forgotten(agent, 0)
    _, costs = _played(world, agent, rng)
    agent.forget(0)
    agent.forget(0)
    for wrong in (1, -1, None, "0"):
        _not_forgotten(agent, wrong)
    _refused("costs of a forgotten episode", agent, [costs])
    check_policy(agent.problem, agent.begin_episode().policy)


def nothing_stays_open(make: MakeAgent, world: World, rng: np.random.Generator) -> None:
    """Episodes that are complete or forgotten take no memory, if diagnostics say how many are open.

    An agent that reports `open` reports 0 in the end.
    """
    agent = make()
    for k in range(12):
        path, costs = _played(world, agent, rng)
        if k % 3 == 0:
            agent.observe([costs])  # the path comes in a batch of its own
            agent.observe([path])
        elif k % 3 == 1:
            agent.observe([path])
            agent.forget(k)  # half of it has come
        else:
            agent.observe([path, costs])
    for _ in range(8):  # feedback that a pipeline holds back is used by now
        agent.begin_episode()
        agent.forget(agent.begun - 1)
    _same("open episodes in the end", agent.diagnostics().get("open", 0), 0)


def open_episodes_are_told(make: MakeAgent, world: World, rng: np.random.Generator) -> None:
    """An episode is open from its beginning until its feedback is complete or it is forgotten.

    Agents that use no trajectories wait for costs only. An agent may let go of older episodes by
    itself; the newest is always open, and what is closed stays closed.
    """
    agent = make()
    _same("open episodes of a fresh agent", agent.open_episodes(), [])
    for _ in range(3):
        path, costs = _played(world, agent, rng)
    before = _open(agent)
    _true("the newest episode must be open", agent.is_open(2))
    agent.observe([path])
    _same("open episodes when a path has come", _open(agent), before)
    agent.observe([costs])
    _same("open episodes when one is complete", _open(agent), before[:-1])
    agent.begin_episode()
    _true("what is closed must stay closed", set(_open(agent)) <= {*before[:-1], 3})
    _true("the newest episode must be open", agent.is_open(3))
    agent.forget(3)
    _true("a forgotten episode must be closed", not agent.is_open(3))
    told, left = agent.diagnostics(), len(_open(agent))
    _same("open episodes in diagnostics", told.get("open", left), left)
    _same("begun episodes in diagnostics", told.get("begun", 4), 4)


def _open(agent: Agent) -> list[int]:
    """The open episodes, told in the same way by both methods."""
    numbers = agent.open_episodes()
    one_by_one = [n for n in range(agent.begun + 2) if agent.is_open(n)]
    _same("open_episodes() must be those with is_open(number)", numbers, one_by_one)
    return numbers


def records_may_be_overwritten(make: MakeAgent, world: World, rng: np.random.Generator) -> None:
    """The arrays that records were made of belong to the caller."""
    agent, twin = make(), make()
    for _ in range(5):
        episode, other = agent.begin_episode(), twin.begin_episode()
        _true("policies must not depend on the caller's arrays", _equal(episode, other))
        path, costs = feedback(world, agent, episode.number, episode.policy, rng)
        states, actions, values = path.states.copy(), path.actions.copy(), costs.values.copy()
        mine: list[Record] = [
            Trajectory(path.episode, states, actions),
            Costs(path.episode, values),
        ]
        states[:], actions[:], values[:] = 0, 0, 0.5
        agent.observe([path, costs])
        twin.observe(mine)


RULES: tuple[Callable[[MakeAgent, World, np.random.Generator], None], ...] = (
    any_feedback_is_taken,
    bad_records_change_nothing,
    second_records_are_refused,
    episodes_can_be_forgotten,
    nothing_stays_open,
    open_episodes_are_told,
    records_may_be_overwritten,
)


def _example(world: World, make: MakeAgent) -> tuple[Trajectory, Costs]:
    return _played(world, make(), np.random.default_rng(0))


def _played(world: World, agent: Agent, rng: np.random.Generator) -> tuple[Trajectory, Costs]:
    episode = agent.begin_episode()
    return feedback(world, agent, episode.number, episode.policy, rng)


def _equal(first: object, second: object) -> bool:
    return np.array_equal(first.policy, second.policy)  # type: ignore[attr-defined]


def _refused(what: str, agent: Agent, records: list[Record]) -> None:
    try:
        agent.observe(records)
    except FeedbackError:
        return
    raise AssertionError(f"FeedbackError must be raised for {what}")


def _not_forgotten(agent: Agent, episode: object) -> None:
    try:
        agent.forget(episode)  # type: ignore[arg-type]
    except FeedbackError:
        return
    raise AssertionError(f"FeedbackError must be raised for forget({episode!r})")


def _true(rule: str, holds: bool) -> None:
    if not holds:
        raise AssertionError(rule)


def _same(rule: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{rule}: expected {expected}, got {found}")


def _name(rule: Callable[..., None]) -> str:
    return rule.__name__.replace("_", " ")
