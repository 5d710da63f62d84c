"""Compile the kernels of the agents once, so that no worker of the tests compiles them again."""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def play(name):
    """Let an agent begin and learn in worlds of both kinds."""
    import numpy as np

    import belated as bl
    import oracles
    from belated.tabular.trial import Trial
    from belated.testing import Step, drive
    from registry import AGENTS

    for homogeneous in (False, True):
        world = oracles.random_world(np.random.default_rng(0), 3, 3, 2, homogeneous=homogeneous)
        drive(Trial(world), AGENTS[name](world), [Step(1, 1)] * 4, 0)
        bl.simulate(world, AGENTS[name](world), episodes=2)


def sample():
    """Let samplers of every form decide and learn, with features of visitors and of actions."""
    import numpy as np

    import belated as bl
    from belated.core import saving

    rng = np.random.default_rng(0)
    for choice in (
        bl.Choice(2),
        bl.Choice(["a", "b"], 2),
        bl.Choice(2, 30),
        bl.Choice(features=3),
    ):
        for options in ({}, {"diagonal": True}, {"changes": False}):
            agent = bl.LinearSampler(choice, **options)
            for _ in range(120):
                x = rng.normal(size=(2, 3) if choice.shared else choice.width)
                decision = agent.decide(x if choice.width else None)
                agent.observe([bl.Reward(decision.number, 2.0)] if rng.random() < 0.3 else [])
            agent.table()
            agent.forget(decision.number)
            saving.from_bytes(saving.to_bytes(agent), "bytes")


def main():
    from registry import AGENTS

    # Agents that share kernels stand side by side in the registry: few are compiled twice.
    with ProcessPoolExecutor(2) as pool:
        sampled = pool.submit(sample)
        list(pool.map(play, AGENTS, chunksize=-(-len(AGENTS) // 4)))
        sampled.result()


if __name__ == "__main__":
    main()
