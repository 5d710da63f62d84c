"""UOB-REPS: against a dense, literal twin; bounds by linear programs; estimates over all paths."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog, lsq_linear

import belated as bl
import oracles
from belated import tuning
from belated.core.arrays import frozen
from belated.core.tree import freeze, thaw
from belated.tabular.oreps.agent import DelayedOREPS
from settings import Setting

ETA, GAMMA, K, DELTA = 0.3, 0.05, 30, 0.1


class Twin:
    """Algorithms 2 and 3 on layered states, dense; line 8 is certified and not solved.

    The last step has one next state. N: (H, S, A), M: (H - 1, S, A, S).
    """

    def __init__(self, problem, scale=1.0):
        H, S, A = problem.shape
        self.problem, self.scale = problem, scale
        self.L = math.log(K * (2 + (H - 1) * S) * A / DELTA)
        self.N, self.M = np.zeros((H, S, A)), np.zeros((H - 1, S, A, S))
        self.N_then, self.epoch = self.N.copy(), 1
        self.box = np.zeros((H - 1, S, A, S)), np.ones((H - 1, S, A, S))
        start = problem.start_probabilities
        first = np.broadcast_to(start[:, None, None] / (A * S), (S, A, S))
        self.q = [first if h == 0 else np.full((S, A, S), 1 / (S * A * S)) for h in range(H - 1)]
        last = start[:, None] / A if H == 1 else np.full((S, A), 1 / (S * A))
        self.q.append(np.broadcast_to(last, (S, A)))
        self.open, self.estimate, self.counted = {}, np.zeros((H, S, A)), False

    def policy(self):
        pairs = np.array([q if q.ndim == 2 else q.sum(2) for q in self.q])
        mass = pairs.sum(2, keepdims=True)
        return np.where(mass > 0, pairs / np.where(mass > 0, mass, 1), 1 / pairs.shape[2])

    def upper(self, policy, box, h, s, a):
        """COMP-UOB: greedily fill the largest values."""
        v = np.eye(self.problem.states)[s]
        for t in reversed(range(h)):
            before = np.zeros_like(v)
            for x, b in np.ndindex(policy.shape[1:]):
                low, high = box[0][t, x, b], box[1][t, x, b]
                p, rest = low.copy(), 1 - low.sum()
                for y in np.argsort(-v):
                    add = min(rest, high[y] - low[y])
                    p[y] += add
                    rest -= add
                before[x] += policy[t, x, b] * (p @ v)
            v = before
        return policy[h, s, a] * (self.problem.start_probabilities @ v)

    def begin(self, k, measure):
        """Lines 7 and 8: the measure of the agent must be the minimiser, which becomes q."""
        N, M = self.N.copy(), self.M
        if self.problem.homogeneous:  # pooled, except for the last step
            N[:-1], M = self.N[:-1].sum(0), np.broadcast_to(self.M.sum(0), self.M.shape)
        if np.any(np.maximum(1, 2 * self.N_then) <= N):
            self.epoch += 1
            self.N_then = N
            n = N[:-1, :, :, None]
            p, m = M / np.maximum(n, 1), np.maximum(1, n - 1)
            radius = 2 * np.sqrt(p * self.L / m) + 14 * self.L / (3 * m)
            radius = np.where(n > 0, self.scale * radius, 1)  # unseen: the whole simplex
            self.box = np.maximum(p - radius, 0), np.minimum(p + radius, 1)
        new = [np.exp(measure[h]) for h in range(len(measure))]
        law = new[-1] / np.where(new[-1] > 0, new[-1].sum(2, keepdims=True), 1)
        assert np.all((abs(law - 1 / law.shape[2]) < 1e-12) | (new[-1] == 0))
        new[-1] = new[-1].sum(2)
        assert stationary(self.q, new, ETA * self.estimate, self.box, self.problem) < 1e-9
        self.q, self.estimate = new, np.zeros_like(self.estimate)
        self.now = self.open[k] = (self.policy(), self.box)
        return self.policy()

    def observe(self, batch):
        for j, path, costs in batch:
            played = self.open.pop(j)
            for h in range(self.problem.horizon):
                at = (h, path.states[h], path.actions[h])
                bound = max(self.upper(*played, *at), self.upper(*self.now, *at))
                self.estimate[at] += costs[h] / (bound + GAMMA)
        for _, path, _ in batch:
            for h in range(self.problem.horizon):
                self.N[h, path.states[h], path.actions[h]] += 1
                if h + 1 < self.problem.horizon:
                    self.M[h, path.states[h], path.actions[h], path.states[h + 1]] += 1


def stationary(q, new, cost, box, problem):
    """Feasibility and optimality of `new` in min <new, cost> + KL(new || q): largest violation.

    log(new / q) + cost must be a combination of the flow constraints and of the active bounds,
    whose multipliers have a sign; a bounded least squares problem finds them.
    """
    H, S, A = problem.shape
    violation = np.max(np.abs(new[0].reshape(S, -1).sum(1) - problem.start_probabilities))
    columns, targets, signs = {}, [], []
    entries = [
        (h, *index) for h in range(H) for index in np.ndindex(new[h].shape) if new[h][index] > 0
    ]

    def column(name, sign):
        if name not in columns:
            columns[name] = np.zeros(len(entries))
            signs.append(sign)
        return columns[name]

    for i, (h, *place) in enumerate(entries):
        index = tuple(place)
        targets.append(math.log(new[h][index] / q[h][index]) + cost[h][index[:2]])
        column(("flow", h, index[0]), 0)[i] += 1
        if h + 1 < H:
            column(("flow", h + 1, index[2]), 0)[i] -= 1
    for h in range(H - 1):
        inflow, outflow = new[h].sum((0, 1)), new[h + 1].reshape(S, -1).sum(1)
        violation = max(violation, np.max(np.abs(inflow - outflow)))
        for s, a in np.ndindex(S, A):
            mass = new[h][s, a].sum()
            if mass == 0:
                continue
            row = [i for i, entry in enumerate(entries) if entry[:3] == (h, s, a)]
            for side, bound in ((-1, box[0][h, s, a]), (1, box[1][h, s, a])):
                slack = side * (bound * mass - new[h][s, a])
                violation = max(violation, -slack.min() / mass)
                for y in np.nonzero(slack <= 1e-9 * mass)[0]:
                    if bound[y] in (0.0, 1.0):
                        continue  # no constraint: the simplex implies it
                    active = column(("box", side, h, s, a, y), 1)
                    for i in row:
                        active[i] += side * (bound[y] - (entries[i][3] == y))
    matrix = np.array(list(columns.values())).T
    signs = np.array(signs)
    fit = lsq_linear(
        matrix, targets, (np.where(signs > 0, 0, -np.inf), np.inf), method="bvls", tol=1e-15
    )
    return max(violation, np.max(np.abs(matrix @ fit.x - targets)))


def made(problem, scale):
    return bl.UOBREPS(
        problem,
        learning_rate=ETA,
        exploration=GAMMA,
        episodes=K,
        delta=DELTA,
        radius_scale=scale,
    )


@pytest.mark.parametrize("delays", ["none", "random", "bursts"])
@pytest.mark.parametrize("scale", [1.0, 0.02])
@pytest.mark.parametrize("homogeneous", [False, True])
def test_policies_equal_a_literal_twin(delays, scale, homogeneous):
    rng = np.random.default_rng(5)
    start = (0.5, 0.5, 0) if delays == "random" else None
    world = oracles.random_world(rng, 3, 3, 2, start=start, homogeneous=homogeneous)
    drawn = {
        "none": np.zeros(K, dtype=int),
        "random": rng.integers(0, 6, K),
        "bursts": 4 - np.arange(K) % 5,
    }[delays]
    agent, twin, waiting = made(world.problem, scale), Twin(world.problem, scale), {}
    for k in range(K):
        policy = agent.begin_episode().policy
        expected = twin.begin(k, agent._measure.log_measure)
        assert np.max(np.abs(policy - expected)) < 1e-9
        assert agent.diagnostics()["epoch"] == twin.epoch
        path, costs = world.mdp.play(policy, rng, k), rng.random(3)
        waiting.setdefault(k + drawn[k], []).append((k, path, costs))
        batch = waiting.pop(k, [])
        twin.observe(batch)
        for j, path, costs in batch[::-1]:
            agent.observe([path])
            agent.observe([bl.Costs(j, costs)])
        estimate = np.zeros(world.problem.shape) if agent._batch is None else agent._batch
        np.testing.assert_allclose(estimate, twin.estimate, rtol=1e-12)
    assert twin.epoch > 5


def test_the_certificate_sees_a_measure_that_is_not_optimal():
    world = oracles.random_world(np.random.default_rng(5), 3, 3, 2)
    twin = Twin(world.problem)
    cost = np.zeros(world.problem.shape)
    assert stationary(twin.q, twin.q, cost, twin.box, world.problem) < 1e-12
    cost[1, 0, 0] = 1e-6
    assert stationary(twin.q, twin.q, cost, twin.box, world.problem) > 1e-7


class SeesAll(bl.UOBREPS):
    """Observes every cost, whatever was visited."""

    def _learn(self, entry):
        self._batch = (0 if self._batch is None else self._batch) + self.all[entry.number]


def test_with_costs_seen_everywhere_it_is_o_reps():
    rng = np.random.default_rng(2)
    world = oracles.random_world(rng, 3, 4, 2)
    problem = world.problem
    agent = SeesAll(problem, learning_rate=ETA, exploration=GAMMA, episodes=K, radius_scale=0.05)
    agent.all = rng.random((K, *problem.shape))
    other = DelayedOREPS(problem, learning_rate=ETA, tolerance=1e-14)  # the default stops at 1e-6
    other._dynamics = lambda: agent._epoch.dynamics  # both use the same sets
    for k in range(K):
        policy = agent.begin_episode().policy
        assert np.max(np.abs(policy - other.begin_episode().policy)) < 1e-9
        path = world.mdp.play(policy, rng, k)
        agent.observe([path, bl.Costs(k, np.zeros(3))])
        other.observe([path, bl.Costs(k, agent.all[k])])
    assert agent.diagnostics()["epoch"] > 3


def largest_by_program(policy, box, start, h, s):
    """The largest occupancy of s at step h over the box, as a linear program over (t, x, a, y)."""
    S, A = policy.shape[1:]
    if h == 0:
        return start[s]
    size, number = (h, S, A, S), h * S * A * S
    equal, right, below = [], [], []
    for t, x in np.ndindex(h, S):
        inflow = np.zeros(size)
        if t:
            inflow[t - 1, :, :, x] = 1
        for a in range(A):  # the policy is given: (x, a) gets its share of the inflow
            row = -policy[t, x, a] * inflow
            row[t, x, a] += 1
            equal.append(row.ravel())
            right.append(0.0 if t else policy[t, x, a] * start[x])
            for y in range(S):
                for side, bound in ((-1, box[0]), (1, box[1])):
                    row = np.zeros(size)
                    row[t, x, a, y] += side
                    row[t, x, a] -= side * bound[t, x, a, y]
                    below.append(row.ravel())
    goal = np.zeros(size)
    goal[h - 1, :, :, s] = -1
    found = linprog(goal.ravel(), below, np.zeros(len(below)), equal, right, (0, None))
    assert found.status == 0
    assert found.x.size == number
    return -found.fun


def dense_box(agent):
    """The bounds of the epoch, both (H, S, A, S)."""
    bounds = agent._epoch.dynamics.laws
    H, S, A = agent.problem.shape
    low, high = np.zeros((2, H, S, A, S))
    for row in np.ndindex(H, S, A):
        high[row] = bounds.unseen[row]
        for j in range(bounds.known[row]):
            y = bounds.successors[row][j]
            low[row][y], high[row][y] = bounds.lower[row][j], bounds.upper[row][j]
    return low, high


@pytest.mark.long
def test_the_truth_is_inside_as_often_as_promised():
    """Lemma 2: inside in all epochs with probability 1 - 4 delta; then the upper bounds hold."""
    inside = dict.fromkeys((1.0, 0.02), 0)
    for scale, seed in itertools.product(inside, range(12)):
        rng = np.random.default_rng(seed)
        world = oracles.random_world(rng, 3, 3, 2)
        agent, p, held = made(world.problem, scale), oracles.dense(world.mdp), True
        for k in range(K):
            policy = agent.begin_episode().policy
            low, high = dense_box(agent)
            here = bool(np.all((low[:-1] <= p[:-1] + 1e-12) & (p[:-1] <= high[:-1] + 1e-12)))
            held = held and here
            path = world.mdp.play(policy, rng, k)
            if here:
                occupancy = oracles.occupancy(p, policy, world.problem.start_probabilities)
                at = (np.arange(3), path.states[:-1], path.actions)
                assert np.all(
                    agent._upper(agent._played, path.states, path.actions) >= occupancy[at] - 1e-12
                )
            agent.observe([path, bl.Costs(k, rng.random(3))])
        inside[scale] += held
    assert inside[1.0] >= (1 - 4 * DELTA) * 12
    assert inside[0.02] < 6  # this part of the radius is too small


@pytest.mark.parametrize("homogeneous", [False, True])
def test_upper_bounds_are_those_of_a_linear_program(homogeneous):
    rng = np.random.default_rng(7)
    world = oracles.random_world(rng, 3, 3, 2, homogeneous=homogeneous)
    agent = made(world.problem, 0.03)
    for k in range(25):
        path = world.mdp.play(agent.begin_episode().policy, rng, k)
        agent.observe([path, bl.Costs(k, rng.random(3))])
    agent.begin_episode()
    low, high = dense_box(agent)
    assert np.any((low > 0) & (high < 1))
    policy, start = agent._played[0], world.problem.start_probabilities
    for states in itertools.product(range(3), repeat=3):
        actions = np.array([0, 1, 0])
        found = agent._upper(agent._played, frozen(np.array([*states, 0])), actions)
        for h, s in enumerate(states):
            wanted = largest_by_program(policy, (low, high), start, h, s)
            assert found[h] == pytest.approx(policy[h, s, actions[h]] * wanted, abs=1e-9)


def test_expectation_of_the_estimates_over_all_paths():
    """E[l] = cost * occupancy / (max(u of then, u of now) + gamma), which is at most the cost."""
    rng = np.random.default_rng(1)
    world = oracles.random_world(rng, 2, 3, 2)
    agent, costs = made(world.problem, 0.05), rng.random((2, 3, 2))
    for k in range(20):
        path = world.mdp.play(agent.begin_episode().policy, rng, k)
        if k != 12:  # its feedback is late
            agent.observe([path, bl.Costs(k, rng.random(2))])
    agent.begin_episode()
    then = next(e.memory for e in agent._ledger.open.values() if e.number == 12)
    saved, p = freeze(agent), oracles.dense(world.mdp)
    mean = np.zeros((2, 3, 2))
    for states in itertools.product(range(3), repeat=3):
        for actions in itertools.product(range(2), repeat=2):
            chance = float(states[0] == 0)
            for h in range(2):
                s, a, y = states[h], actions[h], states[h + 1]
                chance *= then[0][h, s, a] * p[h, s, a, y]
            if chance > 0:
                copy = thaw(saved)
                at = (np.arange(2), np.array(states[:-1]), np.array(actions))
                path = bl.Trajectory(12, np.array(states), np.array(actions))
                copy.observe([path, bl.Costs(12, costs[at])])
                mean += chance * copy._batch
    occupancy = oracles.occupancy(p, then[0], world.problem.start_probabilities)
    wanted = np.zeros((2, 3, 2))
    for s, a in np.ndindex(3, 2):
        path = np.array([0, s, 0]), np.array([a, a])
        bound = np.maximum(agent._upper(then, *path), agent._upper(agent._played, *path))
        for h, x in ((0, 0), (1, s)):
            wanted[h, x, a] = costs[h, x, a] * occupancy[h, x, a] / (bound[h] + GAMMA)
    assert np.max(np.abs(mean - wanted)) < 1e-12
    assert agent._played is not then


def test_the_step_sizes_of_the_theory():
    problem = bl.Problem(5, 3, 4)
    X = 2 + 3 * 5
    for delta in (0.1, 0.01):
        plain = math.sqrt(4 * math.log(4 * X * 3 / delta) / (1000 * X * 3))
        found = tuning.uob_reps(problem, 1000, delta=delta)
        assert found == pytest.approx({"learning_rate": plain, "exploration": plain})
    late = tuning.uob_reps(problem, 1000, 5000.0)["learning_rate"]
    N = 1000 * X * 3 / 4 + math.sqrt(X * 3) * 5000
    assert late == pytest.approx(math.sqrt(math.log(4 * X * 3 / 0.1) / N))
    setting = Setting(information="bandit", uob=True)
    assert setting.bound(problem, 100, 400) == pytest.approx(
        16 * 5 * math.sqrt(300) + 60**0.25 * 4 * 20
    )


@pytest.mark.parametrize("costs", [0.0, 1.0])
@pytest.mark.parametrize("rates", [(1e-9, 1e-100), (1e3, 1e-6), (1.0, 1e6)])
def test_policies_are_distributions_whatever_the_rates(costs, rates):
    rng = np.random.default_rng(0)
    for H, S, A in ((1, 1, 1), (1, 2, 3), (4, 3, 2)):
        world = oracles.random_world(rng, H, S, A, homogeneous=H > 1)
        agent = bl.UOBREPS(
            world.problem, learning_rate=rates[0], exploration=rates[1], radius_scale=0.01
        )
        for k in range(12):
            policy = agent.begin_episode().policy
            assert np.all(policy >= 0)
            np.testing.assert_allclose(policy.sum(axis=2), 1.0, atol=1e-12)
            path = world.mdp.play(policy, rng, k)
            agent.observe([path, bl.Costs(k, np.full(H, costs))])


def test_phases_give_new_rates_and_keep_the_counts():
    world = oracles.random_world(np.random.default_rng(0), 3, 3, 2)
    agent = bl.wrappers.Doubling(
        bl.UOBREPS(world.problem, learning_rate=1, exploration=1), literal=True
    )
    bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=40, seed=0)
    inside = agent.agent
    tuned = Setting(information="bandit", uob=True)
    rates = [tuned.phase(world.problem, 2.0**e).learning_rate for e in range(1, 12)]
    assert min(abs(inside.diagnostics()["learning_rate"] / r - 1) for r in rates) < 1e-12
    assert inside._counts.visits.sum() > 30


def test_files_with_wrong_epochs_are_refused():
    for name, wrong in (
        ("_epochs", {}),
        ("_played", (bl.Problem(3, 2, 2).uniform_policy(), 7)),
        ("_last_visits", np.full((3, 2), -1)),
    ):
        agent = made(bl.Problem(3, 2, 2), 1.0)
        agent.begin_episode()
        setattr(agent, name, wrong)
        with pytest.raises(ValueError, match=r"epoch|visits"):
            thaw(freeze(agent))


@pytest.mark.long
def test_it_learns_with_delays():
    world = bl.environments.random_mdp(4, 2, 3, seed=5)
    agent = bl.UOBREPS(
        world.problem, learning_rate=0.05, exploration=0.02, episodes=1500, radius_scale=0.05
    )
    run = bl.simulate(world, agent, delays=bl.delays.fixed(5), episodes=1500, seed=2)
    assert run.score < 0.6
