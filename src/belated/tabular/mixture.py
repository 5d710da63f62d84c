"""Mixture: several agents, as good as the best of them, with a bound.

    1  L_i = 0 for every member i
    2  for every episode k:
    3      every member begins an episode of its own, with policy pi_i
    4      w is proportional to exp(-eta L), eta = sqrt(ln N / 2) / (H sqrt(P))
    5      play the policy of the occupancy measure sum over i of w_i q(pi_i)
    6      for every episode j whose costs have arrived: L_i += value of pi_i^j, and every member
           observes the costs as if it had played

For known transitions and full information. The value of what is played is the mean of the members'
values, exactly, so this is delayed Hedge over N members whose losses are values in [0, H], and
every member learns as if it were alone. With P, g and u as in `waiting`,

    R_K <= min over i of R_K(member i) + 2 H sqrt(2 ln N P) + H g + H u

for all costs and delays, and P <= K + D. `Blend` is the form for practice, which needs no known
transitions, remembers one policy per episode, and has no bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.core.contract import Agent, Information, call, check_inside, check_is_agent
from belated.core.ledger import Ledger, Ledgered, check_in_step
from belated.core.records import Episode
from belated.core.waiting import Waiting
from belated.tabular.kernels import planning
from belated.tabular.parts.transitions import Known, matching
from belated.tabular.problem import Problem
from belated.tabular.records import Costs, Record
from belated.tabular.transitions import Transitions

Policies = tuple[Floats, ...]


class Mixture(Ledgered):
    """Agents for known transitions and full information, mixed by their occupancy measures.

    Args:
        agents: at least two fresh agents for one problem; they see full information and use no
            trajectories.
        transitions: the true dynamics.
    """

    information: Information = "full"
    uses_paths = False

    def __init__(self, *agents: Agent, transitions: Transitions) -> None:
        for i, agent in enumerate(agents):
            check_inside(self, f"agents[{i}]", agent)
        self._wrap(list(agents), transitions)

    def _wrap(self, agents: list[Agent], transitions: Transitions) -> None:
        if len(agents) < 2:
            raise ValueError(f"Mixture takes at least two agents, got {len(agents)}")
        for i, agent in enumerate(agents):
            if agent.information != "full" or agent.uses_paths:
                raise ValueError(
                    f"agents[{i}] must see full information and know the transitions, got {agent!r}"
                )
            if agent.problem != agents[0].problem:
                raise ValueError(f"agents[{i}] must be for the same problem as agents[0]")
        checks.instance("transitions", transitions, Transitions)
        self.agents = agents
        self.problem: Problem = agents[0].problem
        self._transitions = matching(self.problem, transitions)
        self._model = Known(self.problem, transitions)
        self._ledger: Ledger[Policies] = Ledger(self.problem, "full", uses_paths=False)
        self._waiting = Waiting(self.problem, len(agents))
        self._losses: Floats = np.zeros(len(agents))

    def weights(self) -> Floats:
        """The weights (N,) of the members for the episode that begins now."""
        scale = self.problem.horizon * math.sqrt(max(self._waiting.total, 1))
        rate = math.sqrt(math.log(len(self.agents)) / 2) / scale
        weights: Floats = np.exp(-rate * (self._losses - self._losses.min()))
        weights /= weights.sum()
        return weights

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and the policy (H, S, A) of the mixture."""
        self._waiting.begin()
        policies = tuple(frozen(agent.begin_episode(now).policy) for agent in self.agents)
        mixed = frozen(self._mixed(policies))
        return self._ledger.hand_out(policies, mixed)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Let every member learn, and weigh the members by what they would have cost."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.costs is None or entry.memory is None:
                continue
            for i, policy in enumerate(entry.memory):
                self._losses[i] += self._model.value(entry.costs.values, policy)
                self.agents[i].observe([Costs(entry.number, entry.costs.values)], now)
            self._waiting.arrive(entry.number)
            self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Let go of an episode."""
        self._ledger.forget(episode)
        self._waiting.forget(episode)
        for agent in self.agents:
            agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger says, the newest costs of the mixture, and the weights of the members."""
        costs, policy = self._ledger.newest, self._ledger.policy
        value = (
            {}
            if costs is None or policy is None
            else {"cost": self._model.value(costs, frozen(policy))}
        )
        return {
            **self._ledger.diagnostics(),
            **value,
            "given_up": self._waiting.given_up,
            "came_late": self._waiting.late,
            **{f"weight_{i}": float(weight) for i, weight in enumerate(self.weights())},
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"agents": self.agents, "transitions": self._transitions}

    def state(self) -> stored.State:
        """The members, what they would have cost, and their policies of open episodes."""
        return {
            "agents": [stored.kept(agent) for agent in self.agents],
            "transitions": self._transitions,
            "ledger": self._ledger.state(list),
            "waiting": self._waiting.state(),
            "losses": self._losses.copy(),
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        read = stored.exact(state, "agents", "transitions", "ledger", "waiting", "losses")
        agents = [stored.made(agent) for agent in stored.items("agents", read["agents"])]
        for agent in agents:
            check_is_agent("agents", agent)
        made = cls.__new__(cls)
        made._wrap(agents, read["transitions"])

        def policies(value: object) -> Policies:
            found = stored.items("policies", value)
            if len(found) != len(agents):
                raise ValueError(f"policies must be {len(agents)}, got {len(found)}")
            return tuple(stored.policy("policy", p, made.problem.shape) for p in found)

        made._ledger.restore(read["ledger"], policies)
        made._waiting.restore(read["waiting"], made.begun)
        for agent in agents:
            check_in_step(agent, made.begun)
        made._losses = stored.copied("losses", read["losses"], np.float64, (len(agents),))
        stored.finite("losses", made._losses)
        return made

    def __repr__(self) -> str:
        return call(self, *self.agents, transitions=self._transitions)

    def _mixed(self, policies: Policies) -> Floats:
        """The policy of the weighted mean of the members' occupancy measures."""
        start = self.problem.start_probabilities
        weights = self.weights()
        pairs = np.zeros(self.problem.shape)
        plain = np.zeros(self.problem.shape)
        for weight, policy in zip(weights, policies, strict=True):
            reach = planning.state_occupancy(self._transitions.rows, policy, start)
            pairs += weight * reach[:, :, None] * policy
            plain += weight * policy
        mass = pairs.sum(axis=2, keepdims=True)
        mixed: Floats = np.where(mass > 0.0, pairs / np.where(mass > 0.0, mass, 1.0), plain)
        mixed /= mixed.sum(axis=2, keepdims=True)
        return mixed
