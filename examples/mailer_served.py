"""The mailer through the real server: nightly batches, a crash, a changed action, a second opinion.

`belated serve` runs in a process of its own with SQLite on disk; only its clock is set by this
script, so that 40 days pass in a minute. Every morning 300 mails are decided in one request.
Purchases are made one to three days later and come with that night's batch; customers who do not
buy never report. A tenth of the mails have a line at random, the holdout.

On day 12 the server is killed between the decisions and the night, and started again. On day 16
`story` becomes a fourth subject line, and on day 30 `question` is retired. In the end the server's
decision log says what other policies would have earned while all four lines were available.

The same learner in the library, given the same records at the same times, makes the same decisions.

    pip install 'belated[lab,serve]'
    python examples/mailer_served.py            the figure
    python examples/mailer_served.py --show     and the page of the learner, until Enter
"""

import argparse
import csv
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
from drawing import BLUE, ORANGE, VERMILION, axes, save

import belated as bl
from belated.client import Client
from belated.evaluation import DecisionLog, value

PER_DAY = 300
DAY, MORNING, NIGHT = 86400.0, 9 * 3600.0, 23 * 3600.0
DEADLINE, GRACE = 7 * DAY, DAY
FIRST = 20_000 * DAY  # the first morning is one in October 2024
LINES, KINDS = ["plain", "question", "discount"], ["new", "loyal"]
HOLDOUT = 0.1
CONFIG = f"""
storage = "data"
port = 0

[[learners]]
name = "mail"
actions = {LINES}
features = {{ customer = {KINDS} }}
agent = {{ kind = "linear_sampler", silence = 0.0, holdout = {HOLDOUT} }}
deadline_seconds = {DEADLINE}
grace = {GRACE}
"""
SERVE = """
import sys
from pathlib import Path
from belated.service import run, session
clock = Path("clock")
session.steady_clock = lambda after: lambda: float(clock.read_text())
sys.exit(run.serve(Path("serve.toml"), None))
"""


@dataclass(frozen=True)
class Plan:
    """Days on which something happens."""

    days: int = 40
    crash: int = 12
    story: int = 16
    question: int = 30


