"""How the policy follows from what has arrived.

An update is told of every arrival, and asked for a policy whenever an episode begins. `Softmax` is
the paper's rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats, frozen
from belated.tabular.kernels.weights import softmax
from belated.tabular.parts.costs import Costing, CostsPart
from belated.tabular.parts.rates import Anytime, AnytimeArms, Constant, Rates
from belated.tabular.parts.transitions import Model
from belated.tabular.problem import Problem
from belated.tabular.tuning import Parameters


class Arrival:
    """One episode whose costs have arrived, as an update sees it.

    Attributes:
        policy: (H, S, A) the policy that the update had given for the episode.
        costs: (1 or H, S, A) its costs, revealed or estimated.
        model: what is believed about the transitions.
    """

    __slots__ = ("_q", "costs", "model", "policy")

    def __init__(self, policy: Floats, costs: Floats, model: Model) -> None:
        self.policy = policy
        self.costs = costs
        self.model = model
        self._q: Floats | None = None

    def q(self) -> Floats:
        """Q (H, S, A) of the policy for these costs, read-only."""
        if self._q is None:
            total = np.zeros(self.policy.shape)
            self.model.add_q(self.costs, self.policy, total)
            self._q = frozen(total)
        return self._q

    def add_q(self, total: Floats) -> None:
        """Add Q to an array (H, S, A)."""
        if self._q is None:
            self.model.add_q(self.costs, self.policy, total)
        else:
            total += self._q

    def value_of(self, policy: Floats) -> float:
        """What an episode of another policy would have cost, as the model has it."""
        return self.model.value(self.costs, policy)


class Outlook(NamedTuple):
    """What an update may know when it is asked for a policy.

    Attributes:
        missing: earlier episodes whose costs have not come and are not overdue.
        coming: how many reports are on the way; at most `missing`.
        model: what is believed about the transitions.
        costs: the part that makes the costs.
    """

    missing: int
    coming: float
    model: Model
    costs: Costing


class Updating(Protocol):
    """Learns from arrivals and gives policies.

    A rule of one's own may leave out `diagnostics`, `restart` and `retune` where it does not go
    into `Doubling`, and `state` and `restore` where its agent is not saved.
    """

    def policy(self, outlook: Outlook) -> Floats:
        """The policy (H, S, A) for the episode that begins now; called once per episode."""
        ...

    def learn(self, arrived: Arrival) -> None:
        """Take in one episode."""
        ...

    def restart(self, parameters: Parameters) -> None:
        """Begin a new phase: forget what was learned and take new parameters."""
        ...

    def retune(self, parameters: Parameters) -> None:
        """Begin a new phase: take new parameters and keep what was learned."""
        ...

    def diagnostics(self) -> Mapping[str, float]:
        """Numbers worth plotting."""
        ...

    def state(self) -> stored.State:
        """Everything that was learned."""
        ...

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        ...


class UpdatePart(Protocol):
    """A setting that makes an `Updating`."""

    def start(self, problem: Problem, costs: CostsPart) -> Updating:
        """A fresh rule; `costs` is there for rules that depend on how costs are estimated."""
        ...


@dataclass(frozen=True, slots=True)
class Softmax:
    """Exponential weights: softmax(-eta * sum of Q), the paper's update.

    The sum of Q is kept and the policy is its softmax. For a constant step size that is the
    multiplicative update, without its underflow.

    Attributes:
        learning_rate: eta. None: the anytime rule, which needs neither K nor the delays.
        scale: factor on the step sizes of the anytime rule and of `Doubling`; 1 is the theory,
            which is small for long horizons.
    """

    slot: ClassVar[str] = "update"

    learning_rate: float | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            checks.fix(self, "learning_rate", checks.real("learning_rate", self.learning_rate, 0.0))
        checks.fix(self, "scale", checks.real("scale", self.scale, 0.0, above=True))

    def start(self, problem: Problem, costs: CostsPart) -> ExponentialWeights:
        """A fresh rule."""
        rates: Rates
        if self.learning_rate is not None:
            rates = Constant(self.learning_rate)
        elif costs.weighted:
            rates = AnytimeArms(problem, self.scale)
        else:
            rates = Anytime(problem, self.scale)
        return ExponentialWeights(problem, rates, self.scale)


class ExponentialWeights:
    """The running sum of Q, and its softmax."""

    def __init__(self, problem: Problem, rates: Rates, scale: float) -> None:
        self._problem = problem
        self._rates = rates
        self._scale = scale
        self._total = np.zeros(problem.shape)
        self._policy = uniform(problem)
        self._played_rates = frozen(np.zeros(1))
        self._stale = False  # whether the total has changed since the policy was made
        self._moved = False  # whether it ever has

    def policy(self, outlook: Outlook) -> Floats:
        """The softmax of the sum, with the step size of now."""
        rates = self._rates.next_rates(outlook.missing)
        if self._stale or (self._moved and not self._plays(rates)):
            policy = np.empty(self._total.shape)
            softmax(self._total, rates, policy)
            self._policy = frozen(policy)
            self._stale = False
        self._played_rates = rates
        return self._policy

    def _plays(self, rates: Floats) -> bool:
        return rates is self._played_rates or np.array_equal(rates, self._played_rates)

    def learn(self, arrived: Arrival) -> None:
        """Add Q to the sum."""
        arrived.add_q(self._total)
        self._moved = self._stale = True

    def restart(self, parameters: Parameters) -> None:
        """A uniform policy and the step size of the phase."""
        self.retune(parameters)
        self._total[:] = 0.0
        self._policy = uniform(self._problem)
        self._stale = self._moved = False

    def retune(self, parameters: Parameters) -> None:
        """The step size of the phase, for the whole sum."""
        self._rates = Constant(self._scale * parameters.learning_rate)

    def diagnostics(self) -> Mapping[str, float]:
        """The step size that was played last, at the first step."""
        return {"learning_rate": float(self._played_rates[0])}

    def state(self) -> stored.State:
        """The sum, the policy and where the rule of the step size is."""
        constant = self._rates.learning_rate if isinstance(self._rates, Constant) else None
        return {
            "total": self._total.copy(),
            "policy": self._policy,
            "rates": self._played_rates,
            "constant": constant,
            "pending": self._rates.pending,
            "stale": self._stale,
            "moved": self._moved,
        }

    def restore(self, saved: stored.State) -> None:
        """Continue from a saved state."""
        names = ("total", "policy", "rates", "constant", "pending", "stale", "moved")
        read = stored.exact(saved, *names)
        shape = self._total.shape
        self._total = stored.copied("total", read["total"], np.float64, shape)
        stored.finite("total", self._total)
        self._policy = stored.policy("policy", read["policy"], shape)
        if read["constant"] is not None:
            self._rates = Constant(read["constant"])
        elif isinstance(self._rates, Constant):
            raise ValueError("constant must be given for a constant step size, got None")
        self._rates.pending = stored.count("pending", read["pending"], checks.MOST**2)
        rates = stored.array("rates", read["rates"], np.float64, (None,))
        if len(rates) not in (1, shape[0]):
            raise ValueError(f"rates must have 1 or {shape[0]} steps, got {len(rates)}")
        self._played_rates = rates
        self._stale = checks.flag("stale", read["stale"])
        self._moved = checks.flag("moved", read["moved"])


def uniform(problem: Problem) -> Floats:
    """The uniform policy (H, S, A), read-only."""
    return frozen(np.full(problem.shape, 1.0 / problem.actions))
