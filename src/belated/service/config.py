"""The configuration of a server, from a TOML file."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from belated.config.build import make
from belated.config.part import Part, read
from belated.config.registry import Registry, accepted, check, is_own, unknown_key
from belated.core import checks
from belated.core.contract import Agent, Information
from belated.core.rewards import Scale
from belated.linear.choice import Choice
from belated.linear.features import Features
from belated.service import agents
from belated.service.gate import EVERY, VERBS, Token
from belated.service.recovery import Terms
from belated.tabular.problem import Problem

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
POSTGRES = ("postgresql://", "postgres://")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
RECOMMENDED = Part("recommended")
CHOICE = ("actions", "features")
PROBLEM = ("actions", "states", "horizon", "one_outcome", "check", "check_observation", "read")
"""Attributes that your own problem must have, among others of `core.contract.Problem`."""
MAIL_FEATURES = Features(age="number", country=["dk", "se"])
NIGHT = 86_400.0
"""Seconds for which decisions past their deadline are kept, for events before the deadline."""
LARGEST_POLICY = 10_000_000
"""The largest number of entries of a policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server.

    Attributes:
        body: the largest request, in bytes.
        batch: the largest number of records in a request.
        open: the largest number of open episodes of a learner.
        waiting: the largest number of calls that wait for an agent.
        snapshot: the number of rows between two snapshots.
        log: the number of requests of a learner whose rows are kept, in addition to those not
            covered by two snapshots and to open episodes; without it, all.
    """

    body: int = 2_000_000
    batch: int = 1_000
    open: int = 100_000
    waiting: int = 10_000
    snapshot: int = 20_000
    log: int | None = None

    def __post_init__(self) -> None:
        for name in ("body", "batch", "open", "waiting", "snapshot"):
            checks.integer(f"limits.{name}", getattr(self, name), 1)
        if self.log is not None:
            checks.integer("limits.log", self.log, 0)
        if self.batch > self.waiting:
            raise ValueError(
                f"limits.batch must be at most limits.waiting = {self.waiting}, got {self.batch}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerConfig:
    """A learner.

    Attributes:
        name: its name in addresses and files: lower-case letters, digits and dashes.
        problem: states, actions, horizon, start, homogeneous; or, for decisions without states, a
            `Choice`, which a file describes by `actions` and `features` of the learner; or one from
            your own code.
        information: "bandit" or "full".
        agent: a kind of the lab.
        start: a file of `belated.save` in place of `agent`: the agent continues from it. The file
            must not be removed.
        deadline_seconds, deadline_episodes: how long an episode may wait; at most one of them.
        default: the cost of a step that has not reported by then.
        grace: how much longer an episode is kept, in the deadline's unit, for outcomes that
            happened before its deadline and arrive later. The default is one day for decisions with
            a deadline in seconds, where 0 means no grace, and none otherwise. A `default` is
            applied only after the grace.
        rewards: [low, high], the range of rewards in records that do not state one.
        clip: whether a reward outside this range counts as the nearest one inside.
        default_reward: the reward of a step that has not reported by the deadline, in place of
            `default`, which is a cost.
        holdout: the share of the decisions that play uniformly, for an unbiased comparison.
        note: a line for the page.
    """

    name: str
    problem: Any
    information: str = "bandit"
    agent: Part = RECOMMENDED
    start: str | None = None
    deadline_seconds: float | None = None
    deadline_episodes: int | None = None
    default: float | None = None
    grace: float | None = None
    rewards: tuple[float, float] | None = None
    clip: bool = False
    default_reward: float | None = None
    holdout: float | None = None
    note: str | None = None

    @property
    def scale(self) -> Scale | None:
        """The scale that converts rewards to costs."""
        return None if self.rewards is None else Scale(*self.rewards, clip=self.clip)

    @property
    def silence(self) -> float | None:
        """The cost of a step that has not reported by the deadline."""
        if self.default_reward is None or self.scale is None:
            return self.default
        return float(self.scale.costs("default_reward", self.default_reward))

    def fresh(self) -> Agent:
        """A fresh agent."""
        information = cast(Information, self.information)
        key = f"learner {self.name}"
        if self.start is not None:
            return agents.loaded(f"{key}: start", self.start, self.problem, information)
        return agents.made(f"{key}: agent", self.agent, self.problem, information)

    def terms(self) -> Terms:
        """The terms of the learner."""
        timed = self.deadline_seconds is not None
        agent = self.fresh()
        start = None
        if self.start is not None:
            start = hashlib.sha256(Path(self.start).read_bytes()).hexdigest()
        return Terms(
            self.problem,
            cast(Information, self.information),
            agent.uses_paths,
            self.deadline_seconds if timed else self.deadline_episodes,
            timed,
            self.silence,
            self.grace,
            agent.begun,
            start,
            self.rewards,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A server.

    Attributes:
        learners: the learners.
        storage: a directory for SQLite files, or the URL of a PostgreSQL database.
        host, port: the address to listen on; port 0 is any free one.
        url: the address for other servers and clients, for redirections; needed with PostgreSQL.
        hosts: the host names that requests may use, besides loopback; if none are given and the
            server does not listen on loopback, any.
        tokens: without any, the server listens on loopback only.
        limits: see `Limits`.
    """

    learners: tuple[LearnerConfig, ...]
    storage: str = "belated-data"
    host: str = "127.0.0.1"
    port: int = 8571
    url: str | None = None
    hosts: tuple[str, ...] = ()
    tokens: tuple[Token, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.learners:
            raise ValueError("learners must name at least one, [[learners]]")
        names = [learner.name for learner in self.learners]
        if len(set(names)) != len(names):
            raise ValueError(f"learners must have different names, got {names}")
        checks.integer("port", self.port, 0, 65535)
        if "://" in self.storage and not self.storage.startswith(POSTGRES):
            scheme = self.storage.partition("://")[0]
            raise ValueError(
                f"storage must be a directory or start with {' or '.join(POSTGRES)}, "
                f"got one that starts with {checks.show(scheme + '://')}"
            )
        for token in self.tokens:
            for name in token.learners:
                if name != EVERY:
                    checks.choice(f"tokens: learners of {token.name!r}", name, names)
        if not self.tokens and not self.loopback:
            raise ValueError(
                f"tokens are required to listen on {self.host!r}; without any, host must be a "
                "loopback address such as 127.0.0.1 (belated token makes a token)"
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The host names that requests may use; none means any."""
        if not self.loopback and not self.hosts:
            return frozenset()
        return frozenset({*LOOPBACK, *self.hosts, self.host})


def demonstration() -> Config:
    """A mailer whose customers are simulated, a shop with three offers, and a robot."""
    mail = LearnerConfig(
        name="mail",
        problem=Choice(["plain", "question", "discount"], MAIL_FEATURES),
        agent=Part("linear_sampler", (("holdout", 0.1),)),
        deadline_seconds=600.0,
        note="The customers of this learner are simulated.",
    )
    shop = LearnerConfig(name="shop", problem=Problem(1, 3, 1), deadline_seconds=600.0, default=1.0)
    robot = LearnerConfig(
        name="robot",
        problem=Problem(6, 2, 4, homogeneous=True),
        deadline_episodes=1000,
        grace=1000,
    )
    return Config(learners=(mail, shop, robot))


def load(path: Path, *, tokens: bool = True) -> Config:
    """The configuration in a TOML file. A mistake raises ValueError with one line.

    tokens: False leaves the tokens out, for a configuration that has none of its own yet.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a readable TOML file: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not TOML that can be read: {error}") from None
    if not tokens:
        table = {k: v for k, v in table.items() if k not in ("tokens", "host")}
    try:
        return from_table(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_table(given: Mapping[str, Any]) -> Config:
    """The configuration that a table describes. Every agent is made once, as a check."""
    _check_keys("", given, Config, "a server")
    values = dict(given)
    for name in ("storage", "host", "url"):
        if name in values:
            _text(name, values[name])
    values["hosts"] = tuple(_text("hosts", host) for host in _list("hosts", values.get("hosts")))
    limits = values.get("limits", {})
    _check_keys("limits.", _table("limits", limits), Limits, "limits")
    values["limits"] = Limits(**limits)
    tables = enumerate(_list("learners", given.get("learners")))
    values["learners"] = tuple(_learner(f"learners[{i}]", item) for i, item in tables)
    tables = enumerate(_list("tokens", given.get("tokens")))
    values["tokens"] = tuple(_token(f"tokens[{i}]", item) for i, item in tables)
    config = Config(**values)
    for learner in config.learners:
        learner.fresh()
    return config


def _learner(key: str, given: object) -> LearnerConfig:
    values = dict(_table(key, given))
    decides = "actions" in values or "features" in values
    if decides:
        _take_choice(key, values)
    _check_keys(f"{key}.", values, LearnerConfig, "a learner", *CHOICE)
    for name in ("name", "problem"):
        if name not in values:
            raise ValueError(f"{key}.{name} is required (or actions, for decisions)")
    if not isinstance(values["name"], str) or not NAME.fullmatch(values["name"]):
        raise ValueError(
            f"{key}.name must be 1 to 63 lower-case letters, digits and dashes, "
            f"got {checks.show(values['name'])}"
        )
    if not decides:
        values["problem"] = _problem(f"{key}.problem", values["problem"])
    if "note" in values:
        _text(f"{key}.note", values["note"])
    checks.choice(f"{key}.information", values.get("information", "bandit"), ("bandit", "full"))
    if "start" in values and "agent" in values:
        raise ValueError(f"{key} must have an agent or a start, got both")
    values["agent"] = read(f"{key}.agent", values.get("agent", agents.usual(values["problem"])))
    if values.get("holdout") is not None:
        values["agent"] = _with_holdout(key, values)
    check(f"{key}.agent", values["agent"], agents.registry(values["problem"]))
    _check_deadline(key, values)
    if decides and values.get("deadline_seconds") is not None:
        values["grace"] = values.get("grace", NIGHT) or None
    if values.get("rewards") is not None:
        bounds = _list(f"{key}.rewards", values["rewards"])
        low, high = bounds if len(bounds) == 2 else (1, 0)
        if not checks.real(f"{key}.rewards", low, -1e300) < checks.real("rewards", high, -1e300):
            raise ValueError(f"{key}.rewards must be [low, high], got {checks.show(bounds)}")
        values["rewards"] = (float(low), float(high))
    if checks.flag(f"{key}.clip", values.get("clip", False)) and not values.get("rewards"):
        raise ValueError(f"{key}.clip needs rewards = [low, high]")
    _check_default_reward(key, values)
    return LearnerConfig(**values)


def _with_holdout(key: str, values: Mapping[str, Any]) -> Part:
    """The agent with the learner's holdout."""
    share = checks.real(f"{key}.holdout", values["holdout"], 0.0, 1.0)
    agent: Part = values["agent"]
    kinds = agents.registry(values["problem"]).kinds
    if "start" in values or "holdout" not in accepted(kinds.get(agent.kind, LearnerConfig)):
        able = [name for name, maker in kinds.items() if "holdout" in accepted(maker)]
        raise ValueError(
            f"{key}.holdout needs an agent that plays one, "
            f"{' or '.join(able) or 'linear_sampler of a learner with actions'}, "
            f"got {'start' if 'start' in values else agent.kind!r}"
        )
    if "holdout" in agent.values:
        raise ValueError(f"{key} must have a holdout or an agent.holdout, got both")
    return agent.replaced("holdout", share)


def _own_problem(key: str, table: Mapping[str, Any]) -> Any:
    """A problem from your own code, `kind = "module:function"`."""
    part = read(key, table)
    if not is_own(part.kind):
        raise ValueError(
            f"{key}.kind must be code of your own, module:function, got {checks.show(part.kind)}; "
            "without a kind, a problem has states, actions and a horizon"
        )
    found = make(key, part, Registry({}))
    for name in PROBLEM:
        if not hasattr(found, name):
            raise ValueError(f"{key} must be a problem, got {checks.show(found)} without {name}")
    return found


def _problem(key: str, given: object) -> Any:
    table = dict(_table(key, given))
    if "kind" in table:
        return _own_problem(key, table)
    names = tuple(each.name for each in fields(Problem) if each.init)
    for name, value in table.items():
        if name not in names:
            raise unknown_key(f"{key}.{name}", value, "a problem", names)
    try:
        made = Problem(**table)
        if made.horizon * made.states * made.actions > LARGEST_POLICY:
            raise ValueError(f"states, actions and horizon must multiply to {LARGEST_POLICY}")
    except (ValueError, TypeError) as error:
        raise ValueError(f"{key}: {error}") from None
    return made


def _take_choice(key: str, values: dict[str, Any]) -> None:
    """Turn the actions and features of a learner into its problem."""
    if "problem" in values:
        raise ValueError(
            f"{key}.problem must be left out beside actions and features, which are the problem"
        )
    for name in ("information", "rewards", "clip", "default", "default_reward"):
        if name in values:
            raise ValueError(
                f"{key}.{name} must be left out beside actions and features: rewards may have any "
                "unit, and silence of the agent says what no report means"
            )
    features = values.pop("features", None)
    if isinstance(features, Mapping):
        try:
            features = Features(**features)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{key}.features.{error}") from None
    try:
        values["problem"] = Choice(values.pop("actions", None), features)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{key}.{error}") from None


def _check_default_reward(key: str, values: dict[str, Any]) -> None:
    if values.get("default_reward") is None:
        return
    if values.get("rewards") is None:
        raise ValueError(f"{key}.default_reward needs rewards = [low, high]")
    if values.get("default") is not None:
        raise ValueError(f"{key} must have a default_reward or a default, got both")
    low, high = values["rewards"]
    reward = checks.real(f"{key}.default_reward", values["default_reward"], low, high)
    values["default_reward"] = reward


def _check_deadline(key: str, values: dict[str, Any]) -> None:
    seconds, episodes = values.get("deadline_seconds"), values.get("deadline_episodes")
    if seconds is not None and episodes is not None:
        raise ValueError(f"{key} must have deadline_seconds or deadline_episodes, got both")
    if seconds is not None:
        values["deadline_seconds"] = checks.real(f"{key}.deadline_seconds", seconds, 0.0)
    if episodes is not None:
        checks.integer(f"{key}.deadline_episodes", episodes, 0)
    default, grace = values.get("default"), values.get("grace")
    reward = values.get("default_reward")
    for name, value in (("default", default), ("default_reward", reward), ("grace", grace)):
        if value is not None and seconds is None and episodes is None:
            raise ValueError(f"{key}.{name} needs a deadline_seconds or deadline_episodes")
    if (default is not None or reward is not None) and grace is not None and seconds is None:
        raise ValueError(
            f"{key} must have a default or a grace, got both: without a clock, what happened in "
            "time and comes later cannot be told from what is late (see deadline_seconds)"
        )
    if default is not None:
        values["default"] = checks.real(f"{key}.default", default, 0.0, 1.0)
    if grace is not None and seconds is not None:
        decides = getattr(values["problem"], "states", 1) is None
        values["grace"] = checks.real(f"{key}.grace", grace, 0.0, above=not decides)
    elif grace is not None:
        checks.integer(f"{key}.grace", grace, 1)


def _token(key: str, given: object) -> Token:
    values = _table(key, given)
    _check_keys(f"{key}.", values, Token, "a token")
    for name in ("name", "sha256", "learners"):
        if name not in values:
            raise ValueError(f"{key}.{name} is required")
    verbs = tuple(_list(f"{key}.verbs", values.get("verbs", list(VERBS))))
    learners = tuple(_text(f"{key}.learners", n) for n in _list(key, values["learners"]))
    name, sha256 = (_text(f"{key}.{n}", values[n]) for n in ("name", "sha256"))
    try:
        return Token(name, sha256, learners, verbs)
    except ValueError as error:
        raise ValueError(f"{key}.{error}") from None


def _check_keys(prefix: str, given: Mapping[str, Any], kind: type, taker: str, *more: str) -> None:
    allowed = [*(item.name for item in fields(kind)), *more]
    for key, value in given.items():
        if key not in allowed:
            raise unknown_key(f"{prefix}{key}", value, taker, allowed)


def _table(key: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} must be a table, got {checks.show(value)}")
    return value


def _list(key: str, value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{key} must be a list, got {checks.show(value)}")
    return value


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} must be a text, got {checks.show(value)}")
    return value
