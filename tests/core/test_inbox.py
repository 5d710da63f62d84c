"""The inbox puts every record into exactly one class, keeps deadlines, and can be saved."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.core.inbox import KINDS
from belated.core.tree import freeze, thaw

H, S, A = 3, 2, 2
WORLD = oracles.random_world(np.random.default_rng(3), H, S, A)
PATHS = [([0, 1, 1, 0], [0, 1, 0]), ([0, 0, 1, 0], [0, 1, 1])]
COSTS = [(0.0, 0.5, 1.0), (0.0, 0.5, 0.25), (1.0, 0.0, 0.0)]
KEYS = ("path", *range(H))


def bandit():
    return bl.DelayedOPPO(
        WORLD.problem,
        transitions=bl.parts.Bonus(0.3),
        costs=bl.parts.Averaged(),
        update=bl.parts.Softmax(0.5),
    )


def path(number, which=0):
    states, actions = PATHS[which]
    return bl.Trajectory(number, np.array(states), np.array(actions))


def costs(number, which=0):
    return bl.Costs(number, np.array(COSTS[which]))


class Model:
    """The rules of an inbox, written with sets and nothing else.

    came: (episode, key) -> value. open: episodes that wait. The last `remember` closed episodes are
    remembered if any of their feedback came.
    """

    def __init__(self, deadline, grace, remember):
        self.deadline, self.grace, self.remember = deadline, grace, remember
        self.came, self.open, self.closed, self.begun = {}, set(), [], 0
        self.overdue = set()
        self.ended = {"overdue": [], "forgotten": [], "defaulted": []}
        self.told = dict.fromkeys(self.ended, 0)

    def untold(self, kind):
        """The episodes that a deadline ended in this way since the last call."""
        first, self.told[kind] = self.told[kind], len(self.ended[kind])
        return tuple(self.ended[kind][first:])

    def close(self, n):
        self.open.discard(n)
        if any((n, key) in self.came for key in KEYS) and n not in self.closed:
            self.closed.append(n)
        for old in self.closed[: max(len(self.closed) - self.remember, 0)]:
            for key in KEYS:
                self.came.pop((old, key), None)
        self.closed = self.closed[max(len(self.closed) - self.remember, 0) :]

    def begin(self, default):
        if self.deadline is not None:
            late = {n for n in self.open if self.begun - n > self.deadline} - self.overdue
            self.overdue |= late
            self.ended["overdue"] += sorted(late) if self.grace else []
            limit = self.deadline + (self.grace or 0)
            for n in sorted(n for n in self.open if self.begun - n > limit):
                use = default is not None and (n, "path") in self.came
                self.ended["defaulted" if use else "forgotten"].append(n)
                self.close(n)
        self.open.add(self.begun)
        self.begun += 1

    def take(self, n, values):
        """The class of a record. values: its content, by key."""
        if n >= self.begun:
            return "unknown"
        known = {key: self.came[n, key] for key in values if (n, key) in self.came}
        if any(values[key] != value for key, value in known.items()):
            return "conflict"
        if len(known) == len(values):
            return "duplicate"
        self.came.update({(n, key): value for key, value in values.items()})
        return "taken" if n in self.open - self.overdue else "late"

    def settle(self):
        """Close complete and late episodes, in the order of the batch."""
        for n in self.touched:
            if n not in self.open or all((n, key) in self.came for key in KEYS):
                self.close(n)

    def batch(self, records):
        """The classes of the records of a batch, which closes its episodes only at its end."""
        self.touched, kinds = [], []
        for record in records:
            kind = self.one(record)
            kinds.append(kind)
            if kind in ("taken", "late") and record.episode not in self.touched:
                self.touched.append(record.episode)
        self.settle()
        return kinds

    def one(self, record):
        if not hasattr(record, "episode"):
            return "invalid"
        if isinstance(record, bl.Trajectory):
            values = {"path": (tuple(record.states), tuple(record.actions))}
            valid = len(record.actions) == H
        elif isinstance(record, bl.Costs):
            values = dict(enumerate(record.values.tolist()))
            valid = record.values.shape == (H,)
        else:
            values, valid = {record.step: record.cost}, record.step < H
        return self.take(record.episode, values) if valid else "invalid"


WRONG = [
    *(None, 7, bl.StepCost(0, H, 0.5)),
    *(bl.Costs(1, np.zeros(H + 1)), bl.Costs(0, np.zeros((1, S, A)))),
]
number = st.integers(0, 9)
which = st.integers(0, 1)
record = st.one_of(
    st.builds(path, number, which),
    st.builds(costs, number, st.integers(0, 2)),
    st.builds(lambda n, h, i: bl.StepCost(n, h, COSTS[i][h]), number, st.integers(0, H - 1), which),
    st.sampled_from(WRONG),
)
action = st.one_of(
    *(st.just(name) for name in ("begin", "begin", "expire", "observe")),
    *(st.lists(record, max_size=6), number.map(lambda n: -n - 1)),
)


@settings(max_examples=150)
@given(
    st.lists(action, max_size=40),
    st.sampled_from([None, 0, 2, 5]),
    st.sampled_from([(None, None), (0.75, None), (None, 1), (None, 4)]),
    st.sampled_from([0, 1, 3, 10_000]),
)
def test_every_record_is_in_exactly_one_class(actions, deadline, after, remember):
    """Every episode that a deadline closes is in exactly one report, too.

    `Model` is the oracle; halfway, the inbox is written and read back.
    """
    default, grace = (None, None) if deadline is None else after
    inbox = bl.Inbox(bandit(), deadline=deadline, default=default, grace=grace, remember=remember)
    model = Model(deadline, grace, remember)
    given_in, expected = 0, dict.fromkeys(KINDS, 0)
    for i, act in enumerate(actions):
        if i == len(actions) // 2:
            inbox = thaw(freeze(inbox))
        if act == "begin":
            inbox.begin_episode()
            model.begin(default)
        elif isinstance(act, int):
            if -act - 1 in model.open:
                inbox.forget(-act - 1)
                model.close(-act - 1)
        elif act == "observe":  # returns no report, and takes nothing away from the next one
            inbox.observe([])
            with pytest.raises(bl.FeedbackError):
                inbox.observe([None])
        else:
            waiting = set(model.open)
            batch = [] if act == "expire" else act
            report = inbox.expire() if act == "expire" else inbox.take(batch)
            kinds = model.batch(batch)
            assert [outcome.kind for outcome in report.outcomes] == kinds
            for outcome in report.outcomes:
                new = outcome.kind in ("taken", "late")
                assert outcome.used <= (new and outcome.episode in waiting)
                assert outcome.used >= (outcome.kind == "taken")
            assert sum(report.counts.values()) == len(batch)
            for name in model.ended:
                assert getattr(report, name) == model.untold(name)
            for kind in kinds:
                expected[kind] += 1
            given_in += len(batch)
        assert set(inbox.open_episodes()) == model.open
        late = {n for n in range(model.begun) if inbox.is_overdue(n)}
        assert late == model.open & model.overdue
    counts = inbox.counts()
    assert {kind: counts[kind] for kind in KINDS} == expected
    assert sum(expected.values()) == given_in
    for name, ended in model.ended.items():
        assert counts[name] == len(ended)


def test_a_queue_that_doubles_reorders_and_splits_gives_the_agent_that_saw_each_once():
    """The policies agree bit for bit, although the batches have another order."""
    rng = np.random.default_rng(0)
    plain, inbox = bandit(), bl.Inbox(bandit())
    for _ in range(30):
        records = []
        for _ in range(3):
            one, other = plain.begin_episode(), inbox.begin_episode()
            assert np.array_equal(one.policy, other.policy)
            played = WORLD.mdp.play(one.policy, rng, one.number)
            records += [played, bl.Costs(one.number, rng.integers(0, 5, H) / 4)]
        plain.observe(records)
        split = [r for r in records if isinstance(r, bl.Trajectory)]
        for r in records:
            if isinstance(r, bl.Costs):
                split += [bl.StepCost(r.episode, h, r.values[h]) for h in range(H)]
        delivered = [split[i] for i in rng.permutation(np.repeat(np.arange(len(split)), 2))]
        report = inbox.take(delivered)
        assert report.counts["taken"] == report.counts["duplicate"] == len(split)
    assert np.array_equal(plain.begin_episode().policy, inbox.begin_episode().policy)


def test_a_report_names_conflicts():
    inbox = bl.Inbox(bandit())
    inbox.begin_episode()
    report = inbox.take([path(0), bl.StepCost(0, 1, 0.5), costs(0, 2), path(0, 1), costs(4)])
    assert str(report) == "2 taken, 2 conflict, 1 unknown"
    first, second = report.conflicts
    assert (first.episode, first.part) == (0, "costs")
    assert first.why == "episode 0, costs: step 1 cost 0.5 before, got 0"
    assert second.why == "episode 0, path: another path came before"
    assert report.outcomes[-1].why.endswith("one that was begun (the newest is 0)")
    assert inbox.take([costs(0), costs(0)]).counts["taken"] == 1
    assert not inbox.is_open(0)
    assert inbox.take([path(0), costs(0), costs(0, 1)]).counts == {
        **dict.fromkeys(KINDS, 0),
        "duplicate": 2,
        "conflict": 1,
    }
    assert str(inbox.take([])) == "nothing"


def test_nothing_is_remembered_when_the_agent_refuses():
    class Refusing(bl.DelayedOPPO):
        def observe(self, records, now=None):
            records = list(records)
            if records:
                raise bl.FeedbackError("not today")

    inbox = bl.Inbox(
        Refusing(WORLD.problem, costs=bl.parts.Averaged(), update=bl.parts.Softmax(0.5))
    )
    inbox.begin_episode()
    for _ in range(2):
        with pytest.raises(bl.FeedbackError, match="not today"):
            inbox.take([path(0)])
    assert sum(inbox.counts().values()) == 0


@pytest.mark.parametrize("default", [None, 0.25])
def test_a_deadline_in_seconds_by_a_clock(default):
    now = [100.0]
    inbox = bl.Inbox(bandit(), deadline=10, default=default, clock=lambda: now[0])
    for _ in range(3):  # at 100, 104 and 108
        inbox.begin_episode()
        now[0] += 4
    now[0] = 109.0
    inbox.take([path(0), path(1), bl.StepCost(1, 2, 1.0)])
    now[0] = 110.0  # exactly ten seconds: in time
    assert inbox.take([bl.StepCost(0, 0, 0.5)]).counts["taken"] == 1
    now[0] = 110.5
    report = inbox.take([bl.StepCost(0, 1, 0.5), bl.StepCost(0, 0, 0.5), bl.StepCost(0, 0, 0.0)])
    assert [o.kind for o in report.outcomes] == ["late", "duplicate", "conflict"]
    assert report.defaulted == ((0,) if default else ())
    assert report.forgotten == (() if default else (0,))
    now[0] = 50.0  # a clock that is set back does not change the time
    assert inbox.expire() == bl.Report(())
    now[0] = 200.0
    report = inbox.expire()
    assert report.forgotten == ((2,) if default else (1, 2))  # 2 has no path
    assert report.defaulted == ((1,) if default else ())
    assert inbox.open_episodes() == []
    assert inbox.diagnostics()["inbox_late"] == 1


def test_what_a_begin_an_observe_or_a_refused_batch_closes_is_in_the_next_report(monkeypatch):
    now = [0.0]
    agent = bandit()
    inbox = bl.Inbox(agent, deadline=1, clock=lambda: now[0])
    inbox.begin_episode()
    now[0] = 2.0
    inbox.begin_episode()  # closes 0
    now[0] = 4.0
    inbox.observe([])  # closes 1
    inbox.begin_episode()
    now[0] = 6.0
    with monkeypatch.context() as patch:  # closes 2, but its report never comes

        def refuse(records, now=None):
            raise bl.FeedbackError("not today")

        patch.setattr(agent, "observe", refuse)
        with pytest.raises(bl.FeedbackError, match="not today"):
            inbox.take([path(0)])
    inbox = thaw(freeze(inbox))
    inbox.clock = lambda: now[0]
    assert inbox.take([path(0)]).forgotten == (0, 1, 2)
    assert inbox.take([]).forgotten == inbox.expire().forgotten == ()
    assert inbox.counts()["forgotten"] == 3


@pytest.mark.parametrize("clock", [False, True])
def test_what_is_late_within_the_grace_moves_the_agent_as_if_it_had_been_in_time(clock):
    """Until the grace ends, the policies are those of an agent without an inbox, bit for bit."""
    now = [0.0]
    timed = {"clock": lambda: now[0]} if clock else {}
    inbox, plain = bl.Inbox(bandit(), deadline=2, grace=3, **timed), bandit()
    for k in range(7):
        now[0] = float(k)
        assert np.array_equal(inbox.begin_episode().policy, plain.begin_episode().policy)
        plain.observe([path(k)])
        inbox.take([path(k)])
        if k == 3:
            assert inbox.is_overdue(0)
            report = inbox.take([bl.StepCost(0, 0, 0.5)])
            assert (report.outcomes[0].kind, report.outcomes[0].used) == ("late", True)
            assert report.outcomes[0].why.endswith("the agent still uses it")
        if k == 5:  # the last moment
            report = inbox.take([costs(1), bl.StepCost(0, 1, 0.5), bl.StepCost(0, 2, 1.0)])
            assert [(o.kind, o.used) for o in report.outcomes] == [("late", True)] * 3
            assert not inbox.is_open(0)
            assert not inbox.is_overdue(0)
            values = bl.Costs(0, np.array([0.5, 0.5, 1.0]))
            plain.observe([costs(1), values])
    now[0] = 8.0
    for k in (7, 8):
        if k == (7 if clock else 8):
            plain.forget(2)  # its grace is over
        inbox.begin_episode(), plain.begin_episode()
    report = inbox.take([costs(2), costs(2), costs(2, 1)])
    assert [(o.kind, o.used) for o in report.outcomes] == [
        *(("late", False), ("duplicate", False), ("conflict", False))
    ]
    counts = inbox.counts()
    assert (counts["late"], counts["overdue"], counts["forgotten"]) == (5, 6, 1)
    assert np.array_equal(inbox.begin_episode().policy, plain.begin_episode().policy)


@pytest.mark.parametrize("information", ["bandit", "full"])
def test_a_default_is_what_the_agent_would_have_been_told(information):
    def agent():
        return bl.recommend(WORLD.problem, information=information)

    inbox, plain = bl.Inbox(agent(), deadline=1, default=0.75), agent()
    for _ in range(2):
        inbox.begin_episode(), plain.begin_episode()
    for each in (inbox.take, plain.observe):
        each([path(0), path(1)])
    if information == "bandit":
        inbox.take([bl.StepCost(0, 1, 0.5)])
        plain.observe([bl.Costs(0, np.array([0.75, 0.5, 0.75]))])
    else:
        plain.observe([bl.Costs(0, np.full((1, S, A), 0.75))])
    assert np.array_equal(inbox.begin_episode().policy, plain.begin_episode().policy)
    assert inbox.counts()["defaulted"] == 1


def test_an_episode_that_a_wrapper_dropped_is_closed_and_its_memory_is_free():
    inbox = bl.Inbox(bl.wrappers.Skipping(bandit(), 2), remember=5)
    for n in range(400):
        inbox.begin_episode()
        inbox.take([path(n)])
        assert inbox.open_episodes() == list(range(max(n - 2, 0), n + 1))
    assert inbox.take([costs(396)]).counts["late"] == 1
    assert inbox.take([costs(397)]).counts["taken"] == 1
    assert len(inbox._table.open) < 200
    assert len(inbox._table._closed) <= 5


def test_memory_is_bounded_by_what_is_open_and_remembered():
    inbox = bl.Inbox(bandit(), deadline=10, remember=20)
    for n in range(200):
        inbox.begin_episode()
        inbox.take([path(n)] if n % 2 else [path(n), costs(n)])
    assert len(inbox._table.open) <= 11
    assert len(inbox._table._closed) == 20


def test_closed_episodes_that_nobody_asks_for_do_not_pile_up(monkeypatch):
    monkeypatch.setattr("belated.core.inbox.MOST_UNREPORTED", 7)
    inbox = bl.Inbox(bandit(), deadline=0)
    for _ in range(31):
        inbox.begin_episode()
    assert inbox.expire().forgotten == tuple(range(23, 30))
    assert inbox.counts()["forgotten"] == 30


def test_a_saved_inbox_continues_and_asks_for_its_clock(tmp_path):
    inbox = bl.Inbox(bandit(), deadline=10.5, clock=lambda: 3.0)
    inbox.begin_episode()
    inbox.take([path(0), bl.StepCost(0, 1, 0.5)])
    bl.save(inbox, tmp_path / "inbox")
    twin = bl.load(tmp_path / "inbox")
    with pytest.raises(ValueError, match=r"clock must be set again after loading: inbox.clock"):
        twin.begin_episode()
    twin.clock = lambda: 14.0
    assert twin.take([bl.StepCost(0, 0, 0.5)]).forgotten == (0,)
    assert twin.counts()["late"] == 1


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"default": 0.5}, "default needs a deadline"),
        ({"clock": lambda: 0.0}, "clock needs a deadline"),
        ({"grace": 3}, "grace needs a deadline"),
        ({"deadline": 3, "grace": 0}, "grace must be a whole number of at least 1"),
        ({"deadline": 3, "grace": 0, "clock": lambda: 0.0}, "grace must be a finite number above"),
        ({"deadline": 3, "grace": 3, "default": 1.0}, "grace must be None beside a default"),
        ({"deadline": 2.5}, "deadline without a clock must be a whole number of at least 0"),
        ({"deadline": -1.0, "clock": lambda: 0.0}, "deadline must be a finite number"),
        ({"deadline": 3, "default": 1.5}, "default must be a finite number"),
        ({"deadline": 3, "clock": 7}, "clock must be a function"),
        ({"remember": -1}, "remember must be a whole number"),
    ],
)
def test_bad_arguments_are_named(keywords, message):
    with pytest.raises(ValueError, match=message):
        bl.Inbox(bandit(), **keywords)


def test_rewards_of_decisions_have_no_range():
    agent = bl.recommend(bl.Choice(2))
    with pytest.raises(ValueError, match="rewards must be None around a learner of decisions"):
        bl.Inbox(agent, rewards=(0, 10), clip=True)
    inbox = bl.Inbox(agent)
    assert inbox.take([bl.Reward(inbox.decide().number, -7.0)]).counts["taken"] == 1


def test_what_is_no_agent_no_list_and_no_time_is_named():
    with pytest.raises(ValueError, match="agent must be an agent"):
        bl.Inbox(7)
    with pytest.raises(ValueError, match="one Inbox is enough"):
        bl.Inbox(bl.Inbox(bandit()))
    with pytest.raises(bl.FeedbackError, match="records must be a list"):
        bl.Inbox(bandit()).take(7)
    with pytest.raises(ValueError, match=r"clock\(\) must be a finite number"):
        bl.Inbox(bandit(), deadline=1, clock=lambda: math.nan)


@pytest.mark.parametrize("good", range(1, 5))
def test_a_clock_that_fails_loses_no_episode(good):
    times = iter([0.0] * good + [math.nan] * 5)
    agent = bl.recommend(bl.Problem(1, 2, 1), information="bandit")
    inbox = bl.Inbox(agent, deadline=5.0, clock=lambda: next(times))
    numbers = []
    for _ in range(5):
        with contextlib.suppress(ValueError):
            numbers.append(inbox.begin_episode().number)
    assert len(numbers) < 5
    assert numbers == list(range(inbox.begun))


def test_an_inbox_around_an_agent_that_has_begun_dates_it_now():
    agent, now = bandit(), [0.0]
    for _ in range(3):
        agent.begin_episode()
    agent.forget(0)
    inbox = bl.Inbox(agent, deadline=5, clock=lambda: now[0])
    now[0] = 5.0
    assert inbox.expire() == bl.Report(())
    agent.begin_episode()  # not through the inbox, which dates the episode at its next call
    now[0] = 6.0
    assert inbox.expire().forgotten == (1, 2)
    now[0] = 11.1
    assert inbox.expire().forgotten == (3,)
