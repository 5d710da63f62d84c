"""The JSON of requests and answers: types that bodies are decoded into, and clients' records.

    {"episode": 3, "path": {"states": [0, 2, 1], "actions": [1, 0]}}    states has one entry more
    {"episode": 3, "costs": [0.2, 0.9]}        of all steps; nested lists under full information
    {"episode": 3, "step": 0, "cost": 0.2}     of one step
    {"episode": 3, "end": 1}                   the last state, where the server has built the path
    {"episode": 3, "rewards": [8, 1], "range": [0, 10]}    turned into costs
    {"episode": 3, "step": 0, "reward": 8, "range": [0, 10]}
    {"key": "visitor 7", "reward": 12.5, "event": "order-17"}    the key instead of the episode
    {"key": "visitor 7", "reward": 12.5, "time": "2026-03-01T09:30:00+01:00"}    when it happened

A cost is in [0, 1]. A reward r in [low, high] is the cost (high - r) / (high - low). A learner of
decisions accepts rewards in any unit, and those of several events of one decision are added. The
time is that of the event itself, in seconds since 1970 or as ISO 8601 with a zone: it determines
whether the deadline was met.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType

from belated.core import checks
from belated.core.contract import Scale
from belated.core.episodes import Kind
from belated.linear.choice import Choice
from belated.linear.reward import LARGEST, Reward

BESIDE = {
    "path": (),
    "costs": ("time",),
    "cost": ("step", "time"),
    "end": (),
    "rewards": ("range", "time"),
    "reward": ("step", "range", "time"),
}
EVENTS = {"reward": ("event", "time")}
"""The values of records, each of which has exactly one, and the fields that may stand beside it; of
learners with states and of decisions."""
MISSING = ("episode", "step", "range")
"""Fields that can be wrong because they are not there."""
RECORD = re.compile(r"^\w+ of episode \d+: ")
"""How the message of a record begins."""
LATEST = 1e11
"""Times in seconds are below this; milliseconds since 1970 are above."""
LONGEST_KEY = 200
"""The largest number of characters in a key, and in the name of an event."""
LARGEST_WHOLE = 2**53
"""Whole numbers above it are not exact in JSON of other programs."""
STATUS = {
    "taken": 200,
    "duplicate": 200,
    "late": 200,
    "conflict": 409,
    "unknown": 404,
    "invalid": 422,
}
"""The HTTP status of the outcomes of a record."""
SOON = {"retry-after": "1"}
"""The header that asks for a repetition after a second."""
Whole = Annotated[int, Meta(ge=0, le=LARGEST_WHOLE)]
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY, pattern="^[^\\x00]*$")]
Table = dict[str, Any]
Name = Annotated[str, Meta(max_length=LONGEST_KEY)]
KeyBody = dict[Literal["key"], Text | None]
"""A new episode. key: your own key; the same key again returns the same episode."""
ActionBody = dict[Literal["name"], Text | None]
"""An action to add. name: required if and only if actions have names."""


class Asked(Struct, forbid_unknown_fields=True):
    """A request for a decision in an episode, or in a new one.

    episode, step, state: of an episode that has begun. Without an episode, one of one step begins.
    features: of the visitor, or one row per action; named ones as a table. state: in place of
    features, for a learner with states. among: the allowed actions, by number or name. key: your
    own key; the same key again returns the same decision.
    """

    features: Any = None
    state: Whole | None = None
    among: list[int | str] | None = None
    key: Text | None = None
    episode: Whole | None = None
    step: Whole | None = None

    @property
    def observation(self) -> Any:
        """Features or state."""
        return self.features if self.state is None else self.state

    @property
    def field(self) -> str:
        """The name of the observation."""
        return "features" if self.state is None else "state"


class DecideBatchBody(Struct, forbid_unknown_fields=True):
    """Decisions, each as in /decide without an episode."""

    decisions: list[Asked]


class FeedbackBatchBody(Struct, forbid_unknown_fields=True):
    """Records, each as in /feedback."""

    records: list[Any]


class Done(Struct):
    """An episode that has begun, a decision in one, or an action that was added or retired.

    step: of the decision. probability: with which the action was drawn. name: of the action, if
    actions have names. created: False if the key was used before. changed: False if the action was
    added or retired before.
    """

    episode: int | UnsetType = UNSET
    step: int | UnsetType = UNSET
    action: int | UnsetType = UNSET
    probability: float | UnsetType = UNSET
    name: str | UnsetType = UNSET
    created: bool | UnsetType = UNSET
    changed: bool | UnsetType = UNSET


class Outcome(Struct):
    """What became of a record: `status` is the HTTP status of the record alone.

    used: whether the agent still learns from a late record. awaited: what the episode waits for
    before the agent can learn from it: the path, costs, or steps.
    """

    outcome: Kind
    status: int
    episode: int | UnsetType = UNSET
    field: str | UnsetType = UNSET
    part: str | int | UnsetType = UNSET
    awaited: list[str | int] | UnsetType = UNSET
    why: str | UnsetType = UNSET
    used: bool | UnsetType = UNSET

    @classmethod
    def of(cls, kind: Any, episode: int | UnsetType = UNSET, **more: Any) -> Self:
        """The outcome of this kind."""
        return cls(kind, STATUS[kind], episode, **more)


Decisions = dict[Literal["decisions"], list[Done]]
Outcomes = dict[Literal["outcomes"], list[Outcome]]


class Refused(Struct):
    """The reason of a refusal."""

    why: str
    outcome: str | UnsetType = UNSET
    field: str | UnsetType = UNSET


class Refusal(Exception):
    """A refused request or record.

    field: the wrong field. outcome: what this means for a record, by default "invalid" if there is
    no status: the HTTP status, by default that of the outcome. address: of the server that can
    answer. headers: of the answer.
    """

    def __init__(
        self,
        why: str,
        field: str | None = None,
        outcome: str | None = None,
        status: int | None = None,
        address: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(why)
        kind = outcome or ("invalid" if status is None else UNSET)
        self.told = Refused(why, kind, field or UNSET)
        self.status = status or STATUS[str(kind)]
        self.address, self.headers = address, headers or {}


@dataclass(frozen=True, slots=True)
class End:
    """The state in which an episode ended."""

    episode: int
    state: int
    is_outcome: ClassVar[bool] = False
    part: ClassVar[str] = "end"

    def facts(self) -> dict[str, int]:
        """The state."""
        return {"end": self.state}


def read(
    given: Any,
    keys: Mapping[str, int],
    now: float,
    problem: Any,
    rewards: Scale | None = None,
    information: str = "bandit",
) -> tuple[Any, float]:
    """The record that a JSON value describes and when it happened, or the outcome of a wrong one.

    The message of a check begins with the wrong field, or with the record and its field.

    Args:
        given: the value.
        keys: the episodes by the client's keys.
        now: the time of the request.
        problem: checks records, and reads its own kinds of them.
        rewards: the scale of rewards in records that state no range.
        information: what costs say, "bandit" or "full".
    """
    name = "record"
    if not isinstance(given, Mapping):
        why = f"a record must be an object, got {checks.show(given)}"
        return Outcome.of("invalid", why=why, field=name), now
    number: Any = UNSET
    try:
        number = _episode(given, keys)
        if number is None:
            why = f"key {checks.show(given['key'])} is not known"
            return Outcome.of("unknown", why=why, part="key"), now
        happened = _seconds(given["time"]) if "time" in given else now
        name, told = _told(given, problem, rewards)
        if name == "end":
            return End(number, checks.integer(name, told[name], 0, problem.states - 1)), happened
        if isinstance(problem, Choice):
            value = checks.real(name, told[name], -LARGEST, LARGEST)
            return Reward(number, value, told.get("event")), happened
        made = problem.read({**told, "episode": number})
        problem.check(made, information)
        return made, happened
    except (ValueError, TypeError, KeyError) as error:
        word = RECORD.sub("", str(error)).partition(" ")[0]
        field = word if word.partition(".")[0] in {*MISSING, *given} else name
        return Outcome.of("invalid", number, why=str(error), field=field[:80]), now


def _episode(given: Mapping[str, Any], keys: Mapping[str, int]) -> int | None:
    """The episode that a record names, by its number or by the client's key; None: not known."""
    if "key" not in given:
        return checks.integer("episode", given.get("episode"), 0, LARGEST_WHOLE)
    key = given["key"]
    if "episode" in given or not isinstance(key, str):
        raise ValueError(f"key must be a text, and no episode beside it, got {checks.show(key)}")
    return keys.get(key)


