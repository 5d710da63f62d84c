"""Regret matching+: special cases, other packages, and odd inputs."""

import importlib.util

import numpy as np
import pytest
from benchmarks.rivals.poold import imported

import belated as bl
import oracles
from belated.tabular.records import suffered
from twins import Counting


def dorm_plus(losses, delay):
    """DORM+ of Flaspohler et al. (2021) under a fixed delay, from the formula."""
    T, A = losses.shape
    played, regret = np.zeros((T, A)), np.zeros(A)
    for t in range(T):
        known = t - delay - 1
        if known >= 0:
            regret = np.maximum(regret + (losses[known] @ played[known] - losses[known]), 0.0)
        played[t] = regret / regret.sum() if regret.sum() > 0 else 1 / A
    return played


def plays_of(losses, delay, update):
    T, A = losses.shape
    world = bl.World(
        bl.environments.bandit(np.zeros(A)).mdp, bl.costs.sequence(losses[:, None, None, :])
    )
    agent = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions, update=update)
    line, played = bl.DelayLine(), []
    for t in range(T):
        played.append(agent.begin_episode().policy[0, 0])
        line.push([bl.Costs(t, losses[t].reshape(1, 1, A))], delay)
        agent.observe(line.release(t))
    return np.array(played)


@pytest.mark.parametrize("delay", [0, 3, 17])
def test_without_hints_one_state_is_dorm_plus(delay):
    losses = np.random.default_rng(delay).random((80, 5))
    found = plays_of(losses, delay, bl.parts.RegretMatching(hints=False))
    np.testing.assert_allclose(found, dorm_plus(losses, delay), atol=1e-13)


@pytest.mark.parametrize("delay", [0, 3, 17])
def test_without_hints_it_plays_as_poold_does(delay):
    if importlib.util.find_spec("poold") is None:
        pytest.skip("poold is not installed")
    poold = imported()
    losses = np.random.default_rng(delay).random((80, 5))
    learner = poold.create("dormplus", model_list=[str(a) for a in range(5)])
    expected = []
    for t in range(80):
        known = t - delay - 1
        arrived = []
        if known >= 0:
            c = losses[known]
            arrived = [(known, {"fun": lambda w, c=c: float(c @ w), "grad": lambda w, c=c: c})]
        expected.append(np.array(learner.update_and_play(arrived, hint=None)))
    found = plays_of(losses, delay, bl.parts.RegretMatching(hints=False))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_hints_react_sooner_to_a_change_under_delay():
    losses = np.tile([0.2, 0.8], (300, 1))
    losses[150:] = [0.8, 0.2]
    without, with_hints = (
        plays_of(losses, 30, bl.parts.RegretMatching(hints=hints)) for hints in (False, True)
    )
    cost = [(losses * played).sum() for played in (without, with_hints)]
    assert cost[1] < cost[0] - 5


@pytest.mark.parametrize("update", [bl.parts.RegretMatching(), bl.parts.Softmax(1)])
@pytest.mark.parametrize("values", [0.0, 1.0, 1e-300, 5e-324])
def test_equal_and_tiny_costs_leave_distributions(update, values):
    problem = bl.Problem(2, 3, 2)
    agent = bl.DelayedOPPO(problem, transitions=bl.parts.Bonus(0.3), update=update)
    for k in range(30):
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy.sum(-1), 1.0, atol=1e-12)
        costs = np.zeros((2, 2, 3))
        costs[..., k % 3] = values
        agent.observe([bl.Trajectory(k, [0, 1, 0], [0, k % 3]), bl.Costs(k, costs)])


def test_doubling_is_refused_where_no_parameter_follows_the_phases():
    problem = bl.Problem(2, 2, 2)
    agent = bl.DelayedOPPO(problem, update=bl.parts.RegretMatching())
    with pytest.raises(ValueError, match="no step size for a new phase"):
        bl.wrappers.Doubling(agent)


