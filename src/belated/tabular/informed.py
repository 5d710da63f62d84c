"""Planning under delayed full information, mixed with regret matching+.

    1  when an episode begins:
    2      expected costs: memories with several discounts, the slowest one with a learned prior,
           weighted in every cell by their past errors                            (foresight)
    3      the plan: Q = cost + next value - LEAN * deviation of the next value, clipped to
           [0, steps left], backwards; an unvisited row ends the episode, unless a visit is pending,
           and a visited one with a small probability                             (deep_planning)
    4      mix the policies of regret matching+ and of the plan by their occupancy measures, with
           weights w proportional to exp(l), and play that
    5      remember the two policies and the predictions of the memories
    6  when the costs c of an episode have arrived:
    7      score both policies of that episode: l_i = KEEP_SCORES l_i - RATE (cost per step of pi_i
           for c, and TOLL for regret matching+), shifted so that the largest is 0, and at least
           log LEAST_WEIGHT
    8      score every memory by its prediction when the episode began, then update it with c
    9      regret matching+ learns from the Q of the policy that was played

Feedback contains whole cost functions, so only transitions need exploration: the plan tries rows
that were never visited. As long as some state was never visited, a row that was visited n times
leads there with probability of the order NEW / n: otherwise the only way to a state could be given
up after a few failures. With known transitions the plan is the best policy for the expected costs.
Among equally good actions one is drawn for every step and state, anew in every episode, by a
counter-based generator. There is no regret bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import numpy as np

from belated.core import checks, versions
from belated.core.arrays import Floats, Ints, frozen
from belated.core.contract import Information
from belated.core.learner import Learner, generator
from belated.core.ledger import Open
from belated.core.tree import Entries
from belated.core.versions import Kept
from belated.core.waiting import Waiting
from belated.tabular.kernels import deep_planning, foresight, mixing
from belated.tabular.kernels.beliefs import FIRST_PRIOR, LEAST, LEAST_SPREAD, SPAN
from belated.tabular.kernels.planning import Rows
from belated.tabular.parts.costs import REVEALED
from belated.tabular.parts.pending import Pending
from belated.tabular.parts.regret_matching import RegretMatching, Regrets
from belated.tabular.parts.transitions import FrequencyModel, KnownModel, matching
from belated.tabular.parts.update import Arrival, Outlook
from belated.tabular.problem import Problem
from belated.tabular.records import Record
from belated.tabular.transitions import Transitions

KEEP = (1.0, 0.995, 0.97, 0.8)
"""The factor by which each arrival discounts older cost functions, memory by memory."""
KEEP_SCORES = 0.995
"""The factor by which each arrival discounts the log weights of regret matching+ and the plan."""
RATE = 2.0
"""The learning rate of the weights of regret matching+ and the plan."""
ROUNDED = 1.0 + checks.ROW_TOLERANCE
"""The largest probability or expected cost after rounding."""
TOLL = 0.1
"""The cost per step added for regret matching+, so that the plan wins ties."""
LEAN = 0.2
"""Optimism, in standard deviations of the next value."""
BONUS = 0.3
"""The scale of the bonus in the Q of regret matching+."""
NEW = 0.01
"""The prior weight of an unvisited next state in every visited row, in visits."""
LEAST_WEIGHT = 0.01
"""The smallest weight of the worse policy, relative to the better one."""


Scores = Annotated[Floats, Entries(low=LEAST, high=0.0)]


class Suggested(NamedTuple):
    """What is remembered of an episode.

    The policy played is weight * matched + (1 - weight) * planned, except in some rows.

    Attributes:
        rows: (R,) these rows, flat over (H, S) and increasing; None for all of them.
        values: (R, A) the policy played there.
        matched: (H, S, A) the policy of regret matching+, as `versions` stores it.
        planned: (H, S, A) the plan, stored in the same way.
        weight: the weight of regret matching+.
        said: (M, 1 or H, S, A) the predictions of the memories.
    """

    rows: Annotated[Ints, Entries("_", low=0)] | None
    values: Annotated[Floats, Entries("_ A", low=0.0, high=ROUNDED)]
    matched: Kept
    planned: Kept
    weight: Annotated[float, Entries(low=0.0, high=1.0)]
    said: Annotated[Floats, Entries("M 1|H S A", low=0.0, high=ROUNDED)]


class InformedPlanner(Learner[Suggested]):
    """An optimistic plan for expected costs, mixed with regret matching+; for full information.

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
    _model: KnownModel | FrequencyModel
    _matched: Regrets
    _pending: Pending
    _waiting: Waiting
    _means: Annotated[Floats, Entries("M 1|H S A", low=0.0, high=1.0)]
    _weights: Annotated[Floats, Entries(low=0.0)]  # (M,)
    _memory_scores: Scores  # (M,)
    _local: Scores  # (M, S, A)
    _errors: Annotated[Floats, Entries(low=0.0)]  # (M + 1,)
    _prior: Annotated[Floats, Entries(low=0.0, high=1.0)]  # (3,)
    _scores: Annotated[
        Floats, Entries(low=math.log(LEAST_WEIGHT), high=0.0)
    ]  # (2,), log weights of regret matching+ and the plan

    def __init__(
        self,
        problem: Problem,
        *,
        transitions: Transitions | None = None,
        changing: bool = True,
        seed: int = 0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        if transitions is not None:
            checks.instance("transitions", transitions, Transitions)
            matching(problem, transitions)
        changing = checks.flag("changing", changing)
        self._seed = checks.integer("seed", seed, 0, 2**64 - 1)
        self.uses_paths = transitions is None
        super().__init__(problem, transitions=transitions, changing=changing, seed=self._seed)
        _, S, A = problem.shape
        self._plans = versions.Versions()
        self._keep = np.array(KEEP if changing else KEEP[:1])
        M = len(self._keep)
        self._transitions = transitions
        self._model = (
            KnownModel(problem, transitions)
            if transitions is not None
            else FrequencyModel(problem, BONUS, free=False)
        )
        shape, known = self._rows.successors.shape[:3], transitions is not None
        self._trust = deep_planning.Trust(
            np.full(shape, float(known)), np.zeros(shape), np.zeros(shape)
        )
        self._match = RegretMatching()
        self._matched = self._match.start(problem, REVEALED)
        self._pending = Pending(shape)
        self._waiting = Waiting(problem)
        self._said: Floats | None = None  # the current predictions, if computed
        self._means = np.full((M, 1, S, A), 0.5)
        self._weights, self._memory_scores = np.zeros(M), np.zeros(M)
        self._local, self._errors = np.zeros((M, S, A)), np.zeros(M + 1)
        self._prior, self._scores = np.array(FIRST_PRIOR), np.zeros(2)

    @property
    def axes(self) -> dict[str, int]:
        """The number of memories."""
        return {"M": len(self._keep)}

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Count the paths, then learn from every episode whose costs have arrived."""
        paths, entries = self._ledger.take(records)
        self._model.learn(paths, self.begun)
        for path in paths:
            self._pending.take_out(path.episode)  # its rows are counted now
        for entry in entries:
            if entry.costs is not None:
                if entry.memory is not None:
                    self._learn(entry)
                self._waiting.arrive(entry.number)
                self._ledger.settle(entry)

    def forget(self, episode: int) -> None:
        """Discard an episode: its feedback will not be used, and its visits are not pending."""
        super().forget(episode)
        self._waiting.forget(episode)
        self._pending.take_out(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger, the cost of the policy, and the weights."""
        memories = np.exp(self._memory_scores)
        memories /= memories.sum()
        counts, policy, costs = self._model.counts, self._ledger.policy, self._ledger.newest
        told = {} if counts is None else {"visited": float(np.mean(counts.visits > 0))}
        if policy is not None and costs is not None:
            told["cost"] = self._model.value(frozen(costs), frozen(policy))
        return {
            **super().diagnostics(),
            **told,
            "weight_plan": float(self._mixing()[1]),
            **{f"weight_{m}": float(weight) for m, weight in enumerate(memories)},
        }

    def check_learned(self) -> None:
        """Check the prior."""
        checks.real("prior variance", self._prior[1], LEAST_SPREAD, SPAN)

    def _next_policy(self) -> tuple[Floats, Suggested]:
        self._pending.give_up(self.begun)
        missing = self._waiting.begin()
        coming = min(float(missing), self._waiting.mean_delay)
        outlook = Outlook(missing, coming)
        matched = frozen(self._match.policy(self._matched, outlook))
        if self._said is None:
            said = np.empty(self._means.shape)
            foresight.say(self._learned, said)
            self._said = frozen(said)
        planned = self._plan()
        played = self._mixed(matched, planned)
        if self.uses_paths:
            visits, cells = np.zeros(self._trust.near.shape), np.zeros(self.problem.shape[1:])
            start = self.problem.start_probabilities
            deep_planning.expected_visits(self._rows, self._trust, played, start, visits, cells)
            self._pending.put_in(self.begun, frozen(visits))
        return played, self._suggested(played, matched, planned)

    def _plan(self) -> Floats:
        """The optimistic plan for the expected costs."""
        H, S, A = self.problem.shape
        assert self._said is not None
        costs = np.empty(self._said.shape[1:])
        foresight.expected(self._learned, self._said, costs)
        if self._model.counts is not None:
            visits = self._model.counts.visits
            deep_planning.trust(visits, self._pending.totals[0], self._trust)
            if not visits.any((0, 2)).all():  # the way to a state may be unknown
                seen = visits + deep_planning.PRIOR
                share = np.where(visits > 0, seen / (seen + NEW), 1.0)
                self._trust.near[:] *= share
                self._trust.far[:] *= share
        policy = np.zeros((H, S, A))
        deep_planning.plan(
            self._rows,
            self._trust,
            deep_planning.exactly(costs),
            np.zeros((S, A)),
            np.full((S, A), LEAN),
            generator(self._seed, self.begun).random((H, S)),
            policy,
        )
        return frozen(policy)

    def _mixing(self) -> Floats:
        """The weights (2,) of regret matching+ and the plan."""
        weights: Floats = np.exp(self._scores)
        weights /= weights.sum()
        return weights

    def _mixed(self, matched: Floats, planned: Floats) -> Floats:
        """The policy of the mixture of both occupancy measures."""
        mixed, start = np.empty(self.problem.shape), self.problem.start_probabilities
        mixing.mix(self._rows, matched, planned, self._mixing()[0], start, mixed)
        return frozen(mixed)

    def _suggested(self, played: Floats, matched: Floats, planned: Floats) -> Suggested:
        """The memory of an episode; of a large policy, the rows that differ from the mixture."""
        assert self._said is not None
        weight, flat = float(self._mixing()[0]), played.reshape(-1, played.shape[-1])
        rows: Ints | None = None
        if played.size >= versions.LARGE:
            plain = weight * matched + (1.0 - weight) * planned
            rows = frozen(versions.differing(plain, played))
            flat = frozen(flat[rows])
        kept, plan = self._versions.keep(matched), self._plans.keep(planned)
        return Suggested(rows, flat, kept, plan, weight, self._said)

    def _played(self, memory: Suggested, matched: Floats, planned: Floats) -> Floats:
        """The policy that was played, bit for bit."""
        if memory.rows is None:
            return memory.values.reshape(self.problem.shape)
        mixed = memory.weight * matched + (1.0 - memory.weight) * planned
        mixed.reshape(-1, self.problem.actions)[memory.rows] = memory.values
        return frozen(mixed)

    def _learn(self, entry: Open[Suggested]) -> None:
        """Score the two policies and the predictions, then learn."""
        assert entry.memory is not None
        assert entry.costs is not None
        costs = frozen(entry.costs.values)
        said = entry.memory.said
        matched, planned = (
            versions.whole(entry.memory.matched),
            versions.whole(entry.memory.planned),
        )
        played = self._played(entry.memory, matched, planned)
        H = self.problem.horizon
        values = np.array([self._model.value(costs, policy) for policy in (matched, planned)])
        scores = KEEP_SCORES * self._scores - RATE * (values / H + (TOLL, 0.0))
        self._scores = np.maximum(scores - scores.max(), math.log(LEAST_WEIGHT))
        if len(costs) > self._means.shape[1]:
            self._means = np.repeat(self._means, len(costs), axis=1)
        foresight.learn(self._learned, self._keep, said, costs, H)
        self._match.learn(self._matched, Arrival(played, costs, self._model))
        self._pending.note(self.begun - 1 - entry.number)
        self._said = None

    @property
    def _rows(self) -> Rows:
        if self._transitions is not None:
            return self._transitions.rows
        assert isinstance(self._model, FrequencyModel)
        counts = self._model.counts
        return Rows(frozen(counts.successors), frozen(self._model.model.probabilities))

    @property
    def _learned(self) -> foresight.Means:
        return foresight.Means(
            self._means,
            self._weights,
            self._memory_scores,
            self._local,
            self._errors,
            self._prior,
        )
