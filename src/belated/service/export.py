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

import csv
import io
import itertools
import json
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from belated.core.arrays import Floats
from belated.evaluation import DecisionLog, value
from belated.linear.features import Features
from belated.linear.life import Overview
from belated.service.report import Seen, silence_of, unit_of
from belated.service.session import Session
from belated.service.wire import Refusal

FORMULA = ("=", "+", "-", "@", "\t", "\r")
CHUNK = 1_000
"""The number of decisions that are written at once."""
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
        seen = {
            f"features.{name}": "Float64" if name in known.numbers else "String"
            for name in known.fields
        }
    else:
        seen = {f"features.{place}": "Float64" for place in range(known or 0)}
    return {**FIRST, **seen, **LAST}


STATEMENT = """
SELECT d.number, e.key, d.at, d.action, d.probability, d.holdout, nullif(d.allowed, 'null'),
    d.step, d.observation, sum(o.value), count(o.value),
    min(CASE WHEN o.value IS NOT NULL THEN o.at END)
FROM decisions d JOIN episodes e ON e.learner = d.learner AND e.number = d.number
LEFT JOIN outcomes o ON o.learner = d.learner AND o.number = d.number
    AND o.fact NOT IN ('path', 'end', 'outcome')
    AND (o.fact NOT LIKE 'step %' OR o.fact = 'step ' || d.step)
WHERE d.learner = ? AND d.probability IS NOT NULL AND {condition}
GROUP BY d.number, d.step, e.key, d.at, d.action, d.probability, d.holdout, d.allowed, d.observation
ORDER BY d.number {order}, d.step LIMIT ?
"""
IN_TIME = "SELECT * FROM ({}) AS found ORDER BY 3, 1"
"""Its rows by time, as the numbers of decisions that several processes make are not."""
SELECTED = (
    "episode", "key", "decided", "action", "probability", "holdout", "among", "step",
    "observation", "outcome", "events", "reported",
)  # fmt: skip
"""The names of what it selects."""


def decisions(session: Session) -> Iterator[list[dict[str, Any]]]:
    """The rows of the table in portions, each by the names of `columns`."""
    names, last = getattr(session.problem, "names", None), (-1, 0)
    statement = STATEMENT.format(condition="(d.number, d.step) > (?, ?)", order="ASC")
    with session.db.reader() as db:
        while found := db.all(statement, session.name, *last, CHUNK):
            rows = [dict(zip(SELECTED, row, strict=True)) for row in found]
            for row in rows:
                row["name"] = str(row["action"] if names is None else names[row["action"]])
                row.update(_observed(session.problem, json.loads(row["observation"])))
            yield rows
            last = (rows[-1]["episode"], rows[-1]["step"])


def _observed(problem: Any, observation: Any) -> dict[str, Any]:
    """The values of the columns of an observation."""
    if problem.states is not None:
        return {"state": observation or 0}
    if problem.actions is None:
        return {"features": json.dumps(observation)}
    given = observation or {}
    told = given if isinstance(given, dict) else dict(enumerate(given))
    return {f"features.{name}": value for name, value in told.items()}


def as_csv(session: Session) -> Iterator[bytes]:
    """The table as CSV, piece by piece; unknown values are empty."""
    names = columns(session.problem)
    for rows in itertools.chain([[dict(zip(names, names, strict=True))]], decisions(session)):
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([_plain(row.get(name)) for name in names] for row in rows)
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
    pages = [pl.DataFrame(page, schema, strict=False) for page in decisions(session)]
    buffer = io.BytesIO()
    pl.concat([pl.DataFrame(schema=schema), *pages]).write_parquet(buffer)
    return iter([buffer.getvalue()])


def evaluation(
    session: Session, seen: Seen, newest: Annotated[int, Meta(ge=2, le=1_000_000)] = 20_000
) -> Any:
    """The estimated values of uniform play and of each action alone, from the decision log.

    Decisions in which only some actions were allowed are left out, because the evaluated policies
    could not have been played there. A decision from before an action was added is used: it says
    nothing of the new action, whose value then rests on the later ones. So is one from before an
    action was retired.
    """
    problem, (overview, *_) = session.problem, seen
    if problem.horizon > 1:
        raise ValueError(f"an evaluation needs decisions of one step, got {problem.horizon} steps")
    if problem.actions is None:
        raise ValueError("an evaluation needs actions that are listed; here they vary")
    with session.db.reader() as db:
        condition = "d.allowed = 'null' AND d.number >= ?"
        statement = STATEMENT.format(condition=condition, order="DESC")
        kept = db.all(IN_TIME.format(statement), session.name, 0, newest)
        ((every,),) = db.all(
            "SELECT count(*) FROM decisions WHERE learner = ? AND probability IS NOT NULL",
            session.name,
        )
    policies = []
    if len(kept) >= 2:
        log, silence = _log(kept, session), silence_of(session, overview)
        for name, row in _policies(problem, overview).items():
            found = value(log, np.tile(row, (len(log), 1)), silence=silence, samples=SAMPLES)
            told = {word: getattr(found, word) for word in ("value", "low", "high", "effective")}
            policies.append({"policy": name, **told})
    return {
        "name": session.name,
        "decisions": len(kept),
        "left_out": every - len(kept),
        "unit": unit_of(session)[0],
        "method": "doubly robust",
        "policies": policies,
    }


def _policies(problem: Any, overview: Overview) -> dict[str, Floats]:
    """Uniform play, and each action alone, with a row of probabilities (A,) each."""
    names = getattr(problem, "names", None) or range(problem.actions)
    retired = {a for a, row in enumerate(overview.rows) if row.retired}
    rows = enumerate(np.eye(problem.actions))
    each = {f"always {names[a]}": row for a, row in rows if a not in retired}
    return {"uniform": np.mean(list(each.values()), axis=0), **each}


def _log(rows: list[Any], session: Session) -> DecisionLog:
    """The log of rows of `STATEMENT` in time, up to now."""
    problem, (_, shift, factor) = session.problem, unit_of(session)
    _, _, decided, actions, chances, *_, texts, totals, _, reported = zip(*rows, strict=True)
    seen = [json.loads(text) for text in texts]
    if problem.states is not None:
        x = np.eye(problem.states)[[state or 0 for state in seen]]
    else:
        x = problem.matrix(seen)[0]
    rewards = [None if total is None else shift + factor * total for total in totals]
    until = max([session.clock(), decided[-1], *filter(None, reported)])
    return DecisionLog(
        actions, chances, rewards, x=x, decided=decided, reported=reported, until=until
    )
