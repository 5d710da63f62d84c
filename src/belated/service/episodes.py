"""What is known of the episodes of a learner. Events change it, and nothing else does.

The same events give the same books, whether they happen or are read from the log. What the agent is
to be told comes out as calls, in order. Nothing here waits for the agent.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from belated.core import checks, stored
from belated.core.arrays import Floats
from belated.core.contract import Information
from belated.core.inbox import OVERDUE, PASSED, TOO_LATE, Inbox, Outcome
from belated.core.records import Asked
from belated.service.events import Begun, Changed, Choice, Chosen, Decided, Event, Fed, Forgotten
from belated.service.recorder import Call, Recorder
from belated.service.tally import Tally
from belated.service.wire import Arrived, End, Timed
from belated.tabular.records import UNKNOWN, Trajectory

HISTORY = 1000
"""How many of the newest episodes the page draws."""
BUCKETS = 32
"""Of delays: the last has 2**30 seconds and more."""
WAITED = "it happened after the deadline, or does not say when, and the default is learned"
"""Why a record is late where a default waits."""
REMEMBER = 10_000
"""Closed episodes that are remembered, to tell duplicates from conflicts."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What decides how the books are kept.

    deadline: of an episode, in seconds or, unless `timed`, in episodes. default: the cost of a step
    that has not reported by then; None: the episode is forgotten. grace: how much later that is;
    beside a default, what happened in time is taken until then, and nothing else.
    first: the number of the first episode. start: digest of the file that the agent came from.
    ends: whether episodes of one step wait for their last state, as in logs of format 2.
    dated: whether the agent looks at the time at which outcomes come. rewards: where they lie.
    """

    problem: Any
    information: Information
    uses_paths: bool
    deadline: float | None = None
    timed: bool = False
    default: float | None = None
    grace: float | None = None
    remember: int = REMEMBER
    first: int = 0
    start: str | None = None
    ends: bool = False
    dated: bool = False
    rewards: tuple[float, float] | None = None

    @property
    def waits(self) -> bool:
        """Whether a default waits for a grace, for what happened in time and comes later."""
        return self.default is not None and self.grace is not None

    @property
    def inbox(self) -> tuple[float | None, float | None, float | None]:
        """Deadline, default and grace of the inbox."""
        if self.waits:
            return (self.deadline or 0.0) + (self.grace or 0.0), self.default, None
        return self.deadline, self.default, self.grace


def digest(policy: Floats) -> str:
    """A short text that differs if a policy does."""
    return hashlib.blake2b(policy.tobytes(), digest_size=8).hexdigest()


class Books:
    """The open episodes, their policies and decisions, and what has been heard of them.

    Attributes:
        inbox: sorts feedback.
        policies: (H, S, A) of the open episodes.
        decisions: state and action by step, of the open episodes.
        opened: when an open episode began, oldest first.
        in_time: the same of those whose deadline has not passed.
        answered: those in time of which an outcome came, and perhaps not all.
        chosen: action and probability of decisions, while their key is known.
        keys: episodes by the client's key.
        history: time, cost and whether the deadline spoke, of the newest complete episodes.
        delays: how many costs came after 2**i seconds.
        tally: sums per action and per day.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.now = 0.0
        recorder = Recorder(terms.problem, terms.information, uses_paths=terms.uses_paths)
        recorder.start_at(terms.first)
        deadline, default, grace = terms.inbox
        self._adopt(
            Inbox(
                recorder,
                deadline=deadline,
                default=default,
                clock=self._clock if terms.timed else None,
                grace=grace,
                remember=terms.remember,
            ),
            recorder,
        )
        self.policies: dict[int, Floats] = {}
        self.decisions: dict[int, dict[int, tuple[int, int]]] = {}
        self.ends: dict[int, int] = {}
        self._closed_ends: dict[int, int] = {}  # in the order in which episodes were closed
        self.opened: dict[int, float] = {}
        self.in_time: dict[int, float] = {}
        self.answered: set[int] = set()
        self.chosen: dict[int, tuple[int, float]] = {}
        self.keys: dict[str, int] = {}
        self._key_of: dict[int, str] = {}
        self._old_keys: deque[str] = deque()
        self.history: deque[tuple[float, float, bool]] = deque(maxlen=HISTORY)
        self.delays = [0] * BUCKETS
        self.tally = Tally()
        self._by_deadline = False

    def __copy__(self) -> Books:
        """Books that say the same and stay as they are, to be written in another thread.

        What never changes, such as policies, is shared, so that this takes little time.
        """
        made: Books = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if isinstance(value, dict | deque | list | set):
                setattr(made, name, value.copy())
        made.decisions = {number: steps.copy() for number, steps in self.decisions.items()}
        made.tally = copy.copy(self.tally)
        made.inbox = copy.copy(self.inbox)
        made.inbox.agent = made._recorder = copy.copy(self._recorder)
        return made

    def _adopt(self, inbox: Inbox, recorder: Recorder) -> None:
        self.inbox = inbox
        self._recorder = recorder
        recorder.heard = self._heard

    def _clock(self) -> float:
        return self.now

    @property
    def begun(self) -> int:
        """How many episodes have begun."""
        return self.inbox.begun

    def is_open(self, episode: int) -> bool:
        """Whether feedback of this episode is still waited for."""
        return episode in self.opened

    def passed(self, now: float) -> bool:
        """Whether a deadline or grace in seconds has passed of which no event tells yet."""
        deadline = self.terms.deadline
        if not self.terms.timed or not self.opened or deadline is None:
            return False
        now = max(now, self.now)
        if self.in_time and now - next(iter(self.in_time.values())) > deadline:
            return True
        return now - next(iter(self.opened.values())) > deadline + (self.terms.grace or 0)

    @property
    def untold(self) -> bool:
        """Whether there are calls that nobody has read."""
        return bool(self._recorder.calls)

    def calls(self) -> list[Call]:
        """What the agent is to be told since this was last asked."""
        found = self._recorder.calls[:]
        self._recorder.calls.clear()
        return found

    def apply(self, event: Event, policy: Floats | None = None) -> list[Outcome]:
        """Let an event happen. policy: that of the new episode. Returns outcomes of feedback."""
        self.now = max(self.now, event.at)
        self._by_deadline = True
        self.inbox.expire()
        outcomes: list[Outcome] = []
        if isinstance(event, Begun):
            assert policy is not None
            self._begin(event, policy)
        elif isinstance(event, Chosen):
            for choice in event.choices:
                self._choose(choice)
        elif isinstance(event, Decided):
            self._by_deadline = False
            known = self.decisions.setdefault(event.episode, {})
            known[event.step] = (event.state, event.action)
            self._note_action(event.episode)
            built = self._built(event.episode)
            if built is not None:
                self.inbox.take([built])
                self._tidy(event.episode)
        elif isinstance(event, Fed):
            self._by_deadline = False
            at = self.now if self.terms.dated else None
            outcomes = self._feed([record.dated(at) for record in event.records])
        elif isinstance(event, Forgotten):
            self.inbox.forget(event.episode)
            self._tidy(event.episode)
        elif isinstance(event, Changed):
            self._change(event)
        while self.opened and not self.inbox.is_open(oldest := next(iter(self.opened))):
            self._tidy(oldest)
        while self.in_time and self._is_overdue(oldest := next(iter(self.in_time))):
            del self.in_time[oldest]
            self.answered.discard(oldest)
        return outcomes

    def _is_overdue(self, episode: int) -> bool:
        """Whether the deadline of an open episode has passed."""
        if self.terms.waits:
            return self.now - self.opened[episode] > (self.terms.deadline or 0.0)
        return self.inbox.is_overdue(episode)

    def _change(self, event: Changed) -> None:
        terms = self.terms
        if event.actions is not None:
            terms = replace(terms, problem=terms.problem.with_actions(event.actions))
        if "remember" in event.settings:
            terms = replace(terms, remember=event.settings["remember"])
        self.terms = terms
        self._recorder.adopt(terms.problem)
        self.inbox.problem = terms.problem
        self.inbox.remember = terms.remember

    def _begin(self, event: Begun, policy: Floats) -> None:
        number = self.inbox.begin_episode().number
        self.inbox.expire()  # its report of the begin is read by nobody
        assert number == event.episode
        self.policies[number] = policy
        self.opened[number] = self.in_time[number] = self.now
        self.tally.begin(number, self.now)
        if event.key is not None:
            self.keys[event.key] = number
            self._key_of[number] = event.key

    def _choose(self, choice: Choice) -> None:
        """Enter a decision of one step, with what was known and what was drawn."""
        episode = self.inbox.begin_episode()
        self.inbox.expire()
        number = episode.number
        assert number == choice.episode
        episode.notes.add(0, Asked(choice.observation, choice.action, choice.probability))
        self.opened[number] = self.in_time[number] = self.now
        self.tally.begin(number, self.now)
        self.tally.act(number, choice.action, choice.holdout)
        if choice.key is not None:
            self.keys[choice.key] = number
            self._key_of[number] = choice.key
            self.chosen[number] = (choice.action, choice.probability)

    def awaited(self, episode: int) -> list[Any]:
        """What an open episode still needs before it is learned from: words and steps."""
        several = not self.terms.problem.one_outcome  # each of them is learned from as it comes
        if several or not self.is_open(episode) or not self.inbox.is_open(episode):
            return []
        return self.inbox.awaited(episode)

    def _feed(self, records: Iterable[Arrived]) -> list[Outcome]:
        """Take what can be taken, and say of every record what became of it."""
        outcomes: list[Outcome | None] = []
        batch: list[Any] = []
        places: list[int | None] = []
        times: dict[int, float] = {}
        for given in records:
            record, time = given if isinstance(given, Timed) else (given, self.now)
            own = self._own_outcome(record, time)
            if own is None:
                times[len(batch)] = time
                batch.append(record)
                places.append(len(outcomes))
            elif isinstance(record, End) and own.used:
                self.ends[record.episode] = record.state
                built = self._built(record.episode)
                if built is not None:
                    batch.append(built)
                    places.append(None)
            elif isinstance(record, End) and own.kind == "late":
                self._remember_end(record.episode, record.state)
            outcomes.append(own)
        if batch:
            found = self.inbox.take(batch).outcomes
            for i, (place, record, outcome) in enumerate(zip(places, batch, found, strict=True)):
                if isinstance(record, Trajectory) and outcome.kind in ("taken", "late"):
                    self._note(record)
                if place is not None:
                    outcomes[place] = self._judged(outcome, times[i])
        for number in sorted({item.episode for item in batch}):  # as when the log is read again
            self._tidy(number)
        told = [outcome for outcome in outcomes if outcome is not None]
        assert len(told) == len(outcomes)
        self.tally.late += sum(outcome.kind == "late" for outcome in told)
        return told

    def _note(self, path: Trajectory) -> None:
        """Know decisions and end of a path, so that nothing else is believed of them later."""
        number, end = path.episode, int(path.states[-1])
        if number not in self.opened:
            self._remember_end(number, end)
            return
        pairs = zip(path.states.tolist(), path.actions.tolist(), strict=False)
        self.decisions[number] = dict(enumerate(pairs))
        self.ends[number] = end
        self._note_action(number)

    def _note_action(self, episode: int) -> None:
        """Count the action of an episode of one step, once it is known."""
        if self.terms.problem.horizon == 1 and episode in self.decisions:
            self.tally.act(episode, self.decisions[episode][0][1])

    def contradiction(self, record: Arrived) -> Outcome | None:
        """A conflict, if a path ends elsewhere than was said before.

        This is asked before an event is made, and not when a log is read: logs of earlier releases
        have such paths, and their learners have learned from them.
        """
        if not isinstance(record, Trajectory):
            return None
        number = record.episode
        end = self.ends.get(number, self._closed_ends.get(number))
        if end is None or end == record.states[-1]:
            return None
        why = f"episode {number}, path: it ended in state {end}, got {record.states[-1]}"
        return Outcome("conflict", number, "path", why)

    def _judged(self, outcome: Outcome, time: float) -> Outcome:
        """The outcome of a record that happened at this time: in time, although it came late."""
        if outcome.kind == "late" and outcome.used and not self._is_past(outcome.episode, time):
            return Outcome("taken", outcome.episode, outcome.part, used=True)
        return outcome

    def _is_past(self, episode: int | None, time: float) -> bool:
        """Whether an open episode had missed its deadline at a time. Only clocks can tell."""
        began = self.opened.get(-1 if episode is None else episode)
        if not self.terms.timed or began is None or self.terms.deadline is None:
            return True
        return min(time, self.now) - began > self.terms.deadline

    def _own_outcome(self, record: Arrived, time: float) -> Outcome | None:
        """The outcome of what an inbox does not know.

        These are ends, paths beside decisions, and outcomes that happened after their deadline
        while a default waits.
        """
        number = record.episode

        def is_now(kind: Literal["invalid", "unknown", "late", "conflict"], why: str) -> Outcome:
            return Outcome(kind, number, part, f"episode {number}, {part}: {why}")

        if isinstance(record, Trajectory):
            part = "path"
            for h, made in self.decisions.get(number, {}).items():
                if h < len(record.actions) and made != (record.states[h], record.actions[h]):
                    why = f"state {made[0]}, action {made[1]} was decided at step {h}"
                    return is_now("conflict", why)
            if self._is_built_without_end(number):
                return Outcome("duplicate", number, part, "its decision was noted before")
        waits = self.terms.waits and number in self.opened and record.is_outcome
        if waits and self._is_past(number, time):
            return Outcome("late", number, record.part, f"episode {number}: {WAITED}")
        if not isinstance(record, End):
            return None
        part = "end"
        S = self.terms.problem.states
        if record.state >= S:
            return is_now("invalid", f"end must be below {S}, got {record.state}")
        if number >= self.begun:
            return is_now("unknown", "the episode must be one that was begun")
        known = self.ends.get(number, self._closed_ends.get(number))
        if known is not None:
            if known == record.state:
                return Outcome("duplicate", number, part, "the same value came before")
            return is_now("conflict", f"it ended in state {known} before")
        if not self.inbox.is_open(number):
            return is_now("late", TOO_LATE)
        if self.inbox.is_overdue(number):
            return replace(is_now("late", OVERDUE), used=True)
        return Outcome("taken", number, part, used=True)

    def _is_built_without_end(self, episode: int) -> bool:
        """Whether the path of an open episode of one step was made from its decision."""
        problem = self.terms.problem
        one = problem.horizon == 1 and not self.terms.ends
        return one and len(self.decisions.get(episode, {})) == 1 and episode not in self.ends

    def _built(self, episode: int) -> Trajectory | None:
        """The path of decisions, once it is whole."""
        H, S, _ = self.terms.problem.shape
        known = self.decisions.get(episode, {})
        end = 0 if S == 1 else self.ends.get(episode)
        if end is None and self._is_built_without_end(episode):
            end = UNKNOWN
        if len(known) < H or end is None or not self.inbox.is_open(episode):
            return None
        states = [known[h][0] for h in range(H)]
        actions = [known[h][1] for h in range(H)]
        return Trajectory(episode, np.array([*states, end]), np.array(actions))

    def _heard(self, outcome: Any) -> None:
        """Note what came of an episode and how long that took."""
        began = self.opened.get(outcome.episode)
        if began is None:
            return
        if outcome.episode in self.in_time:
            self.answered.add(outcome.episode)
        if not self._by_deadline:
            seconds = int(max(0.0, self.now - began))
            self.delays[min(seconds.bit_length(), BUCKETS - 1)] += 1
        if self.terms.information == "bandit":
            amount = float(sum(outcome.facts().values()))
            self.history.append((self.now, amount, self._by_deadline))
            waited = None if self._by_deadline else self.now - began
            self.tally.hear(outcome.episode, amount, self.now, waited)

    def _tidy(self, episode: int) -> None:
        """Let go of what is not needed of a closed episode."""
        if episode not in self.opened or self.inbox.is_open(episode):
            return
        del self.opened[episode]
        self.in_time.pop(episode, None)
        self.answered.discard(episode)
        self.tally.close(episode)
        self.policies.pop(episode, None)
        self.decisions.pop(episode, None)
        if episode in self.ends:
            self._remember_end(episode, self.ends.pop(episode))
        key = self._key_of.pop(episode, None)
        if key is not None:
            self._old_keys.append(key)
            while len(self._old_keys) > self.terms.remember:
                number = self.keys.pop(self._old_keys.popleft(), None)
                self.chosen.pop(-1 if number is None else number, None)

    def _remember_end(self, episode: int, state: int) -> None:
        """Remember where a closed episode ended, and let go of the oldest."""
        self._closed_ends[episode] = state
        while len(self._closed_ends) > self.terms.remember:
            del self._closed_ends[next(iter(self._closed_ends))]

    @property
    def pending(self) -> int:
        """Open episodes within their deadline of which no outcome came."""
        return len(self.in_time) - len(self.answered)

    @property
    def overdue(self) -> int:
        """Open episodes past their deadline."""
        return len(self.opened) - len(self.in_time)

    def counts(self) -> Counter[str]:
        """What the deadline did to episodes, since the beginning."""
        counted = self.inbox.counts()
        return Counter({name: counted[name] for name in PASSED})

    def state(self) -> stored.State:
        """Everything, as it is now. Calls must have been read."""
        open_ = list(self.opened)
        made = [(n, h, *at) for n, steps in self.decisions.items() for h, at in steps.items()]
        return {
            "inbox": self.inbox.state(),
            "now": self.now,
            "open": np.array(open_, dtype=np.int64),
            "opened": np.array(list(self.opened.values()), dtype=np.float64),
            "policies": [self.policies.get(n) for n in open_],
            "chosen": [[n, *made] for n, made in self.chosen.items()],
            "decisions": np.array(made, dtype=np.int64).reshape(-1, 4),
            "ends": np.array(list(self.ends.items()), dtype=np.int64).reshape(-1, 2),
            "closed_ends": np.array(list(self._closed_ends.items()), np.int64).reshape(-1, 2),
            "keys": [[key, number] for key, number in self.keys.items()],
            "old_keys": list(self._old_keys),
            "history": np.array([(t, c, float(d)) for t, c, d in self.history]).reshape(-1, 3),
            "delays": np.array(self.delays, dtype=np.int64),
            "tally": self.tally.state(),
        }

    @classmethod
    def from_state(cls, terms: Terms, saved: stored.State) -> Books:
        """The books that wrote the state, kept on these terms."""
        names = ("inbox", "now", "open", "opened", "policies", "chosen", "decisions", "ends")
        if isinstance(saved, dict):  # there were neither decisions in one request nor sums before
            saved = {"chosen": [], "tally": None, **saved}
        more = ("closed_ends", "keys", "old_keys", "history", "delays", "tally")
        read = stored.exact(saved, *names, *more)
        made = cls(terms)
        inbox = Inbox.from_state(read["inbox"])
        recorder = inbox.agent
        if not isinstance(recorder, Recorder):
            raise ValueError("the snapshot must be of a learner of the service")
        if recorder.problem != terms.problem:
            actions = getattr(recorder.problem, "actions_listed", None)
            if actions is None or terms.problem.with_actions(actions) != recorder.problem:
                raise ValueError("the snapshot must be of the same problem")
        made.terms = terms = replace(terms, problem=recorder.problem, remember=inbox.remember)
        before = (inbox.deadline, inbox.default, inbox.grace)
        if before != terms.inbox:
            raise ValueError(f"deadline, default and grace must stay as they were: {before}")
        inbox.clock = made._clock if terms.timed else None
        made._adopt(inbox, recorder)
        made.now = checks.real("now", read["now"], 0.0)
        numbers = stored.array("open", read["open"], np.int64, (None,)).tolist()
        n = len(numbers)
        opened = stored.array("opened", read["opened"], np.float64, (n,)).tolist()
        policies = stored.items("policies", read["policies"])
        if len(policies) != n:
            raise ValueError(f"policies must be {n}, one per open episode, got {len(policies)}")
        known = {
            m: policy for m, policy in zip(numbers, policies, strict=True) if policy is not None
        }
        made.policies = {
            m: stored.array("policies", policy, np.float64, terms.problem.shape)
            for m, policy in known.items()
        }
        for item in stored.items("chosen", read["chosen"]):
            number, action, probability = stored.items("chosen", item)
            made.chosen[checks.integer("chosen", number, 0, inbox.begun - 1)] = (
                checks.integer("action", action, 0),
                checks.real("probability", probability, 0.0, 1.0),
            )
        made.opened = dict(zip(numbers, opened, strict=True))
        made.in_time = {n: at for n, at in made.opened.items() if not inbox.is_overdue(n)}
        for e, h, s, a in stored.array(
            "decisions", read["decisions"], np.int64, (None, 4)
        ).tolist():
            made.decisions.setdefault(e, {})[h] = (s, a)
        made.ends = dict(stored.array("ends", read["ends"], np.int64, (None, 2)).tolist())
        closed = stored.array("closed_ends", read["closed_ends"], np.int64, (None, 2))
        made._closed_ends = dict(closed.tolist())
        made.keys = {str(key): int(number) for key, number in read["keys"]}
        made._key_of = {n: key for key, n in made.keys.items() if n in made.opened}
        made._old_keys = deque(map(str, read["old_keys"]))
        for at, cost, late in stored.array(
            "history", read["history"], np.float64, (None, 3)
        ).tolist():
            made.history.append((at, cost, bool(late)))
        made.delays = stored.array("delays", read["delays"], np.int64, (BUCKETS,)).tolist()
        if read["tally"] is not None:
            made.tally = Tally.from_state(read["tally"])
        else:
            for number, at in made.opened.items():
                made.tally.begin(number, at)
        answered = (n for n, entry in made.tally.open.items() if entry.reports)
        made.answered = {n for n in answered if n in made.in_time}
        return made
