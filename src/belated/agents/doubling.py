"""Doubling: no knowledge of K, D or the largest delay.

Lancewicki, Rosenberg & Mansour (AAAI 2022), appendix "Doubling trick for handling unknown number
of episodes and total delay", completed for every setting by `tuning.Setting`.

    1  e = first phase; start the agent with the parameters for N = 2^e
    2  for every episode k:
    3      play episode k; hand on feedback with a delay of at most beta_e
    4      estimate = kappa k + sum over j <= k of M^j
    5      if estimate > 2^e: e grows until 2^e reaches it, and the agent starts anew

    paper                                here
    e                                    phase
    A^{3/2} k + sum of M^j, j <= k       estimate, with `weight` for A^{3/2}
    M^k                                  episodes up to k whose costs have not come by its end and
                                         are not overdue
    beta_e, eta_e, gamma_e               the setting's parameters at N = 2^e

The policy begins anew in every phase; counts are kept.

Departures (each undone by literal=True): e grows until 2^e reaches the estimate, not by one; the
first phase is ceil(log2 weight), not 1; feedback of older phases is counted as missing by the
proof, so it does not move the policy; M^k leaves out the episodes that are overdue or forgotten
(`waiting.Waiting`), so that lost feedback does not end the phases too soon.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

from belated import checks, stored
from belated.agents.contract import (
    RESTARTABLE,
    Information,
    Restartable,
    call,
    check_fresh,
    check_is_agent,
)
from belated.agents.ledger import listed
from belated.agents.skipping import Skipping
from belated.agents.waiting import Waiting
from belated.feedback import Costs, Episode, Record
from belated.problem import Problem
from belated.tuning import PATHS


class Doubling:
    """An agent that is restarted with new parameters whenever the estimate of K and D doubles.

    Args:
        agent: a fresh agent that can be restarted. The learning rate and exploration it was made
            with are replaced, and so is a threshold of explicit exploration that follows from a
            largest delay.
        paths: whether trajectories come "late", with the costs, or "at once".
        weight: kappa, how much an episode counts against a missing one; None: the setting's.
        literal: follow the pseudo-code to the letter.
    """

    def __init__(
        self,
        agent: Restartable,
        *,
        paths: str = "late",
        weight: float | None = None,
        literal: bool = False,
    ) -> None:
        check_fresh("agent", agent, RESTARTABLE)
        self._wrap(agent, Skipping(agent, math.inf), paths, weight, literal)
        self._restart()

    def _wrap(
        self, agent: Restartable, inside: Skipping, paths: str, weight: float | None, literal: bool
    ) -> None:
        self.agent = agent
        self.problem: Problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = agent.uses_paths
        self._inside = inside
        self._paths = checks.choice("paths", paths, PATHS)
        self._setting = agent.setting(paths)
        self._literal = checks.flag("literal", literal)
        self.weight = (
            self._setting.weight(agent.problem)
            if weight is None
            else checks.real("weight", weight, 0.0, 1e15, above=True)
        )
        self.phase = 1 if literal else max(1, math.ceil(math.log2(self.weight)))
        self.estimate = 0.0
        self._waiting = Waiting(agent.problem)

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        return self.agent.begun

    def open_episodes(self) -> list[int]:
        """The episodes of which feedback can still be taken, oldest first."""
        return self._inside.open_episodes()

    def is_open(self, number: int) -> bool:
        """Whether feedback of this episode can still be taken."""
        return self._inside.is_open(number)

    def begin_episode(self) -> Episode:
        """Close the episode before, move to the next phase if it is time, begin the next."""
        missing = self._waiting.begin()
        if self._literal:
            missing = max(0, self.begun - self._waiting.arrived)
        if self.begun:
            self.estimate += self.weight + missing
            if self.estimate > 2.0**self.phase:
                self.phase += 1
                while not self._literal and self.estimate > 2.0**self.phase:
                    self.phase += 1
                self._restart()
        return self._inside.begin_episode()

    def observe(self, records: Iterable[Record]) -> None:
        """Hand on what is in time; all costs that come are missing no more."""
        batch = listed(records)
        self._inside.observe(batch)
        for record in batch:
            if isinstance(record, Costs):
                self._waiting.arrive(record.episode)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self._inside.forget(episode)
        self._waiting.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside, the phase and the estimate."""
        own = {"phase": self.phase, "estimate": self.estimate}
        return {**self._inside.diagnostics(), **own}

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {
            "agent": self.agent,
            "paths": self._paths,
            "weight": self.weight,
            "literal": self._literal,
        }

    def state(self) -> stored.State:
        """The agent inside its skipping, and where the phases are."""
        return {
            "inside": stored.twin(self._inside),
            "paths": self._paths,
            "weight": self.weight,
            "literal": self._literal,
            "phase": self.phase,
            "estimate": self.estimate,
            "waiting": self._waiting.state(),
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("inside", "paths", "weight", "literal", "phase", "estimate", "waiting")
        read = stored.exact(state, *names)
        checks.instance("inside", read["inside"], Skipping)
        inside: Any = read["inside"]
        check_is_agent("agent", inside.agent, RESTARTABLE)
        made = cls.__new__(cls)
        made._wrap(inside.agent, inside, read["paths"], read["weight"], read["literal"])
        made.phase = checks.integer("phase", read["phase"], 1, 1000)
        made.estimate = checks.real("estimate", read["estimate"], 0.0)
        made._waiting.restore(read["waiting"])
        return made

    def __repr__(self) -> str:
        arguments = self.configuration()
        return call(self, arguments.pop("agent"), **arguments)

    def _restart(self) -> None:
        parameters = self._setting.phase(self.problem, 2.0**self.phase)
        self._inside.limit(parameters.threshold)
        self.agent.restart(parameters, carry_over=self._literal)
