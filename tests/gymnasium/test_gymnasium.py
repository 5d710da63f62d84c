"""Gymnasium environments as worlds, in the loop, and with late rewards.

Oracles: value iteration and play on Gymnasium's own objects, written without the package.
"""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import belated as bl
from belated.environments import Rewards
from recorder import Recorder

CASES = {
    "FrozenLake-v1": {"horizon": 40, "options": {"map_name": "4x4", "is_slippery": True}},
    "CliffWalking-v1": {"horizon": 30, "options": {"is_slippery": True}},
    "Taxi-v4": {"horizon": 25, "options": {"is_rainy": True}},
}
RANGES = {"FrozenLake-v1": (0, 1), "CliffWalking-v1": (-100, 0), "Taxi-v4": (-10, 20)}


def value_iteration(env, horizon):
    """Best expected return from the start, in rewards, on Gymnasium's table."""
    table = env.unwrapped.P
    V = np.zeros(len(table))
    for _ in range(horizon):
        V = np.array(
            [
                max(
                    sum(p * (r + (0.0 if over else V[to])) for p, to, r, over in outcomes)
                    for outcomes in table[s].values()
                )
                for s in range(len(table))
            ]
        )
    return float(np.dot(env.unwrapped.initial_state_distrib, V))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("plain", [True, False])
def test_the_optimum_is_that_of_value_iteration(name, plain):
    horizon = CASES[name]["horizon"]
    options = {} if plain else CASES[name]["options"]
    if plain and name == "FrozenLake-v1":
        options = {"is_slippery": False}
    env = gymnasium.make(name, **options)
    world = bl.environments.from_gymnasium(env, horizon)
    rewards = bl.environments.table_rewards(env)
    assert (rewards.low, rewards.high) == RANGES[name]
    agent = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions)
    run = bl.simulate(world, agent, episodes=3)
    best = rewards.total(run.optimum / 3, horizon)
    expected = value_iteration(env, horizon)
    assert best == pytest.approx(expected, abs=1e-9)
    if plain:
        assert expected == pytest.approx(
            {"FrozenLake-v1": 1.0, "CliffWalking-v1": -13.0}.get(name, expected)
        )


def sampled_returns(env, policy, horizon, episodes, seed):
    """Sums of rewards of a policy (H, S, A), played step by step in the real environment."""
    uniforms = np.random.default_rng(seed).random((episodes, horizon))
    below = np.cumsum(policy, axis=2)
    returns = np.zeros(episodes)
    state, _ = env.reset(seed=seed)
    for k in range(episodes):
        for h in range(horizon):
            action = int(np.argmax(below[h, state] > uniforms[k, h]))
            state, reward, over, cut, _ = env.step(action)
            returns[k] += reward
            if over or cut:
                break
        state, _ = env.reset()
    return returns


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("FrozenLake-v1", {}),
        ("CliffWalking-v1", {}),
        ("CliffWalking-v1", {"is_slippery": True}),
        ("Taxi-v4", {}),
        ("Taxi-v4", {"is_rainy": True}),
    ],
)
@pytest.mark.long
def test_sampled_returns_agree_with_the_exact_value(name, options):
    """The mean of 20,000 real episodes is within three standard errors (fixed seeds)."""
    horizon = CASES[name]["horizon"]
    env = gymnasium.make(name, disable_env_checker=True, **options)
    world = bl.environments.from_gymnasium(env, horizon)
    rewards = bl.environments.table_rewards(env)
    best, _ = bl.planning.best_policy(world.mdp, world.costs.at(0))
    A = world.problem.actions
    policy = 0.85 * best + 0.15 * np.random.default_rng(5).dirichlet(np.ones(A), best.shape[:2])
    V, _ = bl.planning.policy_values(world.mdp, policy, world.costs.at(0))
    exact = rewards.total(float(world.problem.start_probabilities @ V[0]), horizon)
    returns = sampled_returns(env, policy, horizon, 20_000, seed=11)
    error = returns.std(ddof=1) / np.sqrt(len(returns))
    assert error > 0
    assert returns.mean() == pytest.approx(exact, abs=3 * error)


