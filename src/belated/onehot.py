"""Tables of one step as decisions with features, where silence is information.

A state is a one-hot vector, a cost is a negated outcome, and an episode that never reports has cost
`silence`. `LinearSampler` estimates exposures, so no deadline is needed. It gets the action of an
episode as soon as it is known, so that an episode that has not reported yet counts by its age.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from belated.core import checks
from belated.core.arrays import Floats, frozen
from belated.core.contract import Episode
from belated.core.episodes import Learner, Open, check_in_step
from belated.linear.choice import Choice
from belated.linear.reward import Reward
from belated.linear.sampler import LinearSampler
from belated.tabular.problem import Problem
from belated.tabular.records import Record


class TableSampler(Learner[bool]):
    """A `LinearSampler` for a table of one step, where only some outcomes report.

    Args:
        problem: horizon = 1.
        silence: the cost, in [0, 1], of an episode that never reports.
        changes: whether costs may change over time.
        floor: probability that is shared out among all actions.
        seed: decides all draws.

    Example:
        >>> from belated.onehot import TableSampler
        >>> agent = TableSampler(bl.Problem(states=3, actions=2, horizon=1), silence=1.0)
        >>> agent.decide(0).probability
        0.5
    """

    reads_delays = True
    _sampler: LinearSampler

    def __init__(
        self,
        problem: Problem,
        *,
        silence: float = 1.0,
        changes: bool = True,
        floor: float = 0.01,
        seed: int = 0,
    ) -> None:
        checks.instance("problem", problem, Problem)
        if problem.horizon != 1:
            raise ValueError(f"problem must have horizon = 1, got {problem.horizon}")
        self.silence = checks.real("silence", silence, 0.0, 1.0)
        self._rows = np.eye(problem.states) if problem.states > 1 else None
        choice = Choice(problem.actions, None if self._rows is None else problem.states)
        given: dict[str, Any] = {"changes": changes, "floor": floor, "seed": seed}
        self._sampler = LinearSampler(choice, silence=-self.silence, **given)  # checks the rest
        super().__init__(problem, silence=self.silence, **given)

    def begin_episode(self, now: float | None = None) -> Episode:
        """The next episode: its number and a copy of the policy (1, S, A) to play in it."""
        self._read_notes()
        decision = self._sampler.begin_episode(now)
        rows = [None] if self._rows is None else self._rows
        policy = frozen(np.array([[decision.probabilities(0, x) for x in rows]]))
        return self._ledger.open_episode(True, policy)

    def _next_policy(self) -> tuple[Floats, bool]:
        """The policy of the next decision; `begin_episode` knows the time."""
        return self.begin_episode().shared, True

    def observe(self, records: Iterable[Record], now: float | None = None) -> None:
        """Accept a whole batch, or raise `FeedbackError` and accept none of it."""
        self._sampler._ledger.checked(now)  # before anything changes
        paths, entries = self._ledger.take(records)
        self._read_notes()
        for path in paths:
            self._note(path.episode, int(path.states[0]), int(path.actions[0]))
        came = [entry for entry in entries if entry.path is not None and entry.costs is not None]
        rewards = [Reward(entry.number, -float(entry.costs.values[0])) for entry in came]
        self._sampler.observe([one for one in rewards if one.value != -self.silence], now)
        for entry in came:
            self._ledger.settle(entry)

    def _learn(self, entry: Open[bool]) -> None:
        """Do nothing: `observe` learns."""

    def _read_notes(self) -> None:
        """Pass the noted actions of episodes to the sampler."""
        for number in [*self._sampler._acting]:
            entry = self._ledger.open.get(number)
            notes = None if entry is None else entry.notes
            asked = None if notes is None or notes.void else notes.decisions.get(0)
            if asked is not None:
                self._note(number, int(asked.observation or 0), asked.action)

    def _note(self, number: int, state: int, action: int) -> None:
        """Pass the action of an episode to the sampler, once."""
        if number in self._sampler._acting:
            self._sampler.note(number, None if self._rows is None else self._rows[state], action)

    def forget(self, episode: int) -> None:
        """Discard an episode: it stays in the sums with its current exposure."""
        self._read_notes()
        super().forget(episode)
        self._sampler.forget(episode)

    def diagnostics(self) -> Mapping[str, float]:
        """The diagnostics of the ledger and of the sampler."""
        return {**self._sampler.diagnostics(), **super().diagnostics()}

    def check_learned(self) -> None:
        """Check that the sampler has begun as many decisions."""
        check_in_step(self._sampler, self.begun)
