"""Numbers of decisions, experiments and HTTP conversations over fixed runs.

    python tests/frozen.py          compare with tests/data/frozen.json
    python tests/frozen.py write    write the file again, after an intended change

`recorded.py` does the same for the policies of tabular agents.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl

import belated as bl
from belated.onehot import TableSampler
from serving import SHOP, InProcess, config

FILE = Path(__file__).parent / "data" / "frozen.json"
DECISIONS = 160
NAMED = bl.Features(age="number", country=["dk", "se"], device="category")
LEARNERS = {
    "silence": lambda: bl.recommend(bl.Choice(actions=3, features=2), silence=0.0),
    "all report": lambda: bl.recommend(bl.Choice(actions=3, features=2), silence=None),
    "shared model": lambda: bl.recommend(bl.Choice(features=2), silence=0.0),
    "no features": lambda: bl.recommend(bl.Choice(actions=["a", "b", "c"]), silence=0.0),
    "named features": lambda: bl.recommend(bl.Choice(actions=3, features=NAMED), silence=0.0),
    "clock": lambda: bl.recommend(bl.Choice(actions=3, features=2), silence=0.0),
    "nothing changes": lambda: bl.LinearSampler(
        bl.Choice(actions=3, features=2), silence=0.0, changes=False, floor=0.05, seed=7
    ),
    "table": lambda: TableSampler(
        bl.Problem(states=2, actions=3, horizon=1, start=[0.5, 0.5]), silence=1.0
    ),
}
"""Learners of decisions, by what is particular about each."""
EXPERIMENT = """
name = "small-suite"
episodes = 40
seeds = 1
information = "bandit"
environment = {kind = "lock", states = 4, actions = 2}
delays = {kind = "geometric", mean = 4}

[[cases]]
name = "lock"

[[cases]]
name = "arms that switch"
environment = {kind = "bandit", means = [0.2, 0.5, 0.7]}
costs = {kind = "blocks", length = 15}
delays = {kind = "lost", probability = 0.2}

[[agents]]
name = "recommended"
kind = "recommended"

[[agents]]
name = "posterior sampling"
kind = "posterior_sampling"

[[agents]]
name = "DAPO"
kind = "dapo"

[[agents]]
name = "skipping UCBVI"
kind = "skipping"
threshold = 6

