"""The JSON of clients' records.

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

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.records import FeedbackError
from belated.core.rewards import Scale
from belated.tabular.records import Costs, StepCost, Trajectory

VALUES = ("path", "costs", "cost", "end", "rewards", "reward")
"""The values that a record may have; each has exactly one of them."""
OUTCOMES = ("costs", "cost", "rewards", "reward")
"""The values that may have a time."""
LATEST = 1e11
"""Times in seconds are below this; milliseconds since 1970 are above."""
LONGEST_KEY = 200
"""The largest number of characters in a key, and in the name of an event."""
LARGEST_WHOLE = 2**53
"""Whole numbers above it are not exact in JSON of other programs."""


@dataclass(frozen=True, slots=True)
class End:
    """The state in which an episode ended."""

    episode: int
    state: int
    is_outcome: ClassVar[bool] = False
    part: ClassVar[str] = "end"

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value."""
        return {"episode": self.episode, "end": self.state}


class Timed(NamedTuple):
    """An outcome with the time at which it happened, in seconds since 1970."""

    record: Any
    time: float

    @property
    def episode(self) -> int:
        """That of the record."""
        return int(self.record.episode)


class RecordError(ValueError):
    """A record that is invalid or has an unknown key, and the wrong field."""

    def __init__(
        self,
        field: str,
        why: str,
        episode: int | None = None,
        kind: Literal["invalid", "unknown"] = "invalid",
    ) -> None:
        super().__init__(why)
        self.field = field
        self.episode = episode
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of a learner's records.

    Attributes:
        problem: reads its own kinds of records; None if there are none.
        rewards: the scale of rewards in records that state no range.
        keys: episodes by the client's key.
    """

    problem: Any = None
    rewards: Scale | None = None
    keys: Mapping[str, int] = field(default_factory=dict)

    def episode(self, given: Mapping[str, Any]) -> int:
        """The episode that a record names, by its number or its key."""
        if "key" not in given:
            return _integer("episode", given.get("episode"))
        key = given["key"]
        if "episode" in given:
            raise RecordError("key", "a record must have an episode or a key, got both")
        if not isinstance(key, str):
            raise RecordError("key", f"key must be a text, got {checks.show(key)}")
        if key not in self.keys:
            why = f"key {checks.show(key)} is not known"
            raise RecordError("key", why, kind="unknown")
        return self.keys[key]


PLAIN = Reader()


def parse(given: object, reader: Reader = PLAIN) -> Any:
    """The record that a JSON value describes."""
    if not isinstance(given, Mapping):
        raise RecordError("record", f"a record must be an object, got {checks.show(given)}")
    episode = reader.episode(given)
    told = [name for name in VALUES if name in given]
    if not told and reader.problem is not None and reader.problem.states is None:
        return _own_record(episode, given, reader)
    if len(told) != 1:
        raise RecordError(
            told[1] if told else "record",
            f"a record must have exactly one of {', '.join(VALUES)}, got {told or 'none'}",
            episode,
        )
    name = told[0]
    allowed = {"key" if "key" in given else "episode", name}
    if name in ("cost", "reward"):
        allowed.add("step")
    if name in ("reward", "rewards"):
        allowed.add("range")
    if name in OUTCOMES:
        allowed.add("time")
    if name == "reward" and reader.rewards is None:
        allowed.add("event")
    unknown = sorted(set(given) - allowed)
    if unknown:
        why = f"unknown key {checks.show(unknown[0])} beside {name}"
        raise RecordError(str(unknown[0])[:80], why, episode)
    try:
        made = _made(episode, name, given, reader)
        return Timed(made, seconds(given["time"])) if "time" in given else made
    except FeedbackError as error:
        raise RecordError(name, str(error), episode) from None
    except RecordError as error:
        error.episode = episode
        raise


def _made(episode: int, name: str, given: Mapping[str, Any], reader: Reader) -> Any:
    value = given[name]
    if name == "end":
        if reader.problem is not None and reader.problem.states is None:
            raise RecordError("end", "end must be left out: this learner has no states")
        return End(episode, _integer("end", value))
    if name == "path":
        if not isinstance(value, Mapping) or set(value) != {"states", "actions"}:
            why = f"path must be an object with states and actions, got {checks.show(value)}"
            raise RecordError("path", why)
        states, actions = (_integers(f"path.{key}", value[key]) for key in ("states", "actions"))
        return Trajectory(episode, states, actions)
    if name == "costs":
        return Costs(episode, _numbers("costs", value))
    if name == "rewards":
        return Costs(episode, _costs("rewards", _numbers("rewards", value), given, reader))
    if name == "reward" and reader.rewards is None and "range" not in given:
        return _own_reward(episode, _number("reward", value), given, reader)
    only = None if reader.problem is None or reader.problem.horizon > 1 else 0
    step = _integer("step", given.get("step", only))
    if name == "cost":
        made = StepCost(episode, step, _number("cost", value))
        made.check()
        return made
    reward = np.array(_number("reward", value))
    return StepCost(episode, step, float(_costs("reward", reward, given, reader)))


def _own_record(episode: int, given: Mapping[str, Any], reader: Reader) -> Any:
    """A record that only the problem can read, perhaps with a time."""
    rest = {name: value for name, value in given.items() if name not in ("key", "time")}
    try:
        made = reader.problem.read({**rest, "episode": episode})
        reader.problem.check(made, "bandit")
    except (ValueError, TypeError, KeyError) as error:
        raise RecordError("record", str(error), episode) from None
    return Timed(made, seconds(given["time"])) if "time" in given else made


def _own_reward(episode: int, reward: float, given: Mapping[str, Any], reader: Reader) -> Any:
    """A reward in any unit, as a record of the problem."""
    told = {"episode": episode, "reward": reward}
    if "event" in given:
        told["event"] = event = given["event"]
        if isinstance(event, str) and (len(event) > LONGEST_KEY or "\0" in event):
            why = f"event must have at most {LONGEST_KEY} characters and no NUL, got {len(event)}"
            raise RecordError("event", why)
    try:
        if reader.problem is None:
            raise ValueError
        return reader.problem.read(told)
    except (ValueError, TypeError, KeyError) as error:
        why = str(error).partition(": ")[2]
        if why.startswith("event"):
            raise RecordError("event", str(error)) from None
        if why.startswith("value"):
            raise RecordError("reward", why.replace("value", "reward", 1)) from None
        raise RecordError("range", "reward needs a range [low, high]: where rewards lie") from None


def _costs(name: str, rewards: Floats, given: Mapping[str, Any], reader: Reader) -> Floats:
    """Rewards as costs."""
    range = None if reader.rewards is None else (reader.rewards.low, reader.rewards.high)
    bounds = given.get("range", range)
    if bounds is None:
        raise RecordError("range", f"{name} needs a range [low, high]: where rewards lie")
    if range is not None and bounds != range and list(range) != bounds:
        why = f"range must be that of the learner, {list(range)}, or left out, got "
        raise RecordError("range", why + checks.show(bounds))
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise RecordError("range", f"range must be [low, high], got {checks.show(bounds)}")
    low, high = (_number("range", bound) for bound in bounds)
    if not low < high or not np.isfinite(high - low):
        raise RecordError("range", f"range must be [low, high], got {checks.show(bounds)}")
    try:
        return (reader.rewards or Scale(low, high)).costs(name, rewards)
    except ValueError as error:
        raise RecordError(name, str(error)) from None


def _integer(name: str, value: object) -> int:
    try:
        return checks.integer(name, value, 0, LARGEST_WHOLE)
    except ValueError as error:
        raise RecordError(name, str(error)) from None


def seconds(value: object) -> float:
    """A time in seconds since 1970, from such a number or from ISO 8601 with a zone."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value[:64])
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            why = f"time must be ISO 8601 with a zone, or seconds, got {checks.show(value)}"
            raise RecordError("time", why)
        return moment.timestamp()
    try:
        return checks.real("time", value, -LATEST, LATEST)
    except ValueError as error:
        raise RecordError("time", f"{error} (seconds since 1970)") from None


def _number(name: str, value: object) -> float:
    try:
        return checks.real(name, value, -np.inf)
    except ValueError as error:
        raise RecordError(name, str(error)) from None


def _integers(name: str, value: object) -> Any:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise RecordError(name, f"{name} must be a list of whole numbers, got {checks.show(value)}")
    if any(not 0 <= item <= LARGEST_WHOLE for item in value):
        raise RecordError(name, f"{name} must be whole numbers of at least 0")
    return np.array(value, dtype=np.int64)


def _numbers(name: str, value: object) -> Floats:
    """A list of numbers, or three levels of lists."""
    if not isinstance(value, list) or not _plain(value, 3):
        raise RecordError(name, f"{name} must be a list of numbers, got {checks.show(value)}")
    try:
        made = np.array(value, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        raise RecordError(name, f"{name} must be a list of numbers, all rows alike") from None
    return made


def _plain(value: object, depth: int) -> bool:
    if isinstance(value, list):
        return depth > 0 and all(_plain(item, depth - 1) for item in value)
    return type(value) in (int, float)
