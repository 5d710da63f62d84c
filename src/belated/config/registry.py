"""Registries of kinds and their parameters.

A kind is a name in a registry, or `module:function` for one of your own.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from belated.config.part import Part, as_part
from belated.core import checks
from belated.names import kind as kind_of

Maker = Callable[..., Any]


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """The kinds of one sort of part.

    Attributes:
        kinds: the function or class of each name. The objects that the lab passes are
            positional-only arguments; a class takes none of them.
        same: parameters that are parts of this registry again.
        others: parameters that are parts of other registries.
        waits: whether parts inside are passed as a `build.Inner` instead of being built first.
    """

    kinds: dict[str, Maker]
    same: tuple[str, ...] = ()
    others: Mapping[str, Registry] = field(default_factory=dict)
    waits: bool = False

    def inside(self, name: str) -> Registry | None:
        """The registry of a parameter that is a part; None for a plain value."""
        return self if name in self.same else self.others.get(name)


def by_name(*makers: Maker) -> dict[str, Maker]:
    """Functions and classes as kinds, by the name that files use for each."""
    return {kind_of(maker.__name__): maker for maker in makers}


def like(described: Maker, function: Maker, parameters: Iterable[inspect.Parameter]) -> Maker:
    """A kind: a function of a `RunBrief` with these parameters, with the description of another."""
    told = inspect.Parameter("told", inspect.Parameter.POSITIONAL_ONLY)
    given = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
    function.__signature__ = inspect.Signature([told, *given])  # type: ignore[attr-defined]
    function.__doc__ = (inspect.getdoc(described) or "").partition("\n\nExample:")[0]
    return function


def is_own(kind: object) -> bool:
    """Whether a kind is a `module:function`."""
    return isinstance(kind, str) and ":" in kind


def check(key: str, made: object, registry: Registry) -> None:
    """Check that a kind exists and takes its parameters, and the same for the parts inside.

    A `module:function` is not imported here, so that results can be read without it.
    """
    if not isinstance(made, Part):
        raise ValueError(f"{key} must be a table with a kind, got {checks.show(made)}")
    own = is_own(made.kind)
    if not own:
        if made.kind == "":
            raise ValueError(f"{key}.kind is required: one of {quoted(registry.kinds)}")
        checks.choice(f"{key}.kind", made.kind, registry.kinds)
        check_parameters(key, made, registry.kinds[made.kind])
    for name, value in made.parameters:
        inside = registry.inside(name)
        if own:  # any table is a part, and any text is a plain value
            inside = (inside or registry) if isinstance(value, Part) else None
        _check_value(f"{key}.{name}", value if inside is None else as_part(value), inside)


def _check_value(key: str, value: Any, inside: Registry | None) -> None:
    """Check a part, or a list of parts, if there is a registry; a plain value otherwise."""
    if inside is None:
        if isinstance(value, Part):
            raise ValueError(f"{key} must be a plain value, got {checks.show(value)}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            check(f"{key}[{i}]", item, inside)
    else:
        check(key, value, inside)


def code_named(key: str, value: object, registry: Registry | None) -> list[str]:
    """The places where a checked part, or a part inside, names code: `module:function`.

    The id of a Gymnasium environment may name a module too.
    """
    if isinstance(value, tuple):
        return [
            text for i, v in enumerate(value) for text in code_named(f"{key}[{i}]", v, registry)
        ]
    if not isinstance(value, Part):
        return []
    found = [f"{key}.kind = {value.kind!r}"] if is_own(value.kind) else []
    for name, item in value.parameters:
        inside = registry.inside(name) if registry is not None else None
        found += code_named(f"{key}.{name}", item if inside is None else as_part(item), inside)
        if value.kind == "gymnasium" and is_own(item):
            found.append(f"{key}.{name} = {item!r}")
    return found


def check_parameters(key: str, made: Part, maker: Maker, handed: int = 0) -> None:
    """Check the names of a part's parameters. handed: see `accepted`."""
    allowed = accepted(maker, handed)
    any_name = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(maker).parameters.values())
    for name, value in made.parameters:
        if name not in allowed and not any_name:
            raise unknown_key(f"{key}.{name}", value, repr(made.kind), allowed)
    for name, parameter in allowed.items():
        if parameter.default is parameter.empty and name not in made.values:
            raise ValueError(f"{key}.{name} is required for kind {made.kind!r}")


def accepted(maker: Maker, handed: int = 0) -> dict[str, inspect.Parameter]:
    """The parameters that a file may give, by name.

    The arguments that the lab passes are left out: positional-only ones, and the first `handed`.
    """
    parameters = list(inspect.signature(maker).parameters.values())[handed:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name: p for p in parameters if p.kind in named}


def with_defaults(made: Part, registry: Registry) -> dict[str, Any]:
    """The parameters of a part by name, with the defaults of those that are not given."""
    if is_own(made.kind):
        return made.values
    allowed = accepted(registry.kinds[made.kind]).values()
    defaults = {p.name: p.default for p in allowed if p.default is not p.empty}
    return defaults | made.values


def unknown_key(key: str, value: object, taker: str, allowed: Iterable[str]) -> ValueError:
    """The error for a key that `taker` does not take."""
    known = list(allowed)
    close = difflib.get_close_matches(key.rpartition(".")[2], known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    takes = quoted(known) or "no parameters"
    return ValueError(f"{key} = {checks.show(value)}: unknown key; {taker} takes {takes}{hint}")


def quoted(allowed: Iterable[str]) -> str:
    """Names in quotation marks, for a message."""
    return ", ".join(repr(name) for name in allowed)
