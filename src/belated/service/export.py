"""The decision log as a table, for analysts, warm starts and off-policy evaluation.

One row per decision, oldest first, whether its episode was begun in the same request or before:

    episode, key          the number of the decision, and the client's key
    decided               the time of the decision, in seconds since 1970
    action, name          the action
    probability, holdout  its propensity, and the probability that the holdout drew it
    among                 the allowed actions, as JSON; empty: all
    features.NAME         the features; features.0, features.1, ... without names; or the step
                          (of several) and the state
    outcome, events       the sum of the outcomes so far, also late ones, and the number of records
    reported              the time of the first outcome

An outcome is that of the step. The log is read twice: for the outcomes, of which two numbers per
decision are kept, and for the decisions, which are passed on as they are read.
"""

from __future__ import annotations

import csv
import io
import json
import math
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from belated.core.arrays import Floats
from belated.evaluation import DecisionLog, value
from belated.linear.features import Features
from belated.service.report import Unit
from belated.service.storage import Row
from belated.service.wire import load

Rows = Callable[[], Iterator[Row]]
"""A function that reads the log from its beginning."""
CHUNK = 1_000
"""The number of decisions that are written at once."""
NEWEST, MOST = 20_000, 1_000_000
"""The number of newest decisions that are evaluated: by default, and at most."""
SAMPLES = 50
"""The number of bootstrap samples."""
NEEDS_POLARS = "Parquet needs polars: pip install 'belated[lab]'; CSV needs nothing"
FIRST = ("episode", "key", "decided", "action", "name", "probability", "holdout", "among")
WHOLE = ("episode", "action", "events", "step", "state")
LAST = ("outcome", "events", "reported")


def columns(problem: Any) -> dict[str, str]:
    """The columns of a learner's log and their kinds: whole, number or text."""
    kinds = dict.fromkeys([*FIRST, *_known(problem), *LAST], "number")
    kinds |= {name: "whole" for name in WHOLE if name in kinds}
    kinds |= {name: "text" for name in ("key", "name", "among", "features") if name in kinds}
    if isinstance(features := getattr(problem, "features", None), Features):
        kinds |= {f"features.{n}": "text" for n in features.fields if n not in features.numbers}
    return kinds


def _known(problem: Any) -> list[str]:
    """The columns of the observation of a decision."""
    if problem.states is not None:
        return ["step", "state"] if problem.horizon > 1 else ["state"]
    if problem.actions is None:
        return ["features"]
    features = problem.features
    if isinstance(features, Features):
        return [f"features.{name}" for name in features.fields]
    return [f"features.{place}" for place in range(features or 0)]


def decisions(rows: Rows, problem: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of the table, in the order of `columns`."""
    came = _outcomes(rows())
    names = getattr(problem, "names", None)
    keys: dict[int, str] = {}
    for event in _events(rows(), "begin", "choose", "decide"):
        if event["do"] == "begin":
            if event["key"] is not None:
                keys[event["episode"]] = event["key"]
            continue
        for made in event["choices"] if event["do"] == "choose" else [_begun_before(event, keys)]:
            episode, key, observation, among, action, probability, *rest = made
            step = event.get("step", 0)
            total, count, reported = came.get((episode, step), (None, 0, None))
            yield (
                episode,
                key,
                event["at"],
                action,
                names[action] if names is not None else str(action),
                probability,
                rest[0] if rest else 0.0,
                None if among is None else json.dumps(among),
                *([step] if problem.horizon > 1 else []),
                *_observed(problem, observation),
                total,
                count,
                reported,
            )


def _begun_before(event: dict[str, Any], keys: dict[int, str]) -> tuple[Any, ...]:
    """A decision in an episode that has begun, in the form of one that begins its episode."""
    episode = event["episode"]
    known = (event["state"], None, event["action"], event.get("probability"))
    return episode, keys.get(episode), *known


def _events(rows: Iterable[Row], *kinds: str) -> Iterator[dict[str, Any]]:
    """The events of these kinds; others are not parsed."""
    marks = tuple(f'{{"do":"{kind}"' for kind in kinds)
    return (load(row.written) for row in rows if row.written.startswith(marks))


def _outcomes(rows: Iterable[Row]) -> dict[tuple[int, int], tuple[float, int, float]]:
    """The sum, the number and the first arrival of the outcomes of each decision."""
    found: dict[tuple[int, int], tuple[float, int, float]] = {}
    for event in _events(rows, "feedback"):
        for record in event["records"]:
            for step, amount in _amounts(record):
                place = (record["episode"], step)
                total, count, first = found.get(place, (0.0, 0, event["at"]))
                found[place] = (total + amount, count + 1, first)
    return found


def _amounts(record: dict[str, Any]) -> list[tuple[int, float]]:
    """The amounts of a record by step: rewards, values or costs; none for other records."""
    for name in ("reward", "value", "cost"):
        if name in record:
            return [(record.get("step", 0), float(record[name]))]
    costs = record.get("costs", [])
    return [(h, float(cost)) for h, cost in enumerate(costs) if not isinstance(cost, list)]


def _observed(problem: Any, observation: Any) -> list[Any]:
    """The values of the columns of an observation."""
    if problem.states is not None:
        return [0 if observation is None else observation]
    if problem.actions is None:
        return [json.dumps(observation)]
    if isinstance(problem.features, Features):
        given = observation or {}
        return [
            given.get(name) if name in problem.features.numbers or given.get(name) is None
            else str(given[name])
            for name in problem.features.fields
        ]  # fmt: skip
    return list(observation or [])


def as_csv(rows: Rows, problem: Any) -> Iterator[bytes]:
    """The table as CSV, piece by piece; unknown values are empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns(problem))
    for place, row in enumerate(decisions(rows, problem), 1):
        writer.writerow(row)
        if place % CHUNK == 0:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def as_parquet(rows: Rows, problem: Any) -> Iterator[bytes]:
    """The table as Parquet, from a temporary file; `ValueError` without polars."""
    try:
        import polars as pl  # noqa: PLC0415 - the service does not need it
    except ModuleNotFoundError:
        raise ValueError(NEEDS_POLARS) from None
    kinds = {"whole": pl.Int64, "number": pl.Float64, "text": pl.String}
    schema = {name: kinds[kind] for name, kind in columns(problem).items()}
    parts = [pl.DataFrame(schema=schema)]
    some: list[tuple[Any, ...]] = []
    for row in decisions(rows, problem):
        some.append(row)
        if len(some) == CHUNK:
            parts.append(pl.DataFrame(some, schema=schema, orient="row", strict=False))
            some = []
    if some:
        parts.append(pl.DataFrame(some, schema=schema, orient="row", strict=False))
    return _written(pl.concat(parts))