def test_the_end_of_the_game_is_one_more_state_that_earns_nothing():
    env = gymnasium.make("Taxi-v4")
    world = bl.environments.from_gymnasium(env, 10)
    p = world.mdp.transitions.dense()[0]
    assert p.shape == (501, 6, 501)
    assert np.all(p[500, :, 500] == 1)
    assert np.allclose(world.costs.at(0)[0, 500], 20 / 30)
    start = world.problem.start_probabilities
    assert np.array_equal(start[:-1], env.unwrapped.initial_state_distrib)
    assert start[-1] == 0
    ending = sum(t[3] for row in env.unwrapped.P.values() for o in row.values() for t in o)
    assert np.count_nonzero(p[:500, :, 500]) == ending > 0
    assert bl.environments.from_gymnasium("FrozenLake-v1", 5).problem.start == 0
    assert bl.environments.from_gymnasium("FrozenLake-v1", 5, start=3).problem.start == 3
    big = bl.environments.from_gymnasium("FrozenLake-v1", 5, map_name="8x8")
    assert big.problem.shape == (5, 65, 4)


def uniform_agent(env, horizon):
    problem = bl.environments.gym_problem(env, horizon)
    return Recorder(problem, "bandit")


@pytest.mark.slow
def test_the_loop_plays_what_the_world_says():
    """The mean realised cost of 3,000 episodes is within three standard errors of the value."""
    env = gymnasium.make("FrozenLake-v1")
    horizon = 25
    world = bl.environments.from_gymnasium(env, horizon)
    agent = uniform_agent(env, horizon)
    assert agent.problem == world.problem
    run = bl.gymnasium.gym_loop(env, agent, episodes=3000, seed=3)
    V, _ = bl.planning.policy_values(world.mdp, agent.policy, world.costs.at(0))
    error = run.realised.std(ddof=1) / np.sqrt(3000)
    assert run.realised.mean() == pytest.approx(V[0, 0], abs=3 * error)
    np.testing.assert_allclose(run.returns, horizon - run.realised, atol=1e-12)
    assert run.lengths.max() == horizon
    assert run.lengths.min() >= 2
    for _, record in agent.seen:
        if isinstance(record, bl.Trajectory):
            k = record.episode
            assert np.all((record.states == 16)[run.lengths[k] + 1 :])
            assert np.all((record.states < 16)[: run.lengths[k]])


@pytest.mark.parametrize("when", ["late", "at once"])
def test_records_come_through_the_delay_line(when):
    agent = uniform_agent("FrozenLake-v1", 8)
    delays = np.array([3, 0, bl.NEVER, 1, 0, 0])
    run = bl.gymnasium.gym_loop("FrozenLake-v1", agent, delays, episodes=6, paths=when)
    costs = {r.episode: k for k, r in agent.seen if isinstance(r, bl.Costs)}
    paths = {r.episode: k for k, r in agent.seen if isinstance(r, bl.Trajectory)}
    assert costs == {0: 3, 1: 1, 3: 4, 4: 4, 5: 5}
    assert paths == (costs if when == "late" else {k: k for k in range(6)})
    assert run.missing.tolist() == [1, 1, 2, 2, 1, 1]


def test_the_loop_refuses_an_agent_that_has_begun():
    agent = uniform_agent("FrozenLake-v1", 5)
    bl.gymnasium.gym_loop("FrozenLake-v1", agent, episodes=2)
    with pytest.raises(ValueError, match=r"agent must be fresh .* got 2 for episode 0"):
        bl.gymnasium.gym_loop("FrozenLake-v1", agent, episodes=2)


