"""Restore a learner from its tables: the newest whole snapshot, then the rows after it."""

from __future__ import annotations

import json
import logging
from typing import Any

from belated.core import checks, saving
from belated.core.contract import Agent, check_is_agent
from belated.service.config import LearnerConfig
from belated.service.runner import NO_CHANGE, SETTINGS, AgentRunner, requests
from belated.service.tables import Tables

WAY_OUT = (
    "put it back, or give the changed learner another name; it can begin with what this one has "
    "learned (belated extract writes a file for start)"
)
NEWEST = " UNION ALL ".join(
    f"SELECT max({number}), max({at}) FROM {table} WHERE learner = ?"
    for table, number, at in (
        ("episodes", "seq", "began"),
        ("episodes", "ended", "closed"),
        ("outcomes", "seq", "at"),
        ("changes", "seq", "at"),
        ("snapshots", "seq", "at"),
    )
)
"""The last request and the latest time of each table."""
logger = logging.getLogger("belated.service")


class TermsError(Exception):
    """A learner that cannot be continued on these terms, or from these tables."""


def restore(db: Tables, config: LearnerConfig, *, snapshots: bool = True) -> AgentRunner:
    """The learner after its last row.

    The names and the number of the actions, and the settings of the agent that may change, may
    differ from those with which the learner was made. Raises `TermsError` if anything else
    differs: the rows are not valid for other terms.
    """
    fresh, found = as_made(db, config)
    learner = config.name
    runner = _newest(db, learner) if snapshots else None
    if runner is None:
        if found and found[0][1]:
            raise TermsError("old rows were deleted, so a start needs a whole snapshot")
        runner = AgentRunner(fresh)
    last, _ = newest(db, learner)
    for seq, rows in requests(db, learner, runner.snapshot, last):
        try:
            runner.take(rows)
        except ValueError as error:
            raise TermsError(f"request {seq} cannot be repeated: {error}") from None
    runner.seq = last
    if runner.differing:
        logger.warning(
            "%d decisions differ from those handed out: another machine or other versions?",
            runner.differing,
        )
    return runner


def as_made(db: Tables, config: LearnerConfig) -> tuple[Agent, list[Any]]:
    """A fresh agent as it was when the learner was made, and the row of the learner, if any.

    Raises `TermsError` if the learner was made with other terms.
    """
    fresh = config.fresh()
    found = db.all("SELECT terms, shortened FROM learners WHERE learner = ?", config.name)
    if found:
        made = json.loads(found[0][0])
        fresh = _as_made(fresh, made)
        _check_same(made, config.terms(fresh))
    return fresh, found


def newest(db: Tables, learner: str) -> tuple[int, float]:
    """The last request of a learner and its latest time."""
    last, latest = zip(*db.all(NEWEST, *[learner] * NEWEST.count("?")), strict=True)
    return max(filter(None, last), default=0), max(filter(None, latest), default=0.0)


def _as_made(agent: Agent, made: dict[str, Any]) -> Agent:
    """A fresh agent of the time when the learner was made, where it may differ."""
    if not hasattr(agent, "change") or agent.begun:
        return agent
    given: dict[str, Any] = agent.configuration()  # type: ignore[attr-defined]
    given |= {name: made["agent"][name] for name in SETTINGS if name in made["agent"]}
    problem = given["problem"]
    listed = made.get("problem", {}).get("actions")
    try:
        if listed is not None and listed != problem.actions_listed:
            given["problem"] = type(problem)(listed, problem.features)
            given["problem"].with_actions(problem.actions_listed)
        return type(agent)(**given)
    except (ValueError, TypeError) as error:
        raise TermsError(f"{error}; {WAY_OUT}") from None


def wanted(agent: Any, given: Any) -> dict[str, Any] | None:
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
    if listed == before:
        return {**NO_CHANGE, "settings": settings} if settings else None
    try:
        agent.problem.with_actions(listed)
    except ValueError as error:
        raise TermsError(f"{error}; {WAY_OUT}") from None
    return {**NO_CHANGE, "actions": listed, "settings": settings}


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


def _newest(db: Tables, learner: str) -> AgentRunner | None:
    """The newest snapshot that can be read."""
    for seq, version, content in db.all(
        "SELECT seq, version, content FROM snapshots WHERE learner = ? ORDER BY seq DESC", learner
    ):
        try:
            agent = saving.from_bytes(bytes(content), "a snapshot")
            check_is_agent("agent", agent)
            return AgentRunner(agent, version, seq)
        except ValueError as error:
            logger.warning("snapshot %d is left out: %s", seq, error)
    return None
