"""Doubling: no knowledge of K, D or the largest delay.

Lancewicki, Rosenberg & Mansour (AAAI 2022), appendix "Doubling trick for handling unknown number
of episodes and total delay", completed for every setting by `tuning.Setting`.

    1  e = first phase; the parameters are those for N = 2^e
    2  for every episode k:
    3      play episode k and observe the feedback of all j in F^k
    4      count every path and every observed cost
    5      update the policy by the j in F^k with d^j <= beta_e
    6      estimate = kappa k + sum over j <= k of M^j
    7      if estimate > 2^e: e grows until 2^e reaches it; new parameters, and with importance
           weights a fresh policy

    paper                                here
    e                                    phase
    A^{3/2} k + sum of M^j, j <= k       estimate, with `weight` for A^{3/2}
    M^k                                  episodes up to k whose costs have not arrived by its end
                                         and are not overdue
    beta_e, eta_e, gamma_e               the setting's parameters at N = 2^e

Counts are kept over all phases, and an episode counts as arrived only once.

`oreps.doubling` doubles over the largest delay too, for the constants of FTRL's paper.

Departures (literal=True undoes each of them):
- e grows until 2^e reaches the estimate, not by one; the first phase is ceil(log2 weight), not 1.
- M^k leaves out the episodes that are overdue or forgotten (`waiting.Waiting`), so that lost
  feedback does not end the phases too soon.
- Where the cost estimates do not depend on the phase (no gamma), the sum of Q is kept and only the
  step size changes: nothing in the proof needs a fresh policy, and restarts are expensive. Feedback
  of older phases is then used like any other. Agents without `retune` (O-REPS) start afresh.
- Where the policy starts afresh, feedback of older phases does not move it: the proof counts it as
  missing.
- An episode is forgotten once it has waited longer than SHORTEST_WAIT and than FACTOR times the
  largest delay seen, so the number of open episodes is bounded, however much feedback is lost. Of
  older episodes one bit is kept. With literal=True nothing is forgotten, and memory grows with the
  number of lost records.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Bools
from belated.core.contract import AGENT, PATHS, Agent, Episode, WrapperBase
from belated.core.episodes import is_past, listed, split
from belated.core.tree import Count, Entries
from belated.tabular.records import Record
from belated.tabular.tuning import Parameters, Setting
from belated.tabular.waiting import Waiting

SHORTEST_WAIT = 1000
"""An episode is remembered for at least this many episodes."""
FACTOR = 4
"""An episode is remembered for at least this multiple of the largest delay seen."""

HIGHEST = 200
"""The highest phase; no run is long enough to exceed it."""


RESTARTABLE = (*AGENT, "setting", "restart")
"""Attributes that an agent inside `Doubling` must have."""


class Doubling(WrapperBase):
    """An agent that takes new parameters whenever the estimate of K and D doubles.

    Args:
        agent: a fresh agent that has `setting(paths)`, its row of tuning, and
            `restart(parameters, carry_over=False)`. `Doubling` replaces its learning rate, its
            exploration, and a threshold of explicit exploration that follows from a largest delay.
        paths: whether trajectories arrive "late", with the costs, or "at once".
        weight: kappa, the weight of an episode relative to a missing one; None: the setting's.
        literal: whether to follow the pseudo-code exactly.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> inside = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions)
        >>> agent = bl.wrappers.Doubling(inside)
        >>> run = bl.simulate(world, agent, delays=bl.delays.uniform(0, 2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    reads_delays = True

    agent: Any
    phase: Annotated[int, Entries(low=1, high=HIGHEST)]  # e
    estimate: Annotated[float, Entries(low=0.0)]
    _waiting: Waiting
    _reported: Annotated[Bools, Entries("_")]  # one flag per episode, so that none counts twice
    _kept_from: Count  # episodes before this one have been discarded
    _skipped: Count
    _forgotten: Count

    def __init__(
        self,
        agent: Agent,
        *,
        paths: str = "late",
        weight: float | None = None,
        literal: bool = False,
    ) -> None:
        self._hold(agent, RESTARTABLE)
        self.paths = checks.choice("paths", paths, PATHS)
        self._setting: Setting = self.agent.setting(paths)
        self.literal = checks.flag("literal", literal)
        self.weight = (
            self._setting.weight(agent.problem)
            if weight is None
            else checks.real("weight", weight, 0.0, 1e15, above=True)
        )
        self.phase = 1 if literal else max(1, math.ceil(math.log2(self.weight)))
        self._waiting, self._reported = Waiting(agent.problem.actions), np.zeros(64, dtype=np.bool_)
        self._begin_phase()

    def check_learned(self) -> None:
        """Check that no episode is kept for too long, and use the threshold of the phase."""
        checks.integer("kept_from", self._kept_from, 0, self.begun)
        checks.integer("begun", self.begun, 0, len(self._reported))
        self._threshold = self.parameters.threshold

    @property
    def parameters(self) -> Parameters:
        """The parameters of the phase."""
        return self._setting.phase(self.problem, 2.0**self.phase)

    def begin_episode(self, now: float | None = None) -> Episode:
        """Close the previous episode, begin a new phase if it is due, begin the next episode."""
        missing = self._waiting.begin().missing
        if self.literal:
            missing = self.begun - self._waiting.arrived
        if self.begun:
            self.estimate += self.weight + missing
            if self._grow():
                self._begin_phase()
        if not self.literal:
            self._let_go()
        if self.begun == len(self._reported):
            self._reported = np.append(self._reported, np.zeros(self.begun, dtype=np.bool_))
        return self.agent.begin_episode(now)  # type: ignore[no-any-return]

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Pass on all records; episodes whose first costs arrive are no longer missing."""
        batch = listed(records)
        kept, _ = split(batch, self.agent, self._kept_from)
        self.agent.observe(kept, now)
        for record in batch:
            if record.is_outcome and not self._reported[record.episode]:
                self._reported[record.episode] = True
                late = is_past(record.episode, self.begun - 1, self._threshold)
                self._skipped += late or record.episode < self._kept_from
                self._waiting.arrive(record.episode)

    def forget(self, episode: int) -> None:
        """Discard an episode."""
        self.agent.forget(episode)
        self._waiting.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the agent inside, the phase and the estimate.

        skipped: costs that arrived too late to move the policy. forgotten: episodes that had not
        reported when they were discarded.
        """
        return {
            **self.agent.diagnostics(),
            "phase": self.phase,
            "estimate": self.estimate,
            "skipped": self._skipped,
            "forgotten": self._forgotten,
        }

    def _grow(self) -> bool:
        """Move to the phase of the current estimate. Returns whether it is a new one."""
        before = self.phase
        self.phase = self._next(self.phase, lambda e: self.estimate > 2.0**e)
        return before != self.phase

    def _next(self, phase: int, outgrown: Callable[[int], bool]) -> int:
        """The next phase; always one higher if the pseudo-code is followed exactly."""
        if self.literal:
            return phase + outgrown(phase)
        while outgrown(phase):
            phase += 1
        return phase

    def _begin_phase(self) -> None:
        parameters = self.parameters
        self._threshold = parameters.threshold
        if self.literal or parameters.exploration or not hasattr(self.agent, "retune"):
            self.agent.restart(parameters, carry_over=self.literal)
        else:
            self.agent.retune(parameters)

    def _let_go(self) -> None:
        """Forget the episodes that have waited too long."""
        longest = max(SHORTEST_WAIT, FACTOR * self._waiting.largest)
        while self._kept_from < self.begun - longest:
            self._forgotten += not self._reported[self._kept_from]
            self.agent.forget(self._kept_from)
            self._kept_from += 1