def test_the_loop_is_decided_by_its_seed_and_delays_do_not_depend_on_the_agent():
    def run(seed, scale):
        problem = bl.environments.gym_problem("FrozenLake-v1", 10, is_slippery=False)
        agent = bl.DelayedOPPO(
            problem,
            transitions=bl.parts.Bonus(scale),
            costs=bl.parts.Averaged(pooled=True),
            update=bl.parts.Softmax(0.5),
        )
        env = gymnasium.make("FrozenLake-v1", is_slippery=False)
        return bl.gymnasium.gym_loop(env, agent, bl.delays.geometric(3), episodes=60, seed=seed)

    one, again, other, differs = run(0, 1.0), run(0, 1.0), run(0, 0.1), run(1, 1.0)
    assert np.array_equal(one.realised, again.realised)
    assert np.array_equal(one.delays, other.delays)
    assert not np.array_equal(one.delays, differs.delays)


@pytest.mark.parametrize("steps", [False, True])
def test_delays_that_depend_on_what_happened_are_those_of_their_rule(steps):
    seen = []

    def rule(played, rng):
        seen.append(played)
        return [1 + played.episode % 2, 0, 2] if steps else 1 + played.action

    delays = bl.delays.per_step(rule) if steps else bl.delays.delay_of(rule)
    agent = uniform_agent("FrozenLake-v1", 3)
    run = bl.gymnasium.gym_loop("FrozenLake-v1", agent, delays, episodes=9, seed=4)
    wanted = [2 if steps else 1 + played.action for played in seen]
    assert [played.episode for played in seen] == list(range(9))
    assert run.delays.tolist() == wanted
    assert [float(played.outcome) for played in seen] == run.realised.tolist()
    assert all(played.states.shape == (4,) for played in seen)
    assert run.missing[-1] == sum(k + d > 8 for k, d in enumerate(wanted))


def test_an_agent_learns_in_the_loop():
    """CliffWalking, unknown transitions, delay 5: the agent nears the best path of 13 steps."""
    problem = bl.environments.gym_problem("CliffWalking-v1", 40)
    agent = bl.DelayedOPPO(
        problem,
        transitions=bl.parts.Bonus(0.02),
        costs=bl.parts.Averaged(pooled=True),
        update=bl.parts.Softmax(200.0),
    )
    run = bl.gymnasium.gym_loop("CliffWalking-v1", agent, bl.delays.fixed(5), episodes=400)
    assert run.returns[:5].mean() < -200
    assert run.returns[-50:].mean() > -20


