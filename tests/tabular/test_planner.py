"""The planners against literal twins, and the cases that their ideas are for."""

import numpy as np
import pytest

import belated as bl
import oracles
from belated.core import saving
from belated.tabular import planner
from belated.tabular.informed import InformedPlanner
from belated.tabular.kernels import beliefs
from informed_twin import InformedTwin
from planner_twin import PlannerTwin

SHAPES = [(4, 3, 3, True), (3, 4, 2, False), (1, 1, 4, True)]


@pytest.mark.parametrize("changing", [True, False], ids=["changing", "stationary"])
@pytest.mark.parametrize("paths", ["late", "at once", "apart"])
@pytest.mark.parametrize("dynamics", ["known", "unknown"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_policies_equal_those_of_a_literal_twin(shape, dynamics, paths, changing):
    H, S, A, homogeneous = shape
    rng = np.random.default_rng([H, S, A, len(paths)])
    start = (0.5, 0.5, *[0.0] * (S - 2)) if S > 1 else None
    world = oracles.random_world(rng, H, S, A, homogeneous, start)
    known = dynamics == "known"
    agent = bl.DelayedPlanner(
        world.problem,
        transitions=world.mdp.transitions if known else None,
        changing=changing,
        seed=3,
    )
    twin = PlannerTwin(world.problem, oracles.dense(world.mdp) if known else None, changing, 3)
    K = 40
    delays = oracles.random_delays(rng, K, lost=0.15, largest=12)
    line = bl.DelayLine()
    for k in range(K):
        policy = agent.begin_episode().policy
        np.testing.assert_array_equal(policy, twin.begin(k))
        path = world.mdp.play(policy, rng, k)
        costs = world.costs.at(k % 40)[np.arange(H), path.states[:-1], path.actions]
        own = {"late": delays[k], "at once": 0, "apart": rng.integers(0, 9)}[paths]
        line.push([path], int(own))
        line.push([bl.Costs(k, costs)], int(delays[k]))
        if k % 11 == 5:
            agent.forget(k - 1)
            twin.forget(k - 1)
        batch = [r for r in line.release(k) if agent.is_open(r.episode)]
        agent.observe(batch)
        twin.observe(
            {r.episode: r for r in batch if isinstance(r, bl.Trajectory)},
            {r.episode: r.values for r in batch if isinstance(r, bl.Costs)},
            k,
        )


@pytest.mark.parametrize("changing", [True, False], ids=["changing", "stationary"])
@pytest.mark.parametrize("paths", ["late", "at once", "apart"])
@pytest.mark.parametrize("dynamics", ["known", "unknown"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_policies_under_full_information_equal_those_of_a_literal_twin(
    shape, dynamics, paths, changing
):
    H, S, A, homogeneous = shape
    rng = np.random.default_rng([H, S, A, len(paths)])
    start = (0.5, 0.5, *[0.0] * (S - 2)) if S > 1 else None
    world = oracles.random_world(rng, H, S, A, homogeneous, start)
    known = dynamics == "known"
    agent = InformedPlanner(
        world.problem,
        transitions=world.mdp.transitions if known else None,
        changing=changing,
        seed=3,
    )
    twin = InformedTwin(world.problem, oracles.dense(world.mdp) if known else None, changing, 3)
    K = 40
    delays = oracles.random_delays(rng, K, lost=0.15, largest=12)
    delays[0] = 0  # without any costs all plans are equally good, up to rounding
    line = bl.DelayLine()
    for k in range(K):
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy, twin.begin(k), atol=1e-9)
        path = world.mdp.play(policy, rng, k)
        costs = world.costs.at(k % 40)
        if k < 10:
            costs = costs[:1]  # the same at every step, as far as the agent can see
        own = {"late": delays[k], "at once": 0, "apart": rng.integers(0, 9)}[paths]
        line.push([path], int(own))
        line.push([bl.Costs(k, costs)], int(delays[k]))
        batch = line.release(k)
        agent.observe(batch)
        twin.observe(
            {r.episode: r for r in batch if isinstance(r, bl.Trajectory)},
            {r.episode: r.values for r in batch if isinstance(r, bl.Costs)},
            k,
        )


def costs_of(kind, rng, H, S, A):
    """Costs (80, H, S, A) of episodes that the learned scales and floors matter for."""
    first, second = rng.random((2, 1, H, S, A)), 1.0 * (rng.random((2, 1, H, S, A)) < 0.5)
    early = np.arange(80)[:, None, None, None] < 40
    return {
        "nothing costs": np.zeros((80, H, S, A)),
        "all costs are equal": np.full((80, H, S, A), 0.3),
        "0 or 1": np.repeat(second[0], 80, axis=0),
        "0, then 1": np.broadcast_to(1.0 * ~early, (80, H, S, A)),
        "a switch": np.where(early, second[0], second[1]),
        "by step, then not": np.where(early, first[0], first[1].mean(axis=1, keepdims=True)),
    }[kind]


KINDS = ["nothing costs", "all costs are equal", "0 or 1", "0, then 1", "a switch"]


@pytest.mark.parametrize("kind", [*KINDS, "by step, then not"])
@pytest.mark.parametrize("shape", SHAPES[:1] + SHAPES[2:], ids=str)
def test_predictions_equal_those_of_a_literal_twin(shape, kind):
    """Means, variances and scores, not only the policies that follow from them."""
    H, S, A, homogeneous = shape
    rng = np.random.default_rng([H, S, A, len(kind)])
    world, costs = oracles.random_world(rng, H, S, A, homogeneous), costs_of(kind, rng, H, S, A)
    agent, twin = bl.DelayedPlanner(world.problem, seed=1), PlannerTwin(world.problem, seed=1)
    for k in range(80):
        learned = agent._memories
        copied = learned._replace(prior=learned.prior.copy())
        means, mean, spread, noises = beliefs.predict(copied, np.zeros(S * A))
        for s in range(S):
            for a in range(A):
                c = s * A + a
                np.testing.assert_allclose(noises[c], twin.noise(s, a), rtol=1e-9)
                np.testing.assert_allclose(
                    learned.local[:, c], twin.local.get((s, a), np.zeros(4)), atol=1e-9
                )
                for h in range(H):
                    said = twin.say(s, a, h)
                    found = (
                        mean[h % len(mean), c],
                        spread[h % len(mean), c],
                    )
                    np.testing.assert_allclose(means[:, c], said[0][:3], atol=1e-9)
                    np.testing.assert_allclose(found, twin.weighed(s, a, *said), atol=1e-9)
        np.testing.assert_allclose(learned.prior, (twin.m0, twin.t2, twin.eps), rtol=1e-7)
        np.testing.assert_allclose(learned.scores, twin.g, atol=1e-9)
        policy = agent.begin_episode().policy
        np.testing.assert_array_equal(policy, twin.begin(k))
        path = world.mdp.play(policy, rng, k)
        suffered = costs[k][np.arange(H), path.states[:-1], path.actions]
        agent.observe([path, bl.Costs(k, suffered)])
        twin.observe({k: path}, {k: suffered}, k)


def test_probes_have_the_rate_of_the_twin():
    for H in (1, 2, 7):
        twin = PlannerTwin(bl.Problem(states=1, actions=3, horizon=H))
        assert (planner.probe_rate(H), planner.FRUITLESS) == (twin.rate, twin.patience)


def test_the_first_plan_is_drawn_anew_at_every_step():
    """Where nothing is known all actions are equally good."""
    problem = bl.Problem(states=3, actions=4, horizon=5)
    for agent in (bl.DelayedPlanner(problem, seed=7), InformedPlanner(problem, seed=7)):
        rng = np.random.Generator(np.random.Philox(key=7, counter=[0, 0, 0, 0]))
        if agent.information == "bandit":
            rng.random()  # whether it is a probe
        actions = (4 * rng.random((5, 3))).astype(int)
        policy = agent.begin_episode().policy
        np.testing.assert_array_equal(policy.argmax(2), actions)


class UCBVI:
    """Optimistic value iteration with a bonus, a variance term, and ties broken at random."""

    def __init__(self, problem, seed):
        self.problem, self.rng = problem, np.random.default_rng(seed)
        _, S, A = problem.shape
        self.counts, self.costs, self.paths = np.zeros((S, A, S)), np.zeros((S, A)), {}

    def begin_episode(self):
        H, S, A = self.problem.shape
        n = self.counts.sum(2)
        p, mean = self.counts / np.maximum(n, 1)[..., None], self.costs / np.maximum(n, 1)
        policy, V = np.zeros((H, S, A)), np.zeros(S)
        for h in reversed(range(H)):
            deviation = np.sqrt(np.maximum(p @ V**2 - (p @ V) ** 2, 0))
            Q = mean + p @ V - 0.2 * (1 + deviation) / np.sqrt(np.maximum(n, 1))
            Q = np.where(n > 0, np.clip(Q, 0, H - h), 0)
            ties = Q + 1e-9 * self.rng.random((S, A))
            policy[h, np.arange(S), ties.argmin(1)] = 1
            V = Q.min(1)
        return bl.Episode(0, policy)

    def observe(self, records):
        for record in records:
            if isinstance(record, bl.Trajectory):
                path = self.paths[record.episode] = record
                np.add.at(self.counts, (path.states[:-1], path.actions, path.states[1:]), 1)
            else:
                path = self.paths.pop(record.episode)
                np.add.at(self.costs, (path.states[:-1], path.actions), record.values)


def test_a_maze_is_learned_as_soon_as_by_ucbvi():
    """Without slip; scores of six runs of 150 episodes, with a margin of 0.02.

    With noise that is the same at every step the planner is behind by more than that.
    """
    walls = [(1, 1), (1, 2), (1, 3), (3, 0), (3, 1), (3, 3), (3, 4), (4, 3)]
    world = bl.environments.gridworld(6, walls=walls, slip=0.0, horizon=24, absorbing_goal=True)
    costs = world.costs.at(0)
    best = bl.planning.best_policy(world.mdp, costs)[1]

    def score(seed, agent):
        rng, line, total = np.random.default_rng(seed), bl.DelayLine(), 0.0
        for k in range(150):
            policy = agent.begin_episode().policy
            V, _ = bl.planning.policy_values(world.mdp, policy, costs)
            total += V[0, 0] - best
            path = world.mdp.play(policy, rng, k)
            suffered = bl.Costs(k, costs[0, path.states[:-1], path.actions])
            line.push([path, suffered], int(rng.integers(0, 10)))
            agent.observe(line.release(k))
        return total / 150 / (24 - best)

    ours = [score(seed, bl.DelayedPlanner(world.problem, seed=seed)) for seed in range(6)]
    theirs = [score(seed, UCBVI(world.problem, seed)) for seed in range(6)]
    assert np.mean(ours) < np.mean(theirs) + 0.02


def test_probes_become_fewer_while_they_find_nothing(monkeypatch):
    """As in the twin; once another memory than the slowest is best, the full rate is back."""
    monkeypatch.setattr(planner, "FRUITLESS", 2)
    monkeypatch.setattr(planner, "probe_rate", lambda horizon: 0.5)
    problem = bl.Problem(states=1, actions=3, horizon=1)
    agent, twin = bl.DelayedPlanner(problem, seed=5), PlannerTwin(problem, seed=5)
    twin.rate, twin.patience = 0.5, 2
    counts = []
    for k in range(120):
        policy = agent.begin_episode().policy
        np.testing.assert_array_equal(policy, twin.begin(k))
        action = int(policy[0, 0].argmax())
        cost = 0.2 if k < 80 else 0.9
        records = [bl.Trajectory(k, [0, 0], [action]), bl.Costs(k, [cost])]
        agent.observe(records)
        twin.observe({k: records[0]}, {k: np.array([cost])}, k)
        assert agent._fruitless == twin.fruitless
        counts.append(agent._fruitless)
    assert 2 < counts[79] < 20  # at the full rate it would be half of 80
    assert 0 in counts[80:]


def test_a_few_equal_costs_are_not_certainty():
    """Six costs of 1 in a row are more likely to be luck if the cells hardly differ."""
    agent = bl.DelayedPlanner(bl.Problem(states=1, actions=2, horizon=1), changing=False)
    agent._memories.weights[0] = agent._memories.sums[0] = 6.0, 40.0
    agent._memories.prior[:] = 0.5, beliefs.LEAST_SPREAD, 0.05
    few, many = beliefs.predict(agent._memories, np.zeros(2))[0][0]
    assert few < 0.65
    assert many > 0.95


@pytest.mark.parametrize("size", [20, 50])
@pytest.mark.parametrize("dynamics", ["known", "unknown"])
def test_large_problems(size, dynamics):
    """400 and 2,500 states; an open episode remembers little once its path has come.

    Feedback is lost, agents are saved and continued, and still play what one that never was does.
    """
    world = bl.environments.gridworld(size, horizon=2 * size)
    S, H = size * size, 2 * size
    known = {"transitions": world.mdp.transitions} if dynamics == "known" else {}
    for information in ("bandit", "full"):
        agent, same = (
            bl.recommend(world.problem, information=information, **known) for _ in range(2)
        )
        rng, line = np.random.default_rng(1), bl.DelayLine()
        for k in range(12):
            policy = agent.begin_episode().policy
            np.testing.assert_array_equal(policy, same.begin_episode().policy)
            path, costs = world.mdp.play(policy, rng, k), world.costs.at(k)
            if information == "bandit":
                costs = bl.tabular.records.suffered(costs, path)
            line.push([path], 0)
            line.push([bl.Costs(k, costs)], bl.NEVER if k % 5 == 1 else 3)
            batch = line.release(k)
            agent.observe(batch)
            same.observe(batch)
            if k == 7:
                agent = saving.from_bytes(saving.to_bytes(agent), "here")
        if information == "bandit":
            said = [entry.memory for entry in agent._ledger.open.values()]
            assert len(said) >= 3
            assert all(isinstance(each, np.ndarray) and each.shape == (4, H) for each in said)
            assert np.count_nonzero(agent._memories.step_weights) <= 12 * H < S * H


def test_a_plan_for_average_costs_does_not_walk_in_a_lucky_loop():
    """Deep sea under full information; without the learned prior the score is above 0.5."""
    world = bl.environments.deep_sea(12, seed=4)
    agent = InformedPlanner(world.problem)
    run = bl.simulate(world, agent, delays=bl.delays.fixed(3), episodes=250, seed=4)
    assert run.score_on_means < 0.3


def test_a_way_is_not_given_up_once_every_state_was_visited():
    """RiverSwim under full information; with half of NEW this run stays at the start (0.86)."""
    world = bl.environments.chain(states=8, horizon=16)
    agent = bl.recommend(world.problem, information="full", seed=27)
    run = bl.simulate(world, agent, delays=bl.delays.geometric(15), episodes=400, seed=27)
    assert run.score_on_means < 0.3


def test_the_only_way_to_a_state_is_not_given_up_after_a_few_failures():
    """RiverSwim under full information; without NEW the last state is not found in this run."""
    world = bl.environments.chain(states=11, horizon=20)
    agent = InformedPlanner(world.problem)
    run = bl.simulate(world, agent, delays=bl.delays.geometric(5), episodes=600, seed=5)
    assert run.score_on_means < 0.2


def test_costs_that_alternate_are_left_to_regret_matching():
    """Two arms take turns; without it the average cost is 0.75, with uniform play 0.5."""
    costs = bl.costs.switching(np.array([[[[0.0, 1.0]]], [[[1.0, 0.0]]]]), every=1)
    world = bl.World(bl.environments.bandit([1.0, 1.0]).mdp, costs)
    agent = InformedPlanner(world.problem)
    run = bl.simulate(world, agent, delays=bl.delays.fixed(0), episodes=400)
    assert run.values.mean() < 0.6
    assert run.diagnostics["weight_plan"] < 0.5
