import itertools
import math

import numpy as np
import pytest

import belated as bl
from belated.tabular.environments.gridworld import MOVES, PAPER_WALLS


def test_paper_grid_has_the_known_optimum():
    world = bl.environments.paper_grid()
    assert world.problem == bl.Problem(100, 4, 50, homogeneous=True)
    _, value = bl.planning.best_policy(world.mdp, world.costs.at(0))
    assert value == pytest.approx(21.34, abs=0.005)
    walled = bl.environments.paper_walled_grid()
    _, longer = bl.planning.best_policy(walled.mdp, walled.costs.at(0))
    assert 31 < longer < 33


@pytest.mark.parametrize("absorbing", [False, True])
def test_gridworld_against_its_definition(absorbing):
    rows, columns, slip = 3, 4, 0.2
    walls = [(1, 1), (0, 3)]
    world = bl.environments.gridworld((rows, columns), walls, slip, 6, absorbing)
    p = world.mdp.transitions.dense()[0]
    expected = np.zeros((12, 4, 12))
    for row, column, action in itertools.product(range(rows), range(columns), range(4)):
        s = row * columns + column
        for move, (down, right) in enumerate(MOVES):
            to = (row + down, column + right)
            inside = 0 <= to[0] < rows and 0 <= to[1] < columns
            stuck = (row, column) in walls or not inside or to in walls
            if absorbing and s == 11:
                stuck = True
            target = s if stuck else to[0] * columns + to[1]
            expected[s, action, target] += slip / 4 + (1 - slip) * (move == action)
    np.testing.assert_allclose(p, expected, atol=1e-15)
    costs = world.costs.at(0)
    assert costs.shape == (1, 12, 4)
    assert np.all(costs[0, 11] == 0)
    assert np.all(costs[0, :11] == 1)


def test_walls_are_never_entered():
    world = bl.environments.paper_walled_grid()
    uniform = np.full(world.problem.shape, 0.25)
    reach = bl.planning.occupancy(world.mdp, uniform).sum((0, 2)).reshape(10, 10)
    assert all(reach[cell] == 0 for cell in PAPER_WALLS)
    assert np.count_nonzero(reach) == 100 - len(PAPER_WALLS)


def test_random_mdp_is_sparse_and_repeats():
    world = bl.environments.random_mdp(8, 3, 5, successors=2, homogeneous=False, seed=4)
    assert world.mdp.transitions.successors.shape == (5, 8, 3, 2)
    assert np.all((world.mdp.transitions.dense() > 0).sum(-1) == 2)
    again = bl.environments.random_mdp(8, 3, 5, successors=2, homogeneous=False, seed=4)
    assert np.array_equal(world.mdp.transitions.dense(), again.mdp.transitions.dense())


def test_chain_prefers_to_swim():
    world = bl.environments.chain(6, 40)
    policy, value = bl.planning.best_policy(world.mdp, world.costs.at(0))
    assert np.all(policy[0, :, 1] == 1)
    left = np.zeros(world.problem.shape)
    left[:, :, 0] = 1
    assert value < bl.planning.policy_values(world.mdp, left, world.costs.at(0))[0][0, 0]


def test_bandit_and_lower_bound_shapes():
    assert bl.environments.bandit([0.1, 0.2, 0.3]).problem.shape == (1, 1, 3)
    world = bl.environments.delay_lower_bound(4, states=3, actions=2, horizon=2)
    assert world.problem.shape == (2, 3, 2)
    assert np.array_equal(world.costs.at(0), world.costs.at(4))


def exact_gap(world):
    """Best value, and the value of playing blindly, per episode."""
    _, best = bl.planning.best_policy(world.mdp, world.costs.at(0))
    H, S, A = world.problem.shape
    uniform = np.full((H, S, A), 1 / A)
    start = world.problem.start_probabilities
    return best, start @ bl.planning.policy_values(world.mdp, uniform, world.costs.at(0))[0][0]


