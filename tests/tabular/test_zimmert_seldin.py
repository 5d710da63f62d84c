"""Zimmert and Seldin's learner against a literal twin, and its published bounds."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import belated as bl
import oracles
from belated.testing import check_agent


class Twin:
    """Algorithms 1 and 2, with all indicators a_s^t; a root finder computes the weights."""

    def __init__(self, arms, tuning, scale=1.0):
        self.k, self.tuning, self.scale = arms, tuning, scale
        self.x, self.arrival, self.L = {}, {}, np.zeros(arms)
        self.D, self.a = 0, {}

    def begin(self, t):
        out = [s for s in range(1, t) if self.arrival[s] >= t]
        self.D += sum(self.a[s] for s in out)
        c = math.sqrt((2 if self.tuning == "simple" else 1) * self.D / math.log(self.k))
        if self.tuning == "advanced":
            for s in range(1, t):
                if min(self.arrival[s] - s, t - s) > c:
                    self.a[s] = 0
        # the regulariser F_t is divided by the scale, that is, the losses are multiplied
        self.x[t], self.a[t] = weights(self.scale * self.L, math.sqrt(t), c), 1
        return self.x[t]


def weights(L, r, c):
    def weight(i, nu):
        y = L[i] - L.min() + nu
        u = brentq(lambda u: r * math.exp(u) + 2 * c * u - y, 0, math.log(y / r) + 1, xtol=1e-15)
        return math.exp(-2 * u)

    def total(nu):
        return sum(weight(i, nu) for i in range(len(L))) - 1

    nu = brentq(total, r, r * len(L) + c * math.log(len(L)) + 1, xtol=1e-14)
    return np.array([weight(i, nu) for i in range(len(L))])


@pytest.mark.parametrize("tuning", ["simple", "advanced"])
@pytest.mark.parametrize(("arms", "lost", "scale"), [(2, 0.0, 1.0), (5, 0.3, 1.0), (4, 0.1, 3.0)])
def test_policies_equal_the_literal_algorithm(tuning, arms, lost, scale):
    rng = np.random.default_rng(arms)
    world = bl.environments.bandit(rng.random(arms))
    agent = bl.ZimmertSeldin(world.problem, tuning, scale=scale)
    twin = Twin(arms, tuning, scale)
    delays = oracles.random_delays(rng, 120, lost=lost)
    waiting = {}
    for k in range(120):
        t = k + 1
        policy = agent.begin_episode().policy
        expected = twin.begin(t)
        assert policy[0, 0] == pytest.approx(expected, abs=1e-9)
        twin.arrival[t] = math.inf if delays[k] == bl.NEVER else t + delays[k]
        arm, cost = int(rng.integers(arms)), float(rng.random())
        waiting.setdefault(twin.arrival[t], []).append((t, arm, cost))
        for s, arm, cost in waiting.pop(t, []):
            twin.L[arm] += cost / twin.x[s][arm]
            agent.observe([bl.Trajectory(s - 1, [0, 0], [arm]), bl.Costs(s - 1, [cost])])
    assert agent.diagnostics()["outstanding"] == twin.D


def regrets(costs, delays, tuning, seeds):
    """The regret of each seed; costs (K, A) are fixed beforehand."""
    mdp = bl.environments.bandit(costs[0]).mdp
    world = bl.World(mdp, bl.costs.sequence(costs[:, None, None, :]))
    runs = [
        bl.simulate(
            world,
            bl.ZimmertSeldin(mdp.problem, tuning),
            delays=delays,
            episodes=len(costs),
            seed=seed,
        )
        for seed in range(seeds)
    ]
    return np.array([run.regret[-1] for run in runs])


@pytest.mark.long
@pytest.mark.parametrize("tuning", ["simple", "advanced"])
@pytest.mark.parametrize("kind", ["none", "fixed", "one side"])
def test_the_published_bounds(tuning, kind):
    """The mean of eight seeds, with four standard errors on top, is below the bound."""
    k, n, rng = 4, 250, np.random.default_rng(1)
    costs = (rng.random((n, k)) < [0.3, 0.5, 0.6, 0.7]).astype(float)
    costs[n // 2 :] = 1 - costs[n // 2 :, ::-1]  # the laws change
    d = {
        "none": np.zeros(n, dtype=np.int64),
        "fixed": np.full(n, 30),
        "one side": np.where(np.arange(n) < 40, n, 0),  # the first costs never arrive
    }[kind]
    d = np.minimum(d, n - 1 - np.arange(n))
    found = regrets(costs, d, tuning, 8)
    mean, error = found.mean(), found.std(ddof=1) / math.sqrt(len(found))
    D = d.sum()
    simple = 4 * math.sqrt(k * n) + math.sqrt(8 * D * math.log(k))
    rest = min(
        skipped + math.sqrt(np.sort(d)[: n - skipped].sum() * math.log(k)) for skipped in range(n)
    )
    advanced = 4 * math.sqrt(k * n) + 10 * max(rest, 2 * math.log(k))
    assert mean + 4 * error < (simple if tuning == "simple" else advanced)


def test_a_round_that_is_very_late_is_counted_no_more():
    problem = bl.Problem(states=1, actions=3, horizon=1)
    totals = {}
    for tuning in ("simple", "advanced"):
        agent = bl.ZimmertSeldin(problem, tuning)
        agent.begin_episode()  # never reports
        for k in range(1, 300):
            agent.begin_episode()
            agent.observe([bl.Trajectory(k, [0, 0], [0]), bl.Costs(k, [0.5])])
        totals[tuning] = agent.diagnostics()["outstanding"]
    assert totals["simple"] == 299
    assert totals["advanced"] < 5
    assert agent.diagnostics()["given_up"] == 1
    agent.observe([bl.Trajectory(0, [0, 0], [1]), bl.Costs(0, [1.0])])  # and is still used
    assert agent.begin_episode().policy[0, 0, 1] < agent.begin_episode().policy[0, 0, 2]


@pytest.mark.parametrize("tuning", ["simple", "advanced"])
@pytest.mark.parametrize("arms", [1, 4])
def test_it_keeps_the_contract_and_is_saved(tuning, arms, tmp_path):
    problem = bl.Problem(states=1, actions=arms, horizon=1)
    check_agent(lambda: bl.ZimmertSeldin(problem, tuning))
    agent = bl.ZimmertSeldin(problem, tuning)
    rng = np.random.default_rng(0)

    def play(one, k):
        policy = one.begin_episode().policy
        if k >= 3:
            arm = int(rng.integers(arms)) if one is agent else play.arm
            play.arm = arm
            one.observe([bl.Trajectory(k - 3, [0, 0], [arm]), bl.Costs(k - 3, [k % 2])])
        return policy

    for k in range(20):
        play(agent, k)
    bl.save(agent, tmp_path / "a.belated")
    again = bl.load(tmp_path / "a.belated")
    for k in range(20, 30):
        assert np.array_equal(play(agent, k), play(again, k))


def test_extremes():
    agent = bl.ZimmertSeldin(bl.Problem(states=1, actions=3, horizon=1))
    for k in range(2000):  # one arm is always the worst: its probability vanishes
        policy = agent.begin_episode().policy
        assert np.all(policy >= 0)
        assert abs(policy.sum() - 1) < 1e-12
        agent.observe([bl.Trajectory(k, [0, 0], [2]), bl.Costs(k, [1.0])])


def test_bad_input():
    with pytest.raises(ValueError, match=r"problem must have states = 1 and horizon = 1"):
        bl.ZimmertSeldin(bl.Problem(states=2, actions=2, horizon=1))
    with pytest.raises(ValueError, match="tuning must be one of"):
        bl.ZimmertSeldin(bl.Problem(states=1, actions=2, horizon=1), "fancy")
    with pytest.raises(ValueError, match="scale must be a finite number"):
        bl.ZimmertSeldin(bl.Problem(states=1, actions=2, horizon=1), scale=0)
