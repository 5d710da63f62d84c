"""Planning under delayed full information, with regret matching+ in reserve.

    1  when an episode begins:
    2      expected costs: memories with several discounts, the slowest one with a learned prior,
           weighted in every cell by their past errors                            (beliefs)
    3      the plan: Q = cost + next value, at least 0, backwards; an unvisited row ends the
           episode, unless a visit is pending, and a visited one with a small probability
                                                                                  (deep_planning)
    4      average the policies of regret matching+ and of the plan with weights proportional to
           exp(l), without one at the floor, and play that
    5      remember the two policies and the predictions of the memories
    6  when the costs c of an episode have arrived:
    7      score both policies of that episode: l_i = l_i - RATE (cost per step of pi_i for c, and
           HANDICAP for regret matching+), shifted so that the largest is 0, and at least FLOOR
    8      score every memory by its prediction when the episode began, then update it with c
    9      regret matching+ learns from the Q of the policy that was played

Feedback contains whole cost functions, so only transitions need exploration: the plan tries rows
that were never visited, and breaks ties at random at every (h, s), as `DelayedPlanner` does. A row
that was visited n times leads to an unknown state with probability of the order NEW / n: otherwise
a way could be given up after a few failures. Regret matching+ plays where costs defeat every
prediction, such as two that alternate: at first it is at the floor. There is no regret
bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, NamedTuple

import numpy as np

from belated.core import checks, versions
from belated.core.arrays import Floats, frozen
from belated.core.contract import Information
from belated.core.episodes import Open
from belated.core.tree import Entries
from belated.core.versions import Kept
from belated.tabular.kernels import beliefs
from belated.tabular.kernels.beliefs import RATE
from belated.tabular.parts.costs import REVEALED
from belated.tabular.parts.regret_matching import RegretMatching, Regrets
from belated.tabular.parts.update import Arrival
from belated.tabular.planner import MemoryPlanner
from belated.tabular.problem import Problem
from belated.tabular.records import Trajectory
from belated.tabular.transitions import Transitions
from belated.tabular.waiting import Waiting

KEEP = (1.0, 0.97, 0.8)
"""The factor by which each arrival discounts older cost functions, memory by memory."""
HANDICAP = 0.05
"""The cost per step added for regret matching+, so that it plays only if it is clearly better."""
FLOOR = math.log(0.0001)
"""The smallest log weight of a policy relative to the better one; there it does not play."""
NEW = 0.02
"""The prior weight of an unknown next state in every visited row, in visits."""

GROWING = ("sums", "weights", "step_sums", "step_weights", "local")
"""The arrays over cells, which become more once costs depend on the step."""


class Suggested(NamedTuple):
    """What is remembered of an episode: it played weight * matched + (1 - weight) * planned.

    Attributes:
        matched: (H, S, A) the policy of regret matching+, as `versions` stores it.
        planned: (H, S, A) the plan, stored in the same way.
        weight: the weight of regret matching+.
        said: (M, C) the predictions of the memories.
    """

    matched: Kept
    planned: Kept
    weight: Annotated[float, Entries(low=0.0, high=1.0)]
    said: Annotated[Floats, Entries("M C|D", low=0.0, high=1.0 + checks.ROW_TOLERANCE)]


class InformedPlanner(MemoryPlanner[Suggested]):
    """A plan for expected costs, with regret matching+ in reserve; full information.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true dynamics, if they are known.
        changing: whether costs may change. If not, nothing is forgotten.
        seed: the seed of the draws that break ties.

    Example:
        >>> from belated.tabular.informed import InformedPlanner
        >>> world = bl.environments.random_mdp(states=3, actions=2, horizon=4)
        >>> agent = InformedPlanner(world.problem)
        >>> run = bl.simulate(world, agent, delays=bl.delays.fixed(2), episodes=20)
        >>> run.diagnostics['begun']
        20
    """

    information: Information = "full"
    waits_for_paths = False
    _matched: Regrets
    _waiting: Waiting
    _scores: Annotated[Floats, Entries(low=FLOOR, high=0.0)]  # (2,), of regret matching+, the plan

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | None = None,
        changing: bool = True,
        seed: int = 0,
    ) -> None:
        self.uses_paths = transitions is None
        super().__init__(problem, transitions, changing, seed, keep=KEEP, by_step=False)
        self._plans = versions.Versions()
        self._match = RegretMatching()
        self._matched = self._match.start(problem, REVEALED)
        self._waiting = Waiting(problem.actions)
        self._scores = np.array([FLOOR, 0.0])

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its visits are not pending."""
        super().forget(episode)
        self._waiting.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the cost of the policy, and the weights."""
        told = self._model.diagnostics(self._ledger.policy, self._ledger.newest_costs)
        return {**super().diagnostics(), **told, "weight_plan": 1.0 - self._weight()}

    def _next_policy(self) -> tuple[Floats, Suggested]:
        self._pending.give_up(self.begun)
        matched = frozen(self._match.policy(self._matched, self._waiting.begin()))
        cells = self._memories.sums.shape[1]
        said, costs, _, _ = beliefs.predict(self._memories, np.zeros(cells))
        # only unvisited rows and states are explored
        certain, draws = np.zeros(costs.shape), self._draws().random(self.problem.shape[:2])
        planned, weight = self._plan(costs, certain, 0.0, draws, NEW), self._weight()
        kept = self._versions.keep(matched), self._plans.keep(planned)
        played = _average(matched, planned, weight)
        if self.uses_paths:
            self._pending.expect(self.begun, self._rows, played)
        return played, Suggested(*kept, weight, frozen(said))

    def _weight(self) -> float:
        """The weight of regret matching+."""
        weights = [math.exp(score) if score > FLOOR else 0.0 for score in self._scores]
        return weights[0] / sum(weights)

    def _prepare(self, paths: list[Trajectory], entries: list[Open[Suggested]]) -> None:
        """Count the paths."""
        self._model.learn(paths, self.begun)
        for path in paths:
            self._pending.take_out(path.episode)  # its rows are counted now

    def _learn(self, entry: Open[Suggested]) -> None:
        """Score the two policies and the predictions, then learn."""
        assert entry.memory is not None
        H, costs = self.problem.horizon, frozen(entry.costs.values)
        matched, planned = map(versions.whole, (entry.memory.matched, entry.memory.planned))
        values = np.array([self._model.value(costs, policy) for policy in (matched, planned)])
        scores = self._scores - RATE * (values / H + (HANDICAP, 0.0))
        self._scores = np.maximum(scores - scores.max(), FLOOR)
        cells = max(costs.size, self._memories.sums.shape[1])
        if cells > self._memories.sums.shape[1]:  # costs depend on the step from now on
            self._memories = self._memories._replace(
                **{name: np.tile(getattr(self._memories, name), (1, H)) for name in GROWING}
            )
        beliefs.learn(
            self._memories,
            self._keep,
            frozen(np.tile(entry.memory.said, (1, cells // entry.memory.said.shape[1]))),
            np.arange(cells),
            np.ones(cells),
            frozen(np.tile(costs.ravel(), cells // costs.size)),
            RATE * math.sqrt(H) / cells,
            0.0,
        )
        self._match.learn(
            self._matched,
            Arrival(_average(matched, planned, entry.memory.weight), costs, self._model),
        )
        self._pending.note(self.begun - 1 - entry.number)
        self._waiting.arrive(entry.number)


def _average(matched: Floats, planned: Floats, weight: float) -> Floats:
    """The policy that is played; the same bits whenever it is computed."""
    if weight == 0.0:  # nearly always
        return planned
    return frozen(weight * matched + (1.0 - weight) * planned)
