"""The commands of the service: `belated serve`, `warmup`, `token` and `extract`.

`belated.cli` runs them. The extra `serve` is imported by the commands that need it.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

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
    made, hashed = _module("config").new_token()
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


COMMANDS = (serve, warmup, token, extract)


def _module(name: str) -> Any:
    """A module of the service, imported late: its packages may not be installed."""
    return importlib.import_module(f"belated.service.{name}")