def _told(given: Mapping[str, Any], problem: Any, rewards: Scale | None) -> tuple[str, Any]:
    """The name of the value of a record, and its fields as the problem reads them."""
    told = {word: given[word] for word in given.keys() - {"key", "time"}}
    decides = isinstance(problem, Choice)
    if problem.states is None and not decides:
        return "record", told
    values = EVENTS if decides else BESIDE
    name = next((word for word in values if word in given), "")
    if not name:
        raise ValueError(f"a record must have {' or '.join(values)}, got {checks.show(given)}")
    for word in sorted(given.keys() - {"key", "episode", name, *values[name]}):
        raise ValueError(f"{word} must be left out beside {name}, got {checks.show(given[word])}")
    event = told.get("event")
    if isinstance(event, str) and (len(event) > LONGEST_KEY or "\0" in event):
        raise ValueError(
            f"event must be a text of at most {LONGEST_KEY} characters without NUL, got "
            f"{checks.show(event)}"
        )
    if decides:
        return name, told
    if name in ("cost", "reward"):
        told.setdefault("step", 0 if problem.horizon == 1 else None)
    if name in ("reward", "rewards"):
        told[name.replace("reward", "cost")] = _cost(name, told.pop(name), told, rewards)
    path: Any = told.get("path")
    for part in {"states", "actions"} & (path.keys() if isinstance(path, Mapping) else set()):
        checks.whole_numbers(f"path.{part}", path[part], 0, LARGEST_WHOLE)
    return name, told


def _cost(name: str, given: Any, told: dict[str, Any], rewards: Scale | None) -> Any:
    """The reward of a step, or those of all, as costs."""
    own = None if rewards is None else [rewards.low, rewards.high]
    bounds = told.pop("range", own)
    if own is not None and bounds != own:
        raise ValueError(
            f"range must be that of the learner, {own}, or left out, got {checks.show(bounds)}"
        )
    scale = rewards or Scale.of(f"range of {name}", bounds)
    if name == "reward":
        return float(scale.costs(name, np.array(checks.real(name, given, -np.inf))))
    return scale.costs(name, checks.floats(name, given, "(H,) or (H, S, A)", (1, 3)))


def _seconds(value: object) -> float:
    """A time in seconds since 1970, from such a number or from ISO 8601 with a zone."""
    if not isinstance(value, str):
        return checks.real("time", value, -LATEST, LATEST)
    with suppress(ValueError):
        moment = datetime.fromisoformat(value[:64])
        if moment.tzinfo is not None:
            return moment.timestamp()
    raise ValueError(f"time must be ISO 8601 with a zone, or seconds, got {checks.show(value)}")
