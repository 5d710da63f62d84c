"""A warm start: a fresh agent that has learned from a log of other decisions.

The log is a file of CSV, JSON lines or Parquet with one row per decision, oldest first, in the form
of the service's export. It needs `action` or `name`, `probability`, `outcome` or `reward` (empty if
none arrived), one column per feature (`features.age` or `age`), and, if there is a clock, `decided`
and `reported` in seconds since 1970 or as ISO 8601 with a zone.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from belated.core import checks
from belated.evaluation import DecisionLog
from belated.linear.features import Features
from belated.service.export import observations
from belated.service.wire import Refusal, seconds


def learn(agent: Any, path: Path) -> int:
    """Let a fresh agent learn from the log in a file; returns the number of decisions.

    Decisions that have not reported are closed with their current exposure: an agent in a file must
    not wait for feedback.
    """
    if not hasattr(agent, "replay"):
        raise ValueError("a warm start needs an agent that can replay a log: linear_sampler")
    table = columns_of(path)
    log, asked = _log(agent.problem, table)
    agent.replay(log, asked)
    for number in agent.open_episodes():
        agent.forget(number)
    return len(log)


def columns_of(path: Path) -> dict[str, list[Any]]:
    """The columns of a file by name; empty cells are None."""
    try:
        import polars as pl  # noqa: PLC0415 - the service does not need it
    except ModuleNotFoundError:
        raise ValueError("a warm start needs polars: pip install 'belated[lab]'") from None
    kind = path.suffix.lower()
    try:
        if kind == ".csv":
            found = pl.read_csv(path, infer_schema=False, raise_if_empty=False)
        elif kind in (".jsonl", ".ndjson"):
            found = pl.read_ndjson(path)
        elif kind == ".parquet":
            found = pl.read_parquet(path)
        else:
            raise ValueError(f"{path} must end in .csv, .jsonl or .parquet")
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    if found.is_empty():
        raise ValueError(f"{path} must have at least one decision")
    return found.to_dict(as_series=False)


def _log(problem: Any, table: dict[str, list[Any]]) -> tuple[DecisionLog, list[Any] | None]:
    """The log of a table, and the observations of its decisions."""
    n = len(next(iter(table.values())))
    named = table.get("name") if getattr(problem, "names", None) else None
    actions = named or _column(table, "action")
    outcome = table.get("outcome") or _column(table, "reward")
    decided = table.get("decided")
    log = DecisionLog(
        [problem.index("action", a if named else int(_number("action", a))) for a in actions],
        [_number("probability", p) for p in _column(table, "probability")],
        [None if r is None else _number("outcome", r) for r in outcome],
        decided=None if decided is None else [_moment("decided", t) for t in decided],
        reported=None
        if "reported" not in table
        else [None if t is None else _moment("reported", t) for t in table["reported"]],
    )
    if not problem.width:
        return log, None
    numeric = problem.features.numbers if isinstance(problem.features, Features) else None
    typed = {
        name: [_typed(name, v, numeric) for v in values] if name.startswith("features.") or
        (numeric is not None and name in problem.features.fields) else values
        for name, values in table.items()
    }  # fmt: skip
    return log, observations(problem, typed, n)


def _typed(name: str, value: Any, numeric: tuple[str, ...] | None) -> Any:
    """A feature: a number if it is numeric, otherwise a text, or None."""
    if value is None:
        return None
    plain = name.removeprefix("features.")
    return _number(name, value) if numeric is None or plain in numeric else str(value)


def _column(table: dict[str, list[Any]], name: str) -> list[Any]:
    if name not in table:
        raise ValueError(f"the log must have a column {name}; it has {', '.join(table)}")
    return table[name]


def _number(name: str, value: Any) -> float:
    try:
        return checks.real(name, float(value), -math.inf)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a finite number, got {checks.show(value)}") from None


def _moment(name: str, value: Any) -> float:
    """A time, from a number, the text of one, or ISO 8601."""
    try:
        return _number(name, value)
    except ValueError:
        pass
    try:
        return seconds(value)
    except Refusal as error:
        raise ValueError(f"{name}: {error}") from None
