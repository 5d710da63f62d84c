"""The decision log as a table, for analysts, replays and off-policy evaluation.

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

An outcome is that of the step. A text that begins with =, +, - or @ gets an apostrophe in front in
CSV, because a spreadsheet would take it for a formula.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from belated.core.arrays import Floats
from belated.evaluation import DecisionLog, value
from belated.linear.features import Features
from belated.service.report import AgentSummary, silence_of, unit_of
from belated.service.session import Session
from belated.service.wire import Refusal

FORMULA = ("=", "+", "-", "@", "\t", "\r")
CHUNK = 1_000
"""The number of decisions that are written at once."""
NEWEST = 20_000
"""The number of newest decisions that are evaluated by default."""
SAMPLES = 50
"""The number of bootstrap samples."""
NEEDS_POLARS = "Parquet needs polars: pip install 'belated[lab]'; CSV needs nothing"
FIRST = {
    "episode": "Int64",
    "key": "String",
    "decided": "Float64",
    "action": "Int64",
    "name": "String",
    "probability": "Float64",
    "holdout": "Float64",
    "among": "String",
}
LAST = {"outcome": "Float64", "events": "Int64", "reported": "Float64"}
"""The columns before and after those of the observation, and their types in polars."""


def columns(problem: Any) -> dict[str, str]:
    """The columns of a learner's log and their types."""
    if problem.states is not None:
        seen = dict.fromkeys(["step", "state"] if problem.horizon > 1 else ["state"], "Int64")
    elif problem.actions is None:
        seen = {"features": "String"}
    elif isinstance(known := problem.features, Features):
        kinds = {name: "Float64" if name in known.numbers else "String" for name in known.fields}
        seen = {f"features.{name}": kind for name, kind in kinds.items()}
    else:
        seen = {f"features.{place}": "Float64" for place in range(known or 0)}
    return {**FIRST, **seen, **LAST}


STATEMENT = """
SELECT d.number, e.key, d.at, d.action, d.probability, d.holdout, nullif(d.allowed, 'null'),
    d.step, d.observation, sum(o.value), count(o.value), min(o.at)
FROM decisions d JOIN episodes e ON e.learner = d.learner AND e.number = d.number
LEFT JOIN outcomes o ON o.learner = d.learner AND o.number = d.number
    AND o.fact NOT IN ('path', 'end', 'outcome')
    AND (o.fact NOT LIKE 'step %' OR o.fact = 'step ' || d.step)
WHERE d.learner = ? AND d.probability IS NOT NULL AND {condition}
GROUP BY d.number, d.step, e.key, d.at, d.action, d.probability, d.holdout, d.allowed, d.observation
ORDER BY d.number {order}, d.step LIMIT ?
"""


def decisions(session: Session) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of the table in portions, each row in the order of `columns`."""
    names, last = getattr(session.problem, "names", None), (-1, 0)
    statement = STATEMENT.format(condition="(d.number, d.step) > (?, ?)", order="ASC")
    with session.db.reader() as db:
        while found := db.all(statement, session.name, *last, CHUNK):
            rows = []
            for *made, probability, holdout, among, step, observation, total, events, at in found:
                name = str(made[-1]) if names is None else names[made[-1]]
                seen = _observed(session.problem, step, json.loads(observation))
                rows.append((*made, name, probability, holdout, among, *seen, total, events, at))
            yield rows
            last = (found[-1][0], found[-1][7])


def _observed(problem: Any, step: int, observation: Any) -> list[Any]:
    """The values of the columns of an observation."""
    if problem.states is not None:
        return [*([step] if problem.horizon > 1 else []), observation or 0]
    if problem.actions is None:
        return [json.dumps(observation)]
    if not isinstance(problem.features, Features):
        return list(observation or [])
    given, numbers = observation or {}, problem.features.numbers
    values = [(name in numbers, given.get(name)) for name in problem.features.fields]
    return [value if number or value is None else str(value) for number, value in values]


def as_csv(session: Session) -> Iterator[bytes]:
    """The table as CSV, piece by piece; unknown values are empty."""
    for rows in itertools.chain([[tuple(columns(session.problem))]], decisions(session)):
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([map(_plain, row) for row in rows])
        yield buffer.getvalue().encode()


def _plain(value: Any) -> Any:
    """A value of a CSV file that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


