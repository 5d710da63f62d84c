"""Slow, plain versions of what the library computes, for comparison."""

import itertools
import math
from typing import Any

import numpy as np

import belated as bl
from belated.config.part import part, with_defaults
from belated.core import tree


def dense(mdp: bl.MDP) -> np.ndarray:
    """(H, S, A, S)"""
    p = mdp.transitions.dense()
    return np.broadcast_to(p, (mdp.horizon, *p.shape[1:]))


def per_step(costs: np.ndarray, horizon: int) -> np.ndarray:
    """(H, S, A)"""
    return np.broadcast_to(costs, (horizon, *costs.shape[1:]))


def values(p, costs, policy):
    """V (H + 1, S) and Q (H, S, A) by the textbook recursion on dense arrays."""
    H, S, A = policy.shape
    V, Q = np.zeros((H + 1, S)), np.zeros((H, S, A))
    for h in reversed(range(H)):
        Q[h] = costs[h] + p[h] @ V[h + 1]
        V[h] = (policy[h] * Q[h]).sum(-1)
    return V, Q


def deterministic_policies(H, S, A):
    for actions in itertools.product(range(A), repeat=H * S):
        yield np.eye(A)[np.array(actions).reshape(H, S)]


def occupancy(p, policy, start):
    """(H, S, A)"""
    mass, q = start, []
    for h in range(len(policy)):
        q.append(mass[:, None] * policy[h])
        mass = np.einsum("sa,sat->t", q[-1], p[h])
    return np.array(q)


def random_world(rng, H=3, S=4, A=3, homogeneous=False, start=None) -> bl.World:
    """Dense random dynamics, costs of K = 40 episodes listed one by one."""
    T = 1 if homogeneous else H
    p = rng.dirichlet(np.ones(S) * 0.5, (T, S, A))
    mdp = bl.MDP(bl.Transitions.from_dense(p if T > 1 else p[0]), H, 0 if start is None else start)
    return bl.World(mdp, bl.costs.sequence(rng.random((40, H, S, A))))


def random_delays(rng, episodes, lost=0.2, largest=15):
    delays = rng.integers(0, largest + 1, episodes)
    return np.where(rng.random(episodes) < lost, bl.NEVER, delays)


def oppo_bound(horizon, actions, episodes, total_delay, learning_rate):
    """Bound on the regret of Delayed OPPO with known transitions and full information.

    H ln(A) / eta + eta (K + D) (1 + 4 + ... + H^2). It holds on every run, for any costs and
    delays.
    """
    squares = horizon * (horizon + 1) * (2 * horizon + 1) / 6
    rate = learning_rate
    return horizon * math.log(actions) / rate + rate * (episodes + total_delay) * squares


def refill(item, **values):
    """Give an object some learned values, checked as those of a file."""
    reader = tree._Reader({}, {}, Any, {"left": math.inf})
    saved = {name: tree.freeze(value) for name, value in values.items()}
    for name, value in reader._attributes(type(item), tuple(values), saved, item).items():
        setattr(item, name, value)
    item.check_learned()


def delay_lower_bound(scene):
    """Expected regret of every learner on the lower-bound world, whose delays are fixed.

    With N = K / (d + 1) blocks of d + 1 episodes it is
    H (d + 1) E[max over a of N / 2 - Bin_a(N, 1/2)].
    """
    from belated.lab.scenes import ENVIRONMENTS  # tests/warm.py runs without the lab

    world = with_defaults(scene.environment, ENVIRONMENTS).values
    length = world["delay"] + 1
    blocks, rest = divmod(scene.episodes, length)
    assert rest == 0
    assert scene.delays == part("fixed", delay=world["delay"])
    return world["horizon"] * length * expected_largest_surplus(blocks, world["actions"])


def expected_largest_surplus(blocks, actions):
    """E[max over a of N / 2 - Bin_a(N, 1/2)], from the distribution of the smallest binomial."""
    n = range(blocks + 1)
    logs = [math.lgamma(blocks + 1) - math.lgamma(i + 1) - math.lgamma(blocks - i + 1) for i in n]
    mass = np.exp(np.array(logs) - blocks * math.log(2))
    at_least = np.cumsum(mass[::-1])[::-1] ** actions  # P(smallest >= i)
    return blocks / 2 - float(at_least[1:].sum())
