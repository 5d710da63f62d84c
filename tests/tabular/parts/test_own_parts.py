"""Parts that a user writes work in Delayed OPPO like those of the library."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import belated as bl
import oracles
from belated.testing import check_agent

WORLD = oracles.random_world(np.random.default_rng(0), 3, 4, 2)
KNOWN = {"transitions": WORLD.mdp.transitions}


@dataclass(frozen=True)
class Follow:
    """Follow the leader: the action of the least sum of Q, in every state."""

    first: int = 0

    def start(self, problem, costs):
        learned = SimpleNamespace(total=np.zeros(problem.shape), seen=[])
        learned.total[..., self.first] = -1e-9
        return learned

    def policy(self, learned, outlook):
        learned.seen.append((outlook.missing, outlook.coming))
        return np.eye(learned.total.shape[2])[learned.total.argmin(-1)]

    def learn(self, learned, arrived):
        learned.total += arrived.q()


@dataclass(frozen=True)
class Rounded:
    """Full information; every cost is rounded to 0 or 1."""

    information: ClassVar[str] = "full"
    weighted: ClassVar[bool] = False
    averaged: ClassVar[bool] = False

    def start(self, problem):
        return None

    def learn(self, learned, path, values):
        pass

    def estimate(self, learned, seen):
        return np.round(seen.values)


@dataclass(frozen=True)
class Reweighted(Rounded):
    """A user's own importance weights, which need the model at the start of the episode."""

    information: ClassVar[str] = "bandit"
    weighted: ClassVar[bool] = True

    def estimate(self, learned, seen):
        played, path = seen.played(), seen.path
        at = (np.arange(len(path.actions)), path.states[:-1], path.actions)
        costs = np.zeros(played.shape)
        costs[at] = seen.values / (seen.model.reach(played, path.states) * played[at] + 0.1)
        return costs


@dataclass(frozen=True)
class Evenly:
    """Every other episode is played uniformly, and used all the same."""

    needs_paths: ClassVar[bool] = False

    def start(self, problem, model):
        steps = 1 if problem.homogeneous else problem.horizon
        return SimpleNamespace(turn=False, every=np.ones((steps, problem.states), bool))

    def mask(self, learned):
        learned.turn = not learned.turn
        return None if learned.turn else learned.every

    def mixed(self, policy, mask):
        return policy if mask is None else np.full_like(policy, 1 / policy.shape[2])

    def met(self, mask, path):
        return False


OWN = {
    "update": {"update": Follow()},
    "update, known": {"update": Follow(1), **KNOWN},
    "update, bonus": {"update": Follow(), "transitions": bl.parts.Bonus()},
    "update, bandit": {"update": Follow(), "costs": bl.parts.Weighted(0.1)},
    "costs": {"costs": Rounded()},
    "costs, bandit": {"costs": Reweighted(), "update": bl.parts.Softmax(0.1)},
    "costs, bandit, known": {"costs": Reweighted(), "update": Follow(), **KNOWN},
    "explore": {"explore": Evenly()},
    "explore, known": {"explore": Evenly(), **KNOWN},
    "all": {"update": Follow(), "costs": Rounded(), "explore": Evenly()},
}


@pytest.mark.parametrize("parts", OWN.values(), ids=OWN.keys())
def test_own_parts_run_and_keep_the_contract(parts):
    agent = bl.DelayedOPPO(WORLD.problem, **parts)
    run = bl.simulate(WORLD, agent, delays=bl.delays.geometric(2), episodes=40)
    assert np.all(np.isfinite(run.values))
    assert run.diagnostics["begun"] == 40
    assert agent.information == getattr(parts.get("costs"), "information", "full")
    check_agent(lambda: bl.DelayedOPPO(WORLD.problem, **parts))
    assert all(repr(part) in repr(agent) for part in parts.values())


def test_an_own_update_gets_the_true_q_and_the_number_missing():
    delays = np.random.default_rng(1).integers(0, 3, 40)  # so small that nothing is overdue
    agent = bl.DelayedOPPO(WORLD.problem, update=Follow(), **KNOWN)
    total, line, policies = np.zeros((3, 4, 2)), bl.DelayLine(), []
    total[..., 0] = -1e-9
    for k in range(40):
        policy = agent.begin_episode().policy
        assert np.array_equal(policy, np.eye(2)[total.argmin(-1)])
        policies.append(policy)
        line.push([bl.Costs(k, WORLD.costs.at(k))], int(delays[k]))
        agent.observe(line.release(k))
        for j in range(k + 1):
            if j + delays[j] == k:
                p = oracles.dense(WORLD.mdp)
                total += oracles.values(p, WORLD.costs.at(j), policies[j])[1]
    for k, (missing, coming) in enumerate(agent._update.seen):
        assert missing == sum(j + delays[j] >= k for j in range(k))
        came = [delays[j] for j in range(k) if j + delays[j] < k]
        assert coming == pytest.approx(min(missing, np.mean(came) if came else missing))


def test_own_costs_are_the_costs_of_the_update():
    """Costs that are rounded before the agent sees them give the same policies."""
    rounded = bl.World(
        WORLD.mdp, bl.costs.sequence([np.round(WORLD.costs.at(k)) for k in range(40)])
    )
    delays = bl.delays.geometric(2)
    mine, plain = (
        bl.DelayedOPPO(WORLD.problem, update=bl.parts.Softmax(0.3), costs=costs, **KNOWN)
        for costs in (Rounded(), bl.parts.Revealed())
    )
    bl.simulate(WORLD, mine, delays=delays, episodes=40)
    bl.simulate(rounded, plain, delays=delays, episodes=40)
    assert np.array_equal(mine.begin_episode().policy, plain.begin_episode().policy)


def test_own_weights_are_those_of_the_library():
    settings = {"update": bl.parts.Softmax(0.1), "transitions": bl.parts.Confidence(0.05)}
    mine, plain = (
        bl.simulate(
            WORLD,
            bl.DelayedOPPO(WORLD.problem, costs=costs, **settings),
            delays=bl.delays.geometric(2),
            episodes=40,
        )
        for costs in (Reweighted(), bl.parts.Weighted(0.1))
    )
    np.testing.assert_allclose(mine.values, plain.values, atol=1e-12)


def test_own_exploration_decides_what_is_played():
    agent = bl.DelayedOPPO(WORLD.problem, update=bl.parts.Softmax(0.5), explore=Evenly(), **KNOWN)
    for k in range(20):
        policy = agent.begin_episode().policy
        assert np.all(policy == 0.5) == (k % 2 == 1 or k == 0)
        agent.observe([bl.Costs(k, WORLD.costs.at(k))])
    assert agent.diagnostics()["explored"] == 0
