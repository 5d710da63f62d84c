"""Restore a learner from its tables: the newest whole snapshot, then the rows after it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from belated.core import checks, saving
from belated.core.contract import Agent, Information, check_is_agent
from belated.core.saving import SavedFileError
from belated.service.runner import SETTINGS, AgentRunner, groups
from belated.service.tables import Tables

WAY_OUT = (
    "put it back, or give the changed learner another name; it can begin with what this one has "
    "learned (belated extract writes a file for start)"
)
logger = logging.getLogger("belated.service")


class TermsError(Exception):
    """A learner that cannot be continued on these terms, or from these tables."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a learner, which must not change.

    deadline: of an episode, in seconds or, unless `timed`, in episodes. default: the cost of a step
    that has not reported by then; None: the episode is forgotten. grace: the time by which this is
    postponed; with a default, only outcomes that happened in time are accepted in the meantime.
    first: the number of the first episode. start: digest of the file that the agent was loaded
    from. rewards: the range of rewards.
    """

    problem: Any
    information: Information
    uses_paths: bool
    deadline: float | None = None
    timed: bool = False
    default: float | None = None
    grace: float | None = None
    first: int = 0
    start: str | None = None
    rewards: tuple[float, float] | None = None

    @property
    def waits(self) -> bool:
        """Whether a default is postponed by a grace."""
        return self.default is not None and self.grace is not None

    @property
    def limit(self) -> float | None:
        """The deadline and the grace together, after which an episode is closed."""
        return None if self.deadline is None else self.deadline + (self.grace or 0)


@dataclass(slots=True)
class Restored:
    """A learner from its tables.

    seq: the last request. snapshot: the request after which the snapshot was made, 0 if there is
    none. since: the number of rows after it. time: the latest time of a row. wanted: the change
    that the configuration requires, if any.
    """

    terms: Terms
    runner: AgentRunner
    seq: int
    snapshot: int
    since: int
    time: float
    wanted: dict[str, Any] | None = None


def restore(
    db: Tables, learner: str, terms: Terms, make: Callable[[], Agent], *, snapshots: bool = True
) -> Restored:
    """The learner after its last row. make: a fresh agent.

    The names and the number of the actions, and the settings of the agent that may change, may
    differ from the terms with which the learner was made. Raises `TermsError` if anything else
    differs: the rows are not valid for other terms.
    """
    given = fresh = make()
    asked = terms
    found = db.all("SELECT terms, shortened FROM learners WHERE learner = ?", learner)
    shortened = 0
    if found:
        made, shortened = json.loads(found[0][0]), found[0][1]
        terms, fresh = _as_made(terms, fresh, made)
        _check_same(made, described(terms, fresh))
    seq, runner = _newest(db, learner) if snapshots else (0, None)
    if runner is None:
        if shortened:
            raise TermsError("old rows were deleted, so a start needs a whole snapshot")
        runner = AgentRunner(fresh)
    last, time = last_row(db, learner)
    restored = Restored(terms, runner, last, seq, 0, time)
    for group in groups(db, learner, seq, last):
        try:
            runner.take(group)
        except ValueError as error:
            raise TermsError(f"request {group.seq} cannot be repeated: {error}") from None
        restored.since += len(group.begun) + len(group.outcomes) + len(group.changes)
    if found:
        restored.wanted = _wanted(runner.agent, given)
    restored.terms = replace(asked, problem=runner.agent.problem)
    if runner.differing:
        logger.warning(
            "%d decisions differ from those handed out: another machine or other versions?",
            runner.differing,
        )
    return restored


def last_row(db: Tables, learner: str) -> tuple[int, float]:
    """The last request and the latest time in the tables."""
    seq, time = 0, 0.0
    for table, number, at in (
        ("episodes", "seq", "began"),
        ("episodes", "ended", "closed"),
        ("outcomes", "seq", "at"),
        ("changes", "seq", "at"),
        ("snapshots", "seq", "at"),
    ):
        for found, when in db.all(
            f"SELECT {number}, {at} FROM {table} WHERE learner = ? AND {number} IS NOT NULL "
            f"ORDER BY {number} DESC LIMIT 1",
            learner,
        ):
            seq, time = max(seq, found), max(time, when)
    return seq, time


def described(terms: Terms, agent: Agent) -> dict[str, Any]:
    """The terms and the agent of a learner, as plain values."""
    told: dict[str, Any] = json.loads(
        json.dumps({**saving.configuration(terms), "agent": saving.configuration(agent)})
    )
    return told


def _as_made(terms: Terms, agent: Agent, made: dict[str, Any]) -> tuple[Terms, Agent]:
    """The terms and a fresh agent of the time when the learner was made, where they may differ."""
    if not hasattr(agent, "change") or agent.begun:
        return terms, agent
    given: dict[str, Any] = agent.configuration()  # type: ignore[attr-defined]
    before = made.get("agent", {})
    for name in SETTINGS:
        if name in before:
            given[name] = before[name]
    problem = given["problem"]
    listed = made.get("problem", {}).get("actions")
    if listed is not None and listed != problem.actions_listed:
        try:
            problem = type(problem)(listed, problem.features)
            problem.with_actions(given["problem"].actions_listed)
        except ValueError as error:
            raise TermsError(f"{error}; {WAY_OUT}") from None
    try:
        return replace(terms, problem=problem), type(agent)(**{**given, "problem": problem})
    except (ValueError, TypeError) as error:
        raise TermsError(f"the learner cannot be made as it was: {error}") from None


def _wanted(agent: Any, given: Any) -> dict[str, Any] | None:
    """The change from the current learner to the configured one; None if there is none.

    Actions that a request has added stay, whether or not the configuration lists them.
    """
    if not hasattr(given, "change") or given.begun:
        return None
    settings = {n: getattr(given, n) for n in SETTINGS if getattr(given, n) != getattr(agent, n)}
    before, listed = agent.problem.actions_listed, given.problem.actions_listed
    if isinstance(before, list) and isinstance(listed, list):
        listed = [*listed, *before[len(listed) :]]
    elif isinstance(before, int) and isinstance(listed, int):
        listed = max(before, listed)
    actions = listed if listed != before else None
    if actions is not None:
        try:
            agent.problem.with_actions(actions)
        except ValueError as error:
            raise TermsError(f"{error}; {WAY_OUT}") from None
    if actions is None and not settings:
        return None
    return {"actions": actions, "retire": None, "settings": settings}


def _check_same(made: dict[str, Any], now: dict[str, Any]) -> None:
    for name, before in made.items():
        if not _agrees(before, now.get(name)):
            raise TermsError(
                f"{name} must stay as it was when the learner was made: {checks.show(before)}, "
                f"got {checks.show(now.get(name))}; {WAY_OUT}"
            )


def _agrees(before: Any, now: Any) -> bool:
    """Whether all written values are unchanged; newer fields are not compared."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(name in now and _agrees(value, now[name]) for name, value in before.items())
    return bool(before == now)


def _newest(db: Tables, learner: str) -> tuple[int, AgentRunner | None]:
    """The newest snapshot that can be read."""
    for seq, version, content in db.all(
        "SELECT seq, version, content FROM snapshots WHERE learner = ? ORDER BY seq DESC", learner
    ):
        try:
            agent = saving.from_bytes(bytes(content), "a snapshot")
            check_is_agent("agent", agent)
        except (SavedFileError, ValueError) as error:
            logger.warning("snapshot %d is left out: %s", seq, error)
            continue
        return seq, AgentRunner(agent, version)
    return 0, None


def start(db: Tables, learner: str, restored: Restored, at: float) -> None:
    """Write the terms of a learner that has none yet."""
    if not db.all("SELECT 1 FROM learners WHERE learner = ?", learner):
        told = json.dumps(described(restored.terms, restored.runner.agent))
        db.all("INSERT INTO learners VALUES (?, ?, ?, 0)", learner, told, at)
