"""A learner as bytes: the agent, its books and the waiting calls, after an event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from belated.core import checks, saving, stored
from belated.core.arrays import Floats
from belated.core.contract import check_is_agent
from belated.core.inbox import Inbox
from belated.core.ledger import read_record
from belated.service.episodes import BUCKETS, Books, Call, Entry, LearnerTotals, Terms
from belated.service.storage import Piece
from belated.service.worker import Pupil

FORMAT = 3
PIECE = 2**20
"""The number of bytes that are written at once, so that no event waits long for the disk."""
KNOWN = ("began", "end", "path", "heard", "action", "holdout", "total", "reports")
"""The fields of an open episode that a state stores as numbers."""
NAMES = ("format", "number", "checksum", "agent", "books", "learned", "unused", "waiting")


class Moment(NamedTuple):
    """A learner after an event. It does not change any more, so any thread may write it.

    number, checksum: of the event. waiting: calls that the agent had not processed. agent: its
    state after `learned` calls, of which `unused` records were ignored.
    """

    number: int
    checksum: int
    books: Books
    waiting: list[Call]
    agent: stored.KeptObject
    learned: int
    unused: int


def write(moment: Moment) -> Iterator[Piece]:
    """The bytes, encoded at once and joined piece by piece."""
    saved = {
        **moment._asdict(),
        "format": FORMAT,
        "books": written(moment.books),
        "waiting": [
            call if isinstance(call, int | float) else [record.to_state() for record in call]
            for call in moment.waiting
        ],
    }
    return _pieces(saving.to_chunks(saved))


def _pieces(chunks: list[bytes | memoryview]) -> Iterator[Piece]:
    """Chunks of any length as pieces of one length, except the last."""
    ready: list[bytes | memoryview] = []
    size = place = 0
    for chunk in chunks:
        left = memoryview(chunk)
        while size + len(left) > PIECE:
            yield place, b"".join((*ready, left[: PIECE - size])), False
            left, ready, size, place = left[PIECE - size :], [], 0, place + 1
        ready.append(left)
        size += len(left)
    yield place, b"".join(ready), True


def read(content: bytes, terms: Terms) -> tuple[int, int, Books, Pupil]:
    """Number and checksum of the last event, the books and the pupil."""
    saved: Any = saving.from_bytes(content, "a snapshot")
    if isinstance(saved, dict) and saved.get("format") != FORMAT:
        raise ValueError(f"a snapshot must have format {FORMAT}, got {saved.get('format')!r}")
    stored.exact(saved, *NAMES)
    check_is_agent("agent", saved["agent"])
    books = kept_books(terms, saved["books"])
    calls: list[Call] = []
    for call in stored.items("waiting", saved["waiting"]):
        if isinstance(call, int | float):
            calls.append(call)
            continue
        items = stored.items("records", call)
        problem, information = terms.problem, terms.information
        calls.append(tuple(read_record(problem, information, books.begun, r) for r in items))
    pupil = Pupil(saved["agent"], checks.integer("learned", saved["learned"], 0), calls)
    pupil.unused = checks.integer("unused", saved["unused"], 0)
    number = checks.integer("number", saved["number"], 0)
    return number, checks.integer("checksum", saved["checksum"], 0), books, pupil


def written(books: Books) -> stored.State:
    """The state of the books; calls must have been read."""
    entries = books.open.values()
    made = [(n, h, *at) for n, e in books.open.items() for h, at in e.decided.items()]
    return {
        "problem": books.problem,
        "begun": books.begun,
        "inbox": books.inbox.memory(),
        "now": books.now,
        "open": np.array(list(books.open), dtype=np.int64),
        "known": _columns(entries),
        "policies": [entry.policy for entry in entries],
        "chosen": [[n, *drawn] for n, drawn in books.chosen.items()],
        "decisions": np.array(made, dtype=np.int64).reshape(-1, 4),
        "closed_ends": np.array(list(books._closed_ends.items()), np.int64).reshape(-1, 2),
        "keys": [[key, number] for key, number in books.keys.items()],
        "old_keys": list(books._old_keys),
        "history": np.array([(t, c, float(d)) for t, c, d in books.history]).reshape(-1, 3),
        "delays": np.array(books.delays, dtype=np.int64),
        "tally": books.tally.state(),
    }


def kept_books(terms: Terms, saved: stored.State) -> Books:
    """The books that wrote the state, with these terms."""
    names = ("problem", "begun", "inbox", "now", "open", "known", "policies", "chosen")
    more = ("decisions", "closed_ends", "keys", "old_keys", "history", "delays", "tally")
    read = stored.exact(saved, *names, *more)
    problem = read["problem"]
    if problem != terms.problem:
        actions = getattr(problem, "actions_listed", None)
        if actions is None or terms.problem.with_actions(actions) != problem:
            raise ValueError("the snapshot must be of the same problem")
    made = Books(replace(terms, problem=problem))
    made.begun = checks.integer("begun", read["begun"], 0)
    made.now = checks.real("now", read["now"], 0.0)
    _read_open(made, read)
    _read_inbox(made, read["inbox"])
    closed = stored.array("closed_ends", read["closed_ends"], np.int64, (None, 2))
    made._closed_ends = dict(closed.tolist())
    for item in stored.items("chosen", read["chosen"]):
        number, action, probability = stored.items("chosen", item)
        made.chosen[checks.integer("chosen", number, 0, made.begun - 1)] = (
            checks.integer("action", action, 0),
            checks.real("probability", probability, 0.0, 1.0),
        )
    made._old_keys = deque(map(str, read["old_keys"]))
    for at, cost, late in _rows("history", read["history"], 3):
        made.history.append((at, cost, bool(late)))
    made.delays = stored.array("delays", read["delays"], np.int64, (BUCKETS,)).tolist()
    made.tally = LearnerTotals.from_state(read["tally"])
    made.count_open()
    return made


def _read_open(books: Books, read: stored.State) -> None:
    """The table of open episodes of a state."""
    numbers = stored.array("open", read["open"], np.int64, (None,))
    stored.within("open", numbers, books.begun)
    if (np.diff(numbers) <= 0).any():
        raise ValueError("open must be the numbers of episodes, oldest first")
    books.keys = {str(key): int(number) for key, number in read["keys"]}
    key_of = {number: key for key, number in books.keys.items()}
    rows = _rows("known", read["known"], len(KNOWN))
    policies = stored.items("policies", read["policies"])
    if not len(numbers) == len(rows) == len(policies):
        raise ValueError(f"known and policies must have {len(numbers)} rows, one per episode")
    decided: dict[int, dict[int, tuple[int, int]]] = {}
    made = stored.array("decisions", read["decisions"], np.int64, (None, 4))
    for number, h, state, action in made.tolist():
        decided.setdefault(number, {})[h] = (state, action)
    for number, row, policy in zip(numbers.tolist(), rows, policies, strict=True):
        known = dict(zip(KNOWN, row, strict=True))
        books.open[number] = Entry(
            known["began"],
            key_of.get(number),
            None if policy is None else _policy(books, policy),
            decided.get(number, {}),
            int(known["end"]) if known["end"] >= 0 else None,
            bool(known["path"]),
            bool(known["heard"]),
            int(known["action"]),
            known["holdout"],
            known["total"],
            int(known["reports"]),
        )


def _policy(books: Books, saved: object) -> Floats:
    return stored.array("policies", saved, np.float64, books.problem.shape)


def _read_inbox(books: Books, saved: stored.State) -> None:
    """Restore the inbox of the books from a state."""
    inbox = Inbox.from_state({**saved, "agent": books})
    before = (inbox.deadline, inbox.default, inbox.grace)
    if before != books.terms.inbox:
        raise ValueError(f"deadline, default and grace must stay as they were: {before}")
    inbox.clock = books._clock if books.terms.timed else None
    books.inbox = inbox
    books.terms = replace(books.terms, remember=inbox.remember)


def _columns(entries: Iterable[Entry]) -> Floats:
    """Entries as rows of numbers, without blocking other threads as np.array would."""
    flat = chain.from_iterable(map(_numbers, entries))
    return np.fromiter(flat, np.float64).reshape(-1, len(KNOWN))


def _numbers(entry: Entry) -> tuple[float, ...]:
    end = -1 if entry.end is None else entry.end
    told = (entry.began, end, entry.path, entry.heard)
    return (*told, entry.action, entry.holdout, entry.total, entry.reports)


def _rows(name: str, value: object, width: int) -> list[list[float]]:
    rows = stored.array(name, value, np.float64, (None, width))
    stored.finite(name, rows)
    found: list[list[float]] = rows.tolist()
    return found
