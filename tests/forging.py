"""Forged files with valid checksums: none crashes the process, and none keeps it busy.

    python tests/forging.py COUNT SEED

A tiny file of every agent of the registry is changed in one to three places: values, types,
shapes, numbers in arrays, fields, parts of other agents. It is refused in one sentence, or the
agent plays on: "the same" if it plays what the original plays, "raised" if its values do not belong
together, so that an error of Python ends it. The last line is a JSON summary. test_forged.py runs
this in a process of its own, since a forged file must not crash it.
"""

import collections
import contextlib
import copy
import hashlib
import json
import math
import random
import resource
import signal
import struct
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np

import belated as bl
import oracles
from belated.core import saving
from belated.tabular.trial import check_policy
from registry import AGENTS, ARMS

MEMORY = 3 * 2**30
"""Bytes of address space; a bad number that asks for more is an error."""
PATIENCE = 60
"""Processor seconds for one file; a bad number that keeps the agent busy for longer is an error."""
LATER_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
)
"""How an agent may end whose values do not belong together."""
LATER = 4
"""Episodes that a loaded agent plays."""

VALUES = (
    None, True, False, -1, 0, 1, 2, 3, 7, 10_000, 2**31, 2**62, 2**63, 10**18, 10**30, 10**400,
    -(10**18), 0.0, -0.0, 0.5, -0.5, 1.5, 1e-300, 5e-324, 1e18, 1e300, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), "", "x", "late", "at once", "full",
    [], {}, {"list": []}, {"tuple": []}, {"dict": {}}, {"array": 0}, {"list": [1, 2]},
    {"class": "Problem", "arguments": {}}, {"class": "Softmax", "arguments": {}},
    {"class": "os.system"},
)  # fmt: skip
ENTRIES = (-1, 0, 1, 2, 5, 10**6, 2**31 - 1, 2**62, -(2**62))
REALS = (-1.0, 0.0, 0.5, 1.0, 2.0, 1e-320, 1e18, 1e154, 1e308, -1e308, np.nan, np.inf, -np.inf)


class Forged:
    """The text and the arrays of a file, to be changed; an array in the text is its number."""

    def __init__(self, content):
        *_, length = saving.HEAD.unpack_from(content)
        data = content[saving.HEAD.size + length :]
        keys = []
        self.arrays = []

        def numbered(table):
            if "dtype" not in table:
                return table
            start, shape = table["array"], table["shape"]
            key = (start, table["dtype"], tuple(shape))
            if key not in keys or 0 in shape:
                keys.append(key)
                found = np.frombuffer(data, table["dtype"], math.prod(shape), start)
                self.arrays.append(found.reshape(shape))
            return {"array": len(keys) - 1 if 0 in shape else keys.index(key)}

        text = content[saving.HEAD.size : saving.HEAD.size + length]
        self.header = json.loads(text, object_hook=numbered)
        self.described = {}

    def copy(self):
        made = copy.copy(self)
        made.header = copy.deepcopy(self.header)
        made.arrays = [array.copy() for array in self.arrays]
        made.described = {}
        return made

    def _placed(self, value):
        """The text with every array's place, type and shape."""
        if isinstance(value, list):
            return [self._placed(each) for each in value]
        if not isinstance(value, dict):
            return value
        if set(value) != {"array"} or type(value["array"]) is not int:
            return {key: self._placed(each) for key, each in value.items()}
        i = value["array"]
        array = self.arrays[i] if 0 <= i < len(self.arrays) else np.zeros(1)
        start = sum(each.nbytes for each in self.arrays[:i]) if i >= 0 else -8
        told = {"dtype": array.dtype.str, "shape": list(array.shape)}
        return {"array": start, **self.described.get(i, told)}

    def content(self):
        text = json.dumps(self._placed(self.header)).encode()
        arrays = b"".join(array.tobytes() for array in self.arrays)
        body = struct.pack("<Q", len(text)) + text + arrays
        head = saving.MARK + struct.pack("<I", saving.VERSION)
        return head + hashlib.sha256(body).digest() + body


def places(value, found=None):
    """Every place below a value: its container and its key."""
    found = [] if found is None else found
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        found.append((value, key))
        if isinstance(item, dict | list):
            places(item, found)
    return found


def replace(rng, file, others):
    """Another value in some place."""
    container, key = rng.choice(places(file.header["tree"]))
    container[key] = copy.deepcopy(rng.choice(VALUES))


