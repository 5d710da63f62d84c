"""Tables of the kinds that an experiment may name, written when the documentation is built."""

import inspect
import json
from pathlib import Path

from belated.lab import kinds
from belated.lab.kinds import agent_parts
from belated.lab.kinds.make import Inner
from belated.lab.kinds.registry import Registry, accepted

SECTIONS = {
    "Environments": kinds.ENVIRONMENTS,
    "Costs": kinds.COSTS,
    "Delays": kinds.DELAYS,
    "Agents": kinds.AGENTS,
    "Transitions of an agent": agent_parts.TRANSITIONS,
    "Costs of an agent": agent_parts.COST_PARTS,
    "Updates of an agent": agent_parts.UPDATES,
    "Exploration of an agent": agent_parts.EXPLORES,
}


def main(directory: Path) -> None:
    """Write kinds.md into the directory."""
    sections = [f"### {name}\n\n{table(registry)}" for name, registry in SECTIONS.items()]
    (directory / "kinds.md").write_text("\n".join(sections), encoding="utf-8")


def table(registry: Registry) -> str:
    """The kinds of a registry: what each is, and its parameters with their defaults."""
    lines = ["| kind | what it is | parameters |", "| --- | --- | --- |"]
    for kind, maker in registry.kinds.items():
        what = (inspect.getdoc(maker) or "").splitlines()[0]
        given = [parameter(item) for item in accepted(maker).values()]
        lines.append(f"| `{kind}` | {what} | {', '.join(given) or 'none'} |")
    return "\n".join(lines) + "\n"


def parameter(item: inspect.Parameter) -> str:
    """A parameter as a file would give it."""
    default = item.default.part.kind if isinstance(item.default, Inner) else item.default
    if default is item.empty:
        return f"`{item.name}`"
    if default is None:
        return f"`{item.name}` (optional)"
    plain = list(default) if isinstance(default, tuple) else default
    return f"`{item.name} = {json.dumps(plain)}`"
