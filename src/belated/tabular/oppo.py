"""Delayed OPPO: optimistic policy optimization on the feedback that has arrived.

Lancewicki, Rosenberg & Mansour (AAAI 2022), https://arxiv.org/abs/2012.14843, section "Delayed
OPPO" and Appendix A. Base algorithm: Cai et al. (2020), Efroni et al. (2020).

    1  for every episode k:
    2      play pi^k and remember it
    3      count the trajectories that have arrived
    4      for every episode j whose costs have arrived:
    5          take its costs, revealed or estimated                              (costs)
    6          evaluate Q^j, the Q-function of pi^j for these costs, with optimism (transitions)
    7          add Q^j to the sum of the update rule                              (update)
    8      pi^{k+1} = softmax(-eta * sum of Q^j), uniform in states to be explored (update, explore)

    paper             here
    pi^k              policy                             (H, S, A)
    Q^j               Arrival.q                          (H, S, A)
    eta, gamma        Softmax.learning_rate, Weighted.exploration
    c-hat^j           CostsPart.estimate                 (1 or H, S, A)
    n^k, P^k          Model.counts, Model
    u^j               Model.reach                        (H,) at the states of the path
    K_exp             episodes that met their mask

Departures:
- `Softmax` keeps the sum of Q and the policy is its softmax; for a constant step size that is the
  multiplicative update, without its underflow.
- Under full information the confidence set is the newest one, the batch that just arrived
  included. With importance weights it is that of the start of the episode, as the proof needs.
- Without a learning rate the step size follows the anytime rule of `Softmax`.
- `Confidence.radius_scale` and `FewVisits.threshold` replace constants that are unusable at
  realistic K.
- `Bonus` is the variant of the paper's experiments: Q is clipped to [0, steps left], and 0 in
  unvisited rows.
- Explicit exploration can be combined with importance weights, which the paper's proof does not
  cover: the weights are those of the policy played, exploration included.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple


from belated.core import checks
from belated.core.arrays import Bools, Floats, frozen
from belated.core.episodes import Learner, Open, is_past
from belated.core.tree import Count, Entries, Learned
from belated.core.versions import Kept, Versions, whole
from belated.tabular.parts.composition import check_parts
from belated.tabular.parts.costs import REVEALED, CostsPart, Observation
from belated.tabular.parts.explore import StateMask
from belated.tabular.parts.transitions import CONFIDENCE, model_of
from belated.tabular.parts.update import SOFTMAX, Arrival
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.transitions import Transitions
from belated.tabular.tuning import (
    Arms,
    BanditFeedback,
    FullInformation,
    Parameters,
    Setting,
    Stochastic,
)
from belated.tabular.waiting import Waiting


class PlayedPolicy(NamedTuple):
    """What is remembered of an episode.

    Attributes:
        policy: the policy of the update, before exploration.
        mask: the states in which play was uniform.
        arrived: the number of trajectories that had arrived when it began.
    """

    policy: Kept
    mask: StateMask | None
    arrived: Count


class DelayedOPPO(Learner[PlayedPolicy]):
    """Policy optimization for delayed feedback.

    The module describes the algorithm.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`, or the treatment of unknown ones: `Confidence()`
            or `Bonus()`.
        costs: `Revealed()` under full information; under bandit feedback `Weighted(exploration)`
            for any costs, or `Averaged()` for costs from fixed distributions.
        update: how the policy follows from the feedback: `Softmax(learning_rate)` or
            `RegretMatching()`.
        explore: `FewVisits(...)` for explicit exploration, or None.

    Example:
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = bl.DelayedOPPO(world.problem, update=bl.parts.Softmax(0.3))
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    _model: Any
    _costs: Any
    _update: Any
    _explore: Any
    _waiting: Waiting
    # of the phase: feedback with a longer delay does not move the policy
    _threshold: Annotated[float, Entries(low=0.0, high=math.inf)]
    _explored: Count  # episodes that met their mask

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Any = CONFIDENCE,
        costs: CostsPart = REVEALED,
        update: Any = SOFTMAX,
        explore: Any = None,
    ) -> None:
        checks.instance("problem", problem, Problem)
        parts = {"transitions": transitions, "costs": costs, "update": update, "explore": explore}
        check_parts(problem, parts)
        self._cost_part, self._update_part, self._explore_part = costs, update, explore
        self._model = model_of(problem, transitions, costs)
        self.information = costs.information
        bandit = costs.information == "bandit"
        self.uses_paths = self._model.counts is not None or bandit
        self._explores = explore is not None and explore.needs_paths
        self.waits_for_paths = bandit or self._explores
        super().__init__(problem, **parts)
        self._dynamics = "known" if isinstance(transitions, Transitions) else "unknown"
        if isinstance(transitions, Transitions):
            ever = transitions.reachable(problem.start_probabilities, problem.horizon)
            self._versions = Versions(ever)
        self._waiting = Waiting(problem.actions)
        self._costs = costs.start(problem)
        self._update = update.start(problem, costs)
        self._explore = Learned() if explore is None else explore.start(problem, self._model)
        self._threshold, self._explored = math.inf, 0

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its memory is freed."""
        super().forget(episode)
        self._waiting.forget(episode)

    def setting(self, paths: str) -> Setting:
        """The row of tuning for trajectories that arrive "late" or "at once"."""
        if self._cost_part.weighted and self.problem.is_arms:
            return Arms(paths=paths)
        if self._cost_part.averaged:
            return Stochastic(paths=paths, explores=self._explores)
        if self.information == "bandit":
            return BanditFeedback(paths=paths, dynamics=self._dynamics)
        return FullInformation(paths=paths, dynamics=self._dynamics, explores=self._explores)

    def restart(self, parameters: Parameters, *, carry_over: bool = False) -> None:
        """Begin a new phase: a uniform policy and new parameters, but never new counts.

        carry_over: whether feedback of open episodes will still move the policy.
        """
        self._begin_phase(parameters, "restart")
        self._end_phase(carry_over)

    def retune(self, parameters: Parameters) -> None:
        """Begin a new phase with new parameters and keep what was learned."""
        self._begin_phase(parameters, "retune")

    def diagnostics(self) -> Mapping[str, float]:
        """Those of ledger, model and update, and the cost of the policy if costs are estimated."""
        costs, update = self._ledger.newest_costs, self._update_part
        if costs is not None and self.information == "bandit":
            means = getattr(self._cost_part, "means", None)
            costs = None if means is None else means(self._costs)
        return {
            **super().diagnostics(),
            **self._model.diagnostics(self._ledger.policy, costs),
            "explored": self._explored,
            "given_up": self._waiting.given_up,
            "came_late": self._waiting.late,
            **(update.diagnostics(self._update) if hasattr(update, "diagnostics") else {}),
        }

    def _next_policy(self) -> tuple[Floats, PlayedPolicy]:
        policy = frozen(self._update_part.policy(self._update, self._waiting.begin()))
        part = self._explore_part
        mask = None if part is None else part.mask(self._explore)
        memory = PlayedPolicy(self._versions.keep(policy), mask, self._model.arrived)
        return self._with_exploration(policy, mask), memory

    def _prepare(self, paths: list[Trajectory], entries: list[Open[PlayedPolicy]]) -> None:
        """Line 3, and what the estimates of costs learn from the whole batch."""
        self._model.learn(paths, self.begun)
        for entry in filter(self._is_ready, entries):
            self._cost_part.learn(self._costs, entry.path, entry.costs.values)
            self._waiting.arrive(entry.number)

    def _learn(self, entry: Open[PlayedPolicy]) -> None:
        """Update by an episode, unless it met its mask or is too late."""
        played = entry.memory
        if played is None or is_past(entry.number, self._ledger.begun - 1, self._threshold):
            return
        part = self._explore_part
        if part is not None and part.met(played.mask, entry.path):
            self._explored += 1
            return
        policy = whole(played.policy)
        model = self._model.as_of(played.arrived) if self._cost_part.weighted else self._model
        seen = Observation(
            entry.costs.values,
            entry.path,
            lambda: frozen(self._with_exploration(policy, played.mask)),
            model,
            self._ledger.begun,
        )
        estimate = frozen(self._cost_part.estimate(self._costs, seen))
        self._update_part.learn(self._update, Arrival(policy, estimate, model))

    def _with_exploration(self, policy: Floats, mask: Bools | None) -> Floats:
        """The policy that is played, exploration included."""
        part = self._explore_part
        return policy if part is None else part.mixed(policy, mask)

    def _begin_phase(self, parameters: Parameters, update: str) -> None:
        """Pass new parameters to the parts. update: the method of the rule, restart or retune."""
        if not (self._cost_part.weighted or getattr(self._update_part, "tunable", True)):
            raise ValueError(
                f"update={self._update_part!r} has no step size for a new phase; use the agent "
                "without Doubling"
            )
        for part, learned, name in (
            (self._update_part, self._update, update),
            (self._cost_part, self._costs, "restart"),
            (self._explore_part, self._explore, "restart"),
        ):
            if part is not None:
                if not hasattr(part, name):
                    raise ValueError(
                        f"{type(part).__name__} has no {name}(), which Doubling needs of a part"
                    )
                getattr(part, name)(learned, parameters)
        self._threshold = parameters.threshold

    def _let_go(self) -> None:
        """Drop the parts of the model's past that no open episode needs."""
        newest = self._model.arrived
        if newest:
            needed = (entry.memory.arrived for entry in self._ledger.open.values() if entry.memory)
            self._model.keep_from(next(needed, newest))