def number(rng, file, others):
    """Another number where there is one."""
    some = [(c, k) for c, k in places(file.header["tree"]) if type(c[k]) in (int, float)]
    container, key = rng.choice(some)
    old = container[key]
    near = (old + 1, old - 1, 2 * old, -old, old / 2, float(old), old + 0.5)
    wild = [v for v in VALUES if type(v) in (int, float)]
    container[key] = rng.choice(near if rng.random() < 0.4 else wild)


def flip(rng, file, others):
    """A flag the other way round."""
    some = [(c, k) for c, k in places(file.header["tree"]) if type(c[k]) is bool]
    if not some:
        return number(rng, file, others)
    container, key = rng.choice(some)
    container[key] = not container[key]
    return None


def field(rng, file, others):
    """A field that is missing, unknown or has another name."""
    some = [(c, k) for c, k in places(file.header["tree"]) if isinstance(c, dict)]
    container, key = rng.choice(some)
    how = rng.randrange(3)
    if how == 0:
        del container[key]
    elif how == 1:
        container[f"_{key}"] = container.pop(key)
    else:
        container["more"] = container[key]


def exchange(rng, file, others):
    """Two values of the file exchanged, or one copied over the other."""
    both = [rng.choice(places(file.header["tree"])) for _ in range(2)]
    (one, a), (two, b) = both
    kept = copy.deepcopy(one[a])
    if rng.random() < 0.5:
        one[a] = copy.deepcopy(two[b])
    two[b] = kept


def transplant(rng, file, others):
    """A part, or a state, of another agent in the place of the one here."""
    other = rng.choice(others)
    shift = len(file.arrays)
    file.arrays += [array.copy() for array in other.arrays]
    donor = copy.deepcopy(other.header["tree"])
    for container, key in places(donor):
        if key == "array" and type(container[key]) is int:
            container[key] += shift
    mine = places(file.header["tree"])
    container, key = rng.choice(mine)
    same = [c[k] for c, k in places(donor) if k == key and type(k) is str]
    container[key] = rng.choice(same) if same else donor


def rearranged(rng, file, others):
    """A list in another order, longer, shorter or empty."""
    some = [(c, k) for c, k in places(file.header["tree"]) if isinstance(c[k], list) and c[k]]
    if not some:
        return replace(rng, file, others)
    container, key = rng.choice(some)
    items = container[key]
    how = rng.randrange(4)
    if how == 0:
        items.append(copy.deepcopy(rng.choice(items)))
    elif how == 1:
        items.pop(rng.randrange(len(items)))
    elif how == 2:
        rng.shuffle(items)
    else:
        items.clear()
    return None


def nested(rng, file, others):
    """The agent inside wrappers inside wrappers, once: the text doubles with each."""
    depth = 1 if file.header["tree"].get("class") == "Skipping" else rng.choice([1, 2, 5, 10])
    for _ in range(depth):
        inner = file.header["tree"]
        learned = {"agent": inner, "_kept_from": 0, "_skipped": 0}
        made = {"class": "Skipping", "arguments": {"agent": inner, "threshold": 3}}
        file.header["tree"] = {**made, "learned": learned}


def shared(rng, file, others):
    """Another array of the file, or one that is not there."""
    some = [(c, k) for c, k in places(file.header["tree"]) if k == "array"]
    container, key = rng.choice(some)
    container[key] = rng.randint(-1, len(file.arrays))


def entry(rng, file, others):
    """Another number in an array: out of range, not finite, huge."""
    full = [i for i, array in enumerate(file.arrays) if array.size]
    array = file.arrays[rng.choice(full)].reshape(-1)
    values = REALS if array.dtype.kind == "f" else ENTRIES
    with np.errstate(all="ignore"):
        chosen = np.array(rng.choice(values)).astype(array.dtype)
    if rng.random() < 0.2:
        array[:] = chosen
    else:
        array[rng.randrange(len(array))] = chosen