def _written(table: Any) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "decisions.parquet"
        table.write_parquet(path)
        with path.open("rb") as file:
            while piece := file.read(2**20):
                yield piece


def evaluation(
    rows: Rows,
    problem: Any,
    retired: Iterable[int],
    unit: Unit,
    silence: float | None,
    until: float,
    newest: int = NEWEST,
) -> dict[str, Any]:
    """Estimate the values of other policies from the newest decisions of the log.

    until: the time up to which reports can have arrived.
    Decisions from before the last change of the actions are left out, and those in which some
    action was not allowed, because the evaluated policies could not have been played there. So are
    decisions without a propensity in the log.
    """
    if problem.horizon > 1:
        raise ValueError(f"an evaluation needs decisions of one step, got {problem.horizon} steps")
    if problem.actions is None:
        raise ValueError("an evaluation needs actions that are listed; here they vary")
    kept, left_out = _newest(rows, problem, newest)
    active = [a for a in range(problem.actions) if a not in set(retired)]
    told: dict[str, Any] = {"decisions": len(kept), "left_out": left_out, "unit": unit.name}
    policies: list[dict[str, Any]] = []
    if len(kept) >= 2:
        log = _log(kept, problem, unit, until)
        for name, row in _policies(problem, active):
            found = value(
                log, np.tile(row, (len(log), 1)), silence=silence, samples=SAMPLES, level=0.95
            )
            policies.append(
                {
                    "policy": name,
                    "value": _if_known(found.value),
                    "low": _if_known(found.low),
                    "high": _if_known(found.high),
                    "effective": found.effective,
                }
            )
    return {**told, "method": "doubly robust", "policies": policies}


def _if_known(value: float) -> float | None:
    """The number; None if the log says nothing about it."""
    return value if math.isfinite(value) else None


def _policies(problem: Any, active: list[int]) -> list[tuple[str, Floats]]:
    """Uniform play, and each action alone, with a row of probabilities (A,) each."""
    uniform = np.zeros(problem.actions)
    uniform[active] = 1.0 / len(active)
    names = getattr(problem, "names", None) or range(problem.actions)
    alone = [(f"always {names[a]}", np.eye(problem.actions)[a]) for a in active]
    return [("uniform", uniform), *alone]


def _newest(rows: Rows, problem: Any, newest: int) -> tuple[list[tuple[Any, ...]], int]:
    """The newest decisions since the actions last changed, and the number left out."""
    changed = max((event["at"] for event in _events(rows(), "change")), default=-np.inf)
    names = list(columns(problem))
    kept: deque[tuple[Any, ...]] = deque(maxlen=newest)
    every = 0
    for row in decisions(rows, problem):
        told = row[names.index("probability")] is not None
        if told and row[names.index("decided")] >= changed and row[names.index("among")] is None:
            kept.append(row)
        every += 1
    return list(kept), every - len(kept)


def _log(kept: list[tuple[Any, ...]], problem: Any, unit: Unit, until: float) -> DecisionLog:
    """The log of rows of the table."""
    names = list(columns(problem))
    column = {name: [row[place] for row in kept] for place, name in enumerate(names)}
    rewards = [None if v is None else unit.shift + unit.factor * v for v in column["outcome"]]
    return DecisionLog(
        column["action"],
        column["probability"],
        rewards,
        x=problem_matrix(problem, column, len(kept)),
        decided=column["decided"],
        reported=column["reported"],
        until=max([until, column["decided"][-1], *filter(None, column["reported"])]),
    )


def problem_matrix(problem: Any, column: dict[str, list[Any]], n: int) -> Floats:
    """The observations of n decisions as numbers, (n, d)."""
    if problem.states is not None:
        return np.eye(problem.states)[np.array(column["state"], dtype=np.int64)].reshape(n, -1)
    return np.array(problem.matrix(observations(problem, column, n)), dtype=np.float64)


def observations(problem: Any, column: dict[str, list[Any]], n: int) -> list[Any]:
    """The observations of decisions, from the columns of a table."""
    names = [name.removeprefix("features.") for name in _known(problem)]
    found = [column.get(f"features.{name}", column.get(name)) for name in names]
    for name, values in zip(names, found, strict=True):
        if values is None:
            raise ValueError(f"the log must have a column features.{name}")
    rows = [[values[i] for values in found if values is not None] for i in range(n)]
    if isinstance(problem.features, Features):
        return [dict(zip(names, row, strict=True)) for row in rows]
    return rows
