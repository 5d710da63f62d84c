"""A learner as bytes: the agent, its books and the calls between them, after a certain event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from belated.core import checks, saving, stored
from belated.core.contract import check_is_agent
from belated.core.ledger import read_record
from belated.service.episodes import Books, Terms
from belated.service.recorder import Call
from belated.service.worker import Pupil

FORMAT = 2
PIECE = 2**20
"""Bytes that are written at once, so that no event waits long for the disk."""
Piece = tuple[int, bytes, bool]
"""Its place, its content, and whether it is the last."""
NAMES = ("format", "number", "checksum", "agent", "books", "learned", "unused", "waiting")


class Moment(NamedTuple):
    """A learner as it was after an event. Nothing of it changes any more, so any thread may write.

    number, checksum: of the event. waiting: calls that the agent had not had by then. agent: its
    state, after it had `learned` calls, `unused` records of them left aside.
    """

    number: int
    checksum: int
    books: Books
    waiting: list[Call]
    agent: stored.Kept
    learned: int
    unused: int


def write(moment: Moment) -> Iterator[Piece]:
    """The bytes, encoded at once, and put together piece by piece."""
    saved = {
        **moment._asdict(),
        "format": FORMAT,
        "books": moment.books.state(),
        "waiting": [
            call if isinstance(call, int) else [record.to_state() for record in call]
            for call in moment.waiting
        ],
    }
    return _pieces(saving.to_chunks(saved))


def _pieces(chunks: list[bytes | memoryview]) -> Iterator[Piece]:
    """Chunks of any length as pieces of one length, but for the last."""
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
    books = Books.from_state(terms, saved["books"])
    calls: list[Call] = []
    for call in stored.items("waiting", saved["waiting"]):
        if isinstance(call, int):
            calls.append(call)
            continue
        items = stored.items("records", call)
        problem, information = terms.problem, terms.information
        calls.append(tuple(read_record(problem, information, books.begun, r) for r in items))
    pupil = Pupil(saved["agent"], checks.integer("learned", saved["learned"], 0), calls)
    pupil.unused = checks.integer("unused", saved["unused"], 0)
    number = checks.integer("number", saved["number"], 0)
    return number, checks.integer("checksum", saved["checksum"], 0), books, pupil