def shape(rng, file, others):
    """Another shape or type for the same bytes, or an array of other size."""
    i = rng.randrange(len(file.arrays))
    array = file.arrays[i]
    how = rng.randrange(6)
    if how == 0:
        file.arrays[i] = np.ascontiguousarray(array.T)
    elif how == 1:
        file.arrays[i] = array.reshape(-1)
    elif how == 2:
        file.arrays[i] = array[None].copy()
    elif how == 3:
        file.arrays[i] = np.zeros((0, *array.shape[1:]), array.dtype)
    elif how == 4:
        file.arrays[i] = np.concatenate([array, array]) if array.ndim else array
    else:
        dtype = rng.choice([*saving.DTYPES, "|O", "<f4", ">f8", 7, None])
        sizes = [list(array.shape), [-1], [2**62, 4], [0, 2**62], [10**30], [1.5], "3", [[1]]]
        file.described[i] = {"dtype": dtype, "shape": rng.choice(sizes)}


CHANGES = (
    replace, replace, number, number, number, flip, field, exchange, transplant, transplant,
    rearranged, rearranged, nested, shared, shared, entry, entry, entry, shape,
)  # fmt: skip


MAKERS = {**AGENTS, **ARMS}
"""Every agent, by name."""


def world(name=None):
    """The world of an agent of the registry."""
    shape = (1, 1, 3) if name in ARMS else (2, 3, 2)
    return oracles.random_world(np.random.default_rng(0), *shape)


def play(agent, line, rng, episodes, where):
    """Some episodes with delays and losses, each checked; records that are refused are dropped."""
    policies = []
    for k in range(episodes):
        episode = agent.begin_episode()
        check_policy(agent.problem, episode.policy)
        policies.append(episode.policy.tobytes())
        if agent.problem != where.problem:
            continue
        path = where.mdp.play(episode.policy, rng, episode.number)
        costs = where.costs.at(k)
        if agent.information == "bandit":
            H = where.problem.horizon
            costs = costs[np.arange(H), path.states[:-1], path.actions]
        line.push([path, bl.Costs(episode.number, costs)], (0, 2, bl.NEVER, 1, 5)[k % 5])
        for record in line.release(episode.number):
            with contextlib.suppress(bl.FeedbackError):
                agent.observe([record])
    if agent.begun:
        agent.forget(agent.begun - 1)
    assert all(isinstance(value, int | float) for value in agent.diagnostics().values())
    assert repr(agent)
    return policies


def continued(path, line, where):
    return play(bl.load(path), copy.deepcopy(line), np.random.default_rng(2), LATER, where)


def main(count, seed):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    good, lines, expected = {}, {}, {}
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "agent")
        for name, make in MAKERS.items():
            where = world(name)
            agent, lines[name] = make(where), bl.DelayLine()
            play(agent, lines[name], np.random.default_rng(1), 7, where)
            bl.save(agent, path)
            good[name] = Forged(path.read_bytes())
            expected[name] = continued(path, lines[name], where)
            assert good[name].content() == path.read_bytes()
        outcome, wrong, kinds = collections.Counter(), [], collections.Counter()
        names, others = list(MAKERS), list(good.values())
        for i in range(count):
            name = names[i % len(names)]
            where = world(name)
            file = good[name].copy()
            done = []
            for _ in range(rng.choice((1, 1, 1, 2, 3))):
                change = rng.choice(CHANGES)
                done.append(change.__name__)
                with contextlib.suppress(IndexError, TypeError, OverflowError, KeyError):
                    change(rng, file, others)  # an earlier change may have removed the place
            path.write_bytes(file.content())
            kinds[done[0]] += 1
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE)
                later = continued(path, lines[name], where)
                outcome["the same" if later == expected[name] else "valid"] += 1
            except bl.SavedFileError as error:
                outcome["refused"] += 1
                if "\n" in str(error) or not str(error).startswith(f"{path} "):
                    wrong.append((name, done, f"refused in {error!r}"))
            except (
                ArithmeticError,
                AssertionError,
                AttributeError,
                LookupError,
                TypeError,
                ValueError,
            ):
                outcome["raised"] += 1
            except BaseException as error:
                last = traceback.extract_tb(error.__traceback__)[-3:]
                trail = " < ".join(f"{f.filename[-28:]}:{f.lineno}" for f in reversed(last))
                wrong.append((name, done, f"{type(error).__name__}: {error} at {trail}"[:400]))
                if isinstance(error, KeyboardInterrupt):
                    raise
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(json.dumps({"outcome": outcome, "kinds": kinds, "wrong": wrong}))


def late(number, frame):
    raise TimeoutError(f"more than {PATIENCE} s")


if __name__ == "__main__":
    signal.signal(signal.SIGVTALRM, late)
    main(int(sys.argv[1]), int(sys.argv[2]))
