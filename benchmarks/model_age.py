"""The score of a learner for decisions whose model is renewed only now and then.

A process that decides by a model which another process has learned lags behind: what has been
reported since the model was made is not in it. Here reports wait until the next renewal. A score
of 0 is the best action for every visitor, 1 is play at random.

    python benchmarks/model_age.py
"""

import heapq

import numpy as np

import belated as bl

CHOICE = bl.Choice(
    ["plain", "question", "discount"], bl.Features(age="number", country=["dk", "se"])
)
DECISIONS, SEEDS, DELAY = 8_000, 6, 300.0
"""Decisions of a run, runs, and the mean number of decisions until a purchase is reported."""
RENEWALS = (1, 30, 100, 300, 1_000, 3_000)
"""Decisions between two renewals of the model."""


def chances(age: int) -> list[float]:
    """The probability that a visitor buys, by action."""
    return [0.08, 0.25 if age < 45 else 0.05, 0.15]


def score(every: int, seed: int) -> float:
    """The score of one run."""
    rng = np.random.default_rng(seed)
    agent = bl.recommend(CHOICE, silence=0.0)
    coming: list[tuple[float, int]] = []
    got = best = uniform = 0.0
    for k in range(DECISIONS):
        age = int(rng.integers(18, 80))
        visitor = {"age": age, "country": ["dk", "se"][rng.integers(2)]}
        made = agent.decide(visitor, now=float(k))
        buys = chances(age)
        got, best = got + buys[made.action], best + max(buys)
        uniform += float(np.mean(buys))
        if rng.random() < buys[made.action]:
            heapq.heappush(coming, (k + rng.exponential(DELAY), made.number))
        if k % every == 0:
            due = []
            while coming and coming[0][0] <= k:
                due.append(bl.Reward(heapq.heappop(coming)[1], 1.0))
            agent.observe(due, now=float(k))
    return (best - got) / (best - uniform)


def main() -> None:
    print("| decisions between two renewals | score, mean ± 95 % |")
    print("|---|---|")
    for every in RENEWALS:
        found = [score(every, seed) for seed in range(SEEDS)]
        half = 1.96 * np.std(found, ddof=1) / np.sqrt(SEEDS)
        print(f"| {every:,} | {np.mean(found):.2f} ± {half:.2f} |", flush=True)


if __name__ == "__main__":
    main()
