"""The events of a learner, and how they are written.

An event is a frozen record with everything that its effect depends on: the clock, the draw of an
action, and for a new episode how many calls the agent had learned from. It is written as JSON under
the number of its format. A format is never changed: what is new gets the next number, and
`UPGRADES` says how to read the old one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from belated.core import checks
from belated.service.wire import parse

FORMAT = 3
"""The number of the format that is written."""


def _with_grace(values: dict[str, Any]) -> dict[str, Any]:
    """Format 2 says for how long an episode past its deadline is kept; before, it never was."""
    if values["do"] != "made":
        return values
    return {**values, "terms": {"first": 0, "start": None, "grace": None, **values["terms"]}}


def _with_ends(values: dict[str, Any]) -> dict[str, Any]:
    """Format 3 has decisions in one request; before, every path waited for its last state."""
    if values["do"] != "made":
        return values
    return {**values, "terms": {**values["terms"], "ends": True}}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _with_grace, 2: _with_ends}
"""From the fields of an event of this format to those of the next."""


class LogError(Exception):
    """A log that cannot be read."""


@dataclass(frozen=True, slots=True)
class Made:
    """The learner was made: the first event. terms: what must stay as it is."""

    at: float
    terms: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begun:
    """An episode began.

    at: the time in seconds. learned: calls that the agent had learned from when it made the policy.
    key: what the client calls it. policy: a digest of the policy that was handed out.
    """

    at: float
    episode: int
    learned: int
    key: str | None
    policy: str


@dataclass(frozen=True, slots=True)
class Decided:
    """An action was drawn for a client."""

    at: float
    episode: int
    step: int
    state: int
    action: int


class Choice(NamedTuple):
    """One decision. observation: what the client knew. among: the actions that it allowed.

    holdout: the probability that the holdout has drawn it.
    """

    episode: int
    key: str | None
    observation: Any
    among: Any
    action: int
    probability: float
    holdout: float = 0.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """Decisions were made for a request: all of them, each an episode of one step.

    now: the time that the agent was told. learned: as of `Begun`.
    """

    at: float
    now: float
    learned: int
    choices: tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class Fed:
    """Feedback came that was new or late."""

    at: float
    records: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A client says that an episode will not report."""

    at: float
    episode: int


@dataclass(frozen=True, slots=True)
class Changed:
    """The learner was changed while it learned.

    learned: as of `Begun`. actions: all actions from now on, their number or their names; None if
    they stay. retire: the number of an action that is not played any more. settings: of the agent
    and of the books, by name.
    """

    at: float
    learned: int
    actions: int | list[str] | None = None
    retire: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tick:
    """The time at which a deadline had passed."""

    at: float


Event = Made | Begun | Decided | Chosen | Fed | Forgotten | Changed | Tick
KINDS: dict[str, type[Event]] = {
    "made": Made,
    "begin": Begun,
    "decide": Decided,
    "choose": Chosen,
    "feedback": Fed,
    "forget": Forgotten,
    "change": Changed,
    "tick": Tick,
}
NAMES = {kind: name for name, kind in KINDS.items()}
_FIELDS = {kind: tuple(field.name for field in fields(kind)) for kind in KINDS.values()}


def write(event: Event) -> str:
    """An event as text."""
    kind = type(event)
    values: dict[str, Any] = {"do": NAMES[kind]}
    for name in _FIELDS[kind]:
        values[name] = getattr(event, name)
    if isinstance(event, Fed):
        values["records"] = [record.to_json() for record in event.records]
    return json.dumps(values, separators=(",", ":"))


def read(written: str, format: int, record: Callable[[Any], Any] = parse) -> Event:
    """The event of a text that was written in this format. record: reads a record."""
    if not 1 <= format <= FORMAT:
        raise LogError(
            f"the log has events of format {format}, written by another release; "
            f"this release reads formats 1 to {FORMAT}"
        )
    try:
        values = json.loads(written)
        for older in range(format, FORMAT):
            values = UPGRADES[older](values)
        kind = KINDS[values.pop("do")]
        if kind is Chosen:
            values["choices"] = tuple(Choice(*choice) for choice in values["choices"])
        if kind is Fed:
            values["records"] = tuple(map(record, values["records"]))
        return kind(**values)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LogError(f"an event cannot be read: {checks.show(written)}: {error}") from None


def checksum(before: int, written: str) -> int:
    """The checksum of an event, given that of the one before: a lost event shows."""
    return zlib.crc32(written.encode(), before)
