"""Saved agents continue bit for bit, also in a new process; bad files are refused."""

import contextlib
import hashlib
import json
import os
import struct
import subprocess
import sys
import tracemalloc
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest

import belated as bl
import oracles
from belated.core import saving
from belated.core.arrays import Floats
from belated.core.contract import Deciding
from belated.core.episodes import Ledger
from belated.core.tree import Configured, Count, Entries, Learned, Rows, freeze, thaw
from belated.parts import Confidence, FewVisits, Softmax, Weighted
from limits import FULL
from registry import AGENTS, ARMS

CORRUPTIONS = 1000 if FULL else 250
WORLDS = {
    "per step": oracles.random_world(np.random.default_rng(0), 3, 4, 2),
    "homogeneous": oracles.random_world(np.random.default_rng(1), 3, 3, 2, homogeneous=True),
    "arms": oracles.random_world(np.random.default_rng(2), 1, 1, 3),
}
HERE = Path(__file__).parent
DATA = HERE.parent / "data"
CASES = {
    **{f"{name}, {kind}": (WORLDS[kind], make) for j, kind in enumerate(("per step", "homogeneous"))
       for i, (name, make) in enumerate(AGENTS.items()) if FULL or i % 2 == j},
    **{f"{name}, arms": (WORLDS["arms"], make) for name, make in ARMS.items()},
}  # fmt: skip
agents = pytest.mark.parametrize(("world", "make"), CASES.values(), ids=CASES.keys())


def play(world, agent, first, last, line, rng, *twins):
    """Episodes first .. last - 1 with delays and losses; returns the policies.

    Twins are shown the same records and must play the same policies, bit for bit.
    """
    policies = []
    for k in range(first, last):
        policy = agent.begin_episode().policy
        assert all(np.array_equal(policy, twin.begin_episode().policy) for twin in twins)
        policies.append(policy)
        path = world.mdp.play(policy, rng, k)
        costs = world.costs.at(k)
        if agent.information == "bandit":
            H = world.problem.horizon
            costs = costs[np.arange(H), path.states[:-1], path.actions]
        line.push([path, bl.Costs(k, costs)], bl.NEVER if k % 7 == 3 else int(rng.integers(0, 6)))
        batch = line.release(k)
        for one in (agent, *twins):
            one.observe(batch)
    return policies


@agents
def test_a_loaded_agent_continues_bit_for_bit(world, make, tmp_path):
    makers = [*AGENTS.values(), *ARMS.values()]
    stop = int(np.random.default_rng(makers.index(make)).integers(1, 25))
    agent, line, rng = make(world), bl.DelayLine(), np.random.default_rng(2)
    play(world, agent, 0, stop, line, rng)
    bl.save(agent, tmp_path / "agent")
    twin = bl.load(tmp_path / "agent")
    assert type(twin) is type(agent)
    assert repr(twin) == repr(agent)
    assert twin.diagnostics() == agent.diagnostics()
    assert [p.name for p in tmp_path.iterdir()] == ["agent"]
    play(world, agent, stop, 40, line, rng, twin)
    np.testing.assert_equal(freeze(agent), freeze(twin))


@agents
@pytest.mark.slow
def test_a_state_shares_nothing_that_changes(world, make):
    """Two copies, one of which plays other episodes, and an agent that was never copied."""
    agent, control, line, rng = make(world), make(world), bl.DelayLine(), np.random.default_rng(2)
    play(world, agent, 0, 15, line, rng, control)
    apart, beside = (thaw(freeze(agent)) for _ in range(2))
    state = freeze(agent)
    elsewhere = play(world, apart, 15, 40, bl.DelayLine(), np.random.default_rng(5))
    policies = play(world, control, 15, 40, line, rng, agent, beside)
    again = thaw(state)  # a tree does not follow its agent
    play_again = play(world, again, 15, 40, bl.DelayLine(), np.random.default_rng(5))
    assert np.array_equal(elsewhere, play_again)
    assert not np.array_equal(elsewhere, policies)


