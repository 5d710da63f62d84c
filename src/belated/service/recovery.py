"""Restore a learner from its storage: the newest complete snapshot, then the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from belated.core import checks, saving
from belated.core.contract import Agent
from belated.core.saving import SavedFileError
from belated.service import snapshot
from belated.service import wire as log
from belated.service.episodes import Books, Terms, digest
from belated.service.storage import Storage, checked
from belated.service.wire import Begun, Changed, Chosen, Event, LogError, Made, reread
from belated.service.worker import SETTINGS, Pupil

WAY_OUT = (
    "put it back, or give the changed learner another name; it can begin with what this one has "
    "learned (belated extract writes a file for start)"
)


@dataclass(slots=True)
class Restored:
    """A learner restored from its storage.

    number, checksum: of the last event. snapshot: the event after which the snapshot was made, 0 if
    there is none. since: the number of events after it; a batch counts as its number of items.
    differing: the number of policies that differ from those of the first run, as may happen on
    another machine. wanted: the change that the configuration requires, if any.
    """

    books: Books
    pupil: Pupil
    number: int = 0
    checksum: int = 0
    snapshot: int = 0
    since: int = 0
    differing: int = 0
    wanted: Changed | None = None


def restore(storage: Storage, terms: Terms, make: Callable[[], Agent]) -> Restored:
    """The learner after the last event. make: a fresh agent.

    The names and the number of the actions, the settings of the agent that may change, and
    `remember` may differ from the terms with which the learner was made. Raises `LogError` if
    anything else differs: the log is not valid for other terms.
    """
    fresh = given = make()
    asked = terms
    for row in checked(storage.events(0), 0, 0):
        made = log.read(row.written, row.format)
        if isinstance(made, Made):
            terms, fresh = _as_made(terms, fresh, made.terms)
        _check_same(made, described(terms, fresh))
        break
    restored = _newest(storage, terms) or Restored(Books(terms), Pupil(fresh))
    rows = checked(storage.events(restored.number), restored.number, restored.checksum)
    for row in rows:
        event = log.read(row.written, row.format, partial(reread, terms.problem))
        happen(restored, event)
        restored.since += log.weight(event)
        restored.number, restored.checksum = row.number, row.checksum
    if restored.number:
        restored.wanted = _wanted(restored, asked, given)
    if restored.differing:
        logging.getLogger("belated.service").warning(
            "%d policies differ from those handed out: another machine or other versions?",
            restored.differing,
        )
    return restored


def described(terms: Terms, agent: Agent) -> dict[str, Any]:
    """The terms and the agent of a learner, as plain values."""
    return {**saving.configuration(terms), "agent": saving.configuration(agent)}


def _as_made(terms: Terms, agent: Agent, made: dict[str, Any]) -> tuple[Terms, Agent]:
    """The terms and a fresh agent of the time when the learner was made, where they may differ."""
    terms = replace(terms, remember=made.get("remember", terms.remember))
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
            raise LogError(f"{error}; {WAY_OUT}") from None
    try:
        return replace(terms, problem=problem), type(agent)(**{**given, "problem": problem})
    except (ValueError, TypeError) as error:
        raise LogError(f"the learner cannot be made as it was: {error}") from None


def _wanted(restored: Restored, terms: Terms, given: Agent) -> Changed | None:
    """The change from the current learner to the configured one; None if there is none.

    Actions that a request has added stay, whether or not the configuration lists them.
    """
    agent, now = restored.pupil.agent, restored.books.terms
    settings: dict[str, Any] = {}
    if terms.remember != now.remember:
        settings["remember"] = terms.remember
    actions = None
    if hasattr(given, "change") and not given.begun:
        for name in SETTINGS:
            if getattr(given, name) != getattr(agent, name):
                settings[name] = getattr(given, name)
        before, listed = agent.problem.actions_listed, given.problem.actions_listed
        if isinstance(before, list) and isinstance(listed, list):
            listed = [*listed, *before[len(listed) :]]
        elif isinstance(before, int) and isinstance(listed, int):
            listed = max(before, listed)
        if listed != before:
            actions = listed
            try:
                agent.problem.with_actions(actions)
            except ValueError as error:
                raise LogError(f"{error}; {WAY_OUT}") from None
    if actions is None and not settings:
        return None
    return Changed(restored.books.now, restored.pupil.learned, actions, None, settings)


def _check_same(made: Event, now: dict[str, Any]) -> None:
    if not isinstance(made, Made):
        raise LogError("the first event of the log must say how the learner was made")
    for name, before in made.terms.items():
        if not _agrees(before, now.get(name)):
            raise LogError(
                f"{name} must stay as it was when the learner was made: {checks.show(before)}, "
                f"got {checks.show(now.get(name))}; {WAY_OUT}"
            )


def _agrees(before: Any, now: Any) -> bool:
    """Whether all written values are unchanged; newer fields are not compared."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(name in now and _agrees(value, now[name]) for name, value in before.items())
    return bool(before == now)


def happen(restored: Restored, event: Event) -> None:
    """Apply an event of the log again."""
    policy = None
    if isinstance(event, Made):
        return
    books, pupil = restored.books, restored.pupil
    if isinstance(event, Begun):
        if event.learned > pupil.learned + len(pupil.waiting):
            raise LogError(f"episode {event.episode} began with more than there was to learn")
        pupil.learn_up_to(event.learned)
        number, policy = pupil.begin()
        if number != event.episode:
            raise LogError(f"episode {event.episode} of the log began as episode {number}")
        restored.differing += digest(policy) != event.policy
    elif isinstance(event, Chosen):
        _decide_again(restored, event)
    elif isinstance(event, Changed):
        if event.learned > pupil.learned + len(pupil.waiting):
            raise LogError("the learner was changed with more than there was to learn")
        pupil.learn_up_to(event.learned)
        pupil.change(event.actions, event.retire, event.settings)
    books.apply(event, policy)
    pupil.waiting.extend(books.calls())


def _decide_again(restored: Restored, event: Chosen) -> None:
    pupil = restored.pupil
    if event.learned > pupil.learned + len(pupil.waiting):
        first = event.choices[0].episode
        raise LogError(f"decision {first} was made with more than there was to learn")
    pupil.learn_up_to(event.learned)
    for choice in event.choices:
        made = pupil.decide(choice.observation, choice.among, event.now)
        if made.number != choice.episode:
            raise LogError(f"decision {choice.episode} of the log was made as {made.number}")
        same = (made.action, made.probability) == (choice.action, choice.probability)
        restored.differing += not same


def _newest(storage: Storage, terms: Terms) -> Restored | None:
    for number, content in storage.snapshots():
        try:
            told, checksum, books, pupil = snapshot.read(content, terms)
        except SavedFileError as error:
            logging.getLogger("belated.service").warning(
                "snapshot %d is left out: %s", number, error
            )
            continue
        return Restored(books, pupil, told, checksum, told)
    return None
