"""A choice among actions, with or without features: the problem of one decision."""

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.contract import Key
from belated.core.tree import Configured, call
from belated.linear.features import LARGEST, Features, bounded, distinct, noted, unscaled
from belated.linear.reward import EVENT, Reward, check, read

MOST_FEATURES = 2**16
VISITORS = 7
ROWS = 3
"""The number of available actions of a visitor of a trial, if every decision brings its own."""


class Choice(Configured):
    """The problem of a learner of decisions.

    >>> Choice(actions=["plain", "question"], features=12)
    Choice(actions=['plain', 'question'], features=12)

    Args:
        actions: their number, or their names; `None` if every decision brings its own actions.
        features: the number of features of a decision, or `Features`; `None` for no features. With
            `actions`, every action has its own model. Without, features describe the actions: a
            decision passes one row per action, and all actions share one model.

    Attributes:
        width: the number of features of a decision, or of each available action.
        shared: whether one model is shared by all actions.
    """

    states = None
    horizon = 1
    one_outcome = False
    check = staticmethod(check)
    read = staticmethod(read)

    def __init__(
        self,
        actions: int | list[str] | tuple[str, ...] | None = None,
        features: int | Features | None = None,
    ) -> None:
        self.names: tuple[str, ...] | None = None
        self.actions: int | None = None
        if isinstance(actions, list | tuple | np.ndarray) and np.ndim(actions):
            self.names = distinct("actions", actions)
            self.actions = len(self.names)
            if not all(self.names) or not self.actions:
                raise ValueError(f"actions must be names that are not empty, got {actions!r}")
        elif actions is not None:
            self.actions = checks.integer("actions", actions, 1, 2**20)
        if not isinstance(features, Features | None):
            features = checks.integer("features", features, 0, MOST_FEATURES)
        self.features: int | Features | None = features
        self.width = features.width if isinstance(features, Features) else features or 0
        self.shared = self.actions is None
        if self.shared and features is None:
            raise ValueError("one of actions and features must be given, got none of them")
        if self.shared and self.width == 0:
            raise ValueError("features must be at least 1 where they describe the actions, got 0")

    def name(self, action: int) -> str:
        """The name of an action for people."""
        return str(action) if self.names is None else self.names[action]

    def labels(self) -> list[str]:
        """The names of the features for people, (width,)."""
        if isinstance(self.features, Features):
            return self.features.labels()
        return [f"feature {place}" for place in range(self.width)]

    def groups(self) -> list[range]:
        """The places of the values of each category."""
        return self.features.groups() if isinstance(self.features, Features) else []

    def index(self, name: str, action: object) -> int:
        """The number of an action, given its number or its name; name: of the argument."""
        if isinstance(action, str) and self.names is not None:
            return self.names.index(checks.choice(name, action, self.names))
        if self.actions is None:
            raise ValueError(f"{name} must be None where the actions vary, got {action!r}")
        return checks.integer(name, action, 0, self.actions - 1)

    def check_listed(self, what: str) -> None:
        """Check that all decisions are among the same actions; what: needs that."""
        if self.shared:
            raise ValueError(f"{what} only where actions are listed; here they vary")

    def with_action(self, name: Any) -> "Choice":
        """The choice with one more action."""
        self.check_listed("an action can be added")
        if not isinstance(name, str if self.names else type(None)):
            allowed = "a text" if self.names else "None where actions have none"
            raise ValueError(f"name must be {allowed}, got {checks.show(name)}")
        listed: Any = self.actions_listed
        return Choice([*listed, str(name)] if self.names else listed + 1, self.features)

    def with_actions(self, actions: int | list[str]) -> "Choice":
        """The choice among these actions: the current ones, perhaps renamed, and new ones."""
        made, before = Choice(actions, self.features), self.actions_listed
        told, names = checks.show(actions), made.names or ()
        if self.shared or type(made.actions_listed) is not type(before):
            raise ValueError(f"actions must be listed as before, {checks.show(before)}, got {told}")
        if (made.actions or 0) < (self.actions or 0):
            raise ValueError(
                f"actions must keep all {self.actions}, got {made.actions}; retire those that are "
                "not to be played any more"
            )
        for place, name in enumerate(self.names or ()):
            if name in names and names.index(name) != place:
                raise ValueError(
                    f"actions must keep their places: {name!r} is number {place}, got {told}"
                )
        return made

    @property
    def actions_listed(self) -> int | list[str] | None:
        """The argument `actions`."""
        return self.actions if self.names is None else list(self.names)

    def rows(self, x: object, scaling: Floats) -> tuple[Floats, list[Floats]]:
        """Features (1, d), or (n, d) where they describe the actions, checked.

        Also the numbers of named features, which the scaling notes once they are used.
        """
        if isinstance(self.features, Features):
            tables = x if self.shared and isinstance(x, list | tuple) else [x]
            pairs = [self.features.vector(table, scaling) for table in tables]
            if not pairs:
                raise ValueError("x must have at least one row, got none")
            return np.array([vector for vector, _ in pairs]), [numbers for _, numbers in pairs]
        if x is None and self.width == 0:
            return np.zeros((1, 0)), []
        return _numbers(x, self.width, self.shared), []

    def matrix(self, observations: Iterable[object]) -> tuple[Floats, Floats]:
        """Features (n, width) of decisions in the order of their making, and the scaling."""
        scaling, found = unscaled(self.features), [np.zeros((0, self.width))]
        for x in observations:
            rows, raw = self.rows(x if self.width else None, scaling)
            scaling = noted(scaling, raw)
            found.append(rows)
        return np.concatenate(found), scaling

    def allowed(self, among: object, retired: Collection[int] = ()) -> list[int]:
        """The available actions, in order; among: the actions that the caller allows."""
        if self.actions is None:
            raise ValueError(
                "among must be None where the actions come as rows of x: leave rows out"
            )
        given = range(self.actions) if among is None else among
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ValueError(f"among must be a list of actions, got {checks.show(among)}")
        named = [self.index("among", action) for action in given]
        left = sorted(set(named) - set(retired))
        if len(set(named)) < len(named):
            raise ValueError(f"among must name each action once, got {checks.show(among)}")
        if not left:
            more = f" with {len(retired)} retired" if retired else ""
            raise ValueError(
                f"among must leave at least one action, got {checks.show(among)}{more}"
            )
        return left

    def check_observation(
        self, observation: object, among: object = None, retired: Collection[int] = ()
    ) -> object:
        """Raise `ValueError` if no decision is possible there.

        Returns the observation for `decide`: a list of numbers as an array, already checked.
        """
        rows, raw = self.rows(observation, unscaled(self.features))
        if among is not None or retired:
            self.allowed(among, retired)
        return observation if observation is None or raw or self.shared else rows[0]

    def awaited(
        self, known: Container[Key], information: object = None, *, uses_paths: bool = False
    ) -> list[Key]:
        """One more event: a decision is never complete."""
        return [EVENT]

    def assemble(
        self,
        episode: int,
        known: Mapping[Key, Any],
        information: object,
        default: float | None = None,
    ) -> Reward | None:
        """The reward of a decision that has not reported; None if it has."""
        return None if known or default is None else Reward(episode, default)

    def example_observation(self, seed: int = 0) -> Any:
        """A random visitor, with three actions if every decision brings its own."""
        rng = np.random.default_rng(seed)
        if isinstance(self.features, Features):
            given = {
                name: float(rng.normal()) if kind == "number" else f"v{rng.integers(3)}"
                for name, kind in self.features.fields.items()
            }
            return [given] * ROWS if self.shared else given
        shape = (ROWS, self.width) if self.shared else self.width
        return rng.normal(size=shape) if self.width else None

    def example(self, episode: int, information: object, *, outcome: bool) -> Reward | None:
        """An example of a reward."""
        return Reward(episode, 0.0) if outcome else None

    def trial(self, seed: int = 0) -> "Trial":
        """A small world for `belated.testing.check_agent`."""
        return Trial(self, seed)

    def configuration(self) -> dict[str, Any]:
        """The arguments, for people and files."""
        return {"actions": self.actions_listed, "features": self.features}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        given = self.configuration().items()
        return call(self, **{name: value for name, value in given if value is not None})


