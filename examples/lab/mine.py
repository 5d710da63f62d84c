"""An agent, an update and a world of one's own, for mine.toml."""

import belated as bl
from belated.lab import RunBrief


def careful(told: RunBrief, scale=1.0):
    """Delayed OPPO with a bonus of this scale."""
    return bl.DelayedOPPO(told.problem, transitions=bl.parts.Bonus(scale=scale))


def slow(told: RunBrief, divisor):
    """A small constant step size."""
    return bl.parts.Softmax(learning_rate=told.problem.horizon / divisor)


def corridor(length=5):
    """RiverSwim of this length."""
    return bl.environments.chain(states=length, horizon=8)