def test_rewards_must_be_told_where_there_is_no_table():
    class Walk(gymnasium.Env):
        """Three observations numbered from 5; actions -1 and 0."""

        observation_space = gymnasium.spaces.Discrete(3, start=5)
        action_space = gymnasium.spaces.Discrete(2, start=-1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return 5, {}

        def step(self, action):
            assert action in (-1, 0)
            self.at += 1
            return 5 + self.at % 3, 2.0 if action == -1 else -1.0, self.at == 4, False, {}

    env = Walk()
    with pytest.raises(ValueError, match="start must be a state or a distribution"):
        bl.environments.gym_problem(env, 6)
    problem = bl.environments.gym_problem(env, 6, start=0)
    policy = np.zeros(problem.shape)
    policy[..., 0] = 1
    agent = Recorder(problem, "bandit", policy=policy)
    with pytest.raises(ValueError, match=r"rewards must be \(low, high\)"):
        bl.gymnasium.gym_loop(env, agent, episodes=1)
    run = bl.gymnasium.gym_loop(
        env, Recorder(problem, "bandit", policy=policy), episodes=2, rewards=(-1, 2)
    )
    assert run.returns.tolist() == [8.0, 8.0]
    np.testing.assert_allclose(run.realised, 2 * 2 / 3)  # four steps cost 0; two follow the end
    with pytest.raises(ValueError, match=r"reward must lie in \[0, 1\], got 2"):
        bl.gymnasium.gym_loop(
            env, Recorder(problem, "bandit", policy=policy), episodes=2, rewards=(0, 1)
        )
    paths = Recorder(problem, "bandit", policy=policy)
    bl.gymnasium.gym_loop(env, paths, episodes=1, rewards=(-1, 2))
    assert paths.seen[0][1].states.tolist() == [0, 1, 2, 0, 3, 3, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bl.environments.from_gymnasium("CartPole-v1", 5), "Discrete observation_space"),
        (lambda: bl.environments.from_gymnasium("Blackjack-v1", 5), "Discrete observation_space"),
        (lambda: bl.environments.from_gymnasium(3, 5), "environment or its id, got 3"),
        (lambda: bl.environments.from_gymnasium("FrozenLake-v1", 0), "horizon must be"),
        (lambda: bl.environments.from_gymnasium("FrozenLake-v1", 5, start=16), "from 0 to 15"),
        (
            lambda: bl.environments.from_gymnasium("FrozenLake-v1", 5, start=[0.5, 0.5]),
            r"start must have shape \(16,\)",
        ),
        (
            lambda: bl.environments.from_gymnasium("Taxi-v4", 5, fickle_passenger=True),
            "fickle_passenger=True",
        ),
        (
            lambda: bl.environments.from_gymnasium(
                gymnasium.wrappers.TransformReward(gymnasium.make("Taxi-v4"), lambda r: 2 * r), 5
            ),
            "wrapped in TransformReward",
        ),
        (
            lambda: bl.environments.from_gymnasium(gymnasium.make("Taxi-v4"), 5, is_rainy=True),
            "options are only for environments given by id, got is_rainy",
        ),
        (
            lambda: bl.gymnasium.gym_loop("FrozenLake-v1", bl.DelayedOPPO(bl.Problem(16, 4, 5))),
            "17 states",
        ),
        (
            lambda: bl.gymnasium.gym_loop("FrozenLake-v1", bl.DelayedOPPO(bl.Problem(17, 4, 5))),
            'information="bandit"',
        ),
        (lambda: bl.gymnasium.gym_loop("FrozenLake-v1", None), "agent must .* got None"),
        (
            lambda: bl.gymnasium.gym_loop(
                "FrozenLake-v1", uniform_agent("FrozenLake-v1", 5), episodes=3, paths="soon"
            ),
            "paths must be one of 'late', 'at once', got 'soon'",
        ),
        (lambda: Rewards(1, 2), "low must be"),
        (
            lambda: bl.gymnasium.gym_loop(
                "FrozenLake-v1", uniform_agent("FrozenLake-v1", 5), [1, 2], episodes=3
            ),
            "episodes = 3 numbers, got 2",
        ),
    ],
)
def test_bad_input_gets_one_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def late(delays, **options):
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=6)
    return bl.gymnasium.LateRewards(env, delays, **options)


def test_late_rewards_come_in_info_on_time_and_once():
    """The goal is reached in episodes 0 and 2; each episode's rewards come d episodes later."""
    goal = [2, 2, 1, 1, 1, 2]
    stay = [0] * 6
    env = late([2, 0, bl.NEVER, 1, 0, 0])
    got = {}
    for k in range(6):
        _, info = env.reset(seed=None if k else 0)
        assert info["episode_number"] == k
        assert info["late_rewards"] == ()
        for action in goal if k in (0, 2) else stay:
            _, reward, over, cut, info = env.step(action)
            assert reward == 0.0
            if not (over or cut):
                assert info["late_rewards"] == ()
        assert over or cut
        for episode, rewards in info["late_rewards"]:
            assert episode not in got
            got[episode] = (k, rewards.tolist())
    nothing = [0.0] * 6
    assert got == {
        1: (1, nothing),
        0: (2, [0.0] * 5 + [1.0]),
        3: (4, nothing),
        4: (4, nothing),
        5: (5, nothing),
    }
    with pytest.raises(ValueError, match="at most 6"):
        env.reset()


def test_an_episode_broken_off_ends_at_the_reset():
    env = late([0, 1, 0])
    env.reset(seed=0)
    env.step(2)
    _, info = env.reset()
    assert [(r.episode, r.rewards.tolist()) for r in info["late_rewards"]] == [(0, [0.0])]
    _, info = env.reset()
    assert info["late_rewards"] == ()
    for _ in range(6):
        info = env.step(0)[-1]
    assert [r.episode for r in info["late_rewards"]] == [1, 2]