def test_before_learning_all_policies_cost_the_same_on_the_dynamics_lower_bound():
    """The mean over all secrets (2 steps, 2 actions) is exact."""
    worlds = {}
    for seed in range(40):
        world = bl.environments.dynamics_lower_bound(10, 2, 2, 4, seed)
        p = world.mdp.transitions.dense()
        worlds[tuple(p[:2, 0, :, 1].argmax(-1))] = world
    assert len(worlds) == 4
    rng, means = np.random.default_rng(0), []
    for _ in range(20):
        policy = np.eye(2)[rng.integers(0, 2, (4, 2))]
        means.append(
            np.mean(
                [
                    bl.planning.policy_values(w.mdp, policy, w.costs.at(0))[0][0, 0]
                    for w in worlds.values()
                ]
            )
        )
    assert np.ptp(means) < 1e-13
    best, blind = exact_gap(world)
    assert means[0] == pytest.approx(blind)
    assert best < blind - 0.01


@pytest.mark.parametrize("H", [2, 5, 16, 40])
@pytest.mark.parametrize(("S", "A"), [(2, 2), (2, 9), (10, 3)])
def test_what_is_lost_and_what_can_be_known_on_the_dynamics_lower_bound(H, S, A):
    """The steps of the proof, exactly, for several K.

    A blind learner loses more than the floor, which is of the order H^{3/2} sqrt(S A K). A visit
    says so little about a better action that the divergence of 2 K / (S A) visits is at most 1/16.
    """
    for K in (7 * H * S * A, 100 * H * S * A):
        world = bl.environments.dynamics_lower_bound(K, S, A, H, seed=3)
        p, m = world.mdp.transitions.dense(), H // 2
        leave, more = 1 / (8 * H), np.ptp(p[0, 0, :, 1])
        np.testing.assert_allclose(np.sort(p[:m, ::2, :, 1::2].max(-1), -1)[..., :-1], leave)
        assert more <= leave
        assert np.all(p[m:, range(S), :, range(S)] == 1)
        floor = 7 / 64 * m * (H - m) * more * K
        rate = H**1.5 * np.sqrt(S * A * K)
        assert 0.0009 * rate < floor < 0.002 * rate
        best, blind = exact_gap(world)
        assert floor < K * (blind - best) < 0.02 * rate
        q = leave + more
        kl = leave * np.log(leave / q) + (1 - leave) * np.log((1 - leave) / (1 - q))
        assert 2 * K / S / A * kl <= 1 / 16
        stays = bl.planning.occupancy(
            world.mdp, bl.planning.best_policy(world.mdp, world.costs.at(0))[0]
        )
        assert stays[m, ::2].sum() >= 7 / 8  # an episode meets a bad state at every step


def test_no_learner_is_below_the_dynamics_lower_bound_unless_it_knows_the_transitions():
    """Six secrets; the mean regret over them is at least the floor, for every learner."""
    K, S, A, H = 128, 2, 4, 8
    floor = 7 / 64 * 4 * 4 * np.sqrt(7 * S * A / (2048 * H * K)) * K

    def regret(make):
        worlds = [bl.environments.dynamics_lower_bound(K, S, A, H, seed) for seed in range(6)]
        return np.mean([bl.simulate(w, make(w), episodes=K, seed=0).regret[-1] for w in worlds])

    narrow = bl.parts.Confidence(radius_scale=0.01, episodes=K)
    learners = [
        lambda w: bl.recommend(w.problem, information="full"),
        lambda w: bl.DelayedOPPO(w.problem, transitions=narrow, update=bl.parts.Softmax(1.0)),
        lambda w: bl.DelayedUCBVI(w.problem, transitions=narrow),
    ]
    assert all(regret(make) >= floor for make in learners)
    eager = bl.parts.Softmax(1000.0)
    knows = regret(lambda w: bl.DelayedOPPO(w.problem, transitions=w.mdp.transitions, update=eager))
    assert knows < floor / 2


