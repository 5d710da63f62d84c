import numpy as np
import pytest

import belated as bl
import oracles
from belated.simulation import delays_in
from recorder import Recorder


def test_values_optimum_and_regret_are_exact():
    rng = np.random.default_rng(0)
    world = oracles.random_world(rng, H=2, S=2, A=2, start=(0.4, 0.6))
    agent = bl.DelayedOPPO(
        world.problem, update=bl.parts.Softmax(0.5), transitions=world.mdp.transitions
    )
    run = bl.simulate(world, agent, delays=bl.delays.geometric(2), episodes=20)
    twin = bl.DelayedOPPO(
        world.problem, update=bl.parts.Softmax(0.5), transitions=world.mdp.transitions
    )
    p, start = oracles.dense(world.mdp), world.problem.start_probabilities
    line, values = bl.DelayLine(), []
    for k in range(20):
        policy = twin.begin_episode().policy
        values.append(start @ oracles.values(p, world.costs.at(k), policy)[0][0])
        line.push([bl.Costs(k, world.costs.at(k))], run.delays[k])
        twin.observe(line.release(k))
    np.testing.assert_allclose(run.values, values, atol=1e-13)
    totals = {}
    for i, policy in enumerate(oracles.deterministic_policies(2, 2, 2)):
        each = [start @ oracles.values(p, world.costs.at(k), policy)[0][0] for k in range(20)]
        totals[i] = np.array(each)
    best = min(totals.values(), key=np.sum)
    assert run.optimum == pytest.approx(best.sum(), abs=1e-12)
    np.testing.assert_allclose(run.regret, np.cumsum(values - best), atol=1e-12)


@pytest.mark.parametrize("information", ["full", "bandit"])
@pytest.mark.parametrize("paths", ["late", "at once"])
def test_records_arrive_on_time(information, paths):
    world = oracles.random_world(np.random.default_rng(1))
    delays = oracles.random_delays(np.random.default_rng(2), 40, largest=6)
    agent = Recorder(world.problem, information)
    run = bl.simulate(world, agent, delays=delays, episodes=40, paths=paths)
    for kind in (bl.Trajectory, bl.Costs):
        at = {r.episode: k for k, r in agent.seen if isinstance(r, kind)}
        late = delays if kind is bl.Costs or paths == "late" else np.zeros(40, dtype=int)
        assert at == {k: k + d for k, d in enumerate(late.tolist()) if k + d < 40}
    played = {r.episode: r for _, r in agent.seen if isinstance(r, bl.Trajectory)}
    for _, record in agent.seen:
        if isinstance(record, bl.Costs) and record.episode in played:
            costs, path = world.costs.at(record.episode), played[record.episode]
            met = costs[np.arange(3), path.states[:-1], path.actions]
            assert run.realised[record.episode] == pytest.approx(met.sum())
            assert np.array_equal(record.values, costs if information == "full" else met)
    assert run.diagnostics == {"begun": 40}


def test_one_seed_gives_one_result_and_agents_do_not_move_the_delays():
    world = bl.environments.random_mdp(5, 2, 4)
    delays = bl.delays.lost(0.1, bl.delays.geometric(3))

    def run(seed, **settings):
        agent = bl.DelayedOPPO(world.problem, **settings)
        return bl.simulate(world, agent, delays=delays, episodes=60, seed=seed)

    bonus = {"transitions": bl.parts.Bonus()}
    a, b, c = run(1, **bonus), run(1, **bonus), run(1, update=bl.parts.Softmax(0.01))
    other = run(2, **bonus)
    for name in ("values", "realised", "comparator", "delays", "missing"):
        assert np.array_equal(getattr(a, name), getattr(b, name))
    assert np.array_equal(a.delays, c.delays)
    assert np.array_equal(a.comparator, c.comparator)
    assert not np.array_equal(a.delays, other.delays)
    assert not np.array_equal(a.comparator, other.comparator)
    assert not np.array_equal(a.values, c.values)


def test_progress_wraps_the_episodes():
    world = bl.environments.bandit([0.5, 0.2])
    seen = []

    def progress(episodes):
        for k in episodes:
            seen.append(k)
            yield k

    bl.simulate(world, bl.DelayedOPPO(world.problem), episodes=7, progress=progress)
    assert seen == list(range(7))


def test_total_delay_is_cut_at_the_end():
    world = bl.environments.bandit([0.5, 0.2])
    delays = np.array([bl.NEVER, 2, 0, 5])
    run = bl.simulate(world, bl.DelayedOPPO(world.problem), delays=delays, episodes=4)
    assert run.total_delay == bl.delays.total_delay(delays) == 3 + 2 + 0 + 0
    assert run.missing.tolist() == [1, 2, 2, 2]


def test_costs_too_large_to_keep_are_asked_for_again(monkeypatch):
    from importlib import import_module

    world = oracles.random_world(np.random.default_rng(0))
    agents = [bl.DelayedOPPO(world.problem, update=bl.parts.Softmax(0.3)) for _ in range(2)]
    kept = bl.simulate(world, agents[0], episodes=20)
    monkeypatch.setattr(import_module("belated.simulation"), "KEPT_BYTES", 0)
    again = bl.simulate(world, agents[1], episodes=20)
    assert np.array_equal(kept.comparator, again.comparator)


