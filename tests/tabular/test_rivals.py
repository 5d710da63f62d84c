"""Rivals: they keep the contract, compute what they say, and learn where it is easy."""

import importlib.util
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks import rivals
from benchmarks.rivals.poold import Poold, imported

import belated as bl
from belated import testing
from belated.config.agents import AGENTS

poold_is_here = pytest.mark.skipif(
    importlib.util.find_spec("poold") is None, reason="poold is not installed"
)


def kind(name, **given):
    maker = AGENTS.kinds.get(name) or getattr(rivals, name)
    return lambda told: maker(told, **given)


ANY = {
    "q-learning": kind("q_learning"),
    "q-learning, optimistic": kind("q_learning", learning_rate=0.1, epsilon=0.05, optimistic=True),
    "actor-critic": kind("actor_critic"),
    "posterior sampling": kind("posterior_sampling"),
    "posterior sampling that forgets": kind("posterior_sampling", forget=0.99),
}
ARMS = {
    "UCB1": kind("ucb1"),
    "Thompson sampling": kind("thompson_sampling"),
    "EXP3": kind("exp3"),
}
POOLD = [pytest.param(name, marks=poold_is_here) for name in ("dorm+", "adahedged")]
EASY = bl.environments.random_mdp(3, 2, 3, 2, homogeneous=False, seed=3)
POOLED = bl.environments.random_mdp(4, 3, 3, 2, homogeneous=True, seed=1)
FOUR_ARMS = bl.environments.bandit([0.2, 0.5, 0.6, 0.8])
CASES = [
    *(pytest.param(EASY, make, id=name) for name, make in ANY.items()),
    *(
        pytest.param(POOLED, make, id=f"{name}, homogeneous", marks=pytest.mark.long)
        for name, make in ANY.items()
    ),
    *(pytest.param(FOUR_ARMS, make, id=f"{name}, arms") for name, make in (ANY | ARMS).items()),
    *(
        pytest.param(
            FOUR_ARMS,
            lambda told, p=p: Poold(told.problem, learner=p.values[0]),
            id=p.values[0],
            marks=p.marks,
        )
        for p in POOLD
    ),
]
cases = pytest.mark.parametrize(("world", "make"), CASES)


def fresh(world, make):
    return make(SimpleNamespace(problem=world.problem))


def records(world, agent, episode, rng):
    path = world.mdp.play(episode.policy, rng, episode.number)
    costs = world.costs.seeded(0).at(episode.number)
    if agent.information == "bandit":
        steps = np.minimum(np.arange(world.problem.horizon), len(costs) - 1)
        costs = costs[steps, path.states[:-1], path.actions]
    return path, bl.Costs(episode.number, costs)


def drive(world, agent, delays):
    """Policies (K, H, S, A) when paths come together with late costs."""
    steps = [testing.Step(delay, delay) for delay in delays]
    return np.array(testing.drive(world.problem.trial(), agent, steps, 0))


def score(world, agent, delays, episodes, seed=0):
    """0 is the best fixed policy, 1 is uniform play."""
    run = bl.simulate(world, agent, delays=delays, episodes=episodes, seed=seed)
    uniform = np.full(world.problem.shape, 1.0 / world.problem.actions)
    means = world.costs.means
    worst = episodes * float(np.vdot(bl.planning.occupancy(world.mdp, uniform), full(means, world)))
    best = episodes * bl.planning.best_policy(world.mdp, means)[1]
    spent = sum(run.values) + (best - run.optimum)  # the noise of the costs is taken out
    return (spent - best) / (worst - best)


def full(means, world):
    return np.broadcast_to(means, world.problem.shape)


@cases
@pytest.mark.long
def test_rivals_learn_where_it_is_easy(world, make):
    assert score(world, fresh(world, make), bl.delays.geometric(2), 1500) < 0.3


@cases
@pytest.mark.parametrize("rule", testing.RULES, ids=lambda rule: rule.__name__)
def test_rivals_keep_the_contract(world, make, rule):
    made = world.problem.trial(1)
    rule(lambda: fresh(world, make), made, np.random.default_rng(1))


@cases
def test_feedback_changes_what_is_played(world, make):
    policies = drive(world, fresh(world, make), [2] * 40)
    assert len(np.unique(policies, axis=0)) > 1


@cases
def test_rivals_print_as_the_call_that_makes_them(world, make):
    agent = fresh(world, make)
    again = eval(repr(agent), {"Problem": bl.Problem, **vars(rivals), **vars(bl)})
    assert repr(again) == repr(agent)
    assert type(again) is type(agent)


@cases
def test_rivals_work_inside_wrappers(world, make):
    policies = drive(world, bl.wrappers.Skipping(fresh(world, make), 4), [3, 9] * 10)
    assert len(np.unique(policies, axis=0)) > 1


