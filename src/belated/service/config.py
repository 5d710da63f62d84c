"""The configuration of a server, from a TOML file.

A dataclass reads the tables inside it and checks its own values, by their types first; it names the
wrong one, and `structured` adds the place in the file.
"""

import hashlib
import json
import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta, ValidationError, convert

from belated.config.agents import AGENTS, DECIDERS
from belated.config.agents import RunBrief
from belated.config.part import Registry, make, read, structured
from belated.core import checks, saving, tree
from belated.core.contract import Agent, Scale, check_is_agent
from belated.evaluation.sequences import Contest
from belated.linear.choice import Choice
from belated.linear.features import Features
from belated.tabular.problem import Problem

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
DEMONSTRATION = Path(__file__).with_name("demonstration.toml")
"""A mailer whose customers are simulated, a shop and a robot."""
POSTGRES = ("postgresql://", "postgres://")
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
PROBLEM = ("actions", "states", "horizon", "one_outcome", "check", "check_observation", "read")
"""Attributes that your own problem must have, among others of `core.contract.Problem`."""
COSTS = ("information", "rewards", "clip", "default", "default_reward")
"""Keys of learners with states, whose outcomes are costs in the end. Rewards of decisions may have
any unit, and `silence` of the agent says what no report means."""
VERDICT = ("window", "range", "level")
"""Keys of learners of decisions."""
DEADLINES = ("deadline_seconds", "deadline_episodes")
BESIDE = (
    ("problem", "actions"),
    ("problem", "features"),
    ("agent", "start"),
    ("holdout", "start"),
    DEADLINES,
    ("default", "default_reward"),
)
"""Pairs of keys of a learner that say the same, so that one must be left out."""
NEEDS = (
    ("clip", ("rewards",), "rewards = [low, high]"),
    ("default_reward", ("rewards",), "rewards = [low, high]"),
    ("default", DEADLINES, "a deadline_seconds or deadline_episodes"),
    ("grace", DEADLINES, "a deadline_seconds or deadline_episodes"),
)
"""A key of a learner, the keys of which it needs one, and how that is given."""
Verb = Literal["begin", "feedback", "read", "admin"]
VERBS: tuple[Verb, ...] = get_args(Verb)
EVERY = "*"
"""All learners, for a token."""
Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[float, Meta(ge=0, le=1e11)]
NIGHT = 86_400.0
"""Seconds for which decisions past their deadline are kept, for events before the deadline."""
UNKNOWN = "a service does not know {}; give a number or another kind"
"""Why an agent of a service is not told what only a simulation knows."""


