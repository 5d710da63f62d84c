"""Restore a learner from its tables: the newest whole snapshot, then the rows after it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from belated.core import checks, saving
from belated.core.contract import Agent, check_is_agent
from belated.service.runner import SETTINGS, AgentRunner, Terms, requests
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
    found = db.all("SELECT terms, shortened FROM learners WHERE learner = ?", learner)
    if found:
        made = json.loads(found[0][0])
        before, fresh = _as_made(terms, fresh, made)
        _check_same(made, described(before, fresh))
    snapshot, runner = _newest(db, learner) if snapshots else (0, None)
    if runner is None:
        if found and found[0][1]:
            raise TermsError("old rows were deleted, so a start needs a whole snapshot")
        runner = AgentRunner(fresh)
    last, latest = zip(*db.all(NEWEST, *[learner] * NEWEST.count("?")), strict=True)
    seq, time = max(filter(None, last), default=0), max(filter(None, latest), default=0.0)
    restored = Restored(terms, runner, seq, snapshot, 0, time)
    for request, rows in requests(db, learner, snapshot, seq):
        try:
            runner.take(rows)
        except ValueError as error:
            raise TermsError(f"request {request} cannot be repeated: {error}") from None
        restored.since += sum(len(rows[kind]) for kind in ("begun", "outcomes", "changes"))
    if found:
        restored.wanted = _wanted(runner.agent, given)
    restored.terms = replace(terms, problem=runner.agent.problem)
    if runner.differing:
        logger.warning(
            "%d decisions differ from those handed out: another machine or other versions?",
            runner.differing,
        )
    return restored


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
    given |= {name: made["agent"][name] for name in SETTINGS if name in made["agent"]}
    problem = given["problem"]
    listed = made.get("problem", {}).get("actions")
    try:
        if listed is not None and listed != problem.actions_listed:
            given["problem"] = type(problem)(listed, problem.features)
            given["problem"].with_actions(problem.actions_listed)
        return replace(terms, problem=given["problem"]), type(agent)(**given)
    except (ValueError, TypeError) as error:
        raise TermsError(f"{error}; {WAY_OUT}") from None


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
    if listed == before:
        return {"actions": None, "retire": None, "settings": settings} if settings else None
    try:
        agent.problem.with_actions(listed)
    except ValueError as error:
        raise TermsError(f"{error}; {WAY_OUT}") from None
    return {"actions": listed, "retire": None, "settings": settings}


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
            return seq, AgentRunner(agent, version)
        except ValueError as error:
            logger.warning("snapshot %d is left out: %s", seq, error)
    return 0, None
