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
    M^k                                  episodes up to k whose costs have not come by its end and
                                         are not overdue
    beta_e, eta_e, gamma_e               the setting's parameters at N = 2^e

Counts are kept over all phases, and an episode counts as arrived once, however often it is
delivered.

The constants of some agents follow from the largest delay as well. With `largest` it is doubled
too, and with `totals` it alone: this is van der Hoeven, Zierahn, Lancewicki, Rosenberg &
Cesa-Bianchi (COLT 2023), Algorithm 4.

    1  f = 1; the parameters are those for K, D and a largest delay of 2^f
    2  before every episode: if some delay that was observed is at least 2^f, f grows by one; new
       parameters and a fresh policy

Departures (each undone by literal=True):
- e grows until 2^e reaches the estimate, not by one; the first phase is ceil(log2 weight), not 1.
- M^k leaves out the episodes that are overdue or forgotten (`waiting.Waiting`), so that lost
  feedback does not end the phases too soon.
- Where the cost estimates do not depend on the phase (no gamma), the sum of Q is kept and only the
  step size changes: nothing in the proof needs a fresh policy, and restarts cost much. Feedback of
  older phases is then used as any other. Agents without `retune` (O-REPS) begin anew.
- Where the policy begins anew, feedback of older phases does not move it: the proof counts it as
  missing.
- An episode is forgotten once it has waited longer than SHORTEST_WAIT and than FACTOR times the
  largest delay seen: at most so many episodes are open, whatever is lost. Of what is older, one bit
  per episode is kept. With literal=True nothing is forgotten, and memory grows with what is lost.
- f too grows until 2^f is beyond the delay, not by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, Self

import numpy as np

from belated.core import checks, stored
from belated.core.contract import AGENT, PATHS, Agent, Information, Wrapper, call, check_inside
from belated.core.ledger import listed, split
from belated.core.records import Episode
from belated.core.waiting import Reported, Waiting, is_past
from belated.tabular.problem import Problem
from belated.tabular.records import Record
from belated.tabular.tuning import Parameters, Setting

SHORTEST_WAIT = 1000
"""Episodes that an episode is remembered for, however short the delays are."""
FACTOR = 4
"""How many times the largest delay seen an episode is remembered for."""

HIGHEST = 200
"""No run is so long that its phase is larger."""