CONTINUE = """
import sys, json
sys.path[:0] = [{tests!r}, {shared!r}]
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
    code = CONTINUE.format(tests=str(HERE), shared=str(HERE.parent))
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "policies.json").read_text()) == expected


def saved(tmp_path, name="skipping confidence bandit"):
    world = WORLDS["per step"]
    agent = AGENTS[name](world)
    play(world, agent, 0, 12, bl.DelayLine(), np.random.default_rng(3))
    bl.save(agent, tmp_path / "good")
    return (tmp_path / "good").read_bytes()


@pytest.mark.slow
def test_damaged_files_are_refused(tmp_path):
    """Flips, cuts, insertions and swaps give an error or the identical agent."""
    good = saved(tmp_path)
    rng = np.random.default_rng(0)
    path, refused = tmp_path / "bad", 0
    for i in range(CORRUPTIONS):
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
    assert refused > 0.9 * CORRUPTIONS  # the others changed nothing


@pytest.mark.parametrize("name", ["oppo known full anytime", "bold known full", "oreps known"])
def test_every_flip_of_a_byte_is_refused(name):
    world = WORLDS["per step"]
    agent = AGENTS[name](world)
    play(world, agent, 0, 4, bl.DelayLine(), np.random.default_rng(3))
    content = bytearray(saving.to_bytes(agent))
    for i in range(len(content)):
        content[i] ^= 1 << i % 8
        with pytest.raises(bl.SavedFileError):
            saving.from_bytes(bytes(content), "here")
        content[i] ^= 1 << i % 8
    saving.from_bytes(bytes(content), "here")


def header_of(content):
    """The text of a file, and where its arrays begin."""
    *_, length = saving.HEAD.unpack_from(content)
    arrays = saving.HEAD.size + length
    return json.loads(content[saving.HEAD.size : arrays]), arrays


def framed(good, text, data=b""):
    """The content of a file with a valid checksum."""
    body = struct.pack("<Q", len(text)) + text + data
    return good[:12] + hashlib.sha256(body).digest() + body


def arrays_of(header):
    """The tables that stand for arrays."""
    return [c[k] for c, k in leaves(header, []) if isinstance(c[k], dict) and "dtype" in c[k]]


def rewritten(tmp_path, change, good):
    """A file with a valid checksum whose text was changed."""
    header, arrays = header_of(good)
    change({**header, "arrays": arrays_of(header), "whole": header})
    path = tmp_path / "forged"
    path.write_bytes(framed(good, json.dumps(header).encode(), good[arrays:]))
    return path


def inside(h):
    """What the agent that skipping wraps has learned."""
    return h["tree"]["learned"]["agent"]["learned"]


def arguments(h):
    return h["tree"]["learned"]["agent"]["arguments"]


def problem(h):
    return arguments(h)["problem"]["arguments"]


def ledger(h):
    return inside(h)["_ledger"]["learned"]


def first_open(h):
    return ledger(h)["open"]["dict"][0][1]["arguments"]


def renamed(fields, old, new):
    fields[new] = fields.pop(old)


def nested(depth):
    value = 0
    for _ in range(depth):
        value = {"list": [value]}
    return value


FORGERIES = {
    "a class that is not listed": lambda h: h["tree"].update({"class": "Path"}),
    "no agent": lambda h: h["whole"].update(tree=7),
    "a part as the agent": lambda h: h["whole"].update(tree=arguments(h)["problem"]),
    "a part as the agent inside": lambda h: h["tree"]["learned"].update(
        agent=arguments(h)["problem"]
    ),
    "an array that is not there": lambda h: first_open(h)["memory"]["arguments"].update(
        policy={"array": 10_000}
    ),
    "an array longer than the file": lambda h: h["arrays"][0].update(shape=[10**12]),
    "a negative shape": lambda h: h["arrays"][0].update(shape=[-1]),
    "an array of objects": lambda h: h["arrays"][0].update(dtype="|O"),
    "an array that begins before the file": lambda h: h["arrays"][0].update(array=-8),
    "an array that overlaps others": lambda h: [each.update(array=0) for each in h["arrays"]],
    "a problem that does not fit": lambda h: problem(h).update(states=3),
    "a negative horizon": lambda h: problem(h).update(horizon=-3),
    "a part of another argument": lambda h: arguments(h).update(costs=arguments(h)["update"]),
    "a value of an unknown type": lambda h: inside(h).update(_explored={"number": 0}),
    "an array for a number": lambda h: inside(h).update(_explored={"array": 0}),
    "an array that two objects change": lambda h: inside(h)["_update"]["learned"].update(
        total=inside(h)["_model"]["learned"]["_newest"]["learned"]["unseen"]
    ),
    "fields that are no table": lambda h: h["tree"].update(learned=[]),
    "an open episode that was not begun": lambda h: ledger(h).update(begun=1),
    "a list that is too deep": lambda h: inside(h).update(_explored=nested(300)),
    "a missing field": lambda h: inside(h).pop("_explored"),
    "a missing field of a wrapper": lambda h: h["tree"]["learned"].pop("_kept_from"),
    "a missing field of a part": lambda h: arguments(h)["costs"]["arguments"].pop("exploration"),
    "a missing field of an open episode": lambda h: first_open(h).pop("settled"),
    "a missing argument": lambda h: arguments(h).pop("problem"),
    "an unknown field": lambda h: inside(h).update(more=1),
    "an unknown field of a wrapper": lambda h: h["tree"]["learned"].update(more=1),
    "an unknown field of a part": lambda h: arguments(h)["costs"]["arguments"].update(more=1),
    "an unknown field of an open episode": lambda h: first_open(h).update(more=1),
    "an unknown argument": lambda h: arguments(h).update(more=1),
    "an unknown entry beside the agent": lambda h: h["whole"].update(more=1),
    "a renamed field": lambda h: renamed(inside(h), "_explored", "explored"),
    "a renamed field of an open episode": lambda h: renamed(first_open(h), "number", "episode"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_descriptions_are_refused(tmp_path, name):
    path = rewritten(tmp_path, FORGERIES[name], saved(tmp_path))
    with pytest.raises(bl.SavedFileError) as refusal:
        bl.load(path)
    assert "\n" not in str(refusal.value)
    if name.startswith("an unknown field"):
        assert "missing: none, unknown: more" in str(refusal.value)
    elif name.startswith("a missing field"):
        assert "missing: none" not in str(refusal.value)
        assert "unknown: none" in str(refusal.value)


def leaves(value, found):
    """Every place of a JSON value: its container and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        found.append((value, key))
        if isinstance(item, dict | list):
            leaves(item, found)
    return found


