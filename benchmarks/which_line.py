"""Tests of three equal lines, of a better line, and what being sure costs.

    python benchmarks/which_line.py aa --tests 1000       equal lines: how often a winner is named
    python benchmarks/which_line.py power --tests 200     5 % against 7 %, equal shares
    python benchmarks/which_line.py stake --tests 500     does at_stake cover the truth on night 30?
    python benchmarks/which_line.py floors --tests 100    floor, nights until sure, money lost
    python benchmarks/which_line.py costs --tests 100     what following either answer costs
    python benchmarks/which_line.py figure                docs/nights.png
    options: --case NAME (one case), --workers 2, --nights 60

A test is 60 nights of 200 decisions. Purchases report one to three days later, at night; the
recommended learner allocates, unless shares are equal. Each night people look; the first night on
which somebody would say "sure" counts. The old answer is a posterior probability of 95 %; the new
one is `winner`, over decisions whose outcomes are final (window: three days).
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

import belated as bl
from belated.evaluation import Contest
from belated.verdict import verdict

A_DAY, WINDOW = 200, 3


@dataclass(frozen=True)
class Case:
    """A mailer: the rate of each line, and what is special about it."""

    rates: tuple[float, ...]
    features: int = 0
    slow: bool = False  # delays that depend on the line
    weekly: float = 0.0
    trend: float = 0.0
    heavy: bool = False  # lognormal amounts instead of ones
    floor: float = 0.01
    equal: int = 0  # nights of equal shares before the learner allocates

    def rate(self, day: int) -> float:
        """By how much all rates are multiplied on a day."""
        week = 1.0 + self.weekly * math.sin(2.0 * math.pi * day / 7.0)
        return week * (1.0 + self.trend * (day / 30.0 - 1.0))


AA = {
    **{
        f"{K} lines, {100 * rate:g} %": Case((rate,) * K)
        for rate in (0.05, 0.01)
        for K in (2, 3, 6)
    },
    "3 lines, features": Case((0.05,) * 3, features=3),
    "3 lines, delays by line": Case((0.05,) * 3, slow=True),
    "3 lines, weekly rhythm": Case((0.05,) * 3, weekly=0.5),
    "3 lines, trend": Case((0.05,) * 3, trend=0.6),
    "3 lines, features, weekly, trend, delays by line": Case((0.05,) * 3, 3, True, 0.5, 0.6),
    "3 lines, heavy-tailed amounts": Case((0.05,) * 3, heavy=True),
}
POWER = {"5 % against 7 %, equal shares": Case((0.05, 0.07), floor=1.0)}
STAKE = {
    "5, 5, 5 %": Case((0.05,) * 3),
    "5, 5, 7 %": Case((0.05, 0.05, 0.07)),
    "1, 1, 2 %": Case((0.01, 0.01, 0.02)),
    "5, 7 %, features": Case((0.05, 0.07), features=3),
}
FLOORS = {
    **{
        f"floor {100 * floor:g} %": Case((0.05, 0.05, 0.07), floor=floor)
        for floor in (0.01, 0.2, 0.5, 1.0)
    },
    **{
        f"{nights} nights of equal shares, then 1 %": Case((0.05, 0.05, 0.07), equal=nights)
        for nights in (20, 40)
    },
}
COSTS = {"5, 7 %": Case((0.05, 0.07), floor=1.0), "5, 5, 7 %": Case((0.05, 0.05, 0.07), floor=1.0)}
FIGURE = COSTS["5, 7 %"]


@dataclass
class Night:
    """What was said on a night."""

    leads: float  # the largest posterior probability
    sure: bool  # by the confidence sequence
    exact: bool
    winner: int | None
    limit: bool  # by the asymptotic sequence, for comparison
    lost: float  # money lost so far, in outcomes
    stake: float
    truth: float  # what is really at stake
    verdict: object


def nights(case: Case, seed: int, count: int = 60, told: tuple[int, ...] = ()) -> list[Night]:
    """Play a test; told: the nights on which the verdict is asked for (all: every night)."""
    rng = np.random.default_rng([seed, 7])
    K, d = len(case.rates), case.features
    choice = bl.Choice(actions=K, features=d) if d else bl.Choice(actions=K)
    agent = bl.recommend(choice, silence=0.0, floor=case.floor, seed=seed)
    effects = 0.5 * rng.standard_normal(d)
    bounds = None if case.heavy else (0.0, 1.0)
    contests = [
        Contest(K, d, range=b, least=case.floor / K if d and b else None) for b in (bounds, None)
    ]
    queue: dict[int, list[bl.Reward]] = {}
    days, found, lost = [], [], 0.0
    for day in range(count):
        x = rng.standard_normal((A_DAY, d))
        lift = (
            np.clip(np.exp(x @ effects - effects @ effects / 2.0), 0.0, 6.0)
            if d
            else np.ones(A_DAY)
        )
        p, actions = np.full((A_DAY, K), 1.0 / K), np.zeros(A_DAY, dtype=int)
        for k in range(A_DAY):
            among = [int(rng.integers(K))] if day < case.equal else None
            decision = agent.decide(x[k] if d else None, now=float(day), among=among)
            actions[k] = decision.action
            if day >= case.equal:
                p[k] = decision.probabilities
        chance = np.clip(np.outer(lift, case.rates) * case.rate(day), 0.0, 1.0)
        lost += float((chance.max(axis=1) - chance[np.arange(A_DAY), actions]).sum())
        outcomes = (rng.random(A_DAY) < chance[np.arange(A_DAY), actions]).astype(float)
        if case.heavy:
            outcomes *= rng.lognormal(3.0, 1.0, A_DAY)
        delays = (
            1 + rng.integers(0, 3, A_DAY)
            if not case.slow
            else 1 + np.minimum(rng.integers(0, 3, A_DAY), actions % 3)
        )
        for k in np.flatnonzero(outcomes):
            number = day * A_DAY + int(k)
            queue.setdefault(day + int(delays[k]), []).append(bl.Reward(number, float(outcomes[k])))
        days.append((actions, p, outcomes, x))
        agent.observe(queue.pop(day, []), now=float(day))
        if day >= WINDOW:
            for contest in contests:
                contest.extend(*days[day - WINDOW][:3], days[day - WINDOW][3] if d else None)
        ask = not told or day in told
        said = (
            verdict(agent.table(), contests[0], pace=A_DAY, window=WINDOW, time="days")
            if ask
            else None
        )
        values = np.array(case.rates) * case.rate(day) * (math.exp(3.5) if case.heavy else 1.0)
        leader = int(said.leader) if ask and said.leader is not None else 0
        found.append(
            Night(
                said.leads if ask else math.nan,
                contests[0].winner() is not None,
                contests[0].exact,
                contests[0].winner(),
                contests[1].winner() is not None,
                lost,
                said.at_stake if ask else math.nan,
                float(values.max() - values[leader]),
                said,
            )
        )
    return found


def first(said: list[bool]) -> float:
    """The first night on which it was said; infinite if never."""
    return said.index(True) if True in said else math.inf


def summary(case: Case, count: int, told: tuple[int, ...], seed: int) -> tuple[float, ...]:
    """First nights of the old answer, of the new one and of the asymptotic one; at stake; lost."""
    seen = nights(case, seed, count, told)
    stakes = [(one.stake, one.truth) for one in seen if not math.isnan(one.stake)]
    right = [one.winner == int(np.argmax(case.rates)) for one in seen if one.sure][:1]
    return (
        first([one.leads >= 0.95 for one in seen]),
        first([one.sure for one in seen]),
        first([one.limit for one in seen]),
        float(all(right)),
        seen[-1].lost,
        *(stakes[-1] if stakes else (math.nan, math.nan)),
    )


def costs(case: Case, count: int, seed: int) -> list[float]:
    """What following the old answer costs, then the new one: night, whether it is right, lost.

    Shares are equal until it is given, and then everybody gets its line, until the last night.
    """
    seen, told = nights(case, seed, count), []
    old = first([one.leads >= 0.95 for one in seen]), lambda one: int(one.verdict.leader)
    new = first([one.sure for one in seen]), lambda one: one.winner
    for night, line in (old, new):
        at = seen[int(min(night, count - 1))]
        short = max(case.rates) - (case.rates[line(at)] if night < count else max(case.rates))
        told += [night, short == 0.0, at.lost + max(count - 1 - night, 0) * A_DAY * short]
    return told


def compare(given: argparse.Namespace) -> None:
    """Print the medians and means of `costs`."""
    for name, case in COSTS.items():
        with ProcessPoolExecutor(given.workers) as pool:
            seeds = range(given.seed, given.seed + given.tests)
            found = np.array(list(pool.map(partial(costs, case, given.nights), seeds)))
        for answer, part in (("old", found[:, :3]), ("new", found[:, 3:])):
            said = np.isfinite(part[:, 0])
            print(
                f"| {name} | {answer} | {100 * said.mean():.0f} % | {np.median(part[:, 0]):.0f} "
                f"| {100 * (1 - part[:, 1]).mean():.0f} % | {part[:, 2].mean():.0f} "
                f"± {part[:, 2].std() / math.sqrt(len(part)):.0f} |",
                flush=True,
            )


def run(
    cases: dict[str, Case], told: tuple[int, ...], given: argparse.Namespace
) -> dict[str, np.ndarray]:
    """The summaries of all tests, (tests, 7) per case."""
    found = {}
    with ProcessPoolExecutor(given.workers) as pool:
        for name, case in cases.items():
            if given.case and given.case != name:
                continue
            one = partial(summary, case, given.nights, told)
            found[name] = np.array(list(pool.map(one, range(given.seed, given.seed + given.tests))))
            print(row(name, found[name]), flush=True)
    return found


def row(name: str, found: np.ndarray) -> str:
    """A row of a table: shares of the tests in which something was said, and their error."""
    n = len(found)
    shares = np.isfinite(found[:, :3]).mean(axis=0)
    said = [
        f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / n):.1f}" for share in shares
    ]
    when = found[np.isfinite(found[:, 1]), 1]
    middle = f"{np.median(when):.0f}" if len(when) else "-"
    cover = np.nanmean(found[:, 5] >= found[:, 6]) if not np.isnan(found[:, 5]).all() else math.nan
    return (
        f"| {name} | {n} | {' | '.join(said)} | {middle} | {100 * found[:, 3].mean():.0f} "
        f"| {found[:, 4].mean():.0f} | {100 * cover:.1f} | {np.nanmedian(found[:, 5]):.4f} |"
    )


COLUMNS = (
    *("case", "tests", "posterior 95 %", "winner", "winner, asymptotic", "median night"),
    *("right, %", "lost", "at stake covers, %", "at stake"),
)


def figure(given: argparse.Namespace) -> None:
    """The old answer, the new one, and what both cost, over 60 nights; docs/nights.png."""
    seen = nights(FIGURE, given.seed, given.nights)
    day = np.arange(given.nights)
    verdicts = [one.verdict for one in seen]
    ends = [
        (-9.0, 9.0) if v.difference is None else (100 * v.difference.low, 100 * v.difference.high)
        for v in verdicts
    ]
    low, high = np.clip(np.nan_to_num(np.array(ends), posinf=9.0, neginf=-9.0), -9.0, 9.0).T
    old, new = first([one.leads >= 0.95 for one in seen]), first([one.sure for one in seen])
    matplotlib.use("Agg")
    plot, axes = pyplot.subplots(3, 1, figsize=(7, 7), sharex=True, constrained_layout=True)
    axes[0].plot(day, [100 * one.leads for one in seen], color="tab:gray")
    axes[0].axhline(95, color="tab:red", lw=0.8, ls=":")
    axes[0].set_ylabel("leads, %")
    axes[1].fill_between(day, low, high, color="tab:blue", alpha=0.25)
    axes[1].axhline(0, color="black", lw=0.8)
    axes[1].set_ylim(-9, 9)
    axes[1].set_ylabel("cents a mail")
    axes[2].plot(day, [min(100 * one.stake, 9) for one in seen], label="at stake, at most")
    axes[2].plot(day, [100 * one.truth for one in seen], label="really lost, if all get the leader")
    axes[2].set_ylabel("cents a mail")
    axes[2].set_xlabel("night")
    axes[2].legend(frameon=False)
    titles = ["Leader is best", "Leader less runner-up, at every look"]
    for k, (night, colour, name) in enumerate(
        ((old, "tab:red", "95 %"), (new, "tab:green", "winner"))
    ):
        if math.isfinite(night):
            titles[k] += f": {name} first on night {night} (line {seen[night].verdict.leader}, "
            titles[k] += f"{seen[night].lost:.0f} purchases lost by then)"
            for one in axes:
                one.axvline(night, color=colour, lw=1.0, ls="--")
    for one, title in zip(axes, [*titles, "What giving everybody the leader costs"], strict=True):
        one.set_title(title, loc="left", fontsize=9)
    plot.savefig(Path(__file__).parent.parent / "docs" / "nights.png", dpi=110)
    print(f"old answer: night {old}, new one: night {new}; lost so far: ", end="")
    print([round(seen[int(n)].lost, 1) for n in (old, new) if math.isfinite(n)])


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["aa", "power", "stake", "floors", "costs", "figure"])
    parser.add_argument("--tests", type=int, default=100)
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--case")
    given = parser.parse_args()
    if given.what == "figure":
        figure(given)
        return
    if given.what == "costs":
        print("| lines | answer | given | median night | wrong | purchases lost |")
        compare(given)
        return
    print("", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", sep="\n")
    if given.what == "aa":
        run(AA, (), given)
    elif given.what == "power":
        given.nights = math.ceil(8828 / A_DAY) + WINDOW
        run(POWER, (given.nights - 1,), given)
    elif given.what == "stake":
        run(STAKE, (30,), given)
    else:
        run(FLOORS, (given.nights - 1,), given)


if __name__ == "__main__":
    main()
