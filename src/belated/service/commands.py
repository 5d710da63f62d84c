"""The commands of the service: `belated serve`, `token`, `extract`, `warm`, `export` and others.

They need only the extra `serve`. Exit codes: 0 success, 1 the server did not start, 2 wrong input.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from belated.core import checks

TOKEN = "A token is read from BELATED_TOKEN."


class _Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        """Raise `ValueError` with one line."""
        raise ValueError(f"{message} (see {self.prog} --help)")


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be a whole number, got {checks.show(text)}"
        ) from None


def _parser() -> _Parser:
    parser = _Parser("belated", description="The learner service.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    about = "Serve learners over HTTP until stopped; without a file, a demonstration."
    serve = commands.add_parser("serve", help=about, description=about)
    serve.add_argument("config", type=Path, nargs="?", help="a TOML file that names the learners")
    where = "listen here, instead of the port of the file; 0 is any free one"
    serve.add_argument("--port", type=_whole, help=where)
    about = "Compile what the learners of a configuration need, so that a start is fast."
    warmup = commands.add_parser("warmup", help=about, description=about)
    warmup.add_argument("config", type=Path, nargs="?", help="a TOML file that names the learners")
    about = "Print a new token for the service, and the hash that its configuration needs."
    commands.add_parser("token", help=about, description=about)
    about = "Write the agent of a learner of a stopped service to a file, for bl.load."
    extract = commands.add_parser("extract", help=about, description=about)
    extract.add_argument("config", type=Path, help="the TOML file of the service")
    extract.add_argument("learner", help="the name of the learner")
    extract.add_argument("file", type=Path, help="where to write the agent")
    about = "Write an agent that has learned from a log of decisions, for start of its learner."
    warm = commands.add_parser("warm", help=about, description=about)
    warm.add_argument("config", type=Path, help="the TOML file of the service")
    warm.add_argument("learner", help="the name of the learner")
    warm.add_argument("log", type=Path, help="decisions with propensities: .csv, .jsonl, .parquet")
    warm.add_argument("file", type=Path, help="where to write the agent")
    where = "the TOML file of a stopped service, or the address of one that runs"
    about = f"Write the decision log with propensities to a file. {TOKEN}"
    export = commands.add_parser("export", help=about, description=about)
    export.add_argument("source", help=where)
    export.add_argument("learner", help="the name of the learner")
    export.add_argument("file", type=Path, help="where to write; Parquet if it ends in .parquet")
    about = f"Say what other policies would have been worth, from the decision log. {TOKEN}"
    evaluate = commands.add_parser("evaluate", help=about, description=about)
    evaluate.add_argument("source", help=where)
    evaluate.add_argument("learner", help="the name of the learner")
    newest = "how many decisions, the newest ones (default: 20000)"
    evaluate.add_argument("--newest", type=int, default=20_000, help=newest)
    about = f"Add an action to a learner that runs, or retire one. {TOKEN}"
    action = commands.add_parser("action", help=about, description=about)
    action.add_argument("address", help="of the service")
    action.add_argument("learner", help="the name of the learner")
    action.add_argument("do", choices=("add", "retire"))
    action.add_argument("name", help="of the action; its number, where actions have no names")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    try:
        given = _parser().parse_args(arguments)
        return _run(given)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("belated"):
            raise
        return _complain(f"the service needs {error.name}: pip install 'belated[serve]'")
    except ValueError as error:
        return _complain(str(error))
    except OSError as error:
        named = error.strerror and error.filename
        return _complain(f"{error.strerror}: {error.filename}" if named else str(error))


def _run(given: argparse.Namespace) -> int:
    if given.command == "serve":
        return int(_module("run").serve(given.config, given.port))
    if given.command == "warmup":
        print(f"compiled: {', '.join(_module('run').warm_up(given.config))}")
        return 0
    if given.command == "extract":
        _module("run").extract(given.config, given.learner, given.file)
        print(f"agent: {given.file}")
        return 0
    if given.command == "warm":
        learned = _module("run").warm(given.config, given.learner, given.log, given.file)
        print(f"agent: {given.file}, {learned:,} decisions; start = {str(given.file)!r}")
        return 0
    if given.command == "export":
        if _is_address(given.source):
            kind = "parquet" if given.file.suffix == ".parquet" else "csv"
            given.file.write_bytes(_asked(given, "GET", f"decisions?format={kind}"))
        else:
            _module("run").export(Path(given.source), given.learner, given.file)
        print(f"decisions: {given.file}")
        return 0
    if given.command == "evaluate":
        if _is_address(given.source):
            told = json.loads(_asked(given, "GET", f"evaluation?newest={given.newest}"))
        else:
            told = _module("run").evaluate(Path(given.source), given.learner, given.newest)
        _print_evaluation(told)
        return 0
    if given.command == "action":
        given.source = given.address
        if given.do == "add":
            answer = _asked(given, "POST", "actions", {"name": given.name})
        else:
            answer = _asked(given, "DELETE", f"actions/{quote(given.name, safe='')}")
        told = json.loads(answer)
        done = {"add": "added", "retire": "retired"}[given.do]
        print(f"{done if told['changed'] else f'{done} before'}: {told['action']} {told['name']}")
        return 0
    token, hashed = _module("gate").new()
    print(f"token:  {token}\nsha256: {hashed}")
    return 0


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _asked(given: argparse.Namespace, method: str, path: str, body: Any = None) -> bytes:
    """The response of a service; a refusal raises `ValueError`."""
    if not _is_address(given.source):
        raise ValueError(f"address must begin with http:// or https://, got {given.source!r}")
    url = f"{given.source.rstrip('/')}/v1/learners/{quote(given.learner, safe='')}/{path}"
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("BELATED_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
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
        raise ValueError(f"{given.source} does not answer: {error.reason}") from None


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


def _complain(message: str) -> int:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"belated: {shown}", file=sys.stderr)
    return 2
