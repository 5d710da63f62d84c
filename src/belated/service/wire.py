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

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

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
"""The values of records, each of which has exactly one, and the fields that may stand beside it."""
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
Whole = Annotated[int, Meta(ge=0, le=LARGEST_WHOLE)]
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY, pattern="^[^\\x00]*$")]
KeyBody = dict[Literal["key"], Text | None]
"""A new episode. key: your own key; the same key again returns the same episode."""
ActionBody = dict[Literal["name"], Text | None]
"""An action to add. name: required if and only if actions have names."""


class Refusal(Exception):
    """A refused request or record.

    field: the wrong field. outcome: what this means for a record; None if it says nothing of one.
    status: the HTTP status, by default that of the outcome. retry: seconds after which the request
    may succeed. address: of the server that can answer.
    """

    def __init__(
        self,
        why: str,
        field: str | None = None,
        outcome: str | None = "invalid",
        status: int | None = None,
        retry: float | None = None,
        address: str | None = None,
    ) -> None:
        super().__init__(why)
        self.field = field
        self.outcome = outcome
        self.status = STATUS[outcome or "invalid"] if status is None else status
        self.retry = retry
        self.address = address


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
    def of(cls, kind: Any, episode: int | UnsetType = UNSET, **more: Any) -> Outcome:
        """The outcome of this kind."""
        return cls(kind, STATUS[kind], episode, **more)


class Refused(Struct):
    """The reason of a refusal."""

    why: str
    outcome: str | UnsetType = UNSET
    field: str | UnsetType = UNSET


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


def episode_of(given: object, keys: Mapping[str, int]) -> int:
    """The episode that a record names, by its number or by the client's key."""
    if not isinstance(given, Mapping):
        raise Refusal(f"a record must be an object, got {checks.show(given)}", "record")
    if "key" not in given:
        return int(_field("episode", given.get("episode"), checks.integer, 0, LARGEST_WHOLE))
    key = given["key"]
    if "episode" in given or not isinstance(key, str):
        raise Refusal(
            f"a record must have an episode, or a key that is a text, got {checks.show(key)}", "key"
        )
    if key not in keys:
        raise Refusal(f"key {checks.show(key)} is not known", "key", "unknown")
    return keys[key]


def parse(
    given: Mapping[str, Any],
    episode: int,
    problem: Any,
    rewards: Scale | None = None,
    information: str = "bandit",
) -> Any:
    """The record that a JSON value describes; a `Refusal` names its wrong field.

    Args:
        given: the value.
        episode: the number of its episode.
        problem: checks records, and reads its own kinds of them.
        rewards: the scale of rewards in records that state no range.
        information: what costs say, "bandit" or "full".
    """
    if isinstance(problem, Choice):
        return _reward(given, episode)
    name = "record"
    try:
        if problem.states is None:
            told = {word: given[word] for word in given.keys() - {"key", "time"}}
        else:
            name = _named(given)
            if name == "end":
                return End(episode, checks.integer(name, given[name], 0, problem.states - 1))
            told = _told(name, given, problem.horizon, rewards)
        made = problem.read({**told, "episode": episode})
        name = "step" if isinstance(made.part, int) else name
        problem.check(made, information)
        return made
    except (ValueError, TypeError, KeyError) as error:
        raise Refusal(str(error), name) from None


def _reward(given: Mapping[str, Any], episode: int) -> Reward:
    """The record of a learner of decisions."""
    if "reward" not in given:
        raise Refusal(f"a record must have a reward, got {checks.show(given)}", "record")
    _check_words(given, "reward", ("event", "time"))
    value = _field("reward", given["reward"], checks.real, -LARGEST, LARGEST)
    return Reward(episode, value, _field("event", given.get("event"), _event))


def _check_words(given: Mapping[str, Any], name: str, beside: Iterable[str]) -> None:
    """Raise `Refusal` for a field that must not stand beside a value."""
    for unknown in sorted(given.keys() - {"key", "episode", name, *beside}):
        raise Refusal(f"unknown key {checks.show(unknown)} beside {name}", unknown[:80])


def _named(given: Mapping[str, Any]) -> str:
    """The name of the value of a record."""
    found = [name for name in BESIDE if name in given]
    if len(found) != 1:
        raise Refusal(
            f"a record must have exactly one of {', '.join(BESIDE)}, got {found or 'none'}",
            found[1] if found else "record",
        )
    _check_words(given, found[0], BESIDE[found[0]])
    return found[0]


def _told(
    name: str, given: Mapping[str, Any], horizon: int, rewards: Scale | None
) -> dict[str, Any]:
    """The value of a record as a problem with states reads it: rewards become costs."""
    value = given[name]
    if name in ("reward", "rewards"):
        name, value = name.replace("reward", "cost"), _costs(name, given, rewards)
    if name == "cost":
        step = given.get("step", 0 if horizon == 1 else None)
        return {name: value, "step": _field("step", step, checks.integer, 0, LARGEST_WHOLE)}
    if name == "path" and isinstance(value, Mapping):
        for part in {"states", "actions"} & value.keys():
            _field(f"path.{part}", value[part], checks.whole_numbers, 0, LARGEST_WHOLE)
    return {name: value}


def _costs(name: str, given: Mapping[str, Any], rewards: Scale | None) -> Any:
    """The rewards of a record as costs."""
    own = None if rewards is None else [rewards.low, rewards.high]
    bounds = given.get("range", own)
    if bounds is None:
        raise Refusal(f"{name} needs a range [low, high]: where rewards lie", "range")
    if own is not None and bounds != own:
        raise Refusal(
            f"range must be that of the learner, {own}, or left out, got {checks.show(bounds)}",
            "range",
        )
    scale = rewards or _field("range", bounds, Scale.of)
    if name == "reward":
        return float(scale.costs(name, checks.real(name, given[name], -np.inf)))
    return scale.costs(name, checks.floats(name, given[name], "(H,) or (H, S, A)", (1, 3)))


def _field(name: str, value: object, check: Callable[..., Any], *limits: Any) -> Any:
    """A field that passes a check; otherwise a `Refusal` that names it."""
    try:
        return check(name, value, *limits)
    except ValueError as error:
        raise Refusal(str(error), name) from None


def _event(name: str, value: Any) -> Any:
    fits = isinstance(value, str) and len(value) <= LONGEST_KEY and "\0" not in value
    if value is not None and not fits:
        allowed = f"a text of at most {LONGEST_KEY} characters without NUL"
        raise ValueError(f"{name} must be {allowed}, got {checks.show(value)}")
    return value


def seconds(value: object) -> float:
    """A time in seconds since 1970, from such a number or from ISO 8601 with a zone."""
    if not isinstance(value, str):
        return float(_field("time", value, checks.real, -LATEST, LATEST))
    with suppress(ValueError):
        moment = datetime.fromisoformat(value[:64])
        if moment.tzinfo is not None:
            return moment.timestamp()
    raise Refusal(
        f"time must be ISO 8601 with a zone, or seconds, got {checks.show(value)}", "time"
    )
