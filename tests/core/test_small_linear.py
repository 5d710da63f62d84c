"""A linear agent works in every wrapper that is not tabular: the core knows no states."""

import pickle

import numpy as np
import pytest

import belated as bl
from belated.testing import RULES, check_agent
from small_linear import Greedy, Paid, Trial, Visits

PROBLEM = Visits(3, 4)
WRAPPED = {
    "alone": lambda: Greedy(PROBLEM),
    "skipping": lambda: bl.wrappers.Skipping(Greedy(PROBLEM), 4),
    "pipeline": lambda: bl.wrappers.Pipeline(Greedy(PROBLEM), 3),
    "parallel": lambda: bl.wrappers.Parallel(lambda: Greedy(PROBLEM), 3),
    "bold": lambda: bl.wrappers.Bold(lambda: Greedy(PROBLEM)),
    "inbox": lambda: bl.Inbox(Greedy(PROBLEM)),
    "inbox deadline": lambda: bl.Inbox(Greedy(PROBLEM), deadline=5, default=0.5),
    "inbox hold": lambda: bl.Inbox(Greedy(PROBLEM), deadline=4, hold=True),
    "locked": lambda: bl.wrappers.Locked(bl.wrappers.Skipping(Greedy(PROBLEM), 4)),
}
wrapped = pytest.mark.parametrize("make", WRAPPED.values(), ids=WRAPPED.keys())


@pytest.mark.parametrize("name", [name for name in WRAPPED if not name.startswith("inbox ")])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_it_keeps_the_contract(name, rule):
    rule(WRAPPED[name], PROBLEM.trial(1), np.random.default_rng(1))


def test_check_agent_takes_the_world_from_the_problem():
    check_agent(WRAPPED["alone"])
    assert isinstance(PROBLEM.trial(), Trial)


def score(agent, trial, episodes=400):
    """Mean shortfall against the best action: 1 is uniform play."""
    rng, line, lost, spread = np.random.default_rng(3), bl.DelayLine(), 0.0, 0.0
    for k in range(episodes):
        x = trial.visitors[k % 7]
        decision = agent.decide(x)
        values = trial.theta @ x
        lost += values.max() - values[decision.action]
        spread += values.max() - values.mean()
        line.push([Paid(decision.number, float(values[decision.action] + rng.normal()))], k % 4)
        agent.observe(line.release(k))
    return lost / spread


@wrapped
def test_it_learns_through_decide(make):
    """The measured shortfalls are 0.07 to 0.26; uniform play has 1."""
    agent = make()
    agents = 4 if hasattr(agent, "agents") else 1
    assert score(agent, PROBLEM.trial(), 400 * agents) < 0.4


@wrapped
def test_it_is_saved_in_the_middle_of_everything(make, tmp_path):
    agent, trial = make(), PROBLEM.trial()
    agents, rng, line = [agent], np.random.default_rng(0), bl.DelayLine()
    for k in range(30):
        if k == 12:
            bl.save(agent, tmp_path / "agent")
            agents.append(bl.load(tmp_path / "agent"))
        x = trial.visitors[k % 7]
        decisions = [one.decide(x) for one in agents]
        assert all(np.array_equal(d.probabilities, decisions[0].probabilities) for d in decisions)
        assert len({d.action for d in decisions}) == 1
        line.push([Paid(k, float(rng.normal()))], int(rng.integers(0, 5)))
        if k % 3 == 0:
            line.push([Paid(k, 1.0, "refund")], int(rng.integers(2, 7)))
        batch = line.release(k)
        for one in agents:
            (one.take if hasattr(one, "take") and hasattr(one, "counts") else one.observe)(batch)


def test_a_record_keeps_its_time_through_what_holds_it_back():
    agent = bl.wrappers.Pipeline(bl.wrappers.Skipping(Greedy(PROBLEM), 9), 2)
    for k in range(6):
        agent.decide(np.ones(4), now=10.0 * k)
        agent.observe([Paid(k, 1.0)], now=10.0 * k + 1)
    assert agent.agent.agent.times == [1.0, 11.0, 21.0]


def test_decide_draws_by_seed_and_number_and_among():
    first, again, other = Greedy(PROBLEM), Greedy(PROBLEM), Greedy(PROBLEM, seed=1)
    x = np.ones(4)
    draws = [[one.decide(x).action for _ in range(40)] for one in (first, again, other)]
    assert draws[0] == draws[1] != draws[2]
    assert {first.decide(x, among=[0, 2]).action for _ in range(40)} == {0, 2}
    before = first.begun
    with pytest.raises(ValueError, match="features must be 4 numbers"):
        first.decide(np.ones(3))
    with pytest.raises(ValueError, match=r"rng must be a Generator such as .*, got 0"):
        first.decide(x, rng=0)
    assert first.begun == before


def test_the_inbox_sorts_events():
    inbox = bl.Inbox(Greedy(PROBLEM))
    inbox.decide(np.ones(4))
    kinds = [
        inbox.take([record]).outcomes[0].kind
        for record in (
            Paid(0, 2.0),
            Paid(0, 2.0),
            Paid(0, 3.0),
            Paid(0, -1.0, "refund"),
            Paid(1, 1.0),
            Paid(0, np.nan, "x"),
            bl.StepCost(0, 0, 0.5),
        )
    ]
    expected = ["taken", "duplicate", "conflict", "taken", "unknown", "invalid", "invalid"]
    assert kinds == expected


def test_locked_can_be_pickled():
    agent = WRAPPED["locked"]()
    agent.decide(np.ones(4))
    again = pickle.loads(pickle.dumps(agent))
    assert again.begun == 1
    assert again.decide(np.ones(4)).action == agent.decide(np.ones(4)).action


CHOICE = bl.Choice(actions=3, features=4)
SAMPLERS = {
    "skipping": lambda: bl.wrappers.Skipping(bl.LinearSampler(CHOICE), 4),
    "pipeline": lambda: bl.wrappers.Pipeline(bl.LinearSampler(CHOICE), 3),
    "parallel": lambda: bl.wrappers.Parallel(lambda: bl.LinearSampler(CHOICE), 3),
    "bold": lambda: bl.wrappers.Bold(lambda: bl.LinearSampler(CHOICE)),
    "inbox": lambda: bl.Inbox(bl.LinearSampler(CHOICE)),
    "locked": lambda: bl.wrappers.Locked(bl.LinearSampler(CHOICE)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_sampler_runs_in_every_wrapper_and_is_saved(name, tmp_path):
    agent, rng, line = SAMPLERS[name](), np.random.default_rng(0), bl.DelayLine()
    agents = [agent]
    for k in range(30):
        if k == 12:
            bl.save(agent, tmp_path / "agent")
            agents.append(bl.load(tmp_path / "agent"))
        x = rng.normal(size=4)
        decisions = [one.decide(x) for one in agents]
        assert len({(d.number, d.action, d.probability) for d in decisions}) == 1
        line.push([bl.Reward(k, float(rng.normal()))], k % 4)
        if k % 5 == 0:
            line.push([bl.Reward(k, -1.0, event="refund")], 3)
        batch = line.release(k)
        for one in agents:
            one.observe(batch)
