"""Tables of the parts an experiment is made of, written when the documentation is built."""

import inspect
import json
from pathlib import Path

from belated.lab import parts

PLACES = {
    "Environments": parts.ENVIRONMENTS,
    "Costs": parts.COSTS,
    "Delays": parts.DELAYS,
    "Agents": parts.AGENTS,
}


def main(directory: Path) -> None:
    """Write kinds.md into the directory."""
    sections = [f"### {name}\n\n{table(registry)}" for name, registry in PLACES.items()]
    (directory / "kinds.md").write_text("\n".join(sections), encoding="utf-8")


def table(registry: dict[str, parts.Maker]) -> str:
    """The kinds of a registry: what each is, and its parameters with their defaults."""
    lines = ["| kind | what it is | parameters |", "| --- | --- | --- |"]
    for kind, maker in registry.items():
        what = (inspect.getdoc(maker) or "").splitlines()[0]
        named = inspect.signature(maker).parameters
        given = [parameter(named[name]) for name in parts.accepted(maker)]
        lines.append(f"| `{kind}` | {what} | {', '.join(given) or 'none'} |")
    return "\n".join(lines) + "\n"


def parameter(item: inspect.Parameter) -> str:
    """A parameter as it would stand in a file."""
    if item.default is item.empty:
        return f"`{item.name}`"
    if item.default is None:
        return f"`{item.name}` (optional)"
    plain = list(item.default) if isinstance(item.default, tuple) else item.default
    return f"`{item.name} = {json.dumps(plain)}`"