def test_what_can_be_known_on_the_bandit_lower_bound():
    """The numbers of the proof, exactly, and that a blind policy loses more than the floor."""
    from scipy.stats import binom  # slow to import

    for S, A, H, K in [(1, 2, 1, 2), (3, 4, 2, 5), (5, 2, 3, 400), (20, 10, 4, 10**6)]:
        world = bl.environments.bandit_lower_bound(K, S, A, H, seed=5)
        means = world.costs.means
        np.testing.assert_array_equal(np.sort(means, -1)[..., 1:], 0.5)
        gap = np.ptp(means, axis=-1)
        assert gap == pytest.approx(math.sqrt(3 * S * A / (128 * K)))
        gap = gap[0, 0]
        assert gap <= 1 / 4
        kl = -math.log(1 - 4 * gap**2) / 2  # of coins with means 1/2 and 1/2 - gap
        assert kl == pytest.approx(
            0.5 * math.log(0.5 / (0.5 - gap)) + 0.5 * math.log(0.5 / (0.5 + gap))
        )
        assert K / S * kl / A <= 1 / 16
        n = np.arange(K + 1) if K < 10**4 else np.arange(K // S - 10**4, K // S + 10**4)
        moment = (binom.pmf(n, K, 1 / S) * n**1.5).sum()  # of the visits of a state at a step
        assert moment <= math.sqrt(2) * (K / S) ** 1.5
        floor = H * K * gap / 4
        assert floor == pytest.approx(math.sqrt(3 / 128) / 4 * H * math.sqrt(S * A * K))
        reach = bl.planning.occupancy(world.mdp, np.full((H, S, A), 1 / A)).sum(-1)
        np.testing.assert_allclose(reach, 1 / S)
        _, best = bl.planning.best_policy(world.mdp, means)
        assert best == pytest.approx(H * (0.5 - gap))
        blind = K * (H * (0.5 - gap / A) - best)
        assert floor < blind


def lost_on_means(make, K, S, A, H, seeds):
    """Mean regret on the mean costs over some secrets, without delays, and the floor."""
    lost = []
    for seed in range(seeds):
        world = bl.environments.bandit_lower_bound(K, S, A, H, seed)
        costs, agent = world.costs.seeded(seed), make(world)
        rng, total = np.random.default_rng(seed), 0.0
        for k in range(K):
            policy = agent.begin_episode().policy
            total += (policy * costs.means).sum() / S
            path, given = world.mdp.play(policy, rng, k), costs.at(k)
            if agent.information == "bandit":
                given = given[np.arange(H), path.states[:-1], path.actions]
            agent.observe([path, bl.Costs(k, given)])
        lost.append(total - K * bl.planning.best_policy(world.mdp, costs.means)[1])
    return np.mean(lost), H * K * math.sqrt(3 * S * A / (128 * K)) / 4


def test_no_bandit_learner_is_below_its_lower_bound_though_it_knows_the_transitions():
    """Six secrets. The bound does not hold for a learner that sees all costs."""

    def oppo(world):
        rates = bl.tuning.oppo_bandit(world.problem, 150)
        return bl.DelayedOPPO(
            world.problem,
            transitions=world.mdp.transitions,
            costs=bl.parts.Weighted(rates["exploration"]),
            update=bl.parts.Softmax(50 * rates["learning_rate"]),
        )

    def known(agent):
        return lambda world: agent(world.problem, transitions=world.mdp.transitions)

    def recommended(problem, transitions):
        return bl.recommend(problem, information="bandit", transitions=transitions)

    for make in (oppo, known(bl.DelayedUCBVI), known(recommended)):
        lost, floor = lost_on_means(make, 150, 3, 3, 2, 6)
        assert lost >= floor
    eager = bl.parts.Softmax(1000.0)
    lost, floor = lost_on_means(
        lambda world: bl.DelayedOPPO(world.problem, update=eager), 800, 200, 10, 1, 1
    )
    assert lost < floor / 2