# what they compute


def observed(agent, world, episodes, seed=0):
    """Play without delays; returns the policies, paths and costs, and the last policy."""
    rng, seen = np.random.default_rng(seed), []
    for _ in range(episodes):
        episode = agent.begin_episode()
        path, costs = records(world, agent, episode, rng)
        agent.observe([path, costs])
        seen.append((episode.policy, path, costs.values))
    return seen, agent.begin_episode().policy


@pytest.mark.parametrize("optimistic", [False, True])
def test_q_learning_by_hand(optimistic):
    agent = rivals.QLearning(EASY.problem, learning_rate=0.4, epsilon=0.2, optimistic=optimistic)
    seen, policy = observed(agent, EASY, 50)
    H, S, A = EASY.problem.shape
    q = np.zeros((H + 1, S, A)) if optimistic else np.tile([[[1.5]], [[1]], [[0.5]], [[0]]], (S, A))
    for _, path, costs in seen:
        for h in (2, 1, 0):
            here = h, path.states[h], path.actions[h]
            q[here] = 0.6 * q[here] + 0.4 * (costs[h] + q[h + 1, path.states[h + 1]].min())
    greedy = np.eye(A)[q[:H].argmin(-1)]
    untied = np.ptp(q[:H], axis=-1) > 0
    np.testing.assert_allclose(policy[untied], (0.8 * greedy + 0.1)[untied], atol=1e-12)
    np.testing.assert_array_equal(policy[~untied], 0.5)
    assert untied.sum() > 4


def test_actor_critic_follows_the_gradient_of_the_log_policy():
    """One step of one state: delta = c - V, and the gradient is taken by finite differences."""
    problem = bl.Problem(1, 3, 1)
    agent = rivals.ActorCritic(problem, learning_rate=0.7, critic_rate=0.2)

    def policy(theta):
        return np.exp(-theta) / np.exp(-theta).sum()

    theta, value = np.zeros(3), 0.5
    for k, (arm, cost) in enumerate([(0, 1.0), (2, 0.0), (1, 0.7), (2, 0.1), (0, 0.9)]):
        np.testing.assert_allclose(agent.begin_episode().policy[0, 0], policy(theta), atol=1e-8)
        agent.observe([bl.Trajectory(k, [0, 0], [arm]), bl.Costs(k, [cost])])
        slope = [
            np.log(policy(theta + 1e-5 * e) / policy(theta - 1e-5 * e))[arm] for e in np.eye(3)
        ]
        theta = theta - 0.7 * (cost - value) * np.array(slope) / 2e-5
        value += 0.2 * (cost - value)


def test_actor_critic_looks_one_step_ahead():
    agent = rivals.ActorCritic(bl.Problem(2, 2, 2), learning_rate=1.0, critic_rate=0.5)
    agent.begin_episode()
    agent.observe([bl.Trajectory(0, [0, 1, 0], [1, 0]), bl.Costs(0, [0.25, 1.0])])
    # last step: delta = 1 - 1/2, V_1(1) = 3/4; first: delta = 1/4 + 3/4 - 1
    policy = agent.begin_episode().policy
    assert policy[1, 1, 0] == pytest.approx(1 / (1 + np.exp(0.5)))
    np.testing.assert_array_equal(policy[0, 0], 0.5)
    agent.observe([bl.Trajectory(1, [0, 1, 0], [1, 0]), bl.Costs(1, [1.0, 1.0])])
    # V_1(1) = 7/8; first step: delta = 1 + 7/8 - 1
    assert agent.begin_episode().policy[0, 0, 1] == pytest.approx(1 / (1 + np.exp(0.875)))


def smaller(one, other):
    """The probability that a draw of one beta distribution is smaller than one of another."""
    from scipy import integrate, stats  # slow to import

    first, second = stats.beta(*one), stats.beta(*other)
    return integrate.quad(lambda x: first.pdf(x) * second.sf(x), 0, 1)[0]


def check_share(agent, reports, chance):
    """After reports (arm, cost), arm 0 is played with this probability."""
    for k, (arm, cost) in enumerate(reports):
        agent.begin_episode()
        agent.observe([bl.Trajectory(k, [0, 0], [arm]), bl.Costs(k, [cost])])
    played = np.mean([agent.begin_episode().policy[0, 0, 0] for _ in range(8000)])
    assert played == pytest.approx(chance, abs=4 * 0.5 / np.sqrt(8000))


