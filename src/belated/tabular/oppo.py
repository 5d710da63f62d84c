"""Delayed OPPO: policy optimization with optimism, on whatever feedback has arrived.

Lancewicki, Rosenberg & Mansour (AAAI 2022), https://arxiv.org/abs/2012.14843, section "Delayed
OPPO" and Appendix A. Base algorithm: Cai et al. (2020), Efroni et al. (2020).

    1  for every episode k:
    2      play pi^k and remember it
    3      count the trajectories that have arrived
    4      for every episode j whose costs have arrived:
    5          take its costs, revealed or estimated                              (costs)
    6          evaluate Q^j, the Q-function of pi^j for these costs, with optimism (transitions)
    7          add Q^j to what the policy follows from                            (update)
    8      pi^{k+1} = softmax(-eta * sum of Q^j), uniform in states to be explored (update, explore)

    paper             here
    pi^k              policy                             (H, S, A)
    Q^j               Arrival.q                          (H, S, A)
    eta, gamma        Softmax.learning_rate, Weighted.exploration
    c-hat^j           Costing.estimate                   (1 or H, S, A)
    n^k, P^k          Model.counts, Model
    u^j               Model.reach                        (H,) at the states of the path
    K_exp             episodes that met their mask

Departures:
- `Softmax` keeps the sum of Q and the policy is its softmax; for a constant step size that is the
  multiplicative update, without its underflow.
- Under full information the confidence set is the newest one, the batch that just arrived
  included. With importance weights it is that of the start of the episode, as the proof needs.
- Without a learning rate the step size follows the anytime rule of `parts.rates`.
- `Confidence.radius_scale` and `FewVisits.threshold` replace constants that are unusable at
  realistic K.
- `Bonus` is the variant of the paper's experiments: Q is clipped to [0, steps left], and 0 where
  nothing was seen.
- Explicit exploration with importance weights, which the paper's proof does not use: the weights
  are those of the policy that was really played.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Bools, Floats, frozen
from belated.core.contract import Information, call
from belated.core.ledger import Ledger, Ledgered, Open
from belated.core.records import Episode
from belated.core.waiting import Waiting
from belated.tabular.parts.blend import Blend
from belated.tabular.parts.costs import CostsPart, Observation, Revealed, Weighted
from belated.tabular.parts.explore import ExplorePart, FewVisits, checked_mask, no_exploration
from belated.tabular.parts.planned import Planned
from belated.tabular.parts.predicted import KEEP, Predicted
from belated.tabular.parts.regret_matching import RegretMatching
from belated.tabular.parts.transitions import (
    Bonus,
    Confidence,
    Observed,
    TransitionsPart,
    model_of,
)
from belated.tabular.parts.update import Arrival, Outlook, Softmax, UpdatePart
from belated.tabular.problem import Problem
from belated.tabular.records import Record
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import Parameters, Setting

CONFIDENCE, REVEALED, SOFTMAX = Confidence(), Revealed(), Softmax()
"""The parts by default."""
LEARNING = ("model", "costs", "update", "explore", "waiting")
"""What learns in an agent and has a state of its own; the model comes first."""


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """What is remembered of an episode.

    Attributes:
        policy: what the update gave, before exploration.
        mask: the states that were played uniformly.
        arrived: how many trajectories had arrived when it began.
    """

    policy: Floats
    mask: Bools | None
    arrived: int


class DelayedOPPO(Ledgered):
    """Policy optimization for delayed feedback; see the module for the algorithm.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`, or how unknown ones are treated: `Confidence()`,
            `Bonus()` or `Observed()`.
        costs: `Revealed()` under full information; under bandit feedback `Weighted(exploration)`
            or `Predicted()` for any costs, or `Averaged()` for costs from fixed laws.
        update: how the policy follows from what arrived: `Softmax(learning_rate)`,
            `RegretMatching()`, `Planned()` or a `Blend(...)` of several.
        explore: `FewVisits(...)` for explicit exploration, `UniformShare(...)`, or None.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | TransitionsPart = CONFIDENCE,
        costs: CostsPart = REVEALED,
        update: UpdatePart = SOFTMAX,
        explore: ExplorePart | None = None,
    ) -> None:
        checks.instance("problem", problem, Problem)
        _check_composition(problem, transitions, costs, update, explore)
        self.problem = problem
        self.information: Information = costs.information
        self._parts = {
            "transitions": transitions,
            "costs": costs,
            "update": update,
            "explore": explore,
        }
        self._setting = partial(
            Setting,
            information=costs.information,
            dynamics="known" if isinstance(transitions, Transitions) else "unknown",
            stochastic=costs.averaged,
            arms=costs.weighted and is_bandit(problem),
            explores=isinstance(explore, FewVisits),
        )
        self._tunable = costs.weighted or not all(
            isinstance(rule, RegretMatching | Planned) for rule in _rules(update)
        )
        self._model = model_of(problem, transitions, costs)
        self._costs = costs.start(problem)
        self._update = update.start(problem, costs)
        for name in ("model", "learn", "estimate"):
            _need(self._costs, name, "costs")
        for name in ("policy", "learn"):
            _need(self._update, name, "update")
        self._explore = no_exploration(explore).start(problem, self._model)
        bandit = costs.information == "bandit"
        self.uses_paths = self._model.counts is not None or bandit
        self._waits_for_paths = bandit or self._explore.needs_paths
        self._ledger: Ledger[Played] = Ledger(
            problem, costs.information, uses_paths=self.uses_paths
        )
        self._waiting = Waiting(problem)
        self._threshold = math.inf  # of the phase: what is later does not move the policy
        self._explored = 0

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode number and a copy of the policy (H, S, A) to play in it."""
        missing = self._waiting.begin()
        coming = min(float(missing), self._waiting.mean_delay)
        outlook = Outlook(missing, coming, self._model, self._costs)
        policy = frozen(self._update.policy(outlook))
        mask = self._explore.mask()
        mixed = self._explore.mixed(policy, mask)
        return self._ledger.hand_out(Played(policy, mask, self._model.arrived), mixed)

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Take a batch of records: count the paths, then update the policy by the costs."""
        paths, entries = self._ledger.take(records)
        self._model.learn(paths, self.begun)
        ready = [
            (entry, self._costs.learn(entry.path, entry.costs.values))
            for entry in entries
            if entry.costs is not None and not (self._waits_for_paths and entry.path is None)
        ]
        for entry, lesson in ready:
            self._learn(entry, lesson)
            self._waiting.arrive(entry.number)
            self._ledger.settle(entry)
        self._let_go()

    def forget(self, episode: int) -> None:
        """Let go of an episode: no feedback of it will be used, and its memory is free."""
        self._ledger.forget(episode)
        self._waiting.forget(episode)
        self._let_go()

    def setting(self, paths: str) -> Setting:
        """What the agent sees and knows when trajectories come "late" or "at once"."""
        return self._setting(paths=paths)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase: a uniform policy and new parameters, but never new counts.

        carry_over: whether feedback of open episodes will still move the policy.
        """
        self._begin_phase(parameters, "restart")
        if not carry_over:
            for entry in self._ledger:
                entry.memory = None
            self._let_go()

    def retune(self, parameters: Parameters) -> None:
        """Begin a new phase with new parameters and keep what was learned."""
        self._begin_phase(parameters, "retune")

    def diagnostics(self) -> Mapping[str, float]:
        """What the ledger and the update say, and the cost of the policy as the agent sees it."""
        return {
            **self._ledger.diagnostics(),
            **self._seen(),
            "explored": self._explored,
            "given_up": self._waiting.given_up,
            "came_late": self._waiting.late,
            **(self._update.diagnostics() if hasattr(self._update, "diagnostics") else {}),
        }

    def configuration(self) -> dict[str, Any]:
        """The arguments that make this agent."""
        return {"problem": self.problem, **self._parts}

    def state(self) -> stored.State:
        """The arguments, and what each part has learned."""
        for name in LEARNING:
            _need(getattr(self, f"_{name}"), "state", "saving")
        return {
            "configuration": self.configuration(),
            **{name: getattr(self, f"_{name}").state() for name in LEARNING},
            "ledger": self._ledger.state(_write),
            "threshold": self._threshold,
            "explored": self._explored,
        }

    @classmethod
    def from_state(cls, state: stored.State) -> Self:
        """The agent that wrote the state."""
        names = ("configuration", *LEARNING, "ledger", "threshold", "explored")
        read = stored.exact(state, *names)
        agent = cls(**read["configuration"])
        for name in LEARNING[:-1]:
            getattr(agent, f"_{name}").restore(read[name])
        agent._ledger.restore(read["ledger"], agent._read)
        agent._waiting.restore(read["waiting"], agent.begun)
        agent._threshold = checks.threshold("threshold", read["threshold"])
        agent._explored = stored.count("explored", read["explored"])
        return agent

    def __repr__(self) -> str:
        return call(self, self.problem, **self._parts)

    def _learn(self, entry: Open[Played], lesson: object) -> None:
        """Update by an episode, unless it met its mask, is too late or of an earlier phase."""
        played, costs = entry.memory, entry.costs
        too_late = self.begun - 1 - entry.number > self._threshold
        if played is None or costs is None or too_late:
            return
        if self._explore.met(played.mask, entry.path):
            self._explored += 1
            return
        model = self._costs.model(self._model, played.arrived)
        seen = Observation(
            costs.values,
            entry.path,
            lambda: frozen(self._explore.mixed(played.policy, played.mask)),
            model,
            self.begun,
            lesson,
        )
        self._update.learn(Arrival(played.policy, frozen(self._costs.estimate(seen)), model))

    def _begin_phase(self, parameters: Parameters, update: str) -> None:
        """Hand new parameters to the parts. update: what its rule does, restart or retune."""
        if not self._tunable:
            raise ValueError(
                f"update={self._parts['update']!r} has no step size for a new phase; use the agent "
                "without Doubling"
            )
        for part, name in (
            (self._update, update),
            (self._costs, "restart"),
            (self._explore, "restart"),
        ):
            _need(part, name, "Doubling")
            getattr(part, name)(parameters)
        self._threshold = parameters.threshold

    def _seen(self) -> dict[str, float]:
        """The share of rows that were visited, and the policy's cost where costs are estimated."""
        counts, policy, costs = self._model.counts, self._ledger.policy, self._ledger.newest
        told = {} if counts is None else {"visited": float(np.mean(counts.visits > 0))}
        if costs is not None and self.information == "bandit":
            costs = self._costs.believed() if hasattr(self._costs, "believed") else None
        if policy is not None and costs is not None:
            told["cost"] = self._model.value(frozen(costs), frozen(policy))
        return told

    def _let_go(self) -> None:
        """Drop what is kept of the model's past and no open episode needs."""
        newest = self._model.arrived
        if newest:
            needed = (entry.memory.arrived for entry in self._ledger if entry.memory)
            self._model.keep_from(next(needed, newest))

    def _read(self, memory: object) -> Played:
        read = stored.exact(memory, "policy", "mask", "arrived")
        counts = self._model.counts
        earliest = 0 if counts is None else counts.earliest
        return Played(
            stored.policy("policy", read["policy"], self.problem.shape),
            checked_mask(self.problem, read["mask"]),
            checks.integer("arrived", read["arrived"], earliest, self._model.arrived),
        )


def _write(played: Played) -> stored.State:
    return {"policy": played.policy, "mask": played.mask, "arrived": played.arrived}


def is_bandit(problem: Problem) -> bool:
    """One step from one state."""
    return problem.horizon == 1 and not isinstance(problem.start, tuple)


def _need(part: object, name: str, user: str) -> None:
    if not hasattr(part, name):
        raise ValueError(f"{type(part).__name__} has no {name}(), which {user} needs of a part")


def _rules(update: UpdatePart) -> tuple[UpdatePart, ...]:
    return update.updates if isinstance(update, Blend) else (update,)


def _check_composition(
    problem: Problem, transitions: Any, costs: Any, update: Any, explore: Any
) -> None:
    """Refuse what is not a part, and parts that cannot work together."""
    such = "Revealed(), Weighted(), Averaged() or Predicted()"
    checks.part("costs", costs, such, ("information", "weighted", "averaged"))
    checks.part("update", update, "Softmax() or RegretMatching()")
    if isinstance(explore, FewVisits) and explore.use_costs and costs.information != "full":
        raise ValueError(
            "explore=FewVisits(use_costs=True) needs full information, where costs do not depend "
            f"on what was played, got costs={costs!r}"
        )
    rules = _rules(update)
    if any(isinstance(rule, Planned) for rule in rules):
        if isinstance(transitions, Confidence):
            raise ValueError(
                "update=Planned(...) cannot go with transitions=Confidence(...): it plans on known "
                "transitions or on the frequencies of Observed()"
            )
        if not isinstance(costs, Revealed | Predicted):
            raise ValueError(
                "update=Planned(...) needs costs=Revealed() or Predicted(), whose costs it plans "
                f"for, got {costs!r}"
            )
        speeds = {rule.keep for rule in rules if isinstance(rule, Planned)} - {None, *KEEP}
        if isinstance(costs, Predicted) and speeds:
            raise ValueError(
                f"Planned(keep) must be one of {', '.join(map(str, KEEP))} or None with "
                f"costs=Predicted(), which has memories of these speeds, got {speeds.pop()}"
            )
    if not costs.weighted:
        return
    if isinstance(transitions, Bonus | Observed):
        raise ValueError(
            f"costs=Weighted(...) cannot go with transitions={transitions!r}: importance weights "
            "need the upper bounds of Confidence(); Predicted() and Averaged() do without"
        )
    missing = []
    if isinstance(costs, Weighted) and costs.exploration is None:
        missing.append("costs=Weighted(exploration)")
    if any(isinstance(rule, Softmax) and rule.learning_rate is None for rule in rules):
        missing.append("update=Softmax(learning_rate)")
    if missing and not is_bandit(problem):
        raise ValueError(
            f"{' and '.join(missing)} must be given under bandit feedback with horizon "
            f"{problem.horizon}, where no anytime rule is proved; "
            "belated.tuning.oppo_bandit(problem, episodes, total_delay) suggests values"
        )
