"""The planner against a literal twin, and what its ideas are for."""

import numpy as np
import pytest

import belated as bl
import oracles
from belated.tabular.informed import InformedPlanner
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
    )
    twin = InformedTwin(world.problem, oracles.dense(world.mdp) if known else None, changing)
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
