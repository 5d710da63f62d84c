"""Four subject lines, purchases of 4 to 10 % that report days later, silence otherwise.

300 mails a day for 40 days to two kinds of customers. A purchase is made one to three days after
its mail and reported with that night's batch; customers who do not buy never report. The
recommended learner is compared with what people do today: LinUCB that takes silence for failure
until a purchase comes, a Thompson sampler by hand, waiting a week, and learning from what arrives.
A day is bad if it loses more than 5 % of what the best policy earns; days up to day 20 do not
count. A seed is stuck if 15 of its days are bad.

    python examples/mailer.py --seeds 20       the figure of the README, in some minutes
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from drawing import BLUE, GREEN, ORANGE, PURPLE, VERMILION, axes, band, save, smooth

import belated as bl

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for the rivals
from benchmarks.rivals import RidgeRival, ThompsonByHand

PER_DAY = 300
LEARNED, STUCK = 20, 15
"""Days that do not count as bad, and the bad days that make a seed stuck."""
LEARNERS = {
    "recommended": (BLUE, lambda p, seed: bl.recommend(p, silence=0.0, seed=seed)),
    "LinUCB": (
        PURPLE,
        lambda p, seed: RidgeRival(p, rule="ucb", scale=2.0, join="at once", seed=seed),
    ),
    "sampler by hand": (GREEN, lambda p, seed: ThompsonByHand(p, seed=seed)),
    "waits seven days": (
        ORANGE,
        lambda p, seed: RidgeRival(p, join="window", window=7 * PER_DAY, seed=seed),
    ),
    "learns from arrivals": (VERMILION, lambda p, seed: RidgeRival(p, seed=seed)),
}


def mailed(agent, world, days: int, seed: int) -> tuple[np.ndarray, ...]:
    """Expected purchases of every mail, of the best line, and of a line at random, (K,) each."""
    mails = PER_DAY * days
    visits = world.visits(mails, np.random.default_rng([seed, 0]))
    delays = bl.delays.nightly(PER_DAY, 1, 3).draw(mails, np.random.default_rng([seed, 1]))
    queue: bl.DelayLine[bl.Reward] = bl.DelayLine()
    value = np.zeros(mails)
    for mail in range(mails):
        day = mail // PER_DAY
        decision = agent.decide(visits.at(mail), now=day)
        value[mail] = decision.probabilities @ visits.means[mail]
        if visits.outcomes[mail, decision.action] > 0.0:
            queue.push([bl.Reward(decision.number, 1.0)], int(delays[mail]))
        if mail % PER_DAY == PER_DAY - 1:
            agent.observe(queue.release(mail), now=day)  # the nightly batch
    return value, visits.means.max(axis=1), visits.means.mean(axis=1)


def daily(values: np.ndarray) -> np.ndarray:
    """The sum of every day."""
    return values.reshape(-1, PER_DAY).sum(axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    world = bl.environments.mailer()
    figure, on = axes(width=7.5)
    print(f"{'learner':<22} all / last quarter (0 is the best policy, 1 random) / bad days / stuck")
    for name, (colour, make) in LEARNERS.items():
        bought, scores, bad = [], [], []
        for seed in range(given.seeds):
            value, best, uniform = mailed(make(world.problem, seed), world, given.days, seed)
            bought.append(100.0 * smooth(value, PER_DAY))
            lost = (best - value) / (best - uniform).mean()
            scores.append((lost.mean(), lost[-len(lost) // 4 :].mean()))
            earned, most = (daily(x)[LEARNED:] for x in (value, best))
            bad.append(earned < 0.95 * most)
        over_all, last = np.mean(scores, axis=0)
        stuck = (np.sum(bad, axis=1) >= STUCK).sum()
        share = np.mean(bad) if given.days > LEARNED else 0.0
        print(f"{name:<22} {over_all:.3f} / {last:.3f} / {share:.1%} / {stuck}", flush=True)
        band(on, bought, colour, name)
    for level, label in ((6.25, "uniform play"), (10.0, "best policy")):
        on.axhline(level, color="0.6", linewidth=0.8, linestyle=":")
        on.annotate(
            label,
            (PER_DAY * given.days, level),
            xytext=(0, 3),
            textcoords="offset points",
            color="0.4",
            ha="right",
        )
    ticks = np.arange(0, given.days + 1, 10)
    on.set_xticks(ticks * PER_DAY, [str(day) for day in ticks])
    on.set_xlabel("day")
    on.set_ylabel("expected purchases per 100 mails")
    on.set_ylim(2.5, 10.6)
    on.legend(frameon=False, loc="lower right")
    on.set_title("Purchases report days later, and silence says nothing yet", fontsize=11)
    print(f"Figure: {save(figure, 'mailer')}")


if __name__ == "__main__":
    main()