@pytest.mark.parametrize("make", [bl.ThompsonSampling, bl.PosteriorSampling])
def test_sampling_plays_an_arm_as_often_as_it_is_best(make):
    reports = [(0, 1.0), (0, 0.0), (0, 0.5), (1, 0.25)]
    chance = smaller((2.5, 2.5), (1.25, 1.75))
    check_share(make(bl.Problem(1, 2, 1), seed=3), reports, chance)


def test_posterior_means_of_transitions_and_costs():
    agent = bl.PosteriorSampling(EASY.problem, pooled=True, seed=1)
    seen, _ = observed(agent, EASY, 40)
    H, S, A = EASY.problem.shape
    counts, sums, visits = np.full((H, S, A, S), 1 / S), np.ones((S, A)), np.full((S, A), 2.0)
    for _, path, costs in seen:
        for h, (s, a) in enumerate(zip(path.states[:-1], path.actions, strict=True)):
            counts[h, s, a, path.states[h + 1]] += 1
            sums[s, a] += costs[h]
            visits[s, a] += 1
    drawn = []
    for _ in range(3000):  # a draw depends on the number of the episode
        agent.begin_episode()
        drawn.append(agent._draw())
    p, means = (np.mean(part, axis=0) for part in zip(*drawn, strict=True))
    np.testing.assert_allclose(p, counts / counts.sum(-1, keepdims=True), atol=0.04)
    np.testing.assert_allclose(means, (sums / visits)[None], atol=0.03)


def test_forgetting_discounts_costs():
    agent = bl.PosteriorSampling(bl.Problem(1, 2, 1), forget=0.5, seed=2)
    # arm 0: cost 1 with weight 1/4 and cost 0 with weight 1; arm 1: cost 1/2 with weight 1/2
    chance = smaller((1.25, 2.0), (1.25, 1.25))
    check_share(agent, [(0, 1.0), (1, 0.5), (0, 0.0)], chance)


def test_seeds_of_samplers():
    for make in (bl.ThompsonSampling, bl.PosteriorSampling):
        runs = [
            drive(FOUR_ARMS, make(FOUR_ARMS.problem, seed=seed), [2] * 30) for seed in (0, 0, 1)
        ]
        assert np.array_equal(runs[0], runs[1])
        assert not np.array_equal(runs[0], runs[2])


def test_ucb1_by_hand():
    agent = rivals.UCB1(bl.Problem(1, 3, 1))
    np.testing.assert_array_equal(agent.begin_episode().policy, 1 / 3)
    agent.observe([bl.Trajectory(0, [0, 0], [1]), bl.Costs(0, [0.0])])
    np.testing.assert_array_equal(agent.begin_episode().policy[0, 0], [0.5, 0, 0.5])
    costs = {0: [0.9, 0.9], 1: [0.0, 0.8, 0.3], 2: [0.6]}
    rest = [(0, 0.9), (0, 0.9), (1, 0.8), (1, 0.3), (2, 0.6)]
    for k, (arm, cost) in enumerate(rest, start=1):
        agent.observe([bl.Trajectory(k, [0, 0], [arm]), bl.Costs(k, [cost])])
        policy = agent.begin_episode().policy[0, 0]
    index = [np.mean(c) - np.sqrt(2 * np.log(6) / len(c)) for c in costs.values()]
    assert policy.argmax() == np.argmin(index) == 2
    assert policy.max() == 1


@pytest.mark.parametrize("rate", [None, 0.3])
def test_exp3_by_hand(rate):
    delays = np.random.default_rng(0).integers(0, 5, 40)
    agent = rivals.Exp3(FOUR_ARMS.problem, learning_rate=rate)
    rng, line, losses, played = np.random.default_rng(1), bl.DelayLine(), np.zeros(4), []
    for k, delay in enumerate(delays):
        step = np.sqrt(np.log(4) / (4 * (k + 1))) if rate is None else rate
        weights = np.exp(-step * losses)
        episode = agent.begin_episode()
        np.testing.assert_allclose(episode.policy[0, 0], weights / weights.sum(), atol=1e-12)
        played.append(weights / weights.sum())
        line.push(list(records(FOUR_ARMS, agent, episode, rng)), int(delay))
        come = line.release(k)
        agent.observe(come)
        for path, costs in zip(come[::2], come[1::2], strict=True):
            losses[path.actions[0]] += costs.values[0] / played[path.episode][path.actions[0]]


def dorm_plus(losses, shown):
    """Plays (T, A) of delayed regret matching+; shown[t]: whose losses come right after play t."""
    played, regret = [], np.zeros(losses.shape[1])
    for come in shown:
        total = regret.sum()
        played.append(regret / total if total > 0 else np.full(len(regret), 1 / len(regret)))
        for t in come:
            regret = np.maximum(regret + (losses[t] @ played[t] - losses[t]), 0)
    return np.array(played)


