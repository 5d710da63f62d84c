"""The contract of agents, as checks that you can run on your own agent.

    from belated.testing import check_agent
    check_agent(lambda: MyAgent(problem))

The problem of the agent determines the world for the checks. Every rule below is a function of
(make_agent, trial, rng), and raises AssertionError with one sentence if the agent violates it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Agent, check_is_agent
from belated.core.delays import NEVER, DelayLine
from belated.core.records import Episode, FeedbackError

MakeAgent = Callable[[], Agent]


class Trial(Protocol):
    """A world for agents of one kind of problem, as `problem.trial(seed)` gives it."""

    def play(self, agent: Agent, episode: Episode, rng: np.random.Generator) -> list[Any]:
        """Play an episode and return its records, the outcome last."""
        ...

    def policy(self, agent: Agent, episode: Episode) -> Floats:
        """The policy of an episode as an array; AssertionError if a row is not a distribution."""
        ...

    def spoil(self, episode: Episode) -> None:
        """Overwrite the arrays of an episode."""
        ...

    def spoiled(self, records: list[Any]) -> list[Any]:
        """The same records, made from arrays that are then overwritten."""
        ...

    def bad_records(self, agent: Agent, records: list[Any]) -> dict[str, object]:
        """Invalid batches, made from valid records of an open episode, by name."""
        ...


class Step(NamedTuple):
    """How the feedback of one episode arrives.

    Attributes:
        path: delay of the path.
        costs: delay of the outcome.
        pause: whether anything is observed before the next episode begins.
        forget: whether the episode is forgotten as soon as it is played.
    """

    path: int
    costs: int
    pause: bool = True
    forget: bool = False


def check_agent(
    make_agent: MakeAgent,
    trial: Trial | None = None,
    *,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> None:
    """Check that agents keep the contract; raise AssertionError with the violated rule.

    Args:
        make_agent: makes a fresh agent; called many times.
        trial: the world; by default a random world of the agent's problem.
        seed: decides the random world and the schedules of feedback.
        progress: called with every rule before it is checked, such as `print`; by default rules
            are shown on a terminal's error output.
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
    chosen = agent.problem.trial(seed) if trial is None else trial
    shown = progress or (_to_terminal if sys.stderr.isatty() else None)
    for number, rule in enumerate(RULES, start=1):
        if shown is not None:
            shown(f"check_agent: {number} of {len(RULES)}, {_name(rule)}")
        try:
            rule(make_agent, chosen, np.random.default_rng(seed))
        except FeedbackError as error:
            raise AssertionError(f"{_name(rule)}: a right record was refused: {error}") from error