class Twin:
    """Regret matching+, dense. known: the transitions (H, S, A, S); None for those of `Bonus`."""

    def __init__(self, problem, known, hints):
        H, S, A = problem.shape
        self.problem, self.known, self.hints = problem, known, hints
        self.n = np.zeros((1 if problem.homogeneous else H, S, A, S))
        self.counting, self.open = Counting(A), {}
        self.R, self.m = np.zeros((H, S, A)), np.zeros((H, S, A))

    def begin(self, k):
        _, coming = self.counting.begin(k)
        z = np.maximum(self.R + (1 + coming if self.hints else 0) * self.m, 0)
        mass = z.sum(-1, keepdims=True)
        self.open[k] = np.where(mass > 0, z / np.where(mass > 0, mass, 1), 1 / z.shape[2])
        return self.open[k]

    def q(self, costs, policy):
        H, S, A = self.problem.shape
        n = self.n.sum(-1)
        V, Q = np.zeros(S), np.zeros((H, S, A))
        for h in reversed(range(H)):
            t = min(h, len(n) - 1)
            if self.known is not None:
                Q[h] = costs[h] + self.known[h] @ V
            else:
                pbar = self.n[t] / np.maximum(n[t], 1)[..., None]
                Q[h] = np.clip(costs[h] - 0.3 / np.sqrt(np.maximum(n[t], 1)) + pbar @ V, 0, H - h)
                Q[h][n[t] == 0] = 0
            V = (policy[h] * Q[h]).sum(-1)
        return Q

    def observe(self, batch, k):
        """batch: (episode, path, costs), oldest first."""
        steps = np.minimum(np.arange(self.problem.horizon), len(self.n) - 1)
        for _, path, _ in batch:
            np.add.at(self.n, (steps, path.states[:-1], path.actions, path.states[1:]), 1)
        for j, path, costs in batch:
            policy = self.open.pop(j)
            given = (
                np.broadcast_to(costs, policy.shape) if costs.ndim == 3 else np.zeros(policy.shape)
            )
            if costs.ndim == 1:
                at = (np.arange(len(costs)), path.states[:-1], path.actions)
                start = self.problem.start_probabilities
                reach = oracles.occupancy(self.known, policy, start).sum(-1)
                given[at] = costs / (reach[at[:2]] * policy[at] + 0.1)
            Q = self.q(given, policy)
            r = (policy * Q).sum(-1, keepdims=True) - Q
            self.R = np.maximum(self.R + r, 0)
            self.m = self.m + 0.25 * (r - self.m)
            self.counting.arrive(j, k)


@pytest.mark.parametrize("hints", [True, False])
@pytest.mark.parametrize("setting", ["full known", "full unknown", "bandit known"])
@pytest.mark.parametrize("shape", [(4, 3, 3, True), (3, 4, 2, False), (1, 1, 4, True)], ids=str)
def test_policies_equal_those_of_a_dense_twin(shape, setting, hints):
    H, S, A, homogeneous = shape
    rng = np.random.default_rng([H, S, A])
    start = (0.5, 0.5, *[0.0] * (S - 2)) if S > 1 else None
    world = oracles.random_world(rng, H, S, A, homogeneous, start)
    full, known = setting.startswith("full"), setting.endswith(" known")
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=world.mdp.transitions if known else bl.parts.Bonus(0.3),
        costs=bl.parts.Revealed() if full else bl.parts.Weighted(0.1),
        update=bl.parts.RegretMatching(hints=hints),
    )
    twin = Twin(world.problem, oracles.dense(world.mdp) if known else None, hints)
    delays = oracles.random_delays(rng, 70, lost=0.15, largest=12)
    line = bl.DelayLine()
    for k in range(70):
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy, twin.begin(k), atol=1e-9)
        path = world.mdp.play(policy, rng, k)
        costs = world.costs.at(k % 40)
        line.push([path, bl.Costs(k, costs if full else suffered(costs, path))], int(delays[k]))
        batch = line.release(k)
        agent.observe(batch)
        paths = {r.episode: r for r in batch if isinstance(r, bl.Trajectory)}
        given = {r.episode: r.values for r in batch if isinstance(r, bl.Costs)}
        twin.observe([(j, paths[j], given[j]) for j in sorted(given)], k)