@pytest.mark.parametrize("paths", ["late", "at once"])
def test_the_delays_of_a_run_do_not_depend_on_the_agent(paths):
    world = bl.environments.random_mdp(5, 2, 4)
    model = bl.delays.lost(0.2, bl.delays.geometric(4))
    agent = Recorder(world.problem)
    run = bl.simulate(world, agent, delays=model, episodes=30, seed=5, paths=paths)
    assert np.array_equal(run.delays, delays_in(world, model, 30, 5))


class Misnumbered(Recorder):
    """Numbers its episodes by another rule."""

    def __init__(self, problem, number):
        super().__init__(problem)
        self.number = number

    def begin_episode(self, now=None):
        return bl.Episode(self.number(super().begin_episode().number), self.uniform())

    def uniform(self):
        return np.full(self.problem.shape, 1 / self.problem.actions)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (lambda k: k + 1, "got 1 for episode 0"),
        (lambda k: 2 * k, "got 2 for episode 1"),
        (lambda k: min(k, 3), "got 3 for episode 4"),
        (lambda k: None, "got None for episode 0"),
        (lambda k: -k, "got -1 for episode 1"),
    ],
)
def test_episodes_must_be_numbered_0_1_2(number, message):
    world = bl.environments.bandit([0.5, 0.2])
    with pytest.raises(ValueError, match=message) as caught:
        bl.simulate(world, Misnumbered(world.problem, number), episodes=9)
    assert str(caught.value).startswith("agent must be fresh and number its episodes 0, 1, 2, ...")
    assert "\n" not in str(caught.value)


def test_an_agent_that_has_begun_is_refused():
    world = bl.environments.bandit([0.5, 0.2])
    agent = bl.DelayedOPPO(world.problem)
    bl.simulate(world, agent, episodes=3)
    with pytest.raises(ValueError, match=r"agent must be fresh .* got 3 for episode 0"):
        bl.simulate(world, agent, episodes=3)


@pytest.mark.parametrize(
    "missing", ["problem", "information", "begin_episode", "observe", "forget", "diagnostics"]
)
def test_the_missing_part_of_an_agent_is_named(missing):
    world = bl.environments.bandit([0.5, 0.2])
    whole = Recorder(world.problem)
    names = ("problem", "information", "begun", "uses_paths", "begin_episode", "observe", "forget")
    parts = {name: getattr(whole, name) for name in (*names, "diagnostics") if name != missing}
    agent = type("Partial", (), parts)()
    with pytest.raises(ValueError, match=missing) as caught:
        bl.simulate(world, agent, episodes=3)
    assert str(caught.value).startswith("agent must")
    assert "\n" not in str(caught.value)


def test_a_run_scores_and_judges_itself():
    """Uniform play has score 1 and a warning; a learner has a low score and no warning."""
    world = bl.environments.gridworld(size=3, horizon=6)
    flat = bl.simulate(world, bl.DelayedOPPO(world.problem), episodes=60)
    assert flat.score == pytest.approx(1.0, abs=1e-6)
    assert "WARNING: no better than uniform play" in repr(flat)
    uniform = np.full(world.problem.shape, 0.25)
    value = bl.planning.policy_values(world.mdp, uniform, world.costs.at(0))[0][0, 0]
    np.testing.assert_allclose(flat.uniform, value, atol=1e-12)
    learned = bl.simulate(world, bl.recommend(world.problem, information="full"), episodes=200)
    assert learned.score < 0.3
    assert learned.verdict == ""
    assert "WARNING" not in repr(learned)
    assert repr(learned).startswith("Run of 200 episodes: cost per episode")


def test_an_array_that_changes_in_place_is_looked_at_again():
    """One read-only view for all episodes, of a policy that alternates."""
    world = bl.World(bl.environments.bandit([0.2, 0.7]).mdp, np.array([[0.2, 0.7]]))
    changing = np.zeros((1, 1, 2))
    view = changing.view()
    view.flags.writeable = False

    class Turning(Recorder):
        def begin_episode(self, now=None):
            number = super().begin_episode(now).number
            changing[:] = [1.0, 0.0] if number % 2 else [0.0, 1.0]
            return bl.Episode(number, view)

    run = bl.simulate(world, Turning(world.problem), episodes=6)
    np.testing.assert_allclose(run.values, [0.7, 0.2] * 3)


def test_a_policy_that_a_wrapper_has_changed_is_what_is_played():
    world = bl.World(bl.environments.bandit([0.2, 0.7]).mdp, np.array([[0.2, 0.7]]))

    class Second(bl.DelayedOPPO):
        def begin_episode(self, now=None):
            episode = super().begin_episode(now)
            episode.policy[:] = [0.0, 1.0]
            return episode

    run = bl.simulate(world, Second(world.problem), episodes=6)
    np.testing.assert_allclose(run.values, 0.7)
    np.testing.assert_allclose(run.realised, 0.7)