def _numbers(x: object, d: int, rows: bool) -> Floats:
    """Features as an array (1, d), or (n, d) if `rows` is set."""
    shape = f"(n, {d})" if rows else f"({d},)"
    given = checks.numbers("x", x, shape)
    if given.ndim != (2 if rows else 1) or given.shape[-1] != d or len(given) < (d > 0 or rows):
        raise ValueError(f"x must have shape {shape}, got shape {given.shape}")
    if not np.vdot(given, given) <= LARGEST:  # so most are checked faster
        bounded("x", given, LARGEST)
    return given if rows else given.reshape(1, d)


class Trial:
    """Visitors for `belated.testing`; an outcome is the value of the action plus noise."""

    def __init__(self, problem: Choice, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._values = rng.normal(size=(VISITORS, problem.actions or ROWS))
        self._visitors = [problem.example_observation(seed) for seed in range(VISITORS)]

    def play(self, agent: Any, episode: Any, rng: np.random.Generator) -> list[Reward]:
        """Act in an episode; returns its outcome."""
        kind = episode.number % VISITORS
        action, _ = episode.act(0, self._visitors[kind], rng)
        return [Reward(episode.number, float(self._values[kind, action] + rng.normal()))]

    def policy(self, agent: Any, episode: Any) -> Floats:
        """The probabilities of an episode for every visitor, (visitors, actions)."""
        rows: Floats = np.array([episode.probabilities(0, x) for x in self._visitors])
        assert np.all(rows >= 0.0)
        assert np.allclose(rows.sum(axis=1), 1.0)
        return rows

    def spoil(self, episode: Any) -> None:
        """Do nothing: an episode has no arrays to overwrite."""

    def spoiled(self, records: list[Reward]) -> list[Reward]:
        """The records themselves: rewards hold no arrays."""
        return records

    def bad_records(self, agent: Any, records: list[Reward]) -> dict[str, object]:
        """Invalid batches, by name."""
        (reward,) = records
        other = Reward(reward.episode, reward.value + 1.0)
        return {
            "an outcome never begun": [Reward(reward.episode + 100, 0.0)],
            "another outcome of the same event": [reward, other],
            "no record": [None],
            "no list": 7,
        }
