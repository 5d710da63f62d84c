"""The thread that calls the agent, and the same calls when a log is read again.

Calls come from the books in the order of the log and are numbered. A new episode does not wait for
them: the agent makes its policy between two calls, from what it has learned so far, and the event
contains the number of calls. So the log determines the order of everything that the agent has
received.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from belated.core.arrays import Floats, frozen
from belated.core.contract import Agent, Deciding
from belated.core.records import Decision
from belated.service.episodes import Call

SETTINGS = ("floor", "holdout")
"""The settings of an agent that may change while it learns."""
LOOK = 0.5
"""Seconds between two readings of the diagnostics."""
Ask = Callable[["Pupil"], None]
"""A function that requests episodes or decisions from an agent, and uses them."""


class Pupil:
    """An agent and the calls that wait for it.

    Attributes:
        learned: the number of calls it has processed.
        unused: the number of records for episodes that the agent itself had closed.
    """

    def __init__(self, agent: Agent, learned: int = 0, waiting: Iterable[Call] = ()) -> None:
        self.agent = agent
        self.learned = learned
        self.waiting: deque[Call] = deque(waiting)
        self.unused = 0
        self._dated = "now" in inspect.signature(agent.observe).parameters

    def begin(self) -> tuple[int, Floats]:
        """The next episode."""
        episode = self.agent.begin_episode()
        return episode.number, frozen(np.ascontiguousarray(episode.played, dtype=np.float64))

    def check(self, observation: Any, among: Any) -> Any:
        """Raise `ValueError` if no decision is possible there; the agent may refuse more.

        Returns the observation for `decide`, in a form that the agent reads faster, if it has one.
        """
        checker = getattr(self.agent, "check_observation", self.agent.problem.check_observation)
        found = checker(observation, among)
        return observation if found is None else found

    def decide(self, observation: Any, among: Any, now: float) -> Decision:
        """Begin an episode of one step and decide in it."""
        decide = getattr(self.agent, "decide", None) or partial(Deciding.decide, self.agent)
        made: Decision = decide(observation, among=among, now=now)
        return made

    def holdout(self, made: Decision) -> float:
        """The probability that the holdout, not the learner, has drawn a decision."""
        share: float = getattr(self.agent, "holdout", 0.0)
        return share and share / (np.count_nonzero(made.probabilities) * made.probability)

    def change(self, actions: Any, retire: int | None, settings: Mapping[str, Any]) -> None:
        """Change the agent according to an event; `ValueError`, and no change, if impossible."""
        own = {name: value for name, value in settings.items() if name in SETTINGS}
        wanted = {
            "add_action": actions is not None,
            "retire": retire is not None,
            "change": actions is not None or own,
        }
        agent: Any = self.agent
        for name, asked in wanted.items():
            if asked and not hasattr(agent, name):
                raise ValueError(
                    f"{type(agent).__name__} has no {name}; linear_sampler and agents of your own "
                    "with add_action, retire and change can add and retire actions"
                )
        if actions is not None:
            agent.problem.with_actions(actions)  # raises an error before anything has changed
            names = actions if isinstance(actions, list) else [None] * actions
            for added in names[agent.problem.actions :]:
                agent.add_action(added)
            if isinstance(actions, list):
                agent.change(names=actions)
        if retire is not None:
            agent.retire(retire)
        if own:
            agent.change(**own)

    def learn(self) -> None:
        """Pass on the oldest call."""
        call = self.waiting.popleft()
        self.learned += 1
        if isinstance(call, int):
            if self.agent.is_open(call):
                self.agent.forget(call)
            return
        if isinstance(call, float):
            if self._dated:
                self.agent.observe([], now=call)
            return
        records = [record for record in call if self.agent.is_open(record.episode)]
        self.unused += len(call) - len(records)
        came = [record.at for record in records if record.at is not None]
        if came and self._dated:
            self.agent.observe(records, now=max(came))
        else:
            self.agent.observe(records)

    def learn_up_to(self, learned: int) -> None:
        """Pass on calls until this many have been processed."""
        while self.learned < learned:
            self.learn()


class Learning:
    """A pupil in its own thread.

    Args:
        pupil: used only by the thread from now on, apart from `add`.
        capture: called in the thread when a snapshot is due, while the pupil is idle.
        failed: called in the thread if the agent raises an error.
    """

    def __init__(
        self, pupil: Pupil, capture: Callable[[], None], failed: Callable[[str], None]
    ) -> None:
        self._pupil = pupil
        self._capture = capture
        self._failed = failed
        self._wake = threading.Condition()
        self._asked: deque[Ask] = deque()
        self._due = False
        self._stopping = self._draining = False
        self.diagnostics: Mapping[str, float] = dict(pupil.agent.diagnostics())
        self._looked = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="learning", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of waiting calls."""
        return len(self._pupil.waiting)

    @property
    def asked(self) -> int:
        """The number of requested episodes that have not begun."""
        return len(self._asked)

    def add(self, calls: list[Call]) -> None:
        """Queue calls for the agent."""
        if calls:
            with self._wake:
                self._pupil.waiting.extend(calls)
                self._wake.notify()

    def ask(self, ask: Ask) -> None:
        """Request episodes or decisions; `ask` is called in the thread."""
        with self._wake:
            self._asked.append(ask)
            self._wake.notify()

    def snapshot(self) -> None:
        """Request a snapshot."""
        with self._wake:
            self._due = True
            self._wake.notify()

    def stop(self, *, drain: bool) -> None:
        """End the thread, after all calls if `drain` is set; blocks."""
        with self._wake:
            self._stopping, self._draining = True, drain
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except Exception as error:  # the agent may be anyone's code
            logging.getLogger("belated.service").exception("an agent failed")
            self._failed(f"the agent failed: {type(error).__name__}: {error}")

    def _step(self) -> bool:
        """Do the most urgent work: begin episodes, make a snapshot, or learn."""
        pupil = self._pupil
        if not self._busy():
            self._look()  # without the lock, which requests need
        with self._wake:
            while not self._busy():
                self._wake.wait()
            asked = list(self._asked)
            self._asked.clear()
            due, self._due = self._due and not asked, self._due and bool(asked)
            end = self._stopping and not (self._draining and pupil.waiting)
        for ask in asked:
            ask(pupil)
        if due:
            self._capture()
        elif not asked:
            if end:
                self._look()
                return False
            pupil.learn()
        if time.monotonic() - self._looked > LOOK:
            self._look()
        return True

    def _busy(self) -> bool:
        return bool(self._asked or self._due or self._pupil.waiting or self._stopping)

    def _look(self) -> None:
        self.diagnostics = dict(self._pupil.agent.diagnostics())
        self._looked = time.monotonic()
