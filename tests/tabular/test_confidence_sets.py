"""The counts of a confidence set: the newest ones, those of the printed text, or those of an epoch.

The twin is dense: boxes around the frequencies of a snapshot of the counts. Their least mean fills
the cheapest next states first.
"""

import itertools
import math

import numpy as np
import pytest

import belated as bl
import oracles
from belated.parts import Confidence, Softmax, Weighted
from twins import least_means

DELTA, WIDTH, ETA, GAMMA = 0.1, 0.02, 0.7, 0.2


class Twin:
    """Delayed OPPO with unknown transitions (the paper's Algorithm 3); `which` names the sets."""

    def __init__(self, problem, K, which, weighted):
        self.problem, self.which, self.weighted = problem, which, weighted
        H, S, A = problem.shape
        self.log = math.log(H * S * A * K / (4 * DELTA))
        self.n = np.zeros((H, S, A, S))
        self.total = np.zeros((H, S, A))
        self.before = self.n.copy()  # the counts at the start of the current episode
        self.epoch, self.epochs = self.n.copy(), 0
        self.open = {}

    def sets(self):
        return {"newest": self.n, "printed": self.before, "doubled": self.epoch}[self.which]

    def begin(self, k):
        self.before = self.n.copy()
        weights = np.exp(-ETA * (self.total - self.total.min(-1, keepdims=True)))
        policy = weights / weights.sum(-1, keepdims=True)
        self.open[k] = policy, (self.epoch if self.which == "doubled" else self.n).copy()
        return policy

    def observe(self, paths, costs):
        for path in paths:
            for h, (s, a) in enumerate(zip(path.states[:-1], path.actions, strict=True)):
                self.n[h, s, a, path.states[h + 1]] += 1
        visits, old = self.n.sum(-1), self.epoch.sum(-1)
        if ((visits >= np.maximum(1, 2 * old)) & (visits > old)).any():
            self.epoch, self.epochs = self.n.copy(), self.epochs + 1
        for j, path, values in costs:
            policy, n = self.open.pop(j)
            n = n if self.weighted else self.sets()
            H, S, A = self.problem.shape
            given = np.broadcast_to(values, (H, S, A)) if not self.weighted else np.zeros((H, S, A))
            for h in range(H if self.weighted else 0):
                reach, (s, a) = np.eye(S)[path.states[h]], (path.states[h], path.actions[h])
                for t in reversed(range(h)):
                    reach = (policy[t] * -self.least(n, t, -reach)).sum(-1)
                reach = min(1.0, self.problem.start_probabilities @ reach)
                given[h, s, a] = values[h] / (reach * policy[h, s, a] + GAMMA)
            V = np.zeros(S)
            for h in reversed(range(H)):
                Q = given[h] + self.least(n, h, V)
                V = (policy[h] * Q).sum(-1)
                self.total[h] += Q

    def least(self, n, h, V):
        return least_means(n[h], V, self.log, WIDTH)


def played(which, weighted, paths_late, K=60):
    """The policies of an agent, and its twin's; both see the same records."""
    rng = np.random.default_rng(31)
    world = oracles.random_world(rng, 3, 3, 2, start=(0.7, 0.3, 0.0))
    delays = oracles.random_delays(rng, K, 0.1, 6)
    problem, H = world.problem, 3
    agent = bl.DelayedOPPO(
        problem,
        transitions=Confidence(WIDTH, delta=DELTA, episodes=K, sets=which),
        update=Softmax(ETA),
        **({"costs": Weighted(GAMMA)} if weighted else {}),
    )
    twin, records, found = Twin(problem, K, which, weighted), [], []
    for k in range(K):
        policy = agent.begin_episode().policy
        found.append((policy, twin.begin(k)))
        path, costs = world.mdp.play(policy, rng, k), world.costs.at(k % 40)
        if weighted:
            costs = costs[np.arange(H), path.states[:-1], path.actions]
        records.append((k, path, costs))
        come = [record for record in records if record[0] + delays[record[0]] == k]
        paths = [path for _, path, _ in come] if paths_late else [path]
        agent.observe([*paths, *(bl.Costs(j, values) for j, _, values in come)])
        twin.observe(paths, come)
    return agent, twin, found


