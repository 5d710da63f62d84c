"""Mixture: several agents, nearly as good as the best of them on every interval, with a bound.

    1  R = 0 in R^N
    2  for every episode k:
    3      every member begins an episode of its own, with policy pi_i^k
    4      w^k is proportional to R, uniform if R = 0
    5      play the policy of the occupancy measure sum over i of w_i^k q(pi_i^k)
    6      for every episode j whose costs have arrived, one after the other:
    7          l(i) = value of pi_i^j for these costs, r(i) = <w^j, l> - l(i)
    8          R = max(R + r, 0), and every member observes the costs as if it had played

For known transitions and full information. The value of the policy played is exactly the weighted
mean of the members' values, so this is regret matching+ over N members whose losses are values in
[0, H]: there is no step size, and every member learns as if it were alone. Let K' of the K episodes
have reported, with total delay D'. For all costs and delays, at every K,

    R_K <= min over i of R_K(member i) + H sqrt((N - 1) (K' + 2 D')) + H (K - K'),

and on every interval of arrivals, for every member i,

    sum over the interval of <w^j, l_j> - l_j(i) <= H sqrt((N - 1) (K' + 2 D'))

with K' and D' at the end of the interval: against any sequence of members with m switches the
second term of the first bound is multiplied by m + 1. docs/algorithms/blend.md has the proof.
`Blend` is the form for practice, which needs no known transitions and has no bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.contract import Agent, Information, call, check_inside
from belated.core.ledger import Ledger, Ledgered, check_in_step
from belated.core.records import Episode
from belated.core.stored import Array, Distributions, Each, Field, Several
from belated.core.wrappers.around import Around, OpenEpisodes
from belated.tabular.kernels import planning
from belated.tabular.parts.transitions import KnownModel, matching
from belated.tabular.problem import Problem
from belated.tabular.records import Costs, Record
from belated.tabular.transitions import Transitions


class Suggestions(NamedTuple):
    """What is remembered of an episode: the weights (N,) and the policies of the members."""

    weights: Floats
    policies: list[Floats]


class Mixture(Around, Ledgered):
    """Agents for known transitions and full information, mixed by their occupancy measures.

    Args:
        agents: at least two fresh agents for one problem; they see full information and use no
            trajectories.
        transitions: the true dynamics.

    Example:
        >>> from belated.tabular.mixture import Mixture
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> p = world.mdp.transitions
        >>> updates = (bl.parts.RegretMatching(), bl.parts.Softmax(0.5))
        >>> members = [bl.DelayedOPPO(world.problem, transitions=p, update=u) for u in updates]
        >>> run = bl.simulate(world, Mixture(*members, transitions=p), episodes=20)
        >>> sorted(name for name in run.diagnostics if name.startswith('weight'))
        ['weight_0', 'weight_1']
    """

    inside = "agents"
    arguments = ("transitions",)
    information: Information = "full"
    uses_paths = False

    _regrets: Floats  # R, (N,)

    def __init__(self, *agents: Agent, transitions: Transitions) -> None:
        self._wrap(list(agents), transitions)

    def _wrap(self, agents: list[Agent], transitions: Transitions, *, fresh: bool = True) -> None:
        for i, agent in enumerate(agents):
            check_inside(self, f"agents[{i}]", agent, fresh=fresh)
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
        self.transitions = matching(self.problem, transitions)
        self._model = KnownModel(self.problem, transitions)
        count = len(agents)
        ledger: Ledger[Suggestions] = Ledger(self.problem, "full", uses_paths=False)
        policies = Each([Distributions(self.problem.shape)] * count)
        fields: dict[str, Field] = {"weights": Distributions((count,)), "policies": policies}
        self.declare(
            _ledger=OpenEpisodes(ledger, Several(Suggestions, fields)),
            _regrets=Array((count,), low=0.0),
        )

    def weights(self) -> Floats:
        """The weights (N,) of the members for the episode that begins now."""
        total = self._regrets.sum()
        count = len(self.agents)
        weights: Floats = self._regrets / total if total > 0.0 else np.full(count, 1.0 / count)
        return weights

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and the policy (H, S, A) of the mixture."""
        weights = frozen(self.weights())
        policies = [frozen(agent.begin_episode(now).policy) for agent in self.agents]
        mixed = frozen(self._mixed(weights, policies))
        return self._ledger.hand_out(Suggestions(weights, policies), mixed)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Let every member learn, and update the weights by the members' costs."""
        _, entries = self._ledger.take(records)
        for entry in entries:
            if entry.costs is None or entry.memory is None:
                continue
            costs = entry.costs.values
            weights, policies = entry.memory
            losses = np.array([self._model.value(costs, policy) for policy in policies])
            self._regrets = np.maximum(self._regrets + (weights @ losses - losses), 0.0)
            for agent in self.agents:
                agent.observe([Costs(entry.number, costs)], now)
            self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Discard an episode."""
        self._ledger.forget(episode)
        for agent in self.agents:
            agent.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the newest costs, and the weights of the members."""
        costs, policy = self._ledger.newest, self._ledger.policy
        value = (
            {}
            if costs is None or policy is None
            else {"cost": self._model.value(costs, frozen(policy))}
        )
        return {
            **self._ledger.diagnostics(),
            **value,
            **{f"weight_{i}": float(weight) for i, weight in enumerate(self.weights())},
        }

    def restored(self) -> None:
        """Check that every member has begun the episodes of the mixture."""
        for agent in self.agents:
            check_in_step(agent, self.begun)

    def __repr__(self) -> str:
        return call(self, *self.agents, transitions=self.transitions)

    def _mixed(self, weights: Floats, policies: list[Floats]) -> Floats:
        """The policy of the weighted mean of the members' occupancy measures."""
        start = self.problem.start_probabilities
        pairs = np.zeros(self.problem.shape)
        plain = np.zeros(self.problem.shape)
        for weight, policy in zip(weights, policies, strict=True):
            reach = planning.state_occupancy(self.transitions.rows, policy, start)
            pairs += weight * reach[:, :, None] * policy
            plain += weight * policy
        mass = pairs.sum(axis=2, keepdims=True)
        mixed: Floats = np.where(mass > 0.0, pairs / np.where(mass > 0.0, mass, 1.0), plain)
        mixed /= mixed.sum(axis=2, keepdims=True)
        return mixed
