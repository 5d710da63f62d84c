"""The contract of agents, as checks that you can run on your own agent.

    from belated.testing import check_agent
    check_agent(lambda: MyAgent(problem))

The problem of the agent determines the world for the checks. Every rule below is a function of
(make_agent, trial, rng), and raises AssertionError with one sentence if the agent violates it.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator, default_rng

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Agent, FeedbackError, check_is_agent
from belated.core.delays import NEVER, DelayLine

MakeAgent = Callable[[], Agent]


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
    trial: Any = None,
    *,
    seed: int = 0,
    progress: Callable[[str], object] | None = None,
) -> None:
    """Check that agents keep the contract; raise AssertionError with the violated rule.

    Args:
        make_agent: makes a fresh agent; called many times.
        trial: the world, such as `belated.tabular.trial.Trial`; by default a random world of the
            agent's problem, `problem.trial(seed)`.
        seed: decides the random world and the schedules of feedback.
        progress: called with every rule before it is checked, such as `print`.
    """
    if not callable(make_agent):
        raise ValueError(
            f"make_agent must be a function that makes a fresh agent, got {checks.show(make_agent)}"
        )
    agent = make_agent()
    check_is_agent("make_agent()", agent)
    if make_agent() is agent:
        raise ValueError("make_agent must make a fresh agent in every call, got the same one twice")
    chosen = agent.problem.trial(seed) if trial is None else trial
    for number, rule in enumerate(RULES, start=1):
        name = rule.__name__.replace("_", " ")
        if progress is not None:
            progress(f"check_agent: {number} of {len(RULES)}, {name}")
        try:
            rule(make_agent, chosen, default_rng(seed))
        except FeedbackError as error:
            raise AssertionError(f"{name}: a right record was refused: {error}") from error


def drive(
    trial: Any, agent: Agent, schedule: Sequence[Step], seed: int, *, overwrite: bool = False
) -> list[Floats]:
    """Play a schedule and return the policies.

    overwrite: whether to overwrite the arrays that the agent gave, and those of the records.
    """
    rng = default_rng(seed)
    line: DelayLine[Any] = DelayLine()
    waiting: list[Any] = []
    policies: list[Floats] = []
    for k, step in enumerate(schedule):
        agent.observe([])
        episode = agent.begin_episode()
        _same("episode numbers must be 0, 1, 2, ...", episode.number, k)
        _same("begun must count the episodes", agent.begun, k + 1)
        policies.append(trial.policy(agent, episode))
        records = trial.play(agent, episode, rng)
        if overwrite:
            trial.spoil(episode)
            records = trial.spoiled(records)
        *done, outcome = records
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


def any_feedback_is_taken(make: MakeAgent, trial: Any, rng: Generator) -> None:
    """Feedback may arrive in any order, late or never: policies stay distributions.

    The same calls give the same policies, even if the caller overwrites the arrays that it got, and
    those that records were made from.
    """
    for schedule in schedules(rng, 25):
        seed = int(rng.integers(1000))
        first = drive(trial, make(), schedule, seed)
        again = drive(trial, make(), schedule, seed, overwrite=True)
        same = all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
        _true("the same calls must give the same policies, whatever the caller does to them", same)


def schedules(rng: Generator, episodes: int) -> list[list[Step]]:
    """Schedules of feedback: at once, never, paths at once, together, and anything."""
    now, never = [0] * episodes, [NEVER] * episodes
    late, later = rng.choice([0, 1, 2, 3, 5, 6, NEVER], (2, episodes)).tolist()
    pauses = (rng.random(episodes) < 0.6).tolist()
    forgets = (rng.random(episodes) < 0.1).tolist()
    paired = [(now, now), (never, never), (now, late), (late, late), (late, late, pauses)]
    return [[*map(Step, *each)] for each in (*paired, (later, late, pauses, forgets))]


def bad_records_change_nothing(make: MakeAgent, trial: Any, rng: Generator) -> None:
    """An invalid record raises FeedbackError, and nothing of its batch is used."""
    seed = int(rng.integers(1000))

    def after(bad: str) -> tuple[object, object]:
        """The diagnostics after an invalid batch, and the policy after a valid one."""
        agent = make()
        drive(trial, agent, [Step(1, 2)] * 6, seed)
        records = _played(trial, agent, default_rng(seed))
        if bad:
            _refused(bad, agent.observe, trial.bad_records(agent, records)[bad])
        told = agent.diagnostics()
        agent.observe(records)
        return told, trial.policy(agent, agent.begin_episode()).tolist()

    example, unspoiled = make(), after("")
    for name in trial.bad_records(example, _played(trial, example, rng)):
        _true(f"nothing may be taken of a batch with {name}", after(name) == unspoiled)


def second_records_are_refused(make: MakeAgent, trial: Any, rng: Generator) -> None:
    """A second path and second costs of an episode raise FeedbackError.

    Where an episode may have several outcomes, a repeated one is ignored.
    """
    agent = make()
    *done, outcome = _played(trial, agent, rng)
    if agent.uses_paths:
        _refused("two paths of one episode in a batch", agent.observe, done * 2)
        agent.observe(done)
        _refused("a second path", agent.observe, done)
    agent.observe([outcome])
    if agent.problem.one_outcome:
        _refused("second costs", agent.observe, [outcome])
        outcome = _played(trial, agent, rng)[-1]
        agent.observe([outcome])
        _refused("second costs before the path", agent.observe, [outcome])
    else:
        before = {**agent.diagnostics(), "inbox_duplicate": 0}
        agent.observe([outcome])
        after = {**agent.diagnostics(), "inbox_duplicate": 0}
        _same("the same outcome again must change nothing", after, before)


def episodes_can_be_forgotten(make: MakeAgent, trial: Any, rng: Generator) -> None:
    """Forgetting an episode twice is allowed; forgetting one that has not begun is an error.

    Later records of it are refused, or counted as late and not used.
    """
    agent = make()
    outcome = _played(trial, agent, rng)[-1]
    agent.forget(0)
    agent.forget(0)
    for wrong in (1, -1, None, "0"):
        _refused(f"forget({wrong!r})", agent.forget, wrong)
    late = agent.diagnostics().get("late", 0)
    with contextlib.suppress(FeedbackError):
        agent.observe([outcome])
        counted = agent.diagnostics().get("late", 0) > late
        _true("an outcome of a forgotten episode must be refused, or counted late", counted)


def nothing_stays_open(make: MakeAgent, trial: Any, rng: Generator) -> None:
    """Complete and forgotten episodes take no memory: `open` in the diagnostics becomes 0.

    Agents that do not report `open` are not checked.
    """
    agent = make()
    drive(trial, agent, [Step(1, 0), Step(0, NEVER), Step(0, 0)] * 4, int(rng.integers(1000)))
    for number in agent.open_episodes():  # half of its feedback has come, or more may come
        agent.forget(number)
    for _ in range(8):  # feedback that a pipeline holds back is used by now
        agent.begin_episode()
        agent.forget(agent.begun - 1)
    _same("open episodes in the end", agent.diagnostics().get("open", 0), 0)


def open_episodes_are_told(make: MakeAgent, trial: Any, rng: Generator) -> None:
    """An episode is open from its beginning until its feedback is complete or it is forgotten.

    Agents that use no trajectories wait for costs only. An agent may close older episodes by
    itself; the newest is always open, and closed episodes stay closed.
    """
    agent = make()
    _same("open episodes of a fresh agent", agent.open_episodes(), [])
    for _ in range(3):
        *done, outcome = _played(trial, agent, rng)
    before = _open(agent)
    agent.observe(done)
    _same("open episodes when a path has come", _open(agent), before)
    agent.observe([outcome])
    if not agent.problem.one_outcome:
        agent.forget(2)
    _same("open episodes when one is complete", _open(agent), before[:-1])
    agent.begin_episode()
    _true(
        "the newest must be open, and what is closed stay closed",
        {3} <= {*_open(agent)} <= {*before[:-1], 3},
    )
    agent.forget(3)
    _true("a forgotten episode must be closed", not agent.is_open(3))
    told, left = agent.diagnostics(), len(_open(agent))
    _same("open episodes in diagnostics", told.get("open", left), left)
    _same("begun episodes in diagnostics", told.get("begun", 4), 4)


def _open(agent: Agent) -> list[int]:
    """The open episodes, on which both methods must agree."""
    found = [n for n in range(agent.begun + 2) if agent.is_open(n)]
    _same("open_episodes() must be those with is_open(number)", agent.open_episodes(), found)
    return found


RULES = (
    any_feedback_is_taken,
    bad_records_change_nothing,
    second_records_are_refused,
    episodes_can_be_forgotten,
    nothing_stays_open,
    open_episodes_are_told,
)


def _played(trial: Any, agent: Agent, rng: Generator) -> list[Any]:
    return trial.play(agent, agent.begin_episode(), rng)  # type: ignore[no-any-return]


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
