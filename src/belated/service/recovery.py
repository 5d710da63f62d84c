"""From a storage to the learner that never stopped: the newest whole snapshot, then the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from belated.core import checks, saving
from belated.core.contract import Agent
from belated.core.saving import SavedFileError
from belated.service import events as log
from belated.service import snapshot
from belated.service.episodes import Books, Terms, digest
from belated.service.events import Begun, Chosen, Event, LogError, Made
from belated.service.storage import Storage, checked
from belated.service.wire import reread
from belated.service.worker import Pupil


@dataclass(slots=True)
class Restored:
    """A learner as its storage has it.

    number, checksum: of the last event. snapshot: the event after which the snapshot was made, 0 if
    there is none. differing: policies that came out otherwise than they were handed out, as may
    happen on another machine.
    """

    books: Books
    pupil: Pupil
    number: int = 0
    checksum: int = 0
    snapshot: int = 0
    differing: int = 0


def restore(storage: Storage, terms: Terms, make: Callable[[], Agent]) -> Restored:
    """The learner after the last event. make: a fresh agent.

    Raises `LogError` if the learner was made on other terms: the log means nothing on these.
    """
    fresh = make()
    for row in checked(storage.events(0), 0, 0):
        made = log.read(row.written, row.format)
        if isinstance(made, Made):  # a learner of an earlier release goes on as it was made
            terms = replace(terms, ends=bool(made.terms.get("ends", terms.ends)))
        _check_same(made, described(terms, fresh))
        break
    restored = _newest(storage, terms) or Restored(Books(terms), Pupil(fresh))
    rows = checked(storage.events(restored.number), restored.number, restored.checksum)
    for row in rows:
        happen(restored, log.read(row.written, row.format, partial(reread, terms.problem)))
        restored.number, restored.checksum = row.number, row.checksum
    if restored.differing:
        logging.getLogger("belated.service").warning(
            "%d policies differ from those handed out: another machine or other versions?",
            restored.differing,
        )
    return restored


def described(terms: Terms, agent: Agent) -> dict[str, Any]:
    """What a learner is made of, as plain values."""
    return {**saving.configuration(terms), "agent": saving.configuration(agent)}


def _check_same(made: Event, now: dict[str, Any]) -> None:
    if not isinstance(made, Made):
        raise LogError("the first event of the log must say how the learner was made")
    for name, before in made.terms.items():
        if not _agrees(before, now.get(name)):
            raise LogError(
                f"{name} must stay as it was when the learner was made: {checks.show(before)}, "
                f"got {checks.show(now.get(name))}; a changed learner needs another name"
            )


def _agrees(before: Any, now: Any) -> bool:
    """Whether nothing of what was written has changed; what is new since then is not there."""
    if isinstance(before, dict) and isinstance(now, dict):
        return all(name in now and _agrees(value, now[name]) for name, value in before.items())
    return bool(before == now)


def happen(restored: Restored, event: Event) -> None:
    """Let an event of the log happen again."""
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
