"""The outcome of a decision: one number, or several that are added."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from belated.core import checks
from belated.core.contract import Decision, FeedbackError, altered

LARGEST = 1e30
"""The largest outcome, so that products of outcomes and features are far from infinity."""
EVENT = "event"
"""The key of the one event without a name; the others begin with "="."""


@dataclass(frozen=True, slots=True)
class Reward:
    """An outcome of a decision, or a part of it, in any unit.

    >>> Reward(17, 12.5)
    Reward(episode=17, value=12.5, event=None, at=None)

    Attributes:
        episode: the number of the decision; a `Decision` may be given for it.
        value: any number of at most 1e30; the rewards of several events of one decision are added.
        event: the name of the event, such as an order number. The same event with the same value
            again is a duplicate; `None` is one event.
        at: when it arrived, if that was before the call of `observe`.
    """

    episode: int
    value: float
    event: str | None = None
    at: float | None = None

    is_outcome: ClassVar[bool] = True
    partial: ClassVar[bool] = False
    part: ClassVar[str] = "reward"

    def __post_init__(self) -> None:
        given: object = self.episode
        number = given.number if isinstance(given, Decision) else given
        try:
            checks.fix(self, "episode", checks.integer("episode", number, 0))
            checks.fix(self, "value", checks.real("value", self.value, -LARGEST, LARGEST))
            if self.event is not None and not isinstance(self.event, str):
                raise ValueError(f"event must be a text or None, got {checks.show(self.event)}")
            if self.at is not None:
                checks.fix(self, "at", checks.real("at", self.at, -math.inf))
        except ValueError as error:
            raise FeedbackError(f"Reward of episode {checks.show(number)}: {error}") from None

    @property
    def key(self) -> str:
        """The key of the event among the facts."""
        return EVENT if self.event is None else f"={self.event}"

    def facts(self) -> dict[str | int, float]:
        """The value of the event."""
        return {self.key: self.value}

    def renumbered(self, episode: int) -> Self:
        """A copy of the record for another decision."""
        return altered(self, episode=episode)

    def dated(self, at: float | None) -> Self:
        """A copy that arrived at this time, unless the record has a time of arrival already."""
        return self if at is None or self.at is not None else altered(self, at=at)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON value."""
        told = {"episode": self.episode, "reward": self.value, "event": self.event, "at": self.at}
        return {name: value for name, value in told.items() if value is not None}


def check(record: object, information: object = None) -> None:
    """Check that a record is a reward."""
    if not isinstance(record, Reward):
        raise FeedbackError(f"records must be Reward, got {checks.show(record)}")


def read(value: object) -> Reward:
    """The reward from the value that `to_json` returned."""
    if not isinstance(value, dict) or not (
        {"episode", "reward"} <= set(value) <= {"episode", "reward", "event", "at"}
    ):
        raise FeedbackError(f"a record must have an episode and a reward, got {checks.show(value)}")
    return Reward(value["episode"], value["reward"], value.get("event"), value.get("at"))
