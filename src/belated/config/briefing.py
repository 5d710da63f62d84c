"""What an agent of a run may know, and the words by which a file requests it.

A word in place of a number requests what only the simulator knows, such as `episodes = "known"` or
`max_delay = "realised"`. The report of an experiment shows what every agent requested.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from belated.core import checks
from belated.core.arrays import Ints
from belated.core.contract import Information
from belated.core.delays import total_delay
from belated.tabular.tuning import Parameters

WORDS = {
    "barrier": ("tuned",),
    "episodes": ("known",),
    "exploration": ("tuned",),
    "learning_rate": ("tuned",),
    "max_delay": ("realised", "tuned"),
    "threshold": ("tuned",),
    "totals": ("known",),
}
"""The words that a parameter takes in place of a number."""
TUNES = ("learning_rate", "tuned")
"""With this word an agent is tuned by its own row of `belated.tuning`, for K and D of the run."""


@dataclass(frozen=True, slots=True, eq=False)
class RunBrief:
    """What an agent of a run may know; a function that makes an agent uses what it should know.

    Attributes:
        problem: the problem, which every agent knows: a `Problem`, or a `Choice` for decisions.
        information: "full" or "bandit".
        paths: "late" or "at once".
        transitions: the true transitions; None for decisions.
        delays: (K,) the delays of the run; None if they depend on what happens, so that they are
            not known in advance.
        tuned: the paper's parameters for the agent, if its learning rate is "tuned".
        seed: the seed of the agent's own draws; different in every repetition of a run.
        length: K, if the delays are not known before the run.
        silence: the outcome of decisions that never report; None if every one reports.
        unknown: why something cannot be told, with a place for its name.
    """

    problem: Any
    information: Information
    paths: str
    transitions: Any
    delays: Ints | None
    tuned: Parameters | None = None
    seed: int = 0
    length: int = 0
    silence: float | None = None
    unknown: str = "delays must not depend on what happens for an agent that is told {}"

    @property
    def episodes(self) -> int:
        """K."""
        known = self.length if self.delays is None else len(self.delays)
        return int(self.known(known or None, "the number of episodes"))

    @property
    def total_delay(self) -> int:
        """Sum of the delays, each cut off at the end of the run."""
        return total_delay(self.known(self.delays, "the total delay"))

    def said(self, name: str, word: str) -> Any:
        """The number that a word stands for.

        The realised largest delay is at most K - 1: later feedback does not arrive within the run.
        A tuned largest delay is the threshold of skipping, the largest delay that is used.
        """
        checks.choice(f"{name} (if not a number)", word, WORDS[name])
        if word == "realised":
            return int(min(self.known(self.delays, "the largest delay").max(), self.episodes - 1))
        if name == "episodes":
            return self.episodes
        if name == "totals":
            return self.episodes, self.total_delay
        if self.tuned is None:
            raise ValueError(f'{name} must be a number here, got "tuned"')
        return getattr(self.tuned, "threshold" if name == "max_delay" else name)

    def known(self, value: Any, what: str) -> Any:
        """What is known, if it is."""
        if value is None:
            raise ValueError(self.unknown.format(what))
        return value

    def tuned_for(self, agent: Any, largest: int | None = None) -> Self:
        """The same with the paper's parameters for an agent; largest: of the delays, if it counts.

        The agent says which row of tuning is its own; its numbers do not matter.
        """
        setting = agent.setting(self.paths)
        totals = (self.problem, self.episodes, self.total_delay)
        known = setting.at(*totals) if largest is None else setting.printed_at(*totals, largest)
        return replace(self, tuned=known)

    def undelayed(self, episodes: int) -> Self:
        """The same for a learner of this many episodes without delays."""
        return replace(self, delays=np.zeros(episodes, dtype=np.int64))


def number(told: RunBrief, name: str, value: Any) -> Any:
    """A parameter, with a number in place of a word."""
    return told.said(name, value) if isinstance(value, str) and name in WORDS else value


def numbers(told: RunBrief, values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters with numbers for words; `scale` is a factor on a tuned learning rate."""
    found = {name: number(told, name, value) for name, value in values.items()}
    if isinstance(values.get("learning_rate"), str):
        found["learning_rate"] *= checks.real("scale", values.get("scale", 1.0), 0.0, above=True)
    return found