CASES = [("newest", False), ("printed", False), ("doubled", False), ("doubled", True)]


@pytest.mark.parametrize("paths_late", [True, False])
@pytest.mark.parametrize(("which", "weighted"), CASES)
def test_policies_equal_a_dense_twin(which, weighted, paths_late):
    _, twin, found = played(which, weighted, paths_late)
    for ours, theirs in found:
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    if which == "doubled":
        assert 10 < twin.epochs < 50
    if which == "newest":
        others = [played(other, weighted, paths_late)[2] for other in ("printed", "doubled")]
        for other in others:  # the options have an effect
            assert max(np.abs(a[0] - b[0]).max() for a, b in zip(found, other, strict=True)) > 1e-3


@pytest.mark.parametrize(("which", "weighted"), CASES)
def test_a_saved_agent_goes_on(which, weighted, tmp_path):
    agent, _, _ = played(which, weighted, True, K=25)
    bl.save(agent, tmp_path / "agent.belated")
    again = bl.load(tmp_path / "agent.belated")
    rng, world = np.random.default_rng(5), oracles.random_world(np.random.default_rng(31), 3, 3, 2)
    for k in range(25, 40):
        policy = agent.begin_episode().policy
        assert np.array_equal(policy, again.begin_episode().policy)
        path, costs = world.mdp.play(policy, rng, k), rng.random((3, 3, 2))
        values = costs[np.arange(3), path.states[:-1], path.actions] if weighted else costs
        for each in (agent, again):
            each.observe([path, bl.Costs(k, values)])


@pytest.mark.parametrize("which", ["printed", "doubled"])
def test_o_reps_takes_the_same_sets(which):
    """printed: as if every path came one episode later. doubled: no set is made between epochs."""
    K, rng = 40, np.random.default_rng(7)
    world = oracles.random_world(rng, 3, 3, 2)
    parts = [Confidence(WIDTH, episodes=K, sets=name) for name in (which, "newest")]
    ours, plain = (
        bl.DelayedOREPS(world.problem, transitions=part, learning_rate=0.3) for part in parts
    )
    waiting, late, sets, apart = {}, [], [], 0.0
    for k in range(K):
        policy, other = ours.begin_episode().policy, plain.begin_episode().policy
        if which == "printed":
            np.testing.assert_allclose(policy, other, atol=1e-7)
        apart = max(apart, np.abs(policy - other).max())
        path = world.mdp.play(policy, rng, k)
        waiting.setdefault(k + int(rng.integers(2, 5)), []).append(bl.Costs(k, world.costs.at(k)))
        costs = waiting.pop(k, [])
        ours.observe([path, *costs])
        plain.observe([*(late if which == "printed" else [path]), *costs])
        late = [path]
        sets.append(ours._model.set.lower.copy())
    if which == "doubled":
        changes = sum(not np.array_equal(a, b) for a, b in itertools.pairwise(sets))
        assert 5 < changes < 25
        assert apart > 1e-3


def test_options_without_effect_are_refused():
    problem = bl.Problem(3, 2, 2)
    with pytest.raises(ValueError, match="did you mean 'doubled'"):
        Confidence(sets="double")
    with pytest.raises(ValueError, match="has no effect on importance weights"):
        bl.DelayedOPPO(
            problem,
            transitions=Confidence(sets="printed"),
            costs=Weighted(0.1),
            update=Softmax(0.1),
        )
    with pytest.raises(ValueError, match="has no effect here"):
        bl.DelayedUCBVI(problem, transitions=Confidence(sets="doubled"))
