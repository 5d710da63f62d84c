"""Policies of open episodes are shared, kept as differences, and equal to the last bit."""

import hashlib
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import belated as bl
import recorded
from belated.core import saving, versions
from belated.core.tree import Configured, freeze, thaw
from belated.core.versions import Kept, RowsDifference, Versions, whole
from belated.parts import Bonus, Softmax
from registry import AGENTS


@pytest.fixture
def by_difference(monkeypatch):
    monkeypatch.setattr(versions, "LARGE", 0)


def policy(rng, rows=6, actions=3):
    return bl.core.arrays.frozen(rng.dirichlet(np.ones(actions), size=(2, rows // 2)))


def test_a_policy_that_did_not_change_is_one_object(by_difference):
    rng, kept = np.random.default_rng(0), Versions()
    first = policy(rng)
    assert kept.keep(first) is kept.keep(first)
    other = policy(rng)
    assert kept.keep(other) is kept.keep(other)
    assert kept.keep(other) is not kept.keep(first)


def test_a_policy_is_made_again_to_the_last_bit(by_difference):
    rng, kept = np.random.default_rng(1), Versions()
    played, found = [], []
    last = np.full((4, 5, 3), 1 / 3)
    for k in range(40):
        last = last.copy()
        last[rng.integers(4), rng.integers(5)] = rng.dirichlet(np.ones(3))
        if k == 20:
            last[:] = rng.dirichlet(np.ones(3), size=(4, 5))
        played.append(bl.core.arrays.frozen(last))
        found.append(kept.keep(played[-1]))
    for given, one in zip(played, found, strict=True):
        assert whole(one).tobytes() == given.tobytes()
    sizes = [len(one.rows) for one in found if isinstance(one, RowsDifference)]
    assert len(sizes) > 30
    assert np.mean(sizes) < 10  # of 20 rows


def test_which_rows_differ_takes_a_bit_for_each(by_difference):
    """A policy with R changed rows of n takes at most 8 R A + n / 8 bytes."""
    rng, kept = np.random.default_rng(1), Versions()
    first = rng.dirichlet(np.ones(3), size=(10, 100))
    kept.keep(bl.core.arrays.frozen(first))
    for count in (1, 400, 800):
        other = first.copy()
        rows = np.sort(rng.choice(1000, count, replace=False))
        other.reshape(-1, 3)[rows] = rng.dirichlet(np.ones(3), size=count)
        found = kept.keep(bl.core.arrays.frozen(other))
        np.testing.assert_array_equal(found.rows, rows)
        assert found.bits.nbytes + found.values.nbytes == 125 + 24 * count
        assert whole(found).tobytes() == other.tobytes()


def test_the_sign_of_zero_is_kept(by_difference):
    kept = Versions()
    kept.keep(bl.core.arrays.frozen(np.array([[[0.0, 1.0], [0.5, 0.5]]])))
    found = kept.keep(bl.core.arrays.frozen(np.array([[[-0.0, 1.0], [0.5, 0.5]]])))
    assert np.signbit(whole(found)[0, 0, 0])


def test_rows_that_are_never_looked_at_are_not_kept(by_difference):
    kept, rng = Versions(np.array([[1, 0, 0], [0, 1, 0]], dtype=bool)), np.random.default_rng(2)
    kept.keep(policy(rng))
    given = policy(rng)
    found = kept.keep(given)
    assert found.rows.tolist() == [0, 4]
    flat = whole(found).reshape(-1, 3)
    np.testing.assert_array_equal(flat[[0, 4]], given.reshape(-1, 3)[[0, 4]])


KNOWING = ("known",)
"""Names of agents that know the transitions, and need no row that cannot be reached."""


OTHERS = ("oreps", "ftrl", "uob", "ucbvi", "posterior", "q learning", "actor", "dilated")
"""Names of agents that remember something other than a policy."""


@pytest.mark.parametrize("name", [n for n in AGENTS if not any(word in n for word in OTHERS)])
def test_every_agent_plays_the_same_whatever_is_kept(name, monkeypatch):
    world, _ = recorded.worlds()["per step"]
    everything = recorded.played(world, AGENTS[name](world))
    monkeypatch.setattr(versions, "LARGE", 0)
    found = recorded.played(world, AGENTS[name](world))
    start = world.problem.start_probabilities
    looked = world.mdp.transitions.reachable(start, world.problem.horizon)
    if not any(word in name for word in KNOWING):
        looked[:] = True
    assert found[:, looked].tobytes() == everything[:, looked].tobytes()


def test_reachable_states_are_those_that_occupancies_reach():
    world = bl.environments.gridworld(size=5, horizon=7)
    found = world.mdp.transitions.reachable(world.problem.start_probabilities, 7)
    rows, columns = np.divmod(np.arange(25), 5)
    for h in range(7):  # h steps lead to cells at a distance of at most h
        np.testing.assert_array_equal(found[h], rows + columns <= h)


def grid(size=6, horizon=8, delay=25, episodes=80, **arguments):
    """The policies of the paper's agent on a grid, and the agent."""
    world = bl.environments.gridworld(size=size, horizon=horizon)
    agent = bl.DelayedOPPO(world.problem, transitions=Bonus(), update=Softmax(0.2), **arguments)
    line, rng, digest = bl.DelayLine(), np.random.default_rng(0), hashlib.sha256()
    costs = world.costs.at(0)
    for k in range(episodes):
        played = agent.begin_episode().policy
        digest.update(played.tobytes())
        line.push([world.mdp.play(played, rng, k), bl.Costs(k, costs)], delay)
        agent.observe(line.release(k))
    return digest.hexdigest(), agent


def test_a_grid_is_learned_bit_for_bit_from_a_part_of_its_rows(monkeypatch):
    everything, _ = grid()
    monkeypatch.setattr(versions, "LARGE", 0)
    found, agent = grid()
    assert found == everything
    kept = [entry.memory.policy for entry in agent._ledger.open.values() if entry.memory]
    assert len(kept) == 25
    rows = [len(one.rows) for one in kept if isinstance(one, RowsDifference)]
    assert len(rows) == 25
    assert np.mean(rows) < 0.5 * 6 * 6 * 8


def test_episodes_between_two_updates_share_a_policy():
    world = bl.environments.gridworld(size=3, horizon=4)
    agent = bl.DelayedOPPO(world.problem, transitions=Bonus(), update=Softmax(0.2))
    for _ in range(5):
        agent.begin_episode()
    entries = list(agent._ledger.open.values())
    assert all(entry.memory.policy is entries[0].memory.policy for entry in entries)


def policy_of(memory):
    return memory.matched if hasattr(memory, "matched") else memory.policy


@pytest.mark.parametrize(
    "name", ["oppo bonus full", "dapo known", "oppo confidence bandit", "practice full"]
)
def test_a_saved_agent_continues_from_differences(name, by_difference):
    world, _ = recorded.worlds()["per step"]
    agent = AGENTS[name](world)
    recorded.played(world, agent)
    twin = saving.from_bytes(saving.to_bytes(agent), "here")
    assert any(
        isinstance(policy_of(e.memory), RowsDifference)
        for e in twin._ledger.open.values()
        if e.memory
    )
    costs = np.full(3, 0.5) if agent.information == "bandit" else np.full((1, 4, 2), 0.5)
    for number in agent.open_episodes():
        for one in (agent, twin):
            path = bl.Trajectory(number, np.zeros(4, int), np.zeros(3, int))
            entry = next(e for e in one._ledger.open.values() if e.number == number)
            told = [] if "path" in entry.facts else [path]
            one.observe([*told, *([] if entry.reported else [bl.Costs(number, costs)])])
    first, second = agent.begin_episode().policy, twin.begin_episode().policy
    assert first.tobytes() == second.tobytes()


BASE = np.full((2, 3, 2), 0.5)
VALUES = np.array([[0.25, 0.75], [1.0, 0.0]])


@bl.saving.register
class Holder(Configured):
    """An object that has learned a policy."""

    policy: Kept

    def __init__(self, problem):
        self.problem, self.policy = problem, problem.uniform_policy()


def read(**changes):
    """The policy of a saved difference."""
    good = RowsDifference(BASE, np.packbits([0, 1, 0, 0, 1, 0]), VALUES)
    holder = Holder(bl.Problem(3, 2, 2))
    holder.policy = replace(good, **changes)
    return thaw(freeze(holder)).policy


def test_a_difference_of_a_file_is_read():
    expected = BASE.copy()
    expected[0, 1], expected[1, 1] = VALUES
    np.testing.assert_array_equal(whole(read()), expected)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("bits", np.array([255], dtype=np.uint8), "bits must be one per row"),
        ("bits", np.array([0, 3], dtype=np.uint8), "bits must be one per row"),
        ("bits", np.array([1.0]), "bits must be an array of uint8"),
        ("values", np.array([[0.5, 0.6], [1.0, 0.0]]), "sum to 1"),
        ("values", np.array([[0.5, 0.5]]), "bits must be one per row"),
        ("values", np.array([[2.0, -1.0], [1.0, 0.0]]), r"in \[0, 1\]"),
        ("base", np.full((2, 3, 3), 1 / 3), "base must have shape"),
        ("base", np.full((2, 3, 2), 0.6), "sum to 1"),
    ],
)
def test_a_forged_difference_is_refused(name, value, why):
    with pytest.raises(ValueError, match=why):
        read(**{name: value})


BIG = """
import json, resource, sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/.."]
from belated.core import versions
if sys.argv[2] == "everything":
    versions.LARGE = 2**60
from test_versions import grid
found, agent = grid(size=50, horizon=50, delay=1000, episodes=2100)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([found, peak]))
"""


@pytest.mark.long
def test_a_thousand_open_policies_of_a_large_grid_fit_into_a_gigabyte(request):
    """S = 2,500, A = 4, H = 50, fixed delay 1,000: 4 GB of policies if all are kept."""
    found = {}
    for what in ("rows", "everything"):
        place = str(request.path.parent)
        done = subprocess.run(
            [sys.executable, "-c", BIG, place, what], capture_output=True, check=True, text=True
        )
        found[what] = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"][0] == found["everything"][0]
    assert found["rows"][1] < 1e9
    assert found["everything"][1] > 4e9
