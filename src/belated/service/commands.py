"""The commands of the service: `belated serve`, `token`, `extract`, `warm`, `export` and others.

`belated.cli` runs them. The extra `serve` is imported by the commands that need it.
"""

from __future__ import annotations

import importlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from cyclopts import Parameter, Token

from belated.core import checks


def _whole(kind: object, tokens: Sequence[Token]) -> int:
    """A whole number; Cyclopts would round 1.5 to 2."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"must be a whole number, got {checks.show(tokens[0].value)}") from None


Whole = Annotated[int, Parameter(converter=_whole)]


def serve(config: Path | None = None, /, *, port: Whole | None = None) -> int:
    """Serve learners over HTTP until stopped; without a file, a demonstration.

    Args:
        config: A TOML file that names the learners.
        port: Listen here, instead of the port of the file; 0 is any free one.
    """
    return int(_module("run").serve(config, port))


def warmup(config: Path | None = None, /) -> None:
    """Compile what the learners of a configuration need, so that a start is fast.

    Args:
        config: A TOML file that names the learners.
    """
    print(f"compiled: {', '.join(_module('run').warm_up(config))}")


def token() -> None:
    """Print a new token for the service, and the hash that its configuration needs."""
    made, hashed = _module("gate").new()
    print(f"token:  {made}\nsha256: {hashed}")


def extract(config: Path, learner: str, file: Path, /) -> None:
    """Write the agent of a learner of a stopped service to a file, for bl.load.

    Args:
        config: The TOML file of the service.
        learner: The name of the learner.
        file: Where to write the agent.
    """
    _module("run").extract(config, learner, file)
    print(f"agent: {file}")


def warm(config: Path, learner: str, log: Path, file: Path, /) -> None:
    """Write an agent that has learned from a log of decisions, for start of its learner.

    Args:
        config: The TOML file of the service.
        learner: The name of the learner.
        log: Decisions with propensities: .csv, .jsonl or .parquet.
        file: Where to write the agent.
    """
    learned = _module("run").warm(config, learner, log, file)
    print(f"agent: {file}, {learned:,} decisions; start = {str(file)!r}")


def export(source: str, learner: str, file: Path, /) -> None:
    """Write the decision log with propensities to a file. A token is read from BELATED_TOKEN.

    Args:
        source: The TOML file of a stopped service, or the address of one that runs.
        learner: The name of the learner.
        file: Where to write; Parquet if it ends in .parquet.
    """
    if _is_address(source):
        kind = "parquet" if file.suffix == ".parquet" else "csv"
        file.write_bytes(_asked(source, learner, "GET", f"decisions?format={kind}"))
    else:
        _module("run").export(Path(source), learner, file)
    print(f"decisions: {file}")


def evaluate(source: str, learner: str, /, *, newest: Whole = 20_000) -> None:
    """Say what other policies would have been worth. A token is read from BELATED_TOKEN.

    Args:
        source: The TOML file of a stopped service, or the address of one that runs.
        learner: The name of the learner.
        newest: How many decisions, the newest ones.
    """
    if _is_address(source):
        told = json.loads(_asked(source, learner, "GET", f"evaluation?newest={newest}"))
    else:
        told = _module("run").evaluate(Path(source), learner, newest)
    _print_evaluation(told)


def action(address: str, learner: str, do: Literal["add", "retire"], name: str, /) -> None:
    """Add an action to a learner that runs, or retire one. A token is read from BELATED_TOKEN.

    Args:
        address: The address of the service.
        learner: The name of the learner.
        do: What to do with the action.
        name: The name of the action; its number, where actions have no names.
    """
    if do == "add":
        answer = _asked(address, learner, "POST", "actions", {"name": name})
    else:
        answer = _asked(address, learner, "DELETE", f"actions/{quote(name, safe='')}")
    told = json.loads(answer)
    done = {"add": "added", "retire": "retired"}[do]
    print(f"{done if told['changed'] else f'{done} before'}: {told['action']} {told['name']}")


COMMANDS = (serve, warmup, token, extract, warm, export, evaluate, action)


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _asked(source: str, learner: str, method: str, path: str, body: Any = None) -> bytes:
    """The response of a service; a refusal raises `ValueError`."""
    if not _is_address(source):
        raise ValueError(f"address must begin with http:// or https://, got {source!r}")
    url = f"{source.rstrip('/')}/v1/learners/{quote(learner, safe='')}/{path}"
    headers = {"Content-Type": "application/json"}
    if bearer := os.environ.get("BELATED_TOKEN"):
        headers["Authorization"] = f"Bearer {bearer}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            found: bytes = answer.read()
            return found
    except urllib.error.HTTPError as error:
        try:
            why = json.loads(error.read())["why"]
        except (ValueError, KeyError, TypeError):
            why = error.reason
        raise ValueError(f"the service says {error.code}: {why}") from None
    except urllib.error.URLError as error:
        raise ValueError(f"{source} does not answer: {error.reason}") from None


def _print_evaluation(told: dict[str, Any]) -> None:
    print(f"{told['decisions']:,} decisions, {told['left_out']:,} left out; {told['method']}")
    for row in told["policies"]:
        if row["value"] is None:
            print(f"{row['policy']:<24} nothing is known of it from these decisions")
            continue
        interval = f"{row['low']:.4g} to {row['high']:.4g}"
        enough = f"effective sample size {row['effective']:,.0f}"
        print(f"{row['policy']:<24} {row['value']:>10.4g}   {interval:<24} {enough}")


def _module(name: str) -> Any:
    """A module of the service, imported late: its packages may not be installed."""
    return importlib.import_module(f"belated.service.{name}")
