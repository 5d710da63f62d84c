"""Lists of the kinds: a description of each, and its parameters with their defaults."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

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


def all_kinds() -> Iterator[tuple[str, str, str, list[str]]]:
    """Every kind: its section, its name, its description, and parameters with their defaults.

    The first line of a description says what the kind is; parameters have the form of a file.
    """
    for section, registry in SECTIONS.items():
        for name, maker in registry.kinds.items():
            about = inspect.getdoc(maker) or "No description."
            yield section, name, about, [_parameter(item) for item in accepted(maker).values()]


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
        for own, name, about, parameters in all_kinds():
            if own == section:
                given = ", ".join(f"`{item}`" for item in parameters) or "none"
                lines.append(f"| `{name}` | {about.splitlines()[0]} | {given} |")
        found.append("\n".join(lines))
    return "\n\n".join(found) + "\n"