def check_types(item: Any) -> None:
    """Convert the fields of a dataclass to their types; `ValueError` names a wrong one."""
    types = get_type_hints(type(item), include_extras=True)
    for name in (one.name for one in fields(item) if one.init):
        value = getattr(item, name)
        try:
            checks.fix(item, name, convert(value, types[name]))
        except ValidationError as error:
            raise ValueError(f"{name} = {checks.show(value)}: {error}") from None


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its permissions.

    It is 32 random bytes, so its plain SHA-256, which is all that is stored, cannot be inverted.

    Attributes:
        name: the name of its holder, for the limits.
        sha256: the hash of the token, in hexadecimal.
        learners: the names of learners, or "*" for all.
        verbs: begin (and decide), feedback (and forget), read, admin (snapshots).
    """

    name: Text
    sha256: str
    learners: tuple[Text, ...]
    verbs: tuple[Verb, ...] = VERBS

    def __post_init__(self) -> None:
        check_types(self)
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise ValueError("sha256 must be 64 digits from 0 to f; `belated token` makes one")


ANYBODY = Token("anybody", "0" * 64, (EVERY,))
"""The holder of all requests to a server without tokens, which listens on loopback only."""


def new_token() -> tuple[str, str]:
    """A token and its hash."""
    token = f"belated-{secrets.token_urlsafe(32)}"
    return token, hashed(token)


def hashed(token: str) -> str:
    """The hash of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a server.

    Attributes:
        body: the largest request, in bytes.
        batch: the largest number of records in a request, at most 30,000.
        open: the largest number of open episodes of a learner.
        waiting: the number of calls that wait for an agent from which on no more are accepted.
        snapshot: the number of rows between two snapshots.
        log: the number of rows of a learner that are kept, in addition to those not covered by two
            snapshots and to those of open episodes; without it, all.
    """

    body: Count = 2_000_000
    batch: Annotated[int, Meta(ge=1, le=30_000)] = 1_000  # one statement has a place for each
    open: Count = 100_000
    waiting: Count = 10_000
    snapshot: Count = 20_000
    log: Annotated[int, Meta(ge=0)] | None = None

    def __post_init__(self) -> None:
        check_types(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerConfig:
    """A learner.

    Attributes:
        name: its name in addresses and files: lower-case letters, digits and dashes.
        problem: states, actions, horizon, start, homogeneous; or one from your own code; or, for
            decisions without states, the `Choice` of `actions` and `features`.
        actions, features: in place of a problem, those of decisions without states.
        information: "bandit" or "full".
        agent: a kind of the lab; by default the recommended one.
        start: a file of `belated.save` in place of `agent`: the agent continues from it. The file
            must not be removed.
        deadline_seconds, deadline_episodes: how long an episode may wait; at most one of them.
        default: the cost of a step that has not reported by then.
        grace: how much longer an episode is kept, in the deadline's unit, for outcomes that
            happened before its deadline and arrive later; 0 means no grace. The default is one day
            for decisions with a deadline in seconds, and none otherwise. A `default` is applied
            only after the grace.
        rewards: [low, high], the range of rewards in records that do not state one.
        clip: whether a reward outside this range counts as the nearest one inside.
        default_reward: the reward of a step that has not reported by the deadline, in place of
            `default`, which is a cost.
        holdout: the share of the decisions that play uniformly, for an unbiased comparison.
        window: of decisions, the seconds after which an outcome is final, for the verdict; by
            default the deadline with its grace.
        range: of decisions, the smallest and the largest possible outcome, for an exact verdict.
        level: of decisions, the confidence level of the verdict.
        unit: that of rewards, such as "euros", for people; by default they are called rewards.
        note: a line for the page.
        scale: converts rewards to costs, with the default as a cost.
        timed, deadline: whether the deadline is in seconds, and the deadline in its unit.
        limit: the deadline and the grace together, after which an episode is closed.
    """

    name: str
    problem: Any = None
    actions: Any = None
    features: Any = None
    information: Literal["bandit", "full"] = "bandit"
    agent: Any = None
    start: str | None = None
    deadline_seconds: NotNegative | None = None
    deadline_episodes: Annotated[int, Meta(ge=0)] | None = None
    default: Annotated[float, Meta(ge=0, le=1)] | None = None
    grace: NotNegative | None = None
    rewards: tuple[float, float] | None = None
    clip: bool = False
    default_reward: float | None = None
    holdout: float | None = None
    window: NotNegative | None = None
    range: tuple[float, float] | None = None
    level: float = 0.95
    unit: str = ""
    note: Text | None = None
    scale: Scale | None = field(init=False, default=None)
    timed: bool = field(init=False)
    deadline: float | None = field(init=False)
    limit: float | None = field(init=False)

    def __post_init__(self) -> None:
        check_types(self)
        if not NAME.fullmatch(self.name):
            raise ValueError(
                "name must be 1 to 63 lower-case letters, digits and dashes, "
                f"got {checks.show(self.name)}"
            )
        given = [
            one.name for one in fields(self) if one.init and getattr(self, one.name) != one.default
        ]
        checks.fix(self, "problem", _problem(self.problem, self.actions, self.features))
        self._check_kind(given)
        for name, needed, what in NEEDS:
            if name in given and not {*needed}.intersection(given):
                raise ValueError(f"{name} needs {what}")
        for name, other in BESIDE:
            if name in given and other in given:
                raise ValueError(f"{name} must be left out beside {other}, got both")
        if self.start is None:
            self._set_agent()
        Contest(2, range=self.range, level=self.level)  # which checks both
        if self.rewards is not None:
            checks.fix(self, "scale", Scale.of("rewards", self.rewards, clip=self.clip))
        if self.default_reward is not None and self.scale is not None:
            silent = self.scale.costs("default_reward", self.default_reward)
            checks.fix(self, "default", float(silent))
        self._set_deadline()

    def _check_kind(self, given: list[str]) -> None:
        """Check that keys for learners of the other kind are left out."""
        of_decisions = isinstance(self.problem, Choice)
        names = COSTS if of_decisions else () if self.decides else VERDICT
        kind = "of decisions" if of_decisions else "with states"
        for name in given:
            if name in names:
                raise ValueError(f"{name} must be left out of a learner {kind}")

    def _set_agent(self) -> None:
        usual = "linear_sampler" if self.decides else "recommended"
        agent = read("agent", usual if self.agent is None else self.agent, self.kinds)
        if self.holdout is not None:
            if "holdout" in agent.values:
                raise ValueError("holdout must be given once, got one of the agent beside it")
            agent = read("agent", agent.replaced("holdout", self.holdout), self.kinds)
        checks.fix(self, "agent", agent)

    def _set_deadline(self) -> None:
        checks.fix(self, "timed", self.deadline_seconds is not None)
        deadline = self.deadline_seconds if self.timed else self.deadline_episodes
        usual = NIGHT if self.timed and self.decides else None
        grace = usual if self.grace is None else self.grace
        if grace and not self.timed and self.default is not None:
            raise ValueError(
                "grace must be left out beside a default: without a clock, what happened in "
                "time and comes later cannot be told from what is late (see deadline_seconds)"
            )
        checks.fix(self, "grace", grace or None)
        checks.fix(self, "deadline", deadline)
        checks.fix(self, "limit", None if deadline is None else deadline + (grace or 0.0))

    @property
    def decides(self) -> bool:
        """Whether it is a learner of decisions, without states."""
        return getattr(self.problem, "states", 1) is None

    @property
    def kinds(self) -> Registry:
        """The kinds of agents for the problem."""
        return DECIDERS if self.decides else AGENTS

    def fresh(self) -> Agent:
        """A fresh agent, or the one of the file, that fits the problem and can be saved."""
        problem, key = self.problem, f"learner {self.name}: {'start' if self.start else 'agent'}"
        if self.start is not None:
            agent: Agent = saving.load(self.start)
            if waiting := agent.open_episodes():
                raise ValueError(
                    f"{key} must be an agent without open episodes (forget them first), got one "
                    f"with {len(waiting)}, the oldest being {waiting[0]}"
                )
        else:
            brief = RunBrief(problem, self.information, "late", None, None, unknown=UNKNOWN)
            told = brief if self.kinds is AGENTS else problem
            agent = make(key, self.agent, self.kinds, told)
            check_is_agent(key, agent, fresh=True)
        if (agent.problem, agent.information) != (problem, self.information):
            raise ValueError(
                f"{key} must be an agent for {problem} and information = {self.information!r}, "
                f"got one for {agent.problem} and {agent.information!r}"
            )
        if self.range is not None and hasattr(agent, "verdict"):
            agent.verdict(None, self.range, self.level)  # raises if it cannot be exact
        try:
            saving.to_bytes(agent)
        except ValueError as error:
            raise ValueError(f"{key} must be an agent that can be saved: {error}") from None
        return agent

    def terms(self, agent: Agent) -> dict[str, Any]:
        """What must not change while a learner exists, as plain values. agent: a fresh one."""
        start = self.start and hashlib.sha256(Path(self.start).read_bytes()).hexdigest()
        same = ("information", "deadline", "timed", "default", "grace", "rewards")
        told = {
            **{name: getattr(self, name) for name in same},
            "problem": tree.describe(agent.problem),
            "uses_paths": agent.uses_paths,
            "first": agent.begun,
            "start": start,
            "agent": tree.describe(agent),
        }
        plain: dict[str, Any] = json.loads(json.dumps(told))
        return plain


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
        tokens: without any, a server listens on loopback only.
        limits: see `Limits`.
    """

    learners: tuple[LearnerConfig, ...]
    storage: Text = "belated-data"
    host: Text = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8571
    url: Text | None = None
    hosts: tuple[Text, ...] = ()
    tokens: tuple[Token, ...] = ()
    limits: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in (("learners", LearnerConfig), ("tokens", Token)):
            listed = getattr(self, name)
            if not isinstance(listed, list | tuple):
                raise ValueError(f"{name} must be a list, got {checks.show(listed)}")
            taker = f"a {name.removesuffix('s')}"
            made = [structured(f"{name}[{i}]", kind, taker, one) for i, one in enumerate(listed)]
            checks.fix(self, name, tuple(made))
        checks.fix(self, "limits", structured("limits", Limits, "limits", self.limits))
        check_types(self)
        if not self.learners:
            raise ValueError("learners must name at least one, [[learners]]")
        names = [learner.name for learner in self.learners]
        if len(set(names)) != len(names):
            raise ValueError(f"learners must have different names, got {names}")
        if "://" in self.storage and not self.storage.startswith(POSTGRES):
            raise ValueError(
                f"storage must be a directory or start with {' or '.join(POSTGRES)}, got one that "
                f"starts with {checks.show(self.storage.partition('://')[0])}"
            )
        for token in self.tokens:
            for name in token.learners:
                checks.choice(f"tokens: learners of {token.name!r}", name, [*names, EVERY])

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return re.fullmatch(r"localhost|::1|127(\.\d{1,3}){3}", self.host) is not None

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """The host names that requests may use; none means any."""
        if not self.loopback and not self.hosts:
            return frozenset()
        return frozenset({*LOOPBACK, *self.hosts, self.host})