def _to_terminal(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def drive(
    trial: Trial, agent: Agent, schedule: Sequence[Step], seed: int, *, overwrite: bool = False
) -> list[Floats]:
    """Play a schedule and return the policies. overwrite: overwrite the agent's arrays."""
    rng = np.random.default_rng(seed)
    line: DelayLine[Any] = DelayLine()
    waiting: list[Any] = []
    policies: list[Floats] = []
    for k, step in enumerate(schedule):
        agent.observe([])
        episode = agent.begin_episode()
        _same("episode numbers must be 0, 1, 2, ...", episode.number, k)
        _same("begun must count the episodes", agent.begun, k + 1)
        policies.append(trial.policy(agent, episode))
        *done, outcome = trial.play(agent, episode, rng)
        if overwrite:
            trial.spoil(episode)
        if step.forget:
            agent.forget(k)
        else:
            line.push(done, step.path)
            line.push([outcome], step.costs)
        waiting += line.release(k)
        if step.pause:
            agent.observe(waiting)
            waiting = []
    for name, value in agent.diagnostics().items():
        _true(f"diagnostics must be numbers, got {name}", isinstance(value, int | float))
    return policies


def any_feedback_is_taken(make: MakeAgent, trial: Trial, rng: np.random.Generator) -> None:
    """Feedback may arrive in any order, late or never: policies stay distributions.

    The same calls give the same policies, even if the caller overwrites the arrays that it got.
    """
    for schedule in schedules(rng, 25):
        seed = int(rng.integers(1000))
        first = drive(trial, make(), schedule, seed)
        again = drive(trial, make(), schedule, seed, overwrite=True)
        same = all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        _true("the same calls must give the same policies, whatever the caller does to them", same)


def schedules(rng: np.random.Generator, episodes: int) -> list[list[Step]]:
    """Schedules of feedback."""

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


def bad_records_change_nothing(make: MakeAgent, trial: Trial, rng: np.random.Generator) -> None:
    """An invalid record raises FeedbackError, and nothing of its batch is used."""
    seed = int(rng.integers(1000))
    example = make()
    for name in trial.bad_records(example, _played(trial, example, np.random.default_rng(0))):
        agent, twin = make(), make()
        for one in (agent, twin):
            drive(trial, one, [Step(1, 2)] * 6, seed)
        mine, other = np.random.default_rng(seed), np.random.default_rng(seed)
        records = _played(trial, agent, mine)
        twin_records = _played(trial, twin, other)
        _refused(name, agent.observe, trial.bad_records(agent, records)[name])
        _same(f"nothing may change after {name}", agent.diagnostics(), twin.diagnostics())
        agent.observe(records)
        twin.observe(twin_records)
        after, expected = (trial.policy(one, one.begin_episode()) for one in (agent, twin))
        _true(f"nothing may be taken of a batch with {name}", np.array_equal(after, expected))


def second_records_are_refused(make: MakeAgent, trial: Trial, rng: np.random.Generator) -> None:
    """A second path and second costs of an episode raise FeedbackError.

    Where an episode may have several outcomes, a repeated one is ignored.
    """
    agent = make()
    *done, outcome = _played(trial, agent, rng)
    if agent.uses_paths and done:
        _refused("two paths of one episode in a batch", agent.observe, done * 2)
        agent.observe(done)
        _refused("a second path", agent.observe, done)
        agent.observe([outcome])
    else:
        agent.observe([*done, outcome])
    if not agent.problem.one_outcome:
        before = agent.diagnostics()
        agent.observe([outcome])
        after = agent.diagnostics()
        kept = {name: after[name] for name in before if name != "inbox_duplicate"}
        told = {name: before[name] for name in kept}
        _same("the same outcome again must change nothing", kept, told)
        return
    _refused("second costs", agent.observe, [outcome])
    agent.begin_episode()
    outcome = _played(trial, agent, rng)[-1]
    agent.observe([outcome])
    _refused("second costs before the path", agent.observe, [outcome])


def episodes_can_be_forgotten(make: MakeAgent, trial: Trial, rng: np.random.Generator) -> None:
    """Forgetting an episode twice is allowed; forgetting one that has not begun is an error.

    Later records of it are refused, or counted as late and not used.
    """
    agent = make()
    _refused("forget(0)", agent.forget, 0)
    outcome = _played(trial, agent, rng)[-1]
    agent.forget(0)
    agent.forget(0)
    for wrong in (1, -1, None, "0"):
        _refused(f"forget({wrong!r})", agent.forget, wrong)
    late = agent.diagnostics().get("late", 0)
    try:
        agent.observe([outcome])
    except FeedbackError:
        pass
    else:
        if agent.diagnostics().get("late", 0) <= late:
            raise AssertionError(
                "an outcome of a forgotten episode must be refused, or counted late"
            )
    trial.policy(agent, agent.begin_episode())


def nothing_stays_open(make: MakeAgent, trial: Trial, rng: np.random.Generator) -> None:
    """Complete and forgotten episodes take no memory: `open` in the diagnostics becomes 0.

    Agents that do not report `open` are not checked.
    """
    agent = make()
    for k in range(12):
        *done, outcome = _played(trial, agent, rng)
        if k % 3 == 0:
            agent.observe([outcome])  # the path follows in a separate batch
            agent.observe(done)
        elif k % 3 == 1:
            agent.observe(done)
            agent.forget(k)  # only half of its feedback has arrived
        else:
            agent.observe([*done, outcome])
        if not agent.problem.one_outcome:
            agent.forget(k)  # more outcomes could arrive for ever
    for _ in range(8):  # feedback that a pipeline holds back is used by now
        agent.begin_episode()
        agent.forget(agent.begun - 1)
    _same("open episodes in the end", agent.diagnostics().get("open", 0), 0)


def open_episodes_are_told(make: MakeAgent, trial: Trial, rng: np.random.Generator) -> None:
    """An episode is open from its beginning until its feedback is complete or it is forgotten.

    Agents that use no trajectories wait for costs only. An agent may close older episodes by
    itself; the newest is always open, and closed episodes stay closed.
    """
    agent = make()
    _same("open episodes of a fresh agent", agent.open_episodes(), [])
    for _ in range(3):
        *done, outcome = _played(trial, agent, rng)
    before = _open(agent)
    _true("the newest episode must be open", agent.is_open(2))
    agent.observe(done)
    _same("open episodes when a path has come", _open(agent), before)
    agent.observe([outcome])
    if not agent.problem.one_outcome:
        agent.forget(2)
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
    """The open episodes, on which both methods must agree."""
    numbers = agent.open_episodes()
    one_by_one = [n for n in range(agent.begun + 2) if agent.is_open(n)]
    _same("open_episodes() must be those with is_open(number)", numbers, one_by_one)
    return numbers


def records_may_be_overwritten(make: MakeAgent, trial: Trial, rng: np.random.Generator) -> None:
    """The caller may overwrite the arrays that records were made from."""
    agent, twin = make(), make()
    seed = int(rng.integers(1000))
    mine, others = np.random.default_rng(seed), np.random.default_rng(seed)
    for _ in range(5):
        episode, other = agent.begin_episode(), twin.begin_episode()
        policies = trial.policy(agent, episode), trial.policy(twin, other)
        _true("policies must not depend on the caller's arrays", np.array_equal(*policies))
        agent.observe(trial.play(agent, episode, mine))
        twin.observe(trial.spoiled(trial.play(twin, other, others)))


RULES: tuple[Callable[[MakeAgent, Trial, np.random.Generator], None], ...] = (
    any_feedback_is_taken,
    bad_records_change_nothing,
    second_records_are_refused,
    episodes_can_be_forgotten,
    nothing_stays_open,
    open_episodes_are_told,
    records_may_be_overwritten,
)


def _played(trial: Trial, agent: Agent, rng: np.random.Generator) -> list[Any]:
    return trial.play(agent, agent.begin_episode(), rng)


def _refused(what: str, method: Callable[[Any], None], given: object) -> None:
    try:
        method(given)
    except FeedbackError as error:
        _true("an error must be one line", "\n" not in str(error))
    else:
        raise AssertionError(f"FeedbackError must be raised for {what}")


def _true(rule: str, holds: bool) -> None:
    if not holds:
        raise AssertionError(rule)


def _same(rule: str, found: object, expected: object) -> None:
    if found != expected:
        raise AssertionError(f"{rule}: expected {expected}, got {found}")


def _name(rule: Callable[..., None]) -> str:
    return rule.__name__.replace("_", " ")
