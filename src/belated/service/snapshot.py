"""A learner as bytes: the agent, its books and the calls between them, after a certain event."""

from __future__ import annotations

from typing import Any

from belated import checks, saving, stored
from belated.agents.contract import check_is_agent
from belated.agents.ledger import read_record, written
from belated.service.books import Books, Terms
from belated.service.learning import Pupil
from belated.service.recorder import Call

FORMAT = 1
NAMES = ("format", "number", "checksum", "agent", "books", "learned", "unused", "waiting")


def write(
    number: int, checksum: int, books: stored.State, pupil: Pupil, waiting: list[Call]
) -> bytes:
    """The bytes. number, checksum: of the last event. books: their state."""
    return saving.to_bytes(
        {
            "format": FORMAT,
            "number": number,
            "checksum": checksum,
            "agent": pupil.agent,
            "books": books,
            "learned": pupil.learned,
            "unused": pupil.unused,
            "waiting": [
                call if isinstance(call, int) else [written(record) for record in call]
                for call in waiting
            ],
        }
    )


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
