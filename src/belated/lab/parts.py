"""Parts of an experiment by name: a kind and its parameters, and what each kind builds.

A kind is a name in one of the registries below, or `module:function` for one of your own; this is
the only place where strings become functions. A parameter may be a part of the same registry again:
`lost` delays have an `otherwise`, wrappers have an `agent`.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from belated import checks, delays, environments
from belated.agents.contract import Agent
from belated.lab import learners, processes

Maker = Callable[..., Any]

ENVIRONMENTS: dict[str, Maker] = {
    "bandit": environments.bandit,
    "chain": environments.chain,
    "delay_lower_bound": environments.delay_lower_bound,
    "gridworld": environments.gridworld,
    "gymnasium": environments.from_gymnasium,
    "random_mdp": environments.random_mdp,
}
COSTS: dict[str, Maker] = {
    "blocks": processes.blocks,
    "moving_goal": processes.moving_goal,
    "random": processes.random,
}
DELAYS: dict[str, Maker] = {
    "bursts": delays.bursts,
    "fixed": delays.fixed,
    "geometric": delays.geometric,
    "heavy_tailed": delays.heavy_tailed,
    "lost": delays.lost,
    "monotone": delays.monotone,
    "none": delays.none,
    "poisson": delays.poisson,
    "trace": delays.trace,
    "uniform": delays.uniform,
}
AGENTS: dict[str, Maker] = {
    "bold": learners.bold,
    "doubling": learners.doubling,
    "oppo": learners.oppo,
    "oreps": learners.oreps,
    "parallel": learners.parallel,
    "pipeline": learners.pipeline,
    "skipping": learners.skipping,
    "ucbvi": learners.ucbvi,
}
INSIDE = ("agent", "model", "otherwise", "within")
"""Parameters that are parts themselves."""


@dataclass(frozen=True, slots=True)
class Part:
    """A kind and its parameters, sorted by name; lists are tuples, tables are parts."""

    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def values(self) -> dict[str, Any]:
        """The parameters by name."""
        return dict(self.parameters)


def part(kind: str, /, **parameters: Any) -> Part:
    """A part from keywords."""
    return Part(kind, tuple(sorted((name, _value(value)) for name, value in parameters.items())))


def _value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_value(item) for item in value)
    return value


def read(key: str, table: object, registry: Mapping[str, Maker]) -> Part:
    """The part that a table describes; `key` is where it stands in the file."""
    if not isinstance(table, Mapping):
        raise ValueError(
            f"{key} must be a table with a kind, e.g. {{ kind = {next(iter(registry))!r} }}, "
            f"got {checks.show(table)}"
        )
    if "kind" not in table:
        raise ValueError(f"{key}.kind must be one of {_names(registry)}, got none")
    parameters = {
        name: read(f"{key}.{name}", value, registry) if isinstance(value, Mapping) else value
        for name, value in table.items()
        if name != "kind"
    }
    made = part(table["kind"], **parameters)
    check(key, made, registry)
    return made


def table(made: Part) -> dict[str, Any]:
    """The table that describes a part; the inverse of `read`."""
    return {
        "kind": made.kind,
        **{
            name: table(value) if isinstance(value, Part) else value
            for name, value in made.parameters
        },
    }


def check(key: str, made: object, registry: Mapping[str, Maker]) -> None:
    """The kind exists, and its parameters are those of the function behind it."""
    if not isinstance(made, Part):
        raise ValueError(f"{key} must be a part, got {checks.show(made)}")
    if _own(made.kind):
        return  # looked at when it is imported: results are read without it
    checks.choice(f"{key}.kind", made.kind, registry)
    _check_parameters(key, made, registry[made.kind])
    for name, value in made.parameters:
        if isinstance(value, Part) != (name in INSIDE):
            allowed_here = "a table with a kind" if name in INSIDE else "a plain value"
            raise ValueError(f"{key}.{name} must be {allowed_here}, got {checks.show(value)}")
        if isinstance(value, Part):
            check(f"{key}.{name}", value, registry)


def _check_parameters(key: str, made: Part, maker: Maker, handed: int = 0) -> None:
    allowed = accepted(maker, handed)
    any_name = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(maker).parameters.values())
    for name, value in made.parameters:
        if name not in allowed and not any_name:
            close = difflib.get_close_matches(name, allowed, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            takes = _names(allowed) if allowed else "nothing"
            raise ValueError(
                f"{key}.{name} = {checks.show(value)} must go: {made.kind!r} takes {takes}{hint}"
            )
    for name, required in allowed.items():
        if required and name not in made.values:
            raise ValueError(f"{key}.{name} must be given for kind {made.kind!r}, got none")


def accepted(maker: Maker, handed: int = 0) -> dict[str, bool]:
    """Names of the parameters a file may give, and whether each must be given.

    What the lab itself hands over is left out: positional-only arguments, and the first `handed`.
    """
    parameters = list(inspect.signature(maker).parameters.values())[handed:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name: p.default is p.empty for p in parameters if p.kind in named}


def build(key: str, made: Part, registry: Mapping[str, Maker], *given: object) -> Any:
    """Call the function behind a part: first on what the lab hands over, then its parameters.

    Parts inside are built first. What a function says against its arguments gets the key in front.
    """
    parameters = {
        name: build(f"{key}.{name}", value, registry, *given) if isinstance(value, Part) else value
        for name, value in made.parameters
    }
    return _call(key, made, _maker(key, made, registry, len(given)), given, parameters)


def build_agent(key: str, made: Part, told: learners.Told) -> Agent:
    """An agent for what it is told. Parts inside become functions of what *they* are told."""
    parameters = {
        name: partial(build_agent, f"{key}.{name}", value) if isinstance(value, Part) else value
        for name, value in made.parameters
    }
    agent: Agent = _call(key, made, _maker(key, made, AGENTS, 1), (told,), parameters)
    return agent


def _own(kind: object) -> bool:
    return isinstance(kind, str) and ":" in kind


def _maker(key: str, made: Part, registry: Mapping[str, Maker], handed: int) -> Maker:
    """The function behind a kind; modules are found from the current directory as well.

    handed: how many arguments the lab itself will hand over.
    """
    if not _own(made.kind):
        return registry[made.kind]
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    module, _, name = made.kind.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # importing runs code that may do anything
        raise ValueError(
            f"{key}.kind must be one of {_names(registry)}, or module:function that can be "
            f"imported, got {made.kind!r}: {_raised(error)}"
        ) from None
    if not callable(found):
        raise ValueError(f"{key}.kind must name a function, got {made.kind!r}")
    maker: Maker = found
    _check_parameters(key, made, maker, handed)
    return maker


def _call(
    key: str, made: Part, maker: Maker, given: tuple[object, ...], parameters: dict[str, Any]
) -> Any:
    try:
        return maker(*given, **parameters)
    except (Exception, SystemExit) as error:
        message = str(error)
        if message.startswith((f"{key}.", f"{key}:")):  # of a part inside
            raise ValueError(message) from None
        if _own(made.kind) or not isinstance(error, ValueError | ImportError):
            raise ValueError(f"{key}: {made.kind} raised {_raised(error)}") from None
        raise ValueError(f"{key}.{message}") from None


def _raised(error: BaseException) -> str:
    """An exception in one line, with the place where it was raised."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if f.filename != __file__ and "importlib" not in f.filename]
    if not theirs:
        return text
    return f"{text} ({os.path.basename(theirs[-1].filename)}, line {theirs[-1].lineno})"


def _names(names: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in names)
