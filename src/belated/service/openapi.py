"""The interface as OpenAPI, from the operations and the types of their bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from belated import __version__
from belated.service.wire import PARAMETERS, Refused

COMMON = (307, 400, 401, 403, 404, 413, 415, 421, 422, 429, 503)
"""The statuses of refusals that every operation on a learner may have."""
PLAIN = (401, 403, 421, 503)
"""Those of operations on the whole service."""
EXAMPLES = {
    "reward": {
        "summary": "a reward of a decision, by its key",
        "value": {"key": "visitor 7", "reward": 12.5, "event": "order-17"},
    },
    "cost": {"summary": "of one step", "value": {"episode": 0, "step": 0, "cost": 0.25}},
    "costs": {"summary": "the costs of all steps", "value": {"episode": 0, "costs": [0.25]}},
    "path": {
        "summary": "where the episode went",
        "value": {"episode": 0, "path": {"states": [0, 0], "actions": [1]}},
    },
    "end": {"summary": "the last state", "value": {"episode": 0, "end": 0}},
}


def description(operations: Sequence[Any]) -> dict[str, Any]:
    """The whole description."""
    types = [k for one in operations for k in (one.body, one.answer) if k is not None]
    kinds = dict.fromkeys([*types, Refused, *PARAMETERS.values()])
    found, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schemas = dict(zip(kinds, found, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        if one.tag is not None:
            paths.setdefault(one.path, {})[one.method.lower()] = _described(one, schemas)
    about = "Hand out decisions, take feedback whenever it comes."
    return {
        "openapi": "3.1.0",
        "info": {"title": "belated", "version": __version__, "description": about},
        "paths": paths,
        "components": {"schemas": components},
    }


def _described(one: Any, schemas: dict[Any, Any]) -> dict[str, Any]:
    """One operation. schemas: of the types of bodies."""
    parameters = [
        {"name": n, "in": place, "schema": schemas[PARAMETERS[n]], "required": place == "path"}
        for place, names in (("path", re.findall(r"\{(\w+)", one.path)), ("query", one.query))
        for n in names
    ]
    good: dict[str, Any] = {"description": "success"}
    if one.answer is not None:
        good["content"] = {"application/json": {"schema": schemas[one.answer]}}
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Refused"}}}
    statuses = (*(COMMON if "{name}" in one.path else PLAIN), *one.statuses)
    refusals = {
        str(n): {"description": HTTPStatus(n).phrase, "content": refusal} for n in sorted(statuses)
    }
    told: dict[str, Any] = {
        "summary": (one.function.__doc__ or "").partition("\n")[0],
        "operationId": one.function.__name__.rstrip("_"),
        "tags": [one.tag],
        "parameters": parameters,
        "responses": {str(one.good): good, **refusals},
    }
    if one.body is not None:
        content = {"schema": schemas[one.body]}
        if one.function.__name__ == "feedback":
            content["examples"] = EXAMPLES
        needed = {"required": not one.is_optional}
        told["requestBody"] = {**needed, "content": {"application/json": content}}
    return told