@pytest.mark.parametrize("name", ["skipping confidence bandit", "bold known full", "oreps unknown"])
def test_any_forged_value_is_refused_or_harmless(tmp_path, name):
    """One forged place gives a SavedFileError, or an agent that crashes nothing."""
    wrong = (None, -1, 0, 1, 10_000, 0.5, float("nan"), True, "x", [], {}, {"array": 0})
    rng, refused = np.random.default_rng(0), 0
    good = saved(tmp_path, name)
    for _ in range(150):

        def change(header):
            places = leaves(header["tree"], [])
            container, key = places[int(rng.integers(len(places)))]
            container[key] = wrong[int(rng.integers(len(wrong)))]

        try:
            agent = bl.load(rewritten(tmp_path, change, good))
        except bl.SavedFileError as error:
            refused += "\n" not in str(error)
        else:
            with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
                agent.begin_episode()  # numbers that do not belong together may be found later
    assert refused > 90


@pytest.mark.parametrize(
    "name", ["oppo known full anytime", "oreps unknown", "ucbvi", "bold known full"]
)
@pytest.mark.parametrize("states", [10**9, 2000])
def test_a_problem_far_too_large_for_the_file_takes_no_memory(tmp_path, name, states):
    def change(header):
        for container, key in leaves(header["tree"], []):
            if key == "states" and isinstance(container[key], int):
                container[key] = states
                container["horizon"] = 200

    path = rewritten(tmp_path, change, saved(tmp_path, name))
    tracemalloc.start()
    with pytest.raises(bl.SavedFileError):
        bl.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27


