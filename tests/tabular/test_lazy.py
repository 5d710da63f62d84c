"""Lazy updating: epochs against a literal twin, and active updating as its limit."""

import math

import numpy as np
import pytest

import belated as bl
import oracles
from belated.tabular.trial import Trial
from belated.testing import Step, drive, schedules

NARROW = bl.parts.Confidence(radius_scale=0.1)


def planner(world):
    return bl.DelayedUCBVI(world.problem, transitions=NARROW)


@pytest.mark.parametrize("alpha", [math.inf, 1e9])
@pytest.mark.parametrize("homogeneous", [False, True])
def test_a_large_alpha_is_active_updating(alpha, homogeneous):
    world = oracles.random_world(np.random.default_rng(0), 3, 4, 2, homogeneous=homogeneous)
    for given in schedules(np.random.default_rng(1), 30):
        schedule = given
        if alpha != math.inf:  # costs that come after their path wait for an epoch
            schedule = [Step(s.costs, s.costs, s.pause, s.forget) for s in given]
        active = drive(Trial(world), planner(world), schedule, 0)
        lazy = drive(Trial(world), bl.wrappers.Lazy(planner(world), alpha), schedule, 0)
        assert all(np.array_equal(a, b) for a, b in zip(active, lazy, strict=True))


@pytest.mark.parametrize("alpha", [1, 2.5, 10])
@pytest.mark.parametrize("homogeneous", [False, True])
def test_epochs_are_those_of_the_pseudo_code(alpha, homogeneous):
    """The plan is that of an agent that gets all feedback at the start of the epoch."""
    rng = np.random.default_rng(2)
    world = oracles.random_world(rng, 3, 4, 2, homogeneous=homogeneous)
    agent, inside = bl.wrappers.Lazy(planner(world), alpha), planner(world)
    K, delays = 40, oracles.random_delays(rng, 40, largest=6)
    arrived, held, waiting, epochs = [], [], [], 0
    before = np.zeros(world.problem.shape)
    for k in range(K):
        now = np.zeros(world.problem.shape)
        for path in arrived:
            np.add.at(now, (range(3), path.states[:-1], path.actions), 1)
        if homogeneous:
            now[:] = now.sum(0)
        grown = (now >= (1 + 1 / alpha) * before - 1e-9) & (now > before)
        if grown.any():
            before, epochs = now, epochs + 1
            inside.observe(held)
            held = []
        policy = agent.begin_episode().policy
        assert np.array_equal(policy, inside.begin_episode().policy)
        path = world.mdp.play(policy, rng, k)
        waiting.append((k + delays[k], path, bl.Costs(k, rng.random(3))))
        due = [(path, costs) for when, path, costs in waiting if when == k]
        records = [record for pair in due for record in pair]
        agent.observe(records)
        held += records
        arrived += [path for path, _ in due]
    assert agent.diagnostics()["epochs"] == epochs
    H, S, A = world.problem.shape
    most = H * S * A * math.log(alpha * K / (S * A) + 1) / math.log(1 + 1 / alpha)
    assert 3 < epochs <= most  # Lemma 4


def test_lazy_inside_skipping_and_forgotten_halves():
    world = oracles.random_world(np.random.default_rng(3), 3, 4, 2)
    agent = bl.wrappers.Skipping(bl.wrappers.Lazy(planner(world), 1), 3)
    bl.simulate(world, agent, delays=bl.delays.lost(0.3, bl.delays.uniform(0, 8)), episodes=40)
    rng = np.random.default_rng(0)
    agent = bl.wrappers.Lazy(planner(world), 1)
    for k in range(2):
        path = world.mdp.play(agent.begin_episode().policy, rng, k)
        agent.observe([path])
    agent.forget(0)
    assert agent.diagnostics()["held"] == 1
    with pytest.raises(bl.FeedbackError):
        agent.observe([bl.Costs(0, np.zeros(3))])
    agent.observe([bl.Costs(1, np.zeros(3))])
    agent.forget(1)  # its path and its costs have come: it is used
    agent.begin_episode()
    assert agent.diagnostics()["held"] == 0


def test_bad_input():
    world = oracles.random_world(np.random.default_rng(0))
    with pytest.raises(ValueError, match="alpha must be a finite number at least 1"):
        bl.wrappers.Lazy(planner(world), 0.5)
    with pytest.raises(ValueError, match="agent must not be Skipping"):
        bl.wrappers.Lazy(bl.wrappers.Skipping(planner(world), 3), 1)
    known = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions)
    with pytest.raises(ValueError, match="agent must use trajectories"):
        bl.wrappers.Lazy(known, 1)
