"""Saved agents: bit for bit, in a new process, and never anything else from a bad file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import belated as bl
import oracles
from registry import AGENTS

WORLDS = {
    "per step": oracles.random_world(np.random.default_rng(0), 3, 4, 2),
    "homogeneous": oracles.random_world(np.random.default_rng(1), 3, 3, 2, homogeneous=True),
}


def play(world, agent, first, last, line, rng):
    """Episodes first .. last - 1 with delays and losses; returns the policies."""
    policies = []
    for k in range(first, last):
        policy = agent.begin_episode().policy
        policies.append(policy)
        path = world.mdp.play(policy, rng, k)
        costs = world.costs.at(k)
        if agent.information == "bandit":
            H = world.problem.horizon
            costs = costs[np.arange(H), path.states[:-1], path.actions]
        line.push([path, bl.Costs(k, costs)], bl.NEVER if k % 7 == 3 else int(rng.integers(0, 6)))
        agent.observe(line.release(k))
    return policies


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS.keys())
@pytest.mark.slow
def test_a_loaded_agent_continues_bit_for_bit(world, make, tmp_path):
    stop = int(np.random.default_rng(list(AGENTS.values()).index(make)).integers(1, 25))
    agent, line, rng = make(world), bl.DelayLine(), np.random.default_rng(2)
    play(world, agent, 0, stop, line, rng)
    bl.save(agent, tmp_path / "agent")
    twin = bl.load(tmp_path / "agent")
    assert type(twin) is type(agent)
    assert twin.diagnostics() == agent.diagnostics()
    assert [p.name for p in tmp_path.iterdir()] == ["agent"]
    # both see the same records from here on
    for k in range(stop, 40):
        mine, other = agent.begin_episode().policy, twin.begin_episode().policy
        assert np.array_equal(mine, other)
        path, costs = world.mdp.play(mine, rng, k), world.costs.at(k)
        if agent.information == "bandit":
            costs = costs[np.arange(world.problem.horizon), path.states[:-1], path.actions]
        line.push([path, bl.Costs(k, costs)], int(rng.integers(0, 6)))
        batch = line.release(k)
        agent.observe(batch)
        twin.observe(batch)
    bl.save(agent, tmp_path / "one")
    bl.save(twin, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


CONTINUE = """
import sys, json
sys.path.insert(0, {tests!r})
import numpy as np, belated as bl, test_saving
from registry import AGENTS
world = test_saving.WORLDS["per step"]
found = {{}}
for i, name in enumerate(AGENTS):
    agent = bl.load(f"agent{{i}}")
    rng, line = np.random.default_rng(9), bl.DelayLine()
    policies = test_saving.play(world, agent, 12, 30, line, rng)
    found[name] = [p.tobytes().hex() for p in policies]