def test_a_text_that_is_too_deep_for_the_parser(tmp_path):
    good = saved(tmp_path)
    (tmp_path / "deep").write_bytes(framed(good, b"[" * 10**6))
    for read in (bl.load, bl.saving.saved_configuration):
        with pytest.raises(bl.SavedFileError, match="recursion"):
            read(tmp_path / "deep")


def test_indices_out_of_range_are_refused(tmp_path):
    """Kernels do not check indices, so a file with bad ones must not get that far."""
    world = WORLDS["per step"]
    agent = AGENTS["oppo confidence bandit"](world)
    play(world, agent, 0, 12, bl.DelayLine(), np.random.default_rng(3))
    agent._model.counts.successors[0, 0, 0, 0] = 10**6
    bl.save(agent, tmp_path / "agent")
    with pytest.raises(bl.SavedFileError, match="successors must be from 0 to 3"):
        bl.load(tmp_path / "agent")


def test_other_files_and_other_objects(tmp_path):
    (tmp_path / "text").write_text("hello, this is not an agent, but long enough to be one......")
    with pytest.raises(bl.SavedFileError, match="not a saved agent"):
        bl.load(tmp_path / "text")
    with pytest.raises(bl.SavedFileError, match="cannot be read"):
        bl.load(tmp_path / "absent")
    with pytest.raises(bl.SavedFileError, match="not a saved agent"):
        bl.load("/dev/zero")  # endless: only its beginning is read
    newer = bytearray(saved(tmp_path))
    newer[8] = 9
    (tmp_path / "newer").write_bytes(newer)
    with pytest.raises(bl.SavedFileError, match="format version 9, written by another release"):
        bl.load(tmp_path / "newer")
    for wrong in (None, object(), bl.Problem(1, 1, 1)):
        with pytest.raises(ValueError, match="agent must be an agent"):
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
        transitions=Confidence(episodes=np.int64(9)),
        update=Softmax(np.float32(0.5)),
        explore=FewVisits(max_delay=np.int64(3)),
    )
    bl.save(bl.wrappers.Skipping(agent, np.int64(3)), tmp_path / "agent")
    found = bl.saving.saved_configuration(tmp_path / "agent")["agent"]
    assert found["update"] == {"class": "Softmax", "learning_rate": 0.5, "scale": 1.0}
    assert found["transitions"]["episodes"] == 9
    assert found["explore"]["max_delay"] == 3.0
    bl.load(tmp_path / "agent").begin_episode()


def test_the_configuration_is_inside(tmp_path):
    saved(tmp_path)
    found = bl.saving.saved_configuration(tmp_path / "good")
    assert found["class"] == "Skipping"
    assert found["threshold"] == 3
    assert found["agent"] == {
        "class": "DelayedOPPO",
        "problem": {
            "class": "Problem",
            "states": 4,
            "actions": 2,
            "horizon": 3,
            "start": 0,
            "homogeneous": False,
        },
        "transitions": {
            "class": "Confidence",
            "radius_scale": 0.05,
            "delta": 0.1,
            "episodes": None,
            "sets": "newest",
        },
        "costs": {"class": "Weighted", "exploration": 0.1},
        "update": {"class": "Softmax", "learning_rate": 0.1, "scale": 1.0},
        "explore": None,
    }