@poold_is_here
@pytest.mark.parametrize("delay", [0, 3, 20])
def test_poold_under_a_fixed_delay_is_regret_matching_plus(delay):
    losses = np.random.default_rng(delay).random((100, 5))
    agent, line, policies = Poold(bl.Problem(1, 5, 1)), bl.DelayLine(), []
    for k, loss in enumerate(losses):
        policies.append(agent.begin_episode().policy[0, 0])
        line.push([bl.Costs(k, loss[None, None])], delay)
        agent.observe(line.release(k))
    expected = dorm_plus(losses, [[k - delay] if k >= delay else [] for k in range(100)])
    assert np.array_equal(policies, expected)


@poold_is_here
def test_poold_gets_what_overtakes_in_order_and_what_is_forgotten_as_zeros():
    rng = np.random.default_rng(0)
    losses, delays = rng.random((80, 3)), rng.integers(0, 12, 80)
    losses[::7] = 0
    agent, line, policies, shown, come = (
        Poold(bl.Problem(1, 3, 1)),
        bl.DelayLine(),
        [],
        [],
        set(),
    )
    for k, loss in enumerate(losses):
        policies.append(agent.begin_episode().policy[0, 0])
        if k % 7 == 0:
            agent.forget(k)
            come.add(k)
        else:
            line.push([bl.Costs(k, loss[None, None])], int(delays[k]))
        arrived = line.release(k)
        come |= {record.episode for record in arrived}
        agent.observe(arrived)
        done = sum(map(len, shown))
        shown.append([])
        while done in come:
            shown[-1].append(done)
            done += 1
    np.testing.assert_allclose(policies, dorm_plus(losses, shown), atol=1e-12)
    assert agent.diagnostics()["waiting"] == len(come) - sum(map(len, shown))


@poold_is_here
def test_poold_leaves_the_settings_of_matplotlib_alone():
    matplotlib = pytest.importorskip("matplotlib")
    Poold(bl.Problem(1, 2, 1))
    assert not matplotlib.rcParams["text.usetex"]


def test_an_odd_escape_sequence_in_poold_is_not_our_error(tmp_path, monkeypatch):
    """Python warns of it whenever the package is compiled; here warnings are errors."""
    (tmp_path / "poold.py").write_text('NAME = "\\s"\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "poold", None)
    monkeypatch.delitem(sys.modules, "poold")
    assert imported().NAME == r"\s"


def test_poold_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "poold", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'belated[poold]'")):
        Poold(bl.Problem(1, 2, 1))


def test_what_does_not_fit_is_refused():
    problem = bl.Problem(2, 2, 3)
    for make in (rivals.UCB1, bl.ThompsonSampling, rivals.Exp3, Poold):
        with pytest.raises(ValueError, match=r"problem must have states = 1 .* is for arms"):
            make(problem)
    for make, keywords in (
        (rivals.QLearning, {"learning_rate": 0}),
        (rivals.QLearning, {"epsilon": 1.5}),
        (rivals.QLearning, {"optimistic": 1}),
        (rivals.ActorCritic, {"learning_rate": -1}),
        (rivals.ActorCritic, {"critic_rate": 2}),
        (bl.PosteriorSampling, {"forget": 0}),
        (bl.PosteriorSampling, {"seed": -1}),
        (bl.PosteriorSampling, {"pooled": "yes"}),
    ):
        with pytest.raises(ValueError, match=f"{next(iter(keywords))} must be"):
            make(problem, **keywords)
    with pytest.raises(ValueError, match="learner must be one of"):
        Poold(bl.Problem(1, 2, 1), learner="dorm++")
    with pytest.raises(ValueError, match="at least two actions, got 1"):
        Poold(bl.Problem(1, 1, 1))
    with pytest.raises(ValueError, match="problem must be a Problem"):
        rivals.QLearning(3)


@poold_is_here
def test_poold_is_refused_by_name_when_it_is_saved(tmp_path):
    with pytest.raises(ValueError, match=r"package poold .* got one of Poold"):
        bl.save(Poold(bl.Problem(1, 2, 1)), tmp_path / "agent")


def test_draws_depend_on_seed_and_episode_alone():
    """Agents of one seed draw the same policy in every episode; another seed draws others."""
    for make in (bl.ThompsonSampling, bl.PosteriorSampling):
        first, second = (make(bl.Problem(1, 4, 1), seed=5) for _ in range(2))
        policies = [first.begin_episode().policy for _ in range(20)]
        assert all(np.array_equal(p, second.begin_episode().policy) for p in policies)
        assert len({policy.argmax() for policy in policies}) > 1
        other = make(bl.Problem(1, 4, 1), seed=6)
        assert any(not np.array_equal(p, other.begin_episode().policy) for p in policies)
