"""What the pages say of the paper's grid, measured again: one seed, fixed, generous margins."""

import numpy as np
import pytest

import belated as bl

WORLD = bl.environments.paper_grid()
DELAYS = bl.delays.geometric(10).draw(500, np.random.default_rng(0))


def last_cost(agent):
    run = bl.simulate(WORLD, agent, delays=DELAYS, episodes=500)
    return run.values[-20:].mean()


@pytest.mark.parametrize(
    ("transitions", "low", "high"),
    [
        (bl.parts.Bonus(), 21.3, 22),
        (bl.parts.Confidence(radius_scale=0.001, episodes=500), 21.3, 22),
        (bl.parts.Confidence(radius_scale=0.01, episodes=500), 22, 45),
        (bl.parts.Confidence(radius_scale=1.0, episodes=500), 49.5, 50),
    ],
)
@pytest.mark.slow
def test_radii(transitions, low, high):
    """E11: the paper's radius learns nothing here in 500 episodes; smaller ones do."""
    agent = bl.DelayedOPPO(WORLD.problem, transitions=transitions, update=bl.parts.Softmax(0.1))
    assert low <= last_cost(agent) <= high


def test_counts_must_be_pooled():
    """E27: with one model per step nothing is learned in 500 episodes."""
    p = WORLD.problem
    per_step = bl.Problem(p.states, p.actions, p.horizon, p.start, homogeneous=False)
    agent = bl.DelayedOPPO(per_step, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.1))
    assert last_cost(agent) > 49


@pytest.mark.slow
def test_delayed_beats_pipeline_beats_parallel():
    """The table of the benchmarks, plain grid: 25.7, 38.7 and 50.0 per episode."""
    longest = int(DELAYS.max())

    def make():
        return bl.DelayedOPPO(
            WORLD.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.1)
        )

    agents = (make(), bl.wrappers.Pipeline(make(), longest), bl.wrappers.Parallel(make, longest))
    runs = [bl.simulate(WORLD, a, delays=DELAYS, episodes=500).values.mean() for a in agents]
    assert runs[0] < 27
    assert 33 < runs[1] < 45
    assert runs[2] > 49.9