class Server:
    """`belated serve` in a process of its own, with a clock that `at` sets."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (directory / "serve.toml").write_text(CONFIG)
        self.at(FIRST)
        self.start()

    def at(self, now: float) -> None:
        """Set the clock."""
        new = self._directory / "clock.new"
        new.write_text(repr(now))
        os.replace(new, self._directory / "clock")

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        found = re.search(r"http://\S+", self._process.stdout.readline())
        assert found, "the server did not start"
        self.url = found[0]
        self.client = Client(self.url, "mail", timeout=60)
        while not self._ready():
            time.sleep(0.05)

    def _ready(self) -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/readyz", timeout=60).status_code == 200
        return False

    def stop(self, how: signal.Signals) -> None:
        """End the process."""
        self.client.close()
        self._process.send_signal(how)
        self._process.communicate()


class Served:
    """The learner behind HTTP."""

    def __init__(self, server: Server, plan: Plan) -> None:
        self.server, self._plan = server, plan
        self.mails = 0

    def decide(self, day: int, kinds: np.ndarray, now: float) -> list[tuple[int, float]]:
        """Decide the mails of a day; action and probability of each."""
        self.server.at(now)
        base = f"{self.server.url}/v1/learners/mail/actions"
        if day == self._plan.story:
            httpx.post(base, json={"name": "story"}, timeout=60).raise_for_status()
        if day == self._plan.question:
            httpx.delete(f"{base}/question", timeout=60).raise_for_status()
        keys = [f"mail-{self.mails + k}" for k in range(len(kinds))]
        self.mails += len(kinds)
        asked = [
            {"features": {"customer": KINDS[kind]}, "key": key}
            for kind, key in zip(kinds, keys, strict=True)
        ]
        made = self.server.client.decide_many(asked)
        if day == self._plan.crash:
            self.server.stop(signal.SIGKILL)
            self.server.start()
            again = self.server.client.decide_many(asked)  # as a client does that got no answer
            assert [one.action for one in again] == [one.action for one in made]
        return [(one.action, one.probability) for one in made]

    def report(self, mails: list[int], now: float) -> None:
        """Hand in the nightly batch, and let the night pass."""
        self.server.at(now)
        self.server.client.feedback([{"key": f"mail-{mail}", "reward": 1.0} for mail in mails])
        while self.server.client.status()["waiting"]:
            time.sleep(0.01)


class InLibrary:
    """The same learner without a server."""

    def __init__(self, plan: Plan) -> None:
        choice = bl.Choice(actions=LINES, features=bl.Features(customer=KINDS))
        self._agent = bl.LinearSampler(choice, silence=0.0, holdout=HOLDOUT)
        self._plan, self._decided, self._closed = plan, [], 0

    def decide(self, day: int, kinds: np.ndarray, now: float) -> list[tuple[int, float]]:
        """Decide the mails of a day; action and probability of each."""
        self._close(now)
        if day == self._plan.story:
            self._agent.add_action("story")
        if day == self._plan.question:
            self._agent.retire("question")
        made = [self._agent.decide({"customer": KINDS[kind]}, now=now) for kind in kinds]
        self._decided += [now] * len(kinds)
        return [(one.action, one.probability) for one in made]

    def report(self, mails: list[int], now: float) -> None:
        """Learn from the nightly batch."""
        self._close(now)
        self._agent.observe([bl.Reward(mail, 1.0) for mail in mails], now=now)

    def _close(self, now: float) -> None:
        limit = DEADLINE + GRACE
        while self._closed < len(self._decided) and now - self._decided[self._closed] > limit:
            self._agent.forget(self._closed)
            self._closed += 1


@dataclass(frozen=True)
class Run:
    """How the mails were decided, (K,) each."""

    visits: object
    actions: np.ndarray
    probabilities: np.ndarray

    @property
    def value(self) -> np.ndarray:
        """The chance of a purchase, given the line of the mail."""
        return self.visits.means[np.arange(len(self.actions)), self.actions]


def mailed(learner, plan: Plan, seed: int) -> Run:
    """Let the days pass; the world is that of `mailer.py`."""
    mails = PER_DAY * plan.days
    visits = bl.environments.mailer().visits(mails, np.random.default_rng([seed, 0]))
    delays = bl.delays.nightly(PER_DAY, 1, 3).draw(mails, np.random.default_rng([seed, 1]))
    kinds = np.array([int(visits.at(mail)[0]) for mail in range(mails)])
    queue: bl.DelayLine[bl.Reward] = bl.DelayLine()
    actions, probabilities = np.zeros(mails, dtype=int), np.zeros(mails)
    for day in range(plan.days):
        now, first = FIRST + day * DAY, day * PER_DAY
        made = learner.decide(day, kinds[first : first + PER_DAY], now + MORNING)
        for mail, (action, probability) in enumerate(made, first):
            actions[mail], probabilities[mail] = action, probability
            if visits.outcomes[mail, action] > 0.0:
                queue.push([bl.Reward(mail, 1.0)], int(delays[mail]))
        bought = [record.episode for record in queue.release(first + PER_DAY - 1)]
        learner.report(bought, now + NIGHT)
    return Run(visits, actions, probabilities)


def best_and_uniform(run: Run, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """The best of the available lines, and one of them at random, (K,) each."""
    means = run.visits.means.copy()
    means[: plan.story * PER_DAY, 3] = np.nan
    means[plan.question * PER_DAY :, 1] = np.nan
    return np.nanmax(means, axis=1), np.nanmean(means, axis=1)


def score(run: Run, plan: Plan) -> float:
    """0 is the best policy, 1 is random."""
    best, uniform = best_and_uniform(run, plan)
    return float((best - run.value).mean() / (best - uniform).mean())


def logged(url: str) -> list[dict[str, str]]:
    """The decision log as the server exports it: a row per mail."""
    answer = httpx.get(f"{url}/v1/learners/mail/decisions", timeout=60)
    return list(csv.DictReader(io.StringIO(answer.text)))


def second_opinion(
    rows: list[dict[str, str]], run: Run, plan: Plan
) -> list[tuple[str, object, float]]:
    """What policies would have earned while all four lines were available: estimate and truth."""
    some = slice(plan.story * PER_DAY, plan.question * PER_DAY)
    until = FIRST + (plan.question - 1) * DAY + NIGHT  # as if asked on the last evening
    rows = rows[some]
    kinds = np.array([KINDS.index(row["features.customer"]) for row in rows])
    reported = np.array([float(row["reported"] or "nan") for row in rows])
    came = reported <= until
    log = DecisionLog(
        [int(row["action"]) for row in rows],
        [float(row["probability"]) for row in rows],
        np.where(came, [float(row["outcome"] or "nan") for row in rows], np.nan),
        x=kinds[:, None],
        decided=[float(row["decided"]) for row in rows],
        reported=np.where(came, reported, np.nan),
        until=until,
    )
    policies = {
        "a line at random": np.full((2, 4), 0.25),
        "always discount": np.eye(4)[[2, 2]],
        "plain to new, story to loyal": np.eye(4)[[0, 3]],
    }
    rates = run.visits.means[some]
    return [
        (name, value(log, policy[kinds]), float((policy[kinds] * rates).sum(axis=1).mean()))
        for name, policy in policies.items()
    ]


def draw(served: Run, beside: Run, plan: Plan, opinion: list) -> Path:
    """Purchases per 100 mails through the days, and the second opinion."""
    figure, (left, right) = axes(2, width=11.5)
    at = np.arange(plan.days)

    def daily(values: np.ndarray) -> np.ndarray:
        return 100 * values.reshape(plan.days, PER_DAY).mean(axis=1)

    left.plot(at, daily(beside.value), color=ORANGE, linewidth=5, alpha=0.5, label="in the library")
    left.plot(at, daily(served.value), color=BLUE, label="through the server")
    for level, label in zip(
        best_and_uniform(served, plan), ("best line", "at random"), strict=True
    ):
        left.plot(at, daily(level), color="0.6", linewidth=1, linestyle=":")
        left.annotate(label, (plan.days, daily(level)[-1]), xytext=(0, 4),
                      textcoords="offset points", color="0.4", ha="right")  # fmt: skip
    events = (
        (plan.crash, "killed"),
        (plan.story, "story\nadded"),
        (plan.question, "question\nretired"),
    )
    for day, label in events:
        left.axvline(day, color=VERMILION, linewidth=1, linestyle="--")
        left.annotate(label, (day, 3.2), xytext=(3, 0), textcoords="offset points",
                      color=VERMILION, fontsize=9, va="bottom")  # fmt: skip
    left.set(xlabel="day", ylabel="expected purchases per 100 mails", ylim=(3, 11))
    left.legend(frameon=False, loc="center", bbox_to_anchor=(0.585, 0.27))
    left.set_title("The learner behind HTTP is that of the library", fontsize=11)
    for place, (name, found, truth) in enumerate(opinion):
        ends = [[100 * (found.value - found.low)], [100 * (found.high - found.value)]]
        right.errorbar(100 * found.value, -place, xerr=ends, fmt="o", color=BLUE, capsize=4)
        right.plot(100 * truth, -place, "x", color=VERMILION, markersize=9, markeredgewidth=2)
        right.annotate(name, (100 * found.value, -place), xytext=(0, 9),
                       textcoords="offset points", ha="center")  # fmt: skip
    right.plot([], [], "o", color=BLUE, label="estimate from the log, 95 %")
    right.plot([], [], "x", color=VERMILION, markersize=9, markeredgewidth=2, label="truth")
    right.set(yticks=[], ylim=(-len(opinion) + 0.3, 1.0), xlabel="purchases per 100 mails")
    right.spines["left"].set_visible(False)
    right.legend(frameon=False, loc="upper left")
    right.set_title(
        f"What other policies would have brought, days {plan.story} to {plan.question - 1}",
        fontsize=11,
    )
    return save(figure, "mailer_served")


def main(plan: Plan = Plan()) -> None:  # noqa: B008 (it is frozen)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", action="store_true", help="serve the page until Enter")
    given = parser.parse_args()
    beside = mailed(InLibrary(plan), plan, given.seed)
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            served = mailed(Served(server, plan), plan, given.seed)
            told = httpx.get(f"{server.url}/v1/learners/mail/report", timeout=60).json()
            print(f"The learner: {told['verdict']}")
            print(f"Reports: {told['delays']['words']}; {told['pending']:,} mails pending")
            rows = logged(server.url)
            if given.show:
                with suppress(EOFError):
                    input(f"The page: {server.url}  Enter ends. ")
        finally:
            server.stop(signal.SIGTERM)
    same = np.array_equal(served.actions, beside.actions)
    scores = [score(run, plan) for run in (served, beside)]
    print(f"Score (0 best, 1 random): {scores[0]:.3f} through HTTP, {scores[1]:.3f} in the library")
    print(f"The same decisions: {'yes' if same else 'no'}")
    opinion = second_opinion(rows, served, plan)
    for name, found, truth in opinion:
        print(
            f"{name:<30} {100 * found.value:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"
            f" purchases per 100 mails by the log, {100 * truth:.1f} in truth"
        )
    print(f"Figure: {draw(served, beside, plan, opinion)}")


if __name__ == "__main__":
    main()