[agents.agent]
kind = "ucbvi"
"""


def visitor(name, rng):
    """What a decision of this learner is told."""
    if name == "no features":
        return None
    if name == "table":
        return int(rng.integers(2))
    if name == "named features":
        country = ["dk", "se", "no"][rng.integers(3)]
        return {"age": int(rng.integers(18, 80)), "country": country, "device": "phone"}
    return rng.uniform(-1, 1, (4, 2) if name == "shared model" else 2)


def decided(name, agent, start=0, stop=DECISIONS, *, due=None, rng=None):
    """Probability and action of every decision, with late, lost, forgotten and split feedback."""
    due = {} if due is None else due
    rng = np.random.default_rng(5) if rng is None else rng
    found = []
    for k in range(start, stop):
        now = {"now": k / 10} if name == "clock" else {}
        decision = agent.decide(visitor(name, rng), **now)
        found.append([round(float(decision.probability), 9), int(decision.action)])
        good, delay = rng.random() < 0.2 + 0.2 * decision.action, int(rng.integers(0, 30))
        if name == "table":
            report = [bl.Costs(decision.number, [0.2])] if good else []
        else:
            report = [bl.Reward(decision.number, 1.0, event="first")] if good else []
            report += [bl.Reward(decision.number, 0.5, event="more")] if k % 9 == 0 else []
            report += [] if name != "all report" or report else [bl.Reward(decision.number, 0.0)]
        if k % 11 == 7:
            due.setdefault(k, []).append(decision.number)
        else:
            due.setdefault(k + delay, []).extend(report)
        arrived = due.pop(k, [])
        for number in [item for item in arrived if isinstance(item, int)]:
            agent.forget(number)
        agent.observe([item for item in arrived if not isinstance(item, int)], **now)
    return found


def experiment(directory, *arguments):
    """Expected costs of every run of an experiment, by case and agent, through the command line."""
    out = str(Path(directory) / "out")
    command = [sys.executable, "-m", "belated", "run", *arguments, "--jobs", "1", "--out", out]
    subprocess.run(command, check=True, capture_output=True)
    found = {}
    for path in sorted(Path(out).glob("runs/**/*.parquet")):
        rows = pl.read_parquet(path)
        values = rows.sort("episode")["value"].to_numpy()
        name = f"{rows['case'][0]}: {rows['agent'][0]}: {rows['seed'][0]}"
        found[name] = [round(float(value), 9) for value in values]
    return found


def small_suite(directory):
    """An experiment of two cases and four agents."""
    path = Path(directory) / "small.toml"
    path.write_text(EXPERIMENT)
    return experiment(directory, str(path))


def demo(directory):
    """The demo, shortened."""
    return experiment(directory, "demo", "--episodes", "30", "--seeds", "1")


MAIL = {
    "name": "mail",
    "actions": ["plain", "question", "discount"],
    "features": {"age": "number", "country": ["dk", "se"]},
}
ASKED = [
    ("POST", "mail/decide", {"features": {"age": 34, "country": "dk"}, "key": "a"}),
    ("POST", "mail/decide", {"features": {"age": 34, "country": "dk"}, "key": "a"}),
    ("POST", "mail/decide", {"features": {"age": 50}, "among": ["discount"], "key": "b"}),
    ("POST", "mail/feedback", {"key": "a", "reward": 12.5, "event": "order-17"}),
    ("POST", "mail/feedback", {"key": "a", "reward": 12.5, "event": "order-17"}),
    ("POST", "mail/feedback", {"key": "a", "reward": 20, "event": "order-17"}),
    ("POST", "mail/feedback", {"key": "nobody", "reward": 1}),
    ("POST", "mail/decide", {"features": {"age": "old"}, "key": "c"}),
    ("POST", "mail/decide", {"features": {"age": 20}, "key": "d"}),
    ("POST", "mail/feedback", [{"key": "d", "reward": 2}, {"key": "b", "reward": 1}]),
    ("POST", "shop/episodes", {"key": "x"}),
    ("POST", "shop/episodes", {"key": "x"}),
    ("POST", "shop/feedback", {"episode": 0, "path": {"states": [0, 0], "actions": [1]}}),
    ("POST", "shop/feedback", {"episode": 0, "costs": [0.25]}),
    ("POST", "shop/feedback", {"episode": 0, "costs": [0.25]}),
    ("POST", "shop/feedback", {"episode": 7, "costs": [0.25]}),
    ("GET", "shop/episodes/0", None),
]
"""A conversation: method, path below /v1/learners, body."""


def conversation(directory):
    """Status and answer of every request; times and sentences of errors are left out.

    The clock stands still: probabilities depend on how old decisions are.
    """
    table = config(Path(directory), learners=[SHOP, MAIL])
    told = []
    clock = "belated.service.session.steady_clock"
    standing = mock.patch(clock, return_value=lambda: 1_000_000.0)
    with standing, InProcess(table) as client:
        for method, path, body in ASKED:
            sent = {} if body is None else {"json": body}
            answer = client.request(method, f"/v1/learners/{path}", **sent)
            told.append([answer.status_code, steady(answer.json())])
    return told


def steady(value):
    """An answer without times and sentences, with rounded numbers."""
    if isinstance(value, dict):
        gone = {"at", "began", "begun", "message", "error", "detail", "why"}
        return {key: steady(item) for key, item in value.items() if key not in gone}
    if isinstance(value, list):
        return [steady(item) for item in value]
    return round(value, 9) if isinstance(value, float) else value


def main(write):
    found = {name: decided(name, make()) for name, make in LEARNERS.items()}
    for make in (small_suite, demo, conversation):
        with tempfile.TemporaryDirectory() as directory:
            found[make.__name__] = make(directory)
    if write:
        FILE.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
        return
    stored = json.loads(FILE.read_text())
    for name in sorted(found.keys() | stored.keys()):
        if found.get(name) != stored.get(name):
            print("differs:", name)


if __name__ == "__main__":
    main("write" in sys.argv[1:])