def as_parquet(session: Session) -> Iterator[bytes]:
    """The table as Parquet; `Refusal` without polars."""
    try:
        import polars as pl  # noqa: PLC0415 - the service does not need it
    except ModuleNotFoundError:
        raise Refusal(NEEDS_POLARS, "format") from None
    schema = {name: getattr(pl, kind) for name, kind in columns(session.problem).items()}
    pages = [pl.DataFrame(p, schema, orient="row", strict=False) for p in decisions(session)]
    buffer = io.BytesIO()
    pl.concat([pl.DataFrame(schema=schema), *pages]).write_parquet(buffer)
    return iter([buffer.getvalue()])


def evaluation(session: Session, seen: AgentSummary, newest: int = NEWEST) -> dict[str, Any]:
    """Estimate the values of other policies from the newest decisions.

    Decisions in which only some actions were allowed are left out, because the evaluated policies
    could not have been played there. A decision from before an action was added is used: it says
    nothing of the new action, whose value then rests on the later ones. So is one from before an
    action was retired.
    """
    problem = session.problem
    if problem.horizon > 1:
        raise ValueError(f"an evaluation needs decisions of one step, got {problem.horizon} steps")
    if problem.actions is None:
        raise ValueError("an evaluation needs actions that are listed; here they vary")
    kept, left_out = _newest(session, newest)
    (unit, *_), policies = unit_of(session), []
    if len(kept) >= 2:
        log, silence = _log(kept, session), silence_of(session, seen)
        given: dict[str, Any] = {"silence": silence, "samples": SAMPLES, "level": 0.95}
        for name, row in _policies(problem, seen.retired).items():
            found = value(log, np.tile(row, (len(log), 1)), **given)
            told = {word: getattr(found, word) for word in ("value", "low", "high", "effective")}
            policies.append({"policy": name, **told})
    return {
        "name": session.name,
        "decisions": len(kept),
        "left_out": left_out,
        "unit": unit,
        "method": "doubly robust",
        "policies": policies,
    }


def _policies(problem: Any, retired: frozenset[int]) -> dict[str, Floats]:
    """Uniform play, and each action alone, with a row of probabilities (A,) each."""
    active = [a for a in range(problem.actions) if a not in retired]
    alone = np.eye(problem.actions)[active]
    names = getattr(problem, "names", None) or range(problem.actions)
    each = {f"always {names[a]}": row for a, row in zip(active, alone, strict=True)}
    return {"uniform": alone.mean(axis=0), **each}


def _newest(session: Session, newest: int) -> tuple[list[Any], int]:
    """The newest decisions in which all actions were allowed, and the number left out."""
    with session.db.reader() as db:
        condition = "d.allowed = 'null' AND d.number >= ?"
        statement = STATEMENT.format(condition=condition, order="DESC")
        found = db.all(statement, session.name, 0, newest)
        ((every,),) = db.all(
            "SELECT count(*) FROM decisions WHERE learner = ? AND probability IS NOT NULL",
            session.name,
        )
    return found[::-1], every - len(found)


def _log(rows: list[Any], session: Session) -> DecisionLog:
    """The log of rows of `STATEMENT`, up to now."""
    problem, (_, shift, factor) = session.problem, unit_of(session)
    _, _, decided, actions, chances, *_, texts, totals, _, reported = zip(*rows, strict=True)
    seen = [json.loads(text) for text in texts]
    if problem.states is not None:
        x = np.eye(problem.states)[[state or 0 for state in seen]]
    elif getattr(problem, "width", 1):
        x = np.array(problem.matrix(seen), dtype=np.float64)
    else:
        x = np.zeros((len(rows), 0))
    rewards = [None if total is None else shift + factor * total for total in totals]
    until = max([session.clock(), decided[-1], *filter(None, reported)])
    return DecisionLog(
        actions, chances, rewards, x=x, decided=decided, reported=reported, until=until
    )
