"""The bodies of requests and answers: JSON is decoded into these types, which OpenAPI describes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from belated.service.errors import Refusal
from belated.service.wire import LARGEST_WHOLE, LONGEST_KEY

Whole = Annotated[int, Meta(ge=0, le=LARGEST_WHOLE)]
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST_KEY, pattern="^[^\\x00]*$")]
STATUS = {
    "taken": 200,
    "duplicate": 200,
    "late": 200,
    "conflict": 409,
    "unknown": 404,
    "invalid": 422,
}
"""The HTTP status of the outcomes of a record."""


class BeginBody(Struct, forbid_unknown_fields=True):
    """A new episode. key: your own key; the same key again returns the same episode."""

    key: Text | None = None


class Asked(Struct, forbid_unknown_fields=True):
    """A request for a decision of a learner of one step.

    features: of the visitor, or one row per action; named ones as a table. state: in place of
    features, for a learner with states. among: the allowed actions, by number or name. key: your
    own key; the same key again returns the same decision.
    """

    features: Any = None
    state: Whole | None = None
    among: list[int | str] | None = None
    key: Text | None = None

    @property
    def observation(self) -> Any:
        """Features or state."""
        return self.features if self.state is None else self.state

    @property
    def field(self) -> str:
        """The name of the observation."""
        return "features" if self.state is None else "state"

    def check(self) -> None:
        """Raise `Refusal` if both features and a state are given."""
        if self.features is not None and self.state is not None:
            why = "a decision must have features or a state, got both"
            raise Refusal(422, why, outcome="invalid", field="state")


class DecideBody(Asked):
    """A request for a decision in an episode, or in a new one.

    episode, step, state: of an episode that has begun. Without an episode, one of one step begins.
    """

    episode: Whole | None = None
    step: Whole | None = None


class DecideBatchBody(Struct, forbid_unknown_fields=True):
    """Decisions, each as in /decide without an episode."""

    decisions: list[Asked]


class FeedbackBatchBody(Struct, forbid_unknown_fields=True):
    """Records, each as in /feedback."""

    records: list[Any]


class ActionBody(Struct, forbid_unknown_fields=True):
    """An action to add. name: required if and only if actions have names."""

    name: Text | None = None


class Action(Struct):
    """An action. changed: False if nothing has changed."""

    action: int
    name: str
    changed: bool


class Begun(Struct):
    """An episode. created: False if the key was used before."""

    episode: int
    created: bool


class Decided(Struct):
    """An action and the probability with which it was drawn.

    name: the name of the action, if actions have names. created: False if the key was used before.
    """

    episode: int
    step: int
    action: int
    probability: float
    name: str | UnsetType = UNSET
    created: bool | UnsetType = UNSET


class DecidedBatch(Struct):
    """One decision per item of the request, in order."""

    decisions: list[Decided]


class Outcome(Struct):
    """What became of a record: `status` is the HTTP status of the record alone.

    used: whether the agent still learns from a late record. awaited: what the episode waits for
    before the agent can learn from it: the path, costs, or steps.
    """

    outcome: Literal["taken", "duplicate", "late", "conflict", "unknown", "invalid"]
    status: int
    episode: int | UnsetType = UNSET
    field: str | UnsetType = UNSET
    part: str | int | UnsetType = UNSET
    awaited: list[str | int] | UnsetType = UNSET
    why: str | UnsetType = UNSET
    used: bool | UnsetType = UNSET

    @classmethod
    def of(cls, kind: Any, episode: int | None, **more: Any) -> Outcome:
        """The outcome of this kind."""
        return cls(kind, STATUS[kind], UNSET if episode is None else episode, **more)


class OutcomeBatch(Struct):
    """One outcome per record, in order."""

    outcomes: list[Outcome]


class Refused(Struct):
    """The reason of a refusal."""

    why: str
    outcome: str | UnsetType = UNSET
    field: str | UnsetType = UNSET


def schemas(kinds: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The JSON schemas of types, and those of the types in them by name."""
    found = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    return list(found[0]), found[1]
