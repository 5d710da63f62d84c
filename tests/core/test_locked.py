"""Threads share an agent: every number is used once, and no record is lost."""

import pickle
import sys
import threading

import numpy as np
import pytest

import belated as bl
import oracles
from belated.parts import Softmax, Weighted
from belated.tabular.trial import feedback
from limits import LIMIT

WORLD = oracles.random_world(np.random.default_rng(0), 2, 3, 2)
THREADS, EACH = 6, 60


def make():
    agent = bl.DelayedOPPO(
        WORLD.problem,
        transitions=bl.parts.Confidence(radius_scale=0.1),
        costs=Weighted(0.1),
        update=Softmax(0.1),
    )
    return bl.wrappers.Locked(agent)


@pytest.fixture
def impatient():
    """Python switches between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient")
def test_threads_get_every_number_once_and_lose_no_record(tmp_path):
    agent, numbers, errors = make(), [], []
    together = threading.Barrier(THREADS)

    def work(index):
        try:
            rng = np.random.default_rng(index)
            together.wait()
            for k in range(EACH):
                episode = agent.begin_episode()
                numbers.append(episode.number)
                path, costs = feedback(WORLD, agent, episode.number, episode.policy, rng)
                if k % 10 == 9:
                    agent.forget(episode.number)
                else:
                    agent.observe(iter([path]))
                    agent.observe([costs])
                if k % 20 == 0:
                    bl.save(agent, tmp_path / f"agent{index}")
                    assert bl.load(tmp_path / f"agent{index}").begun <= agent.begun
                    agent.diagnostics()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(numbers) == list(range(THREADS * EACH))
    assert agent.begun == THREADS * EACH
    assert agent.open_episodes() == []
    assert agent.agent._model.arrived == THREADS * EACH * 9 // 10


def test_a_call_waits_until_the_one_before_has_ended():
    """The second thread calls while the first is inside, and enters when the first has left."""
    inside, leave, order = threading.Event(), threading.Event(), []

    class Slow(bl.DelayedOPPO):
        def begin_episode(self, now=None):
            order.append("in")
            inside.set()
            assert leave.wait(LIMIT)
            episode = super().begin_episode()
            order.append("out")
            return episode

    agent = bl.wrappers.Locked(Slow(WORLD.problem))
    first = threading.Thread(target=agent.begin_episode)
    first.start()
    assert inside.wait(LIMIT)
    second = threading.Thread(target=agent.begin_episode)
    second.start()
    second.join(0.1)
    assert order == ["in"]
    leave.set()
    first.join()
    second.join()
    assert order == ["in", "out", "in", "out"]


def test_one_lock_is_enough():
    with pytest.raises(ValueError, match="agent must not be Locked itself"):
        bl.wrappers.Locked(make())
    with pytest.raises(ValueError, match="agent must be an agent"):
        bl.wrappers.Locked(3)
    assert repr(make()).startswith("Locked(DelayedOPPO(")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda locked: bl.wrappers.Skipping(locked, 3),
        lambda locked: bl.wrappers.Pipeline(locked, 3),
        bl.Inbox,
        lambda locked: bl.wrappers.Lazy(locked, 2),
        bl.wrappers.Doubling,
        lambda locked: bl.wrappers.Parallel(lambda: locked, 3),
    ],
)
def test_the_lock_is_outside(wrap):
    """Inside, the lock would guard single calls but not what the wrapper does between them."""
    with pytest.raises(ValueError, match="must not be Locked, which belongs outside of all other"):
        wrap(make())


@pytest.mark.usefixtures("impatient")
def test_threads_that_share_an_inbox_take_every_record_once():
    """Two threads deliver the same queue, each in another order, while a third begins episodes."""
    shared = bl.wrappers.Locked(bl.Inbox(make().agent))
    rng, records, reports = np.random.default_rng(0), [], []
    for _ in range(50):
        episode = shared.begin_episode()
        records += feedback(WORLD, shared, episode.number, episode.policy, rng)

    def deliver(queue):
        for record in queue:
            reports.append(shared.take(iter([record])))

    def begin():
        for _ in range(50):
            shared.begin_episode()

    threads = [threading.Thread(target=deliver, args=(q,)) for q in (records, records[::-1])]
    threads.append(threading.Thread(target=begin))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = [outcome.kind for report in reports for outcome in report.outcomes]
    assert (kinds.count("taken"), kinds.count("duplicate"), len(kinds)) == (100, 100, 200)
    assert shared.open_episodes() == list(range(50, 100))
    assert str(shared.expire()) == "nothing"
    with pytest.raises(bl.FeedbackError, match="records must be a list"):
        shared.take(3)
    with pytest.raises(TypeError, match="agent must be an Inbox for take, got one of DelayedOPPO"):
        make().take([])


def test_a_locked_agent_can_be_pickled():
    agent = bl.wrappers.Locked(bl.recommend(bl.Problem(1, 2, 1), information="bandit"))
    number = agent.begin_episode().number
    twin = pickle.loads(pickle.dumps(agent))
    assert twin.open_episodes() == agent.open_episodes() == [number]
    twin.forget(number)
    assert agent.open_episodes() == [number]
