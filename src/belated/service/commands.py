"""The commands of the service: `belated serve`, `token` and `extract`.

They need the extra `serve` alone. Exit codes: 0 success, 1 the server could not start, 2 wrong
input.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from belated.core import checks


class _Parser(argparse.ArgumentParser):
    """One line for a mistake, without the usage."""

    def error(self, message: str) -> NoReturn:
        """End with one line."""
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
    about = "Print a new token for the service, and the hash that its configuration needs."
    commands.add_parser("token", help=about, description=about)
    about = "Write the agent of a learner of a stopped service to a file, for bl.load."
    extract = commands.add_parser("extract", help=about, description=about)
    extract.add_argument("config", type=Path, help="the TOML file of the service")
    extract.add_argument("learner", help="the name of the learner")
    extract.add_argument("file", type=Path, help="where to write the agent")
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
    if given.command == "extract":
        _module("run").extract(given.config, given.learner, given.file)
        print(f"agent: {given.file}")
        return 0
    token, hashed = _module("tokens").new()
    print(f"token:  {token}\nsha256: {hashed}")
    return 0


def _module(name: str) -> Any:
    """A module of the service, which may need packages that are not installed."""
    return importlib.import_module(f"belated.service.{name}")


def _complain(message: str) -> int:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"belated: {shown}", file=sys.stderr)
    return 2
