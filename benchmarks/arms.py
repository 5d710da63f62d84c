"""How well a learner can do without features, where nothing changes: rivals that know the delays.

    python benchmarks/arms.py        a table, for benchmarks/DECISIONS.md; three minutes

Only successes report, after geometric delays of mean 100. Each rival knows that distribution, and
that nothing changes: it divides the successes so far by the exact exposure. The learner knows
neither. Scores after 4,000 decisions: 0 is the best action, 1 uniform play. All rivals are given,
so that the best one is chosen in hindsight, in favour of the rivals.
"""

from collections.abc import Callable

import numpy as np

import belated as bl
from belated.core.arrays import Floats, Ints

DECISIONS, DELAY, WORLDS = 4000, 100, 200
RATES: dict[str, Callable[[np.random.Generator], Floats]] = {
    "4 to 10 %": lambda rng: rng.permutation([0.04, 0.06, 0.08, 0.10]),
    ".5 to 3 %": lambda rng: rng.uniform(0.005, 0.03, 4),
    "2 to 20 %": lambda rng: rng.uniform(0.02, 0.2, 6),
    "10 to 50 %": lambda rng: rng.uniform(0.1, 0.5, 4),
}

Rule = Callable[[Floats, Floats, Floats, int, np.random.Generator], Floats]
"""Index of every action, given successes, exposure, plays, the time and a generator; all (N, A)."""


def ucb(width: float) -> Rule:
    """Mean and `width` standard deviations of a linear model of ones."""

    def index(wins: Floats, exposed: Floats, plays: Floats, _: int, __: object) -> Floats:
        level = (wins.sum(1, keepdims=True) + 0.1) / (exposed.sum(1, keepdims=True) + 1.0)
        sigma = np.sqrt(np.clip(level * (1.0 - level), 1e-9, None))
        return (wins + level) / (exposed + 1.0) + width * sigma / np.sqrt(plays + 1.0)

    return index


def kl_ucb(scale: float) -> Rule:
    """The largest rate whose divergence from the mean is scale * log(t) / plays."""

    def index(wins: Floats, exposed: Floats, plays: Floats, t: int, _: object) -> Floats:
        mean = np.clip(wins / np.maximum(exposed, 1e-9), 0.0, 1.0 - 1e-6)
        limit = scale * np.log(t + 2.0) / np.maximum(plays, 1e-9)
        low, high = mean.copy(), np.ones_like(mean)
        for _ in range(16):
            q = 0.5 * (low + high)
            gain = np.where(mean > 0.0, mean * np.log(np.maximum(mean, 1e-12) / q), 0.0)
            inside = gain + (1 - mean) * np.log((1 - mean) / np.maximum(1 - q, 1e-12)) < limit
            low, high = np.where(inside, q, low), np.where(inside, high, q)
        return np.where(plays > 0.0, low, 2.0)

    return index


def thompson(wins: Floats, exposed: Floats, _: object, __: int, rng: np.random.Generator) -> Floats:
    """Draws from Beta(1 + successes, 1 + exposed failures)."""
    return rng.beta(1.0 + wins, 1.0 + np.maximum(exposed - wins, 0.0))


RULES: dict[str, Rule] = {
    "UCB, .7": ucb(0.7),
    "UCB, 1": ucb(1.0),
    "UCB, 1.4": ucb(1.4),
    "KL-UCB, .15": kl_ucb(0.15),
    "KL-UCB, .3": kl_ucb(0.3),
    "KL-UCB, 1": kl_ucb(1.0),
    "Thompson": thompson,
}


def scores(regrets: Floats, rates: Floats) -> Floats:
    """Regret as a share of that of uniform play, world by world."""
    return regrets / DECISIONS / (rates.max(1) - rates.mean(1))


def rival(rule: Rule, rates: Floats) -> Floats:
    """The scores of a rule in all worlds at once; rates (N, A)."""
    rng = np.random.default_rng(5)
    N, A = rates.shape
    each: Ints = np.arange(N)
    plays, wins, hidden = np.zeros((3, N, A))
    coming = np.zeros((10 * DELAY, N, A))  # successes, by the time of their arrival
    regrets = np.zeros(N)
    for t in range(DECISIONS):
        wins += coming[t % len(coming)]
        coming[t % len(coming)] = 0.0
        index = rule(wins, plays - hidden, plays, t, rng) + 1e-9 * rng.random((N, A))
        a = index.argmax(1)
        regrets += rates.max(1) - rates[each, a]
        plays[each, a] += 1.0
        hidden[each, a] += 1.0
        hidden *= 1.0 - 1.0 / DELAY  # the probability that a delay is longer than the age
        won = np.flatnonzero(rng.random(N) < rates[each, a])
        late = np.minimum(rng.geometric(1.0 / DELAY, len(won)), len(coming) - 1)
        np.add.at(coming, ((t + late) % len(coming), won, a[won]), 1.0)
    return scores(regrets, rates)


def learner(rates: Floats) -> Floats:
    """The scores of the recommended learner, its floor of 1 % included."""
    rng = np.random.default_rng(5)
    regrets = np.zeros(len(rates))
    for n, row in enumerate(rates):
        agent = bl.recommend(bl.Choice(len(row)), silence=0.0, seed=n)
        queue = bl.DelayLine()
        for t in range(DECISIONS):
            decision = agent.decide()
            regrets[n] += row.max() - decision.probabilities @ row
            if rng.random() < row[decision.action]:
                queue.push([bl.Reward(decision.number, 1.0)], int(rng.geometric(1.0 / DELAY)))
            agent.observe(queue.release(t))
    return scores(regrets, rates)


def main() -> None:
    worlds = {
        name: np.stack([draw(np.random.default_rng([9, n])) for n in range(WORLDS)])
        for name, draw in RATES.items()
    }
    print("| | " + " | ".join(worlds) + " |")
    print("| --- |" + " --- |" * len(worlds))
    for name, rule in {"recommended": None, **RULES}.items():
        cells = []
        for rates in worlds.values():
            found = learner(rates) if rule is None else rival(rule, rates)
            cells.append(f"{found.mean():.3f} ({np.mean(found > 0.4):.0%})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