def test_policies_that_open_episodes_share_are_written_once(tmp_path):
    agent = bl.DelayedOPPO(bl.Problem(50, 4, 5), update=Softmax(0.1))
    for _ in range(30):
        agent.begin_episode()
    bl.save(agent, tmp_path / "agent")
    content = (tmp_path / "agent").read_bytes()
    header, arrays = header_of(content)
    shapes = [
        list(shape) for _, shape in {(a["array"], tuple(a["shape"])) for a in arrays_of(header)}
    ]
    assert shapes.count([5, 50, 4]) == 6  # a policy, the sum of Q, visits, known, unseen and rest
    assert len(content) - arrays < 10 * 8 * 5 * 50 * 4
    loaded = bl.load(tmp_path / "agent")
    policies = {id(entry.memory.policy.base) for entry in loaded._ledger.open.values()}
    assert len(policies) == 1  # memory holds the policy once, too


@bl.saving.register
@dataclass(frozen=True)
class Slow:
    """A user's own update: a step towards the best action of the newest Q."""

    share: float = 0.2

    def start(self, problem, costs):
        return Steps(problem)

    def policy(self, learned, outlook):
        return learned.policy

    def learn(self, learned, arrived):
        best = np.eye(learned.policy.shape[2])[arrived.q().argmin(-1)]
        learned.policy = (1 - self.share) * learned.policy + self.share * best


class Steps(Learned):
    """What it learns."""

    policy: Rows

    def __init__(self, problem):
        self.policy = problem.uniform_policy()


class Cheapest(Configured, Deciding):
    """A user's own agent: the action with the smallest costs so far, in every state."""

    information, uses_paths = "full", False
    _ledger: Ledger
    _total: Floats

    def __init__(self, problem):
        self.problem = problem
        self._ledger = Ledger(problem, "full", uses_paths=False)
        self._total = np.zeros(problem.shape)

    def begin_episode(self, now=None):
        policy = np.eye(self.problem.actions)[self._total.argmin(-1)]
        return bl.Episode(self._ledger.begin(True), policy)

    def observe(self, records, now=None):
        for entry in self._ledger.take(records)[1]:
            self._total += entry.costs.values
            self._ledger.settle(entry)

    def forget(self, episode):
        self._ledger.forget(episode)

    def diagnostics(self):
        return {"open": len(self._ledger.open)}


class Unlisted(Cheapest):
    pass


bl.saving.register(Cheapest, "tests.Cheapest")

OWN = {
    "agent": Cheapest,
    "agent inside": lambda problem: bl.wrappers.Pipeline(Cheapest(problem), 3),
    "copies": lambda problem: bl.wrappers.Bold(lambda: Cheapest(problem)),
    "part": lambda problem: bl.DelayedOPPO(problem, update=Slow(0.3)),
    "part inside": lambda problem: bl.wrappers.Skipping(
        bl.DelayedOPPO(problem, update=Slow(), costs=Weighted(0.1)), 4
    ),
}


@pytest.mark.parametrize("make", OWN.values(), ids=OWN.keys())
def test_agents_and_parts_of_ones_own(make, tmp_path):
    world = WORLDS["per step"]
    agent, line, rng = make(world.problem), bl.DelayLine(), np.random.default_rng(2)
    play(world, agent, 0, 13, line, rng)
    bl.save(agent, tmp_path / "agent")
    copied = thaw(freeze(agent))
    play(world, agent, 13, 40, line, rng, bl.load(tmp_path / "agent"), copied)


def test_a_class_that_was_not_registered_is_named(tmp_path):
    @dataclass(frozen=True)
    class Hidden(Slow):
        pass

    target, problem = tmp_path / "agent", bl.Problem(2, 2, 2)
    for agent, message in (
        (Unlisted(problem), r"must be of a class.*saving.register.*Unlisted"),
        (bl.wrappers.Skipping(Unlisted(problem), 3), r"must be of a class.*Unlisted"),
        (bl.DelayedOPPO(problem, update=Hidden()), r"must be of a class.*Hidden"),
    ):
        with pytest.raises(ValueError, match=message):
            bl.save(agent, target)
    assert not list(tmp_path.iterdir())


