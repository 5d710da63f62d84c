"""Lists of the kinds: a description of each, and its parameters with their defaults."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass

from belated import config as kinds
from belated.config import agent_parts
from belated.config.build import Inner
from belated.config.registry import accepted

SECTIONS = {
    "Environments": kinds.ENVIRONMENTS,
    "Costs": kinds.COSTS,
    "Delays": kinds.DELAYS,
    "Agents": kinds.AGENTS,
    "Agents for decisions with features": kinds.DECIDERS,
    "Transitions of an agent": agent_parts.TRANSITIONS,
    "Costs of an agent": agent_parts.COST_PARTS,
    "Updates of an agent": agent_parts.UPDATES,
    "Exploration of an agent": agent_parts.EXPLORES,
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind.

    Attributes:
        section: the sort of part.
        name: its name in files.
        what: a description in one line.
        about: the full description.
        parameters: its parameters in the form of a file, with their defaults.
    """

    section: str
    name: str
    what: str
    about: str
    parameters: tuple[str, ...]


def all_kinds() -> Iterator[Kind]:
    """Every kind, section by section."""
    for section, registry in SECTIONS.items():
        for name, maker in registry.kinds.items():
            about = inspect.getdoc(maker) or "No description."
            given = tuple(_parameter(item) for item in accepted(maker).values())
            yield Kind(section, name, about.splitlines()[0], about, given)


def _parameter(item: inspect.Parameter) -> str:
    """A parameter in the form of a file."""
    default = item.default.part.kind if isinstance(item.default, Inner) else item.default
    if default is item.empty:
        return f"{item.name} (required)"
    if default is None:
        return f"{item.name} (optional)"
    plain = list(default) if isinstance(default, tuple) else default
    return f"{item.name} = {json.dumps(plain)}"


def markdown() -> str:
    """All kinds as tables in Markdown."""
    found = []
    for section in SECTIONS:
        lines = [f"## {section}", "", "| kind | what it is | parameters |", "| --- | --- | --- |"]
        for kind in all_kinds():
            if kind.section == section:
                given = ", ".join(f"`{item}`" for item in kind.parameters) or "none"
                lines.append(f"| `{kind.name}` | {kind.what} | {given} |")
        found.append("\n".join(lines))
    return "\n\n".join(found) + "\n"
