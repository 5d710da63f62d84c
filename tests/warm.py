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


def main():
    from registry import AGENTS

    # Agents that share kernels stand side by side in the registry: few are compiled twice.
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(play, AGENTS, chunksize=-(-len(AGENTS) // 4)))


if __name__ == "__main__":
    main()