LATE = {
    "model": lambda: late(bl.delays.geometric(2), seed=4),
    "array": lambda: late([1] * 30),
    "trace": lambda: late(bl.delays.trace([0, 1, 2] * 10)),
    "inside a time limit": lambda: gymnasium.wrappers.TimeLimit(late([1] * 30), 4),
    "with statistics": lambda: gymnasium.wrappers.RecordEpisodeStatistics(late([1] * 30)),
    "around statistics": lambda: bl.gymnasium.LateRewards(
        gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("Taxi-v4")),
        bl.delays.uniform(0, 3),
    ),
}


EXPECTED = (
    "ignore:.*is different from the unwrapped version:UserWarning",
    "ignore:.*A Box observation space m:UserWarning",
)
"""Warnings that are expected: LateRewards is a wrapper, and CartPole has wide bounds."""


@pytest.mark.parametrize("name", LATE)
@pytest.mark.filterwarnings(*EXPECTED)
def test_gymnasium_finds_nothing_wrong(name):
    """The checker of Gymnasium passes; warnings that are not expected are errors."""
    assert bl.gymnasium.LateRewards is not None
    check_env(LATE[name](), skip_render_check=True)


def episodes_of(env, count, seed=None):
    """The late rewards of the first `count` episodes, as (when, episode, rewards)."""
    got = []
    for k in range(count):
        _, info = env.reset(seed=seed if k == 0 else None)
        assert info["episode_number"] == k
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(2)
            over = terminated or truncated
        got += [(k, late.episode, late.rewards.tolist()) for late in info["late_rewards"]]
    return got


def test_a_reset_with_a_seed_starts_over():
    """Numbers and delays start over; other seeds draw other delays, as vector copies need."""
    env = late(bl.delays.geometric(3), seed=1)
    first = episodes_of(env, 40, seed=5)
    assert episodes_of(env, 40, seed=5) == first == episodes_of(geometric_twin(), 40, seed=5)
    assert episodes_of(env, 40, seed=6) != first
    env.reset(seed=5)
    env.step(2)
    _, info = env.reset(seed=5)
    assert (info["episode_number"], info["late_rewards"]) == (0, ())


def geometric_twin():
    return late(bl.delays.geometric(3), seed=1)


def test_delays_are_drawn_as_episodes_come():
    """Draws go on past the first block of 1,024; their mean is within four standard errors."""
    env = late(bl.delays.geometric(2))
    env.reset(seed=0)
    drawn = []
    for k in range(1500):
        if k:
            env.reset()
        drawn.append(env._delay())
    assert len(env._drawn) == 2048
    assert np.mean(drawn) == pytest.approx(2, abs=4 * np.sqrt(6 / 1500))
    with pytest.raises(ValueError, match="at most 3, the number of delays"):
        episodes_of(late(bl.delays.trace([0, 1, 0])), 4)


def test_copies_in_a_vector_each_have_their_own_episodes():
    def copies():
        return gymnasium.vector.SyncVectorEnv([geometric_twin] * 2)

    def played(envs):
        _, info = envs.reset(seed=3)
        came = [[], []]
        for step in range(300):
            _, rewards, _, _, info = envs.step(np.array([2, 2]))
            assert not rewards.any()
            for i in range(2):
                came[i] += [(step, late.episode) for late in info["late_rewards"][i]]
        return came

    came = played(copies())
    assert came == played(copies())
    assert came[0] != came[1]
    assert all(len({episode for _, episode in each}) == len(each) > 20 for each in came)


def test_a_time_limit_outside_ends_the_episode_at_the_reset():
    env = gymnasium.wrappers.TimeLimit(late([0, 0]), 2)
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[3]
    _, info = env.reset()
    assert [late.episode for late in info["late_rewards"]] == [0]


def test_without_gymnasium_the_rest_works_and_the_message_says_what_to_install():
    code = """
import sys
sys.modules["gymnasium"] = None
import belated as bl
from belated import *
for ask in (lambda: bl.gymnasium, lambda: bl.environments.from_gymnasium("Taxi-v4", 5)):
    try:
        ask()
    except ImportError as error:
        assert "belated[gymnasium]" in str(error), error
    else:
        raise SystemExit("no error")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
