"""A blend of updates, weighted by what each would have cost in the episodes that have reported.

    1  l_i = 0 for every member i
    2  when an episode begins:
    3      play sum over i of w_i pi_i in every (h, s), with w proportional to exp(l)
    4  when the costs c of an episode arrive:
    5      v_i = the value of the policy of member i for c under the model
    6      l_i = KEEP l_i - (RATE / H) v_i, shifted so that the largest is 0, and at least log LEAST
    7      every member learns from the Q of the policy that was played

Members have different strengths: regret matching+ is good where costs change, planning where they
do not. Several step sizes or discounts can be members too, so that the blend replaces tuning. A
member that was bad for a long time can recover, since its weight is bounded below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen, same_memory
from belated.core.stored import Array, Distributions, Each, Flag, Inside, Learned
from belated.tabular.parts.costs import CostsPart
from belated.tabular.parts.update import Arrival, Outlook, UpdatePart
from belated.tabular.problem import Problem
from belated.tabular.tuning import Parameters

RATE = 2.0
"""The learning rate of the weights of the members."""
KEEP = 0.995
"""The factor by which each arrival discounts the log weights."""
LEAST_WEIGHT = 0.01
"""The smallest weight of a member, relative to the best one."""


@dataclass(frozen=True, slots=True, init=False)
class Blend:
    """Several updates, weighted by what each would have cost: `Blend(RegretMatching(), ...)`.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(
        ...     world.problem,
        ...     update=bl.parts.Blend(bl.parts.RegretMatching(), bl.parts.Softmax(1.0)),
        ... )
        >>> agent.information
        'full'
    """

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

    @property
    def tunable(self) -> bool:
        """Whether some member has a step size."""
        return any(getattr(update, "tunable", True) for update in self.updates)

    def start(self, problem: Problem, costs: CostsPart) -> Learned:
        """What the members have learned, their log weights (the largest is 0), and their policies.

        stale: whether the weights have changed since the policy was computed.
        """
        count = len(self.updates)
        return Learned(
            {
                "members": Each([Inside(each.start(problem, costs)) for each in self.updates]),
                "scores": Array((count,), low=math.log(LEAST_WEIGHT), high=0.0),
                "policies": Each([Distributions(problem.shape)] * count),
                "policy": Distributions(problem.shape),
                "stale": Flag(),
            },
            problem=problem,
        )

    def policy(self, learned: Learned, outlook: Outlook) -> Floats:
        """The weighted mean of the members' policies, state by state."""
        policies = [
            update.policy(member, outlook)
            for update, member in zip(self.updates, learned.members, strict=True)
        ]
        same = all(map(same_memory, policies, learned.policies))
        if learned.stale or not same:
            weights = _weights(learned)
            mixed = weights[0] * policies[0]
            for weight, policy in zip(weights[1:], policies[1:], strict=True):
                mixed += weight * policy
            learned.policy = frozen(mixed)
            learned.stale = False
        learned.policies = policies
        found: Floats = learned.policy
        return found

    def learn(self, learned: Learned, arrived: Arrival) -> None:
        """Lines 5 to 7: update the weights, then let each member learn."""
        values = np.array([arrived.value_of(policy) for policy in learned.policies])
        scores = KEEP * learned.scores - RATE / learned.problem.horizon * values
        scores -= scores.max()
        learned.scores = np.maximum(scores, math.log(LEAST_WEIGHT))
        arrived.q()  # evaluated once for all
        for update, member in zip(self.updates, learned.members, strict=True):
            update.learn(member, arrived)
        learned.stale = True

    def restart(self, learned: Learned, parameters: Parameters) -> None:
        """Restart the members, with equal weights."""
        learned.scores[:] = 0.0
        for update, member in zip(self.updates, learned.members, strict=True):
            update.restart(member, parameters)
        learned.policy = learned.problem.uniform_policy()
        learned.policies = [learned.policy for _ in self.updates]
        learned.stale = True

    def retune(self, learned: Learned, parameters: Parameters) -> None:
        """Retune the members, and keep their weights."""
        for update, member in zip(self.updates, learned.members, strict=True):
            update.retune(member, parameters)

    def diagnostics(self, learned: Learned) -> Mapping[str, float]:
        """The weight of every member."""
        return {f"weight_{i}": float(weight) for i, weight in enumerate(_weights(learned))}

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


def _weights(learned: Learned) -> Floats:
    """The weights of the members; their sum is 1."""
    weights: Floats = np.exp(learned.scores)
    weights /= weights.sum()
    return weights
