"""Lists of the kinds: a description of each, and its parameters with their defaults."""

import inspect
import json
from collections.abc import Iterator

from belated.config import agents as kinds
from belated.config.part import Part, accepted
from belated.lab import scenes

SECTIONS = {
    "Environments": scenes.ENVIRONMENTS,
    "Costs": scenes.COSTS,
    "Delays": scenes.DELAYS,
    "Agents": kinds.AGENTS,
    "Agents for decisions with features": kinds.DECIDERS,
    "Transitions of an agent": kinds.PARTS["transitions"],
    "Costs of an agent": kinds.PARTS["costs"],
    "Updates of an agent": kinds.PARTS["update"],
    "Exploration of an agent": kinds.PARTS["explore"],
}


def all_kinds() -> Iterator[tuple[str, str, str, list[str]]]:
    """Every kind: its section, its name, its description, and parameters with their defaults.

    The first line of a description says what the kind is; parameters have the form of a file.
    """
    for section, registry in SECTIONS.items():
        for name, maker in registry.kinds.items():
            about = (inspect.getdoc(maker) or "No description.").partition("\n\nExample:")[0]
            yield section, name, about, [_parameter(item) for item in accepted(maker).values()]


def _parameter(item: inspect.Parameter) -> str:
    """A parameter in the form of a file."""
    default = item.default.kind if isinstance(item.default, Part) else item.default
    if default is item.empty:
        return f"{item.name} (required)"
    if default is None:
        return f"{item.name} (optional)"
    return f"{item.name} = {json.dumps(default)}"
