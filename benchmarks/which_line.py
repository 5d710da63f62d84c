"""Tests of equal lines, of a better line, and what being sure costs.

    python benchmarks/which_line.py aa --tests 1000       equal lines: how often a winner is named
    python benchmarks/which_line.py power --tests 200     5 % against 7 %, equal shares
    python benchmarks/which_line.py stake --tests 500     does at_stake cover the truth on night 30?
    python benchmarks/which_line.py floors --tests 200    floor, nights until sure, money lost
    python benchmarks/which_line.py costs --tests 200     what following either answer costs
    python benchmarks/which_line.py plans --tests 200     does advise(prove_within=) keep its word?
    python benchmarks/which_line.py figure                docs/nights.png
    options: --case NAME (one case), --workers 2, --seed 0 (the first one)

A test is 60 nights of 200 decisions. Purchases report one to three days later, at night; the
recommended learner allocates. Each night people ask `agent.verdict(window=3, range=(0, 1))`; the
first night on which somebody would say "sure" counts. The old answer is a posterior probability of
95 %; the new one is `winner`.

Each test is a row of out/which_line.csv: table, case, seed, the code that ran (a hash of the
learner and the verdict), and what was found. A test that is there is not run again, so that a
killed run goes on.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import csv
import hashlib
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot

import belated as bl
from belated.evaluation import Contest
from belated.evaluation.verdict import Verdict

ROOT = Path(__file__).parent.parent
A_DAY, WINDOW = 200, 3


@dataclass(frozen=True)
class Case:
    """A mailer: the rate of each line, and what is special about it."""

    rates: tuple[float, ...]
    features: int = 0
    own: bool = False  # whether what features do depends on the line
    slow: bool = False  # delays that depend on the line
    weekly: float = 0.0
    trend: float = 0.0
    heavy: bool = False  # lognormal amounts instead of ones: no range is known
    floor: float = 0.01
    equal: int = 0  # nights of equal shares before the learner allocates
    nights: int = 60

    def rate(self, day: int) -> float:
        """By how much all rates are multiplied on a day."""
        week = 1.0 + self.weekly * math.sin(2.0 * math.pi * day / 7.0)
        return week * (1.0 + self.trend * (day / 30.0 - 1.0))


THREE = (0.05,) * 3
AA = {
    **{
        f"{K} lines, {100 * rate:g} %": Case((rate,) * K)
        for rate in (0.05, 0.01)
        for K in (2, 3, 6)
    },
    "3 lines, features": Case(THREE, 3),
    "3 lines, features by line": Case(THREE, 3, own=True),
    "3 lines, delays by line": Case(THREE, slow=True),
    "3 lines, weekly rhythm": Case(THREE, weekly=0.5),
    "3 lines, trend": Case(THREE, trend=0.6),
    "3 lines, all of these": Case(THREE, 3, True, True, 0.5, 0.6),
    "3 lines, heavy-tailed amounts": Case(THREE, heavy=True),
    "2 lines, equal shares": Case((0.05,) * 2, floor=1.0),
    "3 lines, all of these, floor 30 %": Case(THREE, 3, True, True, 0.5, 0.6, floor=0.3),
    "2 lines, heavy-tailed amounts, equal shares": Case((0.05,) * 2, heavy=True, floor=1.0),
}
# A fixed-sample test of power 80 % needs 4,414 decisions; a winner may take twice as many.
POWER = {"5 % against 7 %": Case((0.05, 0.07), floor=1.0, nights=math.ceil(8828 / A_DAY) + WINDOW)}
STAKE = {
    "5, 5, 5 %": Case(THREE, nights=31),
    "5, 5, 7 %": Case((0.05, 0.05, 0.07), nights=31),
    "1, 1, 2 %": Case((0.01, 0.01, 0.02), nights=31),
    "5, 7 %, features": Case((0.05, 0.07), 3, nights=31),
    "5, 7 %, features by line": Case((0.05, 0.07), 3, own=True, nights=31),
}
BETTER = (0.05, 0.05, 0.07)
FLOORS = {
    **{f"floor {100 * f:g} %": Case(BETTER, floor=f) for f in (0.01, 0.2, 0.5, 1.0)},
    **{f"{n} nights of equal shares, then 1 %": Case(BETTER, equal=n) for n in (20, 40)},
}
COSTS = {"5, 7 %": Case((0.05, 0.07), floor=1.0), "5, 5, 7 %": Case(BETTER, floor=1.0)}
ASKED = {  # lines, decisions, difference, rate
    "2 lines, 4 points by 4,000": (2, 4_000, 0.04, 0.06),
    "2 lines, 2 points by 20,000": (2, 20_000, 0.02, 0.06),
    "3 lines, 2 points by 16,000": (3, 16_000, 0.02, 0.06),
    "3 lines, 2 points by 40,000": (3, 40_000, 0.02, 0.06),
}


def plan(lines: int, within: int, difference: float, rate: float) -> Case:
    """What is advised: a floor, or first nights of equal shares; all lines but one are worse."""
    asked = {"prove_within": within, "difference": difference, "rate": rate}
    advice = bl.advise(bl.Choice(lines), **asked)
    phase = [note for note in advice.notes if note.startswith("Equal shares")]
    equal = math.ceil(
        int(phase[0].split("about ")[1].split()[0].replace(",", "")) / A_DAY if phase else 0
    )
    rates = (rate - difference / 2.0,) * (lines - 1) + (rate + difference / 2.0,)
    floor = 0.01 if phase else advice.make().floor
    return Case(rates, floor=floor, equal=equal, nights=within // A_DAY + WINDOW)


@dataclass
class Night:
    """What was said on a night."""

    verdict: Verdict
    limit: bool  # whether the asymptotic sequence names a winner
    lost: float  # money lost so far, in outcomes
    truth: float  # what is really at stake


def nights(case: Case, seed: int) -> Iterator[Night]:
    """Play a test."""
    rng = np.random.default_rng([seed, 7])
    K, d = len(case.rates), case.features
    agent = bl.recommend(
        bl.Choice(actions=K, features=d) if d else bl.Choice(actions=K),
        floor=1.0 if case.equal else case.floor,
        seed=seed,
    )
    effects = rng.standard_normal((d, K if case.own else 1))
    limit = Contest(K, d)
    queue: dict[int, list[bl.Reward]] = {}
    days, lost = [], 0.0
    for day in range(case.nights):
        if case.equal and day == case.equal:
            agent.change(floor=case.floor)
        x = rng.standard_normal((A_DAY, d))
        lift = 1.0 + 0.8 * np.tanh(x @ effects)  # 1 on average, for every line
        chance = lift * case.rate(day) * case.rates
        made = [agent.decide(x[k] if d else None, now=float(day)) for k in range(A_DAY)]
        actions = np.array([one.action for one in made])
        mine = chance[np.arange(A_DAY), actions]
        lost += float((chance.max(axis=1) - mine).sum())
        outcomes = (rng.random(A_DAY) < mine).astype(float)
        outcomes *= rng.lognormal(3.0, 1.0, A_DAY) if case.heavy else 1.0
        delays = 1 + np.minimum(rng.integers(0, 3, A_DAY), actions % 3 if case.slow else 2)
        for k in np.flatnonzero(outcomes):
            reward = bl.Reward(made[k], float(outcomes[k]))
            queue.setdefault(day + int(delays[k]), []).append(reward)
        least = np.full((A_DAY, K), agent.floor / K) if d else None
        days.append((actions, np.array([one.probabilities for one in made]), outcomes, x, least))
        agent.observe(queue.pop(day, []), now=float(day))
        if day >= WINDOW:
            *columns, least = days[day - WINDOW]
            limit.extend(*columns, least=least)
        range_ = None if case.heavy else (0.0, 1.0)
        said = agent.verdict(float(WINDOW), range_, time="days")
        values = np.array(case.rates) * case.rate(day) * (math.exp(3.5) if case.heavy else 1.0)
        truth = float(values.max() - values[int(said.leader or 0)])
        yield Night(said, limit.winner() is not None, lost, truth)


COLUMNS = (
    *("old", "old_short", "new", "new_short", "asymptotic", "lost", "cost_old", "cost_new"),
    *("stake", "truth"),
)


def summary(case: Case, seed: int) -> list[float]:
    """The numbers of a test, as in `COLUMNS`.

    Of both answers the first night (infinite: never), and by how much the line is worse than the
    best one; the first night of the asymptotic sequence; purchases lost by the last night, and what
    it would have been if everybody had got the line of either answer from its night on; at stake.
    """
    seen, found, spent = list(nights(case, seed)), [], []
    for named in (
        [one.verdict.leader if one.verdict.leads >= 0.95 else None for one in seen],
        [one.verdict.winner for one in seen],
    ):
        at = next((night for night, line in enumerate(named) if line is not None), None)
        short = 0.0 if at is None else max(case.rates) - case.rates[int(named[at] or 0)]
        rest = 0 if at is None else (case.nights - 1 - at) * A_DAY
        spent.append(seen[-1 if at is None else at].lost + rest * short)
        found += [math.inf if at is None else at, short]
    limit = next((night for night, one in enumerate(seen) if one.limit), math.inf)
    last = seen[-1]
    return [*found, limit, last.lost, *spent, last.verdict.at_stake, last.truth]


def code() -> str:
    """A hash of the learner and the verdict."""
    source = ROOT / "src" / "belated"
    files = [*source.glob("linear/*.py"), *source.glob("evaluation/*.py")]
    told = b"".join(file.read_bytes() for file in sorted(files))
    return hashlib.sha256(told).hexdigest()[:8]


def run(table: str, cases: dict[str, Case], given: argparse.Namespace) -> None:
    """Run the tests that are not in the file, and print a row per case."""
    out = ROOT / "out" / "which_line.csv"
    out.parent.mkdir(exist_ok=True)
    ran = code()
    for name, case in cases.items():
        if given.case not in (None, name):
            continue
        found = {}
        if out.exists():
            with out.open(newline="") as lines:
                rows = [row for row in csv.reader(lines) if row[:2] == [table, name]]
            found = {int(row[2]): [float(v) for v in row[4:]] for row in rows if row[3] == ran}
        seeds = range(given.seed, given.seed + given.tests)
        left = [seed for seed in seeds if seed not in found]
        with ProcessPoolExecutor(given.workers) as pool, out.open("a", newline="") as lines:
            for seed, numbers in zip(left, pool.map(partial(summary, case), left), strict=True):
                found[seed] = numbers
                told = [f"{number:.6g}" for number in numbers]
                csv.writer(lines).writerow([table, name, seed, ran, *told])
                lines.flush()
        print(row(name, np.array([found[seed] for seed in seeds]), given.seed), flush=True)


HEAD = (
    "| case | seeds | posterior 95 %, % | wrong | night | winner, % | wrong | night "
    "| asymptotic, % | lost | old answer | new answer | at stake covers, % | at stake |"
)


def row(name: str, found: np.ndarray, seed: int) -> str:
    """A row of a table: how often something was said, with its error, and medians and means."""
    n, of = len(found), dict(zip(COLUMNS, found.T, strict=True))

    def often(said: np.ndarray) -> str:
        share = said.mean()
        return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / n):.1f}"

    told = []
    for answer in ("old", "new"):
        said = np.isfinite(of[answer])
        wrong = 100 * (of[f"{answer}_short"] > 0.0).mean()
        night = f"{np.median(of[answer][said]):.0f}" if said.any() else "-"
        told += [often(said), f"{wrong:.1f}", night]
    told.append(often(np.isfinite(of["asymptotic"])))
    for money in ("lost", "cost_old", "cost_new"):
        told.append(f"{of[money].mean():.0f} ± {of[money].std() / math.sqrt(n):.0f}")
    told += [often(of["stake"] >= of["truth"]), f"{np.median(of['stake']):.4f}"]
    return f"| {name} | {seed} to {seed + n - 1} | {' | '.join(told)} |"


def figure(given: argparse.Namespace) -> None:
    """The old answer, the new one, and what both cost, over 60 nights; docs/nights.png."""
    seen = list(nights(COSTS["5, 7 %"], given.seed))
    day = np.arange(len(seen))
    verdicts = [one.verdict for one in seen]
    ends = [
        (-9.0, 9.0) if v.difference is None else (100 * v.difference.low, 100 * v.difference.high)
        for v in verdicts
    ]
    low, high = np.clip(np.nan_to_num(np.array(ends), posinf=9.0, neginf=-9.0), -9.0, 9.0).T
    numbers = summary(COSTS["5, 7 %"], given.seed)
    matplotlib.use("Agg")
    plot, axes = pyplot.subplots(3, 1, figsize=(7, 7), sharex=True, constrained_layout=True)
    axes[0].plot(day, [100 * one.leads for one in verdicts], color="tab:gray")
    axes[0].axhline(95, color="tab:red", lw=0.8, ls=":")
    axes[0].set_ylabel("leads, %")
    axes[1].fill_between(day, low, high, color="tab:blue", alpha=0.25)
    axes[1].axhline(0, color="black", lw=0.8)
    axes[1].set_ylim(-9, 9)
    axes[1].set_ylabel("cents a mail")
    axes[2].plot(day, [min(100 * one.at_stake, 9) for one in verdicts], label="at stake, at most")
    axes[2].plot(day, [100 * one.truth for one in seen], label="really lost, if all get the leader")
    axes[2].set_ylabel("cents a mail")
    axes[2].set_xlabel("night")
    axes[2].legend(frameon=False)
    titles = ["Leader is best", "Leader less runner-up, at each look"]
    answers = ((numbers[0], "tab:red", "95 %"), (numbers[2], "tab:green", "winner"))
    for k, (night, colour, name) in enumerate(answers):
        if math.isfinite(night):
            line = seen[int(night)].verdict.leader
            titles[k] += (
                f": {name} on night {night} (line {line}), costs {numbers[6 + k]:.0f} in all"
            )
            for one in axes:
                one.axvline(night, color=colour, lw=1.0, ls="--")
    for one, title in zip(axes, [*titles, "What giving everybody the leader costs"], strict=True):
        one.set_title(title, loc="left", fontsize=9)
    plot.savefig(ROOT / "docs" / "nights.png", dpi=110)
    print(dict(zip(COLUMNS, numbers, strict=True)))


def main() -> None:
    """See the module."""
    plans = {name: plan(*asked) for name, asked in ASKED.items()}
    tables = {
        "aa": AA, "power": POWER, "stake": STAKE, "floors": FLOORS, "costs": COSTS, "plans": plans,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=[*tables, "figure"])
    parser.add_argument("--tests", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case")
    given = parser.parse_args()
    if given.what == "figure":
        figure(given)
        return
    print(f"Code {code()}.", "", HEAD, "|---" * HEAD.count(" |") + "|", sep="\n")
    run(given.what, tables[given.what], given)


if __name__ == "__main__":
    main()
