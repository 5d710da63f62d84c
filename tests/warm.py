"""Compile the kernels of the agents once, so that no worker of the tests compiles them again."""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]  # this may run before the package is installed


def play(name):
    """Let an agent begin and learn in worlds of both kinds, and in one with a single state."""
    import numpy as np

    import belated as bl
    import oracles
    from belated.tabular.trial import Trial
    from belated.testing import Step, drive
    from registry import AGENTS, ARMS

    shapes = ((3, 3, 2, False), (3, 3, 2, True), (1, 1, 1, False))
    for *size, homogeneous in shapes[2:] if name in ARMS else shapes:
        world = oracles.random_world(np.random.default_rng(0), *size, homogeneous=homogeneous)
        make = {**AGENTS, **ARMS}[name]
        drive(Trial(world), make(world), [Step(1, 1)] * 4, 0)
        bl.simulate(world, make(world), episodes=2)


def sample():
    """Let samplers of every form decide and learn, with features of visitors and of actions."""
    import numpy as np

    import belated as bl
    from belated.core import saving

    rng = np.random.default_rng(0)
    timed = bl.LinearSampler(bl.Choice(2), close_at=0.9)
    for k in range(150):
        number = timed.decide(now=float(k)).number
        timed.observe([bl.Reward(number, 1.0)], now=k + 0.5)
    for choice in (
        bl.Choice(2),
        bl.Choice(["a", "b"], 2),
        bl.Choice(2, 30),
        bl.Choice(features=3),
    ):
        for options in ({}, {"changes": False}):
            agent = bl.LinearSampler(choice, **options)
            for _ in range(120):
                x = rng.normal(size=(2, 3) if choice.shared else choice.width)
                decision = agent.decide(x if choice.width else None)
                agent.observe([bl.Reward(decision.number, 2.0)] if rng.random() < 0.3 else [])
            agent.table()
            agent.forget(decision.number)
            saving.from_bytes(saving.to_bytes(agent), "bytes")


def main():
    from registry import AGENTS, ARMS

    # Agents that share kernels are neighbours in the registry, so few kernels are compiled twice.
    with ProcessPoolExecutor(2) as pool:
        sampled = pool.submit(sample)
        list(pool.map(play, [*AGENTS, *ARMS], chunksize=-(-len(AGENTS) // 4)))
        sampled.result()


if __name__ == "__main__":
    main()