class Restartable(Agent, Protocol):
    """An agent that can begin a new phase, as `Doubling` needs it.

    In a phase, feedback that comes more than `parameters.threshold` episodes late is counted (its
    path, its observed costs), but does not move the policy.

    An agent may also have `retune(parameters)`: begin a new phase with new parameters and keep what
    was learned. `Doubling` then calls it where no proof needs a fresh policy.
    """

    def setting(self, paths: str) -> Setting:
        """What the agent sees and knows when trajectories come "late" or "at once"."""
        ...

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase with a fresh policy and new parameters, keeping what was counted.

        carry_over: whether feedback of open episodes will still move the policy.
        """
        ...


RESTARTABLE = (*AGENT, "setting", "restart")
"""Names that an agent inside `Doubling` has."""


class Doubling(Wrapper):
    """An agent that takes new parameters whenever the estimate of K and D doubles.

    Args:
        agent: a fresh agent that can be restarted. The learning rate and exploration it was made
            with are replaced, and so is a threshold of explicit exploration that follows from a
            largest delay.
        paths: whether trajectories come "late", with the costs, or "at once".
        weight: kappa, how much an episode counts against a missing one; None: the setting's.
        literal: follow the pseudo-code to the letter.
        largest: double over the largest delay too, for `DelayedFTRL` with its paper's constants.
        totals: K and D, if they are known; only the largest delay is doubled then.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> inside = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions)
        >>> agent = bl.wrappers.Doubling(inside)
        >>> run = bl.simulate(world, agent, delays=bl.delays.uniform(0, 2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    reads_delays = True

    def __init__(
        self,
        agent: Restartable,
        *,
        paths: str = "late",
        weight: float | None = None,
        literal: bool = False,
        largest: bool = False,
        totals: tuple[int, float] | None = None,
    ) -> None:
        check_inside(self, "agent", agent, RESTARTABLE)
        self._wrap(agent, paths, weight, literal, largest, totals)
        self._begin_phase()

    def _wrap(
        self,
        agent: Restartable,
        paths: str,
        weight: float | None,
        literal: bool,
        largest: bool,
        totals: tuple[int, float] | None,
    ) -> None:
        self.agent: Restartable = agent
        self.problem: Problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = agent.uses_paths
        self._paths = checks.choice("paths", paths, PATHS)
        self._setting = agent.setting(paths)
        self._literal = checks.flag("literal", literal)
        self.weight = (
            self._setting.weight(agent.problem)
            if weight is None
            else checks.real("weight", weight, 0.0, 1e15, above=True)
        )
        self.phase = 1 if literal else max(1, math.ceil(math.log2(self.weight)))
        self.delay_phase = 1 if checks.flag("largest", largest) else 0
        self._totals = _checked(totals, largest)
        if self._totals is not None and weight is not None:
            raise ValueError(f"weight must be left out where totals are given, got {weight:g}")
        if largest and not self._setting.needs_largest:
            raise ValueError(
                "largest must be False: only the parameters of DelayedFTRL follow from the largest "
                f"delay, got an agent of type {type(agent).__name__}"
            )
        self.estimate = 0.0
        self._waiting = Waiting(agent.problem)
        self._reported = Reported()
        self._kept_from = 0  # episodes before this one have been let go
        self._skipped = 0
        self._forgotten = 0

    @property
    def parameters(self) -> Parameters:
        """The parameters of the phase."""
        longest = 2.0**self.delay_phase if self.delay_phase else None
        if self._totals is not None:
            return self._setting.at(self.problem, *self._totals, max_delay=longest)
        return self._setting.phase(self.problem, 2.0**self.phase, max_delay=longest)

    def begin_episode(self, now: float | None = None) -> Episode:
        """Close the episode before, move to the next phase if it is time, begin the next."""
        missing = self._waiting.begin()
        if self._literal:
            missing = self.begun - self._waiting.arrived
        if self.begun:
            self.estimate += self.weight + missing
            if self._outgrown():
                self._begin_phase()
        if not self._literal:
            self._let_go()
        return self.agent.begin_episode(now)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Hand everything on; costs that come for the first time are missing no more."""
        batch = listed(records)
        kept, _ = split(batch, self.problem, self.information, self.begun, self._kept_from)
        self.agent.observe(kept, now)
        for record in batch:
            if record.is_outcome and self._reported.add(record.episode):
                late = is_past(record.episode, self.begun - 1, self._threshold)
                self._skipped += late or record.episode < self._kept_from
                self._waiting.arrive(record.episode)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self.agent.forget(episode)
        self._waiting.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside, the phase and the estimate.

        skipped: costs that came too late to move the policy. forgotten: episodes that had not
        reported when they were let go.
        """
        return {
            **self.agent.diagnostics(),
            "phase": self.phase,
            "estimate": self.estimate,
            "skipped": self._skipped,
            "forgotten": self._forgotten,
            **({"delay_phase": self.delay_phase} if self.delay_phase else {}),
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {
            "agent": self.agent,
            "paths": self._paths,
            "weight": self.weight if self._totals is None else None,
            "literal": self._literal,
            "largest": self.delay_phase > 0,
            "totals": self._totals,
        }

    def state(self) -> stored.State:
        """The agent inside, where the phases are, and what has reported or was let go."""
        return {
            **self.configuration(),
            "agent": stored.kept(self.agent),
            "phase": self.phase,
            "delay_phase": self.delay_phase,
            "estimate": self.estimate,
            "waiting": self._waiting.state(),
            "reported": self._reported.flags(self.begun),
            "kept_from": self._kept_from,
            "skipped": self._skipped,
            "forgotten": self._forgotten,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        given = ("agent", "paths", "weight", "literal", "largest", "totals")
        counts = ("kept_from", "skipped", "forgotten")
        places = ("phase", "delay_phase", "estimate", "waiting", "reported")
        read = stored.exact(state, *given, *places, *counts)
        agent = stored.made(read["agent"])
        made = cls.__new__(cls)
        check_inside(made, "agent", agent, RESTARTABLE, fresh=False)
        made._wrap(agent, *(read[name] for name in given[1:]))
        stored.twin(agent).restart(made.parameters)  # which it must be able to do
        made.phase = checks.integer("phase", read["phase"], 1, HIGHEST)
        longest = HIGHEST if made.delay_phase else 0
        made.delay_phase = checks.integer(
            "delay_phase", read["delay_phase"], made.delay_phase, longest
        )
        made._threshold = made.parameters.threshold
        made.estimate = checks.real("estimate", read["estimate"], 0.0, 2.0**HIGHEST)
        made._waiting.restore(read["waiting"], made.begun)
        made._reported = Reported(
            stored.array("reported", read["reported"], np.bool_, (made.begun,))
        )
        made._kept_from, made._skipped, made._forgotten = (
            checks.integer(name, read[name], 0, made.begun) for name in counts
        )
        return made

    def __repr__(self) -> str:
        arguments = self.configuration()
        return call(self, arguments.pop("agent"), **arguments)

    def _outgrown(self) -> bool:
        """Move to the phases that what was seen asks for. Returns whether there are new ones."""
        before = self.phase, self.delay_phase
        if self._totals is None:
            self.phase = self._next(self.phase, lambda e: self.estimate > 2.0**e)
        if self.delay_phase:
            self.delay_phase = self._next(
                self.delay_phase, lambda f: self._waiting.largest >= 2.0**f
            )
        return before != (self.phase, self.delay_phase)

    def _next(self, phase: int, outgrown: Callable[[int], bool]) -> int:
        """The phase that follows, one further if the pseudo-code is followed to the letter."""
        if self._literal:
            return phase + outgrown(phase)
        while outgrown(phase):
            phase += 1
        return phase

    def _begin_phase(self) -> None:
        parameters = self.parameters
        self._threshold = parameters.threshold
        if self._literal or parameters.exploration or not hasattr(self.agent, "retune"):
            self.agent.restart(parameters, carry_over=self._literal and not self.delay_phase)
        else:
            self.agent.retune(parameters)

    def _let_go(self) -> None:
        """Forget what has waited too long."""
        longest = max(SHORTEST_WAIT, FACTOR * self._waiting.largest)
        while self._kept_from < self.begun - longest:
            self._forgotten += self._kept_from not in self._reported
            self.agent.forget(self._kept_from)
            self._kept_from += 1


def _checked(totals: object, largest: bool) -> tuple[int, float] | None:
    """K and D, which are of use only if something else is doubled."""
    if totals is None:
        return None
    if not largest:
        raise ValueError(
            "totals must be left out unless largest=True: nothing would be doubled; got "
            f"{checks.show(totals)}"
        )
    if not isinstance(totals, tuple | list) or len(totals) != 2:
        raise ValueError(f"totals must be K and D, e.g. (1000, 5000), got {checks.show(totals)}")
    return (
        checks.integer("totals[0] (K)", totals[0], 1, checks.MOST),
        checks.real("totals[1] (D)", totals[1], 0.0),
    )