json.dump(found, open("policies.json", "w"))
"""


@pytest.mark.slow
def test_a_new_process_continues_every_agent(tmp_path):
    world, expected = WORLDS["per step"], {}
    for i, (name, make) in enumerate(AGENTS.items()):
        agent = make(world)
        play(world, agent, 0, 12, bl.DelayLine(), np.random.default_rng(8))
        bl.save(agent, tmp_path / f"agent{i}")
        policies = play(world, agent, 12, 30, bl.DelayLine(), np.random.default_rng(9))
        expected[name] = [p.tobytes().hex() for p in policies]
    code = CONTINUE.format(tests=str(Path(__file__).parent))
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "policies.json").read_text()) == expected


def saved(tmp_path):
    world = WORLDS["per step"]
    agent = AGENTS["skipping confidence bandit"](world)
    play(world, agent, 0, 12, bl.DelayLine(), np.random.default_rng(3))
    bl.save(agent, tmp_path / "good")
    return (tmp_path / "good").read_bytes()


@pytest.mark.slow
def test_a_thousand_corruptions(tmp_path):
    """Flips, cuts, insertions, swaps: an error, or the identical agent."""
    good = saved(tmp_path)
    rng = np.random.default_rng(0)
    path, refused = tmp_path / "bad", 0
    for i in range(1000):
        data = bytearray(good)
        kind = i % 5
        where = int(rng.integers(0, 200 if i % 2 else len(good)))
        if kind == 0:
            data[where] ^= 1 << int(rng.integers(0, 8))
        elif kind == 1:
            data = data[:where]
        elif kind == 2:
            data[where:where] = rng.bytes(int(rng.integers(1, 50)))
        elif kind == 3:
            data[where : where + 20] = rng.bytes(20)
        else:
            other = int(rng.integers(0, len(good)))
            data[where], data[other] = data[other], data[where]
        path.write_bytes(data)
        try:
            bl.save(bl.load(path), tmp_path / "again")
        except bl.SavedFileError as error:
            refused += "\n" not in str(error)
        else:
            assert (tmp_path / "again").read_bytes() == good
    assert refused > 900  # the others changed nothing


def rewritten(tmp_path, change):
    """A file with a right checksum whose description was changed."""
    import hashlib
    import struct

    good = saved(tmp_path)
    (length,) = struct.unpack_from("<Q", good, 44)
    header = json.loads(good[52 : 52 + length])
    change(header)
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text + good[52 + length :]
    path = tmp_path / "forged"
    path.write_bytes(good[:12] + hashlib.sha256(body).digest() + body)
    return path


FORGERIES = {
    "a class that is not listed": lambda h: h["objects"][0].update({"class": "Path"}),
    "no agent": lambda h: h.update(root=7),
    "a part as the agent": lambda h: h.update(
        root={"object": next(i for i, o in enumerate(h["objects"]) if o.get("class") == "Counts")}
    ),
    "an object that is not there": lambda h: h.update(root={"object": 10_000}),
    "an array longer than the file": lambda h: h["arrays"][0].update(shape=[10**12]),
    "a negative shape": lambda h: h["arrays"][0].update(shape=[-1]),
    "an array of objects": lambda h: h["arrays"][0].update(dtype="|O"),
    "one array fewer": lambda h: h["arrays"].pop(),
    "no arrays": lambda h: h.pop("arrays"),
    "a problem that does not fit": lambda h: next(
        o for o in h["objects"] if o.get("class") == "Problem"
    )["fields"].update(states=3),
    "a negative horizon": lambda h: next(
        o for o in h["objects"] if o.get("class") == "Problem"
    )["fields"].update(horizon=-3),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_descriptions_are_refused(tmp_path, name):
    with pytest.raises(bl.SavedFileError):
        bl.load(rewritten(tmp_path, FORGERIES[name]))


def test_indices_out_of_range_are_refused(tmp_path):
    """Kernels do not check indices, so a file with bad ones must not get that far."""
    world = WORLDS["per step"]
    agent = AGENTS["oppo confidence bandit"](world)
    play(world, agent, 0, 12, bl.DelayLine(), np.random.default_rng(3))
    agent._dynamics.counts.successors[0, 0, 0, 0] = 10**6
    bl.save(agent, tmp_path / "agent")
    with pytest.raises(bl.SavedFileError, match="index"):
        bl.load(tmp_path / "agent")


def test_other_files_and_other_objects(tmp_path):
    (tmp_path / "text").write_text("hello, this is not an agent, but long enough to be one......")
    with pytest.raises(bl.SavedFileError, match="not a saved agent"):
        bl.load(tmp_path / "text")
    with pytest.raises(bl.SavedFileError, match="cannot be read"):
        bl.load(tmp_path / "absent")
    newer = bytearray(saved(tmp_path))
    newer[8] = 9
    (tmp_path / "newer").write_bytes(newer)
    with pytest.raises(bl.SavedFileError, match="format version 9"):
        bl.load(tmp_path / "newer")
    for wrong in (None, object(), bl.Problem(1, 1, 1)):
        with pytest.raises(ValueError, match="agent must be one of"):
            bl.save(wrong, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    before = saved(tmp_path)

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    agent = bl.DelayedOPPO(bl.Problem(2, 2, 2))
    with pytest.raises(OSError, match="no space"):
        bl.save(agent, tmp_path / "good")
    assert (tmp_path / "good").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["good"]


def test_numbers_of_numpy_can_be_saved(tmp_path):
    agent = bl.DelayedOPPO(
        bl.Problem(2, 2, 2),
        learning_rate=np.float32(0.5),
        episodes=np.int64(9),
        explicit_exploration=True,
        max_delay=np.int64(3),
    )
    bl.save(bl.Skipping(agent, np.int64(3)), tmp_path / "agent")
    assert bl.saved_configuration(tmp_path / "agent")["agent"]["learning_rate"] == 0.5
    bl.load(tmp_path / "agent").begin_episode()


def test_the_configuration_is_inside(tmp_path):
    saved(tmp_path)
    found = bl.saved_configuration(tmp_path / "good")
    assert found["class"] == "Skipping"
    assert found["max_delay"] == 3
    assert found["agent"]["class"] == "DelayedOPPO"
    assert found["agent"]["radius_scale"] == 0.05
