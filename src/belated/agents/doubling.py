"""Doubling: no knowledge of K, D or the largest delay.

Lancewicki, Rosenberg & Mansour (AAAI 2022), appendix "Doubling trick for handling unknown number
of episodes and total delay", completed for every setting by `tuning.SETTINGS`.

    paper                                here
    e                                    phase
    A^{3/2} k + sum of M^j, j <= k       estimate, with `weight` for A^{3/2}
    M^k                                  episodes up to k whose costs have not come by its end
    beta_e, eta_e, gamma_e               the setting's parameters at N = 2^e

When the estimate passes 2^e, the phase moves on and the policy begins anew; counts are kept.

Departures (each undone by literal=True): e grows until 2^e reaches the estimate, not by one; the
first phase is ceil(log2 weight), not 1; feedback of older phases is counted as missing by the
proof, so it does not move the policy. Also: an episode that was forgotten stays missing, since its
costs never come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from belated import checks
from belated.agents.contract import Agent, Information, check_fresh, wants_paths
from belated.agents.ledger import listed
from belated.agents.skipping import Skipping
from belated.feedback import Costs, Episode, Record
from belated.problem import Problem
from belated.tuning import SETTINGS, Parameters


class Restartable(Agent, Protocol):
    """An agent that can begin a new phase."""

    def setting(self, trajectory: str) -> str:
        """The row of `tuning.SETTINGS` that applies."""
        ...

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase with a fresh policy, keeping counts."""
        ...


class Doubling:
    """An agent that is restarted with new parameters whenever the estimate of K and D doubles.

    Args:
        agent: a fresh agent. The learning rate and exploration it was made with are replaced,
            and so is a threshold of explicit exploration that follows from max_delay.
        trajectory: whether paths come "delayed", with the costs, or "immediate".
        weight: kappa, how much an episode counts against a missing one; None: the setting's.
        literal: the pseudo-code to the letter.
    """

    def __init__(
        self,
        agent: Restartable,
        *,
        trajectory: str = "delayed",
        weight: float | None = None,
        literal: bool = False,
    ) -> None:
        if not hasattr(agent, "restart"):
            raise ValueError(
                f"agent must be one that can be restarted, such as DelayedOPPO, got "
                f"{checks.show(agent)}"
            )
        check_fresh("agent", agent)
        checks.choice("trajectory", trajectory, ("delayed", "immediate"))
        self._setting = agent.setting(trajectory)
        self._literal = checks.flag("literal", literal)
        if weight is None:
            self.weight = SETTINGS[self._setting].weight(agent.problem)
        else:
            self.weight = checks.real("weight", weight, 0.0, 1e15, above=True)
        self.agent = agent
        self.problem: Problem = agent.problem
        self.information: Information = agent.information
        self.uses_paths = wants_paths(agent)
        self.phase = 1 if literal else max(1, math.ceil(math.log2(self.weight)))
        self.estimate = 0.0
        self._begun = 0
        self._came = 0
        self._inside = Skipping(agent, math.inf)
        self._restart()

    def begin_episode(self) -> Episode:
        """Close the episode before, move to the next phase if it is time, begin the next."""
        if self._begun:
            self.estimate += self.weight + max(0, self._begun - self._came)
            if self.estimate > 2.0**self.phase:
                self.phase += 1
                while not self._literal and self.estimate > 2.0**self.phase:
                    self.phase += 1
                self._restart()
        self._begun += 1
        return self._inside.begin_episode()

    def observe(self, records: Iterable[Record]) -> None:
        """Hand on what is in time; all costs that come are missing no more."""
        batch = listed(records)
        self._inside.observe(batch)
        self._came += sum(isinstance(record, Costs) for record in batch)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self._inside.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """Those of the agent inside, the phase and the estimate."""
        own = {"phase": self.phase, "estimate": self.estimate}
        return {**self._inside.diagnostics(), **own}

    def _restart(self) -> None:
        N = 2.0**self.phase
        problem, row = self.agent.problem, SETTINGS[self._setting]
        parameters = Parameters(
            learning_rate=row.learning_rate(problem, N),
            exploration=None if row.exploration is None else row.exploration(problem, N),
            max_delay=row.max_delay(problem, N),
        )
        self._inside.limit_delay(parameters.max_delay)
        self.agent.restart(parameters, carry_over=self._literal)