def test_what_can_be_registered():
    register = bl.saving.register
    assert register(Slow) is Slow  # a second time is no error
    for wrong, message in (
        (3, "cls must be a class, got 3"),
        (Path, "Path must be a dataclass, or derive from"),
    ):
        with pytest.raises(ValueError, match=message):
            register(wrong)
    with pytest.raises(ValueError, match="name must be one that is not taken, got 'Softmax'"):
        register(Slow, "Softmax")


AGENT = bl.DelayedOPPO(bl.Problem(2, 2, 2))


def mode(path):
    return path.stat().st_mode & 0o7777


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path):
    target, link = tmp_path / "real" / "agent", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    for _ in range(2):  # a link to nothing, then to a file
        bl.save(AGENT, link)
        assert link.is_symlink()
        assert target.is_file()
        assert not target.is_symlink()
    bl.load(target)
    assert [p.name for p in target.parent.iterdir()] == ["agent"]


def test_an_existing_file_keeps_its_mode_and_a_new_one_gets_that_of_the_umask(tmp_path):
    path = tmp_path / "agent"
    before = os.umask(0o027)
    try:
        bl.save(AGENT, path)
    finally:
        os.umask(before)
    assert mode(path) == 0o640
    path.chmod(0o604)
    bl.save(AGENT, path)
    assert mode(path) == 0o604


def test_what_is_no_regular_file_is_refused_and_left_alone(tmp_path):
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "device").symlink_to("/dev/null")
    kinds = {"directory": "a directory", "pipe": "a pipe", "circle": "a link in a circle",
             "device": "a device"}  # fmt: skip
    for name, kind in kinds.items():
        with pytest.raises(ValueError, match=f"{name} must be a regular file.*; it is {kind}$"):
            bl.save(AGENT, tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kinds)
    assert Path("/dev/null").is_char_device()


def test_probabilities_that_are_rounded_up_are_read():
    """The rows of a mixture may sum to a little more than 1."""
    steps = Steps(bl.Problem(1, 2, 1))
    oracles.refill(steps, policy=np.array([[[np.nextafter(1.0, 2.0), 0.0]]]))
    for wrong in ([[[0.6, 0.6]]], [[[1.5, -0.5]]], [[[np.nan, 1.0]]], [[[0.5, 0.5]], [[0.5, 0.5]]]):
        with pytest.raises(ValueError, match="policy must"):
            oracles.refill(steps, policy=np.array(wrong))


def test_what_is_learned_begins_at_zero_unless_the_constructor_sets_it():
    class Means(Learned):
        sums: Annotated[Floats, Entries("S A")]
        other: Annotated[Floats, Entries("S unknown")]
        whole: Annotated[Floats, Entries("shape")]
        visits: Count
        share: Annotated[float, Entries(low=0.0)]
        best: int | None
        seen: dict[int, None]
        given: int

        def __init__(self):
            self.given = 7
            self.set_first_values({"S": 2, "A": 3, "shape": (2, 3)})

    made = Means()
    assert made.sums.tolist() == [[0.0] * 3] * 2
    assert not hasattr(made, "other")
    assert not hasattr(made, "whole")
    assert (made.visits, made.share, made.best, made.seen, made.given) == (0, 0.0, None, {}, 7)


def test_an_agent_whose_annotations_name_something_unknown_can_be_made():
    class Mine(bl.ThompsonSampling):
        notes: "NoSuchName"  # noqa: F821 - such as a name that only type checkers import

    agent = Mine(bl.Problem(states=1, actions=2, horizon=1), seed=3)
    assert agent.decide().number == 0
    assert agent.begun == 1
