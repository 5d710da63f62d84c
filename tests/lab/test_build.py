"""From data to objects: the same world and delays for all agents."""

import numpy as np

import belated as bl
from belated.lab import build, part
from belated.lab.spec import Scene


def test_all_agents_face_the_delays_that_simulate_would_draw():
    delays = part("lost", probability=0.1, otherwise=part("geometric", mean=2))
    scene = Scene(part("gridworld", size=3, horizon=5), None, delays, 20)
    model = bl.delays.lost(0.1, bl.delays.geometric(2))
    world = build.world(scene)
    agent = bl.DelayedOPPO(world.problem)
    run = bl.simulate(world, agent, delays=model, episodes=20, seed=7)
    np.testing.assert_array_equal(build.delays(scene, world, 7), run.delays)
