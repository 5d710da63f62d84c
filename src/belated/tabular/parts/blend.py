"""A blend of updates, weighted by what each would have cost on what arrived.

    1  l_i = 0 for every member i
    2  when an episode begins:
    3      play sum over i of w_i pi_i in every (h, s), with w proportional to exp(l)
    4  when the costs c of an episode arrive:
    5      v_i = what an episode of the policy of member i costs under c, as the model has it
    6      l_i = KEEP l_i - (RATE / H) v_i, shifted so that the largest is 0, and at least log LEAST
    7      every member learns from the Q of the policy that was really played

Members differ in what they are good at: regret matching+ where costs change, planning where they
do not; several step sizes or speeds of forgetting can be members too. The blend is tuning without
tuning. A member that was useless for long can come back, since its weight is bounded below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen, same_memory
from belated.tabular.parts.costs import CostsPart
from belated.tabular.parts.update import Arrival, Outlook, UpdatePart, Updating, uniform
from belated.tabular.problem import Problem
from belated.tabular.tuning import Parameters

RATE = 2.0
"""How fast a member that costs more loses weight."""
KEEP = 0.995
"""What an arrival leaves of the older log weights."""
LEAST = 0.01
"""The least weight of a member, relative to the best one."""


@dataclass(frozen=True, slots=True, init=False)
class Blend:
    """Several updates, weighted by what each would have cost: `Blend(RegretMatching(), ...)`."""

    slot: ClassVar[str] = "update"

    updates: tuple[UpdatePart, ...]

    def __init__(self, *updates: UpdatePart) -> None:
        if len(updates) < 2:
            raise ValueError(
                f"Blend takes at least two updates, each an argument, got {len(updates)}"
            )
        for i, update in enumerate(updates):
            if isinstance(update, Blend):
                raise ValueError(f"updates[{i}] must not be a Blend itself; name its updates here")
            checks.part(f"updates[{i}]", update, "RegretMatching()")
        checks.fix(self, "updates", tuple(updates))

    def start(self, problem: Problem, costs: CostsPart) -> Blending:
        """A fresh rule."""
        return Blending(problem, [update.start(problem, costs) for update in self.updates])

    def state(self) -> stored.State:
        """The members."""
        return {"updates": self.updates}

    @classmethod
    def from_state(cls, state: stored.State) -> Blend:
        """The blend that wrote the state."""
        updates = stored.exact(state, "updates")["updates"]
        if not isinstance(updates, tuple):
            raise ValueError(f"updates must be a tuple, got {checks.show(updates)}")
        return cls(*updates)

    def __repr__(self) -> str:
        return f"Blend({', '.join(map(repr, self.updates))})"


class Blending:
    """The members, their weights and their policies."""

    def __init__(self, problem: Problem, members: list[Updating]) -> None:
        self._problem = problem
        self._members = members
        self._scores: Floats = np.zeros(len(members))  # log weights, the largest is 0
        self._policies = [uniform(problem) for _ in members]
        self._policy = uniform(problem)
        self._stale = False

    def policy(self, outlook: Outlook) -> Floats:
        """The weighted mean of the members' policies, state by state."""
        policies = [member.policy(outlook) for member in self._members]
        same = all(map(same_memory, policies, self._policies))
        if self._stale or not same:
            weights = np.exp(self._scores)
            weights /= weights.sum()
            mixed = weights[0] * policies[0]
            for weight, policy in zip(weights[1:], policies[1:], strict=True):
                mixed += weight * policy
            self._policy = frozen(mixed)
            self._stale = False
        self._policies = policies
        return self._policy

    def learn(self, arrived: Arrival) -> None:
        """Weigh the members, then let each learn."""
        values = np.array([arrived.value_of(policy) for policy in self._policies])
        self._scores = KEEP * self._scores - RATE / self._problem.horizon * values
        self._scores -= self._scores.max()
        np.maximum(self._scores, math.log(LEAST), out=self._scores)
        arrived.q()  # evaluated once for all
        for member in self._members:
            member.learn(arrived)
        self._stale = True

    def restart(self, parameters: Parameters) -> None:
        """Restart the members, with equal weights."""
        self._scores[:] = 0.0
        for member in self._members:
            member.restart(parameters)
        self._policy = uniform(self._problem)
        self._policies = [self._policy for _ in self._members]
        self._stale = True

    def retune(self, parameters: Parameters) -> None:
        """Retune the members, and keep their weights."""
        for member in self._members:
            member.retune(parameters)

    def diagnostics(self) -> Mapping[str, float]:
        """The weight of every member."""
        weights = np.exp(self._scores)
        weights /= weights.sum()
        return {f"weight_{i}": float(weight) for i, weight in enumerate(weights)}

    def state(self) -> stored.State:
        """The members, their weights and their policies."""
        return {
            "members": [member.state() for member in self._members],
            "scores": self._scores.copy(),
            "policies": list(self._policies),
            "policy": self._policy,
            "stale": self._stale,
        }

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        read = stored.exact(saved, "members", "scores", "policies", "policy", "stale")
        shape, count = self._problem.shape, len(self._members)
        states, policies = (stored.items(name, read[name]) for name in ("members", "policies"))
        if not len(states) == len(policies) == count:
            raise ValueError(f"members and policies must be {count}")
        for member, state in zip(self._members, states, strict=True):
            member.restore(state)
        self._policies = [stored.policy("policies", policy, shape) for policy in policies]
        self._scores = stored.copied("scores", read["scores"], np.float64, (count,))
        stored.between("scores", self._scores, math.log(LEAST), 0.0)
        self._policy = stored.policy("policy", read["policy"], shape)
        self._stale = checks.flag("stale", read["stale"])