def load(path: Path | None) -> Config:
    """The configuration in a TOML file, or that of the demonstration.

    A mistake raises ValueError with one line.
    """
    path = path or DEMONSTRATION
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} must be a readable TOML file: {error}") from None
    try:
        return from_table(table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_table(given: Mapping[str, Any]) -> Config:
    """The configuration that a table describes. Every agent is made once, as a check."""
    config = structured("", Config, "a server", given)
    for learner in config.learners:
        learner.fresh()
    return config


def _problem(given: Any, actions: Any, features: Any) -> Any:
    """A problem with states, one of decisions, or one from your own code."""
    if actions is not None or features is not None:
        if isinstance(features, Mapping):
            features = structured("features", Features, "features", features)
        return Choice(actions, features)
    if given is None:
        raise ValueError("problem is required (or actions, for decisions)")
    if isinstance(given, Mapping) and "kind" in given:
        if ":" not in str(given["kind"]):
            raise ValueError(
                "problem.kind must be code of your own, module:function, got "
                f"{checks.show(given['kind'])}; without a kind, a problem has states, actions and "
                "a horizon"
            )
        given = make("problem", given, Registry({}))
    elif isinstance(given, Mapping):
        given = structured("problem", Problem, "a problem", given)
    for name in PROBLEM:
        if not hasattr(given, name):
            raise ValueError(f"problem must be a problem, got {checks.show(given)} without {name}")
    return given
