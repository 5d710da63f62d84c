"""Regret matching+, predicted costs, planning and blends, against a dense twin."""

import numpy as np
import pytest

import belated as bl
import oracles
from belated.tabular.parts import blend
from belated.tabular.records import suffered
from limits import FULL
from twins import Twin

UPDATES = {
    "rm": bl.parts.RegretMatching(),
    "rm-": bl.parts.RegretMatching(hints=False),
    ("soft", 0.7): bl.parts.Softmax(0.7),
    ("plan", None): bl.parts.Planned(),
    ("plan", 1.0): bl.parts.Planned(keep=1.0),
    ("plan", 0.98): bl.parts.Planned(keep=0.98),
    ("plan", 0.9): bl.parts.Planned(keep=0.9),
}
ALL = ["rm", ("soft", 0.7), ("plan", None), ("plan", 0.9)]


def update_of(members):
    parts = [UPDATES[member] for member in members]
    return parts[0] if len(parts) == 1 else bl.parts.Blend(*parts)


MEMBERS = [["rm"], ["rm-"], [("plan", 0.98)], ALL]
SHAPES = [(4, 3, 3, True), (3, 4, 2, False), (1, 1, 4, True)]


@pytest.mark.parametrize("members", MEMBERS if FULL else MEMBERS[3:], ids=str)
@pytest.mark.parametrize("dynamics", ["known", "unknown"])
@pytest.mark.parametrize("information", ["full", "bandit"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.slow
def test_policies_equal_those_of_a_dense_twin(shape, information, dynamics, members):
    H, S, A, homogeneous = shape
    rng = np.random.default_rng([H, S, A])
    start = (0.5, 0.5, *[0.0] * (S - 2)) if S > 1 else None
    world = oracles.random_world(rng, H, S, A, homogeneous, start)
    full, known = information == "full", dynamics == "known"
    share = 0.0 if full else 0.05
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=world.mdp.transitions if known else bl.parts.Observed(0.3),
        costs=bl.parts.Revealed() if full else bl.parts.Predicted(),
        update=update_of(members),
        explore=None if full else bl.parts.UniformShare(share),
    )
    twin = Twin(
        world.problem, information, oracles.dense(world.mdp) if known else None, members, share,
        blend.KEEP, blend.RATE, blend.LEAST_WEIGHT,
    )  # fmt: skip
    delays = oracles.random_delays(rng, 70, lost=0.15, largest=12)
    line = bl.DelayLine()
    for k in range(70):
        policy = agent.begin_episode().policy
        np.testing.assert_allclose(policy, twin.begin(k), atol=1e-9)
        path = world.mdp.play(policy, rng, k)
        costs = world.costs.at(k % 40)
        values = costs if full else suffered(costs, path)
        line.push([path, bl.Costs(k, values)], int(delays[k]))
        batch = line.release(k)
        agent.observe(batch)
        paths = {r.episode: r for r in batch if isinstance(r, bl.Trajectory)}
        given = {r.episode: r.values for r in batch if isinstance(r, bl.Costs)}
        twin.observe([(j, paths[j], given[j]) for j in sorted(given)], k)
