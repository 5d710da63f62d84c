"""When feedback arrives: delay models, recorded delays, and the delay line.

A delay d of episode k means that its feedback arrives right after episode k + d has been played:
delay 0 is the end of the same episode, and `NEVER` is the delay of lost feedback. A model draws
the delays (K,) of K episodes with `draw(episodes, rng)`.
"""

from belated.core.delays.line import (
    NEVER,
    DelayLine,
    as_delays,
    missing_feedback,
    total_delay,
)
from belated.core.delays.models import (
    DelayModel,
    bursts,
    fixed,
    from_times,
    function,
    geometric,
    heavy_tailed,
    lost,
    monotone,
    nightly,
    none,
    poisson,
    trace,
    uniform,
)
from belated.core.delays.outcomes import (
    OutcomeDependentDelay,
    PlayedEpisode,
    by_action,
    by_outcome,
    delay_of,
    is_oblivious,
    of_episodes,
    per_step,
)

__all__ = [
    "NEVER",
    "DelayLine",
    "DelayModel",
    "OutcomeDependentDelay",
    "PlayedEpisode",
    "as_delays",
    "bursts",
    "by_action",
    "by_outcome",
    "delay_of",
    "fixed",
    "from_times",
    "function",
    "geometric",
    "heavy_tailed",
    "is_oblivious",
    "lost",
    "missing_feedback",
    "monotone",
    "nightly",
    "none",
    "of_episodes",
    "per_step",
    "poisson",
    "total_delay",
    "trace",
    "uniform",
]
