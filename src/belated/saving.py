"""Agents in files: save at any episode, load anywhere, continue bit for bit.

A file holds plain data only: a JSON description of the objects and the raw bytes of the arrays,
under a checksum. Nothing in it is executed. The classes that may appear are listed here, and what
indexes memory is checked against the problem before an agent is handed back.

    bytes    what
    8        the mark of the format
    4        its version, little-endian
    32       SHA-256 of everything behind it
    8        length of the JSON text
    ...      the JSON text: versions, configuration, objects
    ...      the arrays, one after the other
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from belated import checks
from belated.agents import (
    Agent,
    Bold,
    DelayedOPPO,
    DelayedUCBVI,
    Doubling,
    Parallel,
    Pipeline,
    Skipping,
)
from belated.agents.dynamics import Confident, Known, WithBonus, matching
from belated.agents.estimates import EmpiricalMeans
from belated.agents.ledger import Ledger, Open
from belated.agents.masks import FewVisits
from belated.agents.oppo import Deviation, Played
from belated.agents.oreps import DelayedOREPS
from belated.agents.parallel import Copies, Turn
from belated.agents.rates import Anytime, AnytimeBandit, Constant
from belated.feedback import Costs, Trajectory
from belated.model import ConfidenceSet, Counts, EmpiricalModel
from belated.problem import Problem
from belated.projection import KnownDynamics, Projection
from belated.transitions import Transitions

MARK = b"belated\n"
VERSION = 1
HEAD = struct.Struct("<8sI32sQ")

AGENTS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Bold,
        DelayedOPPO,
        DelayedOREPS,
        DelayedUCBVI,
        Doubling,
        Parallel,
        Pipeline,
        Skipping,
    )
}
PARTS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Anytime,
        AnytimeBandit,
        Confident,
        ConfidenceSet,
        Constant,
        Copies,
        Costs,
        Counts,
        Deviation,
        WithBonus,
        EmpiricalMeans,
        EmpiricalModel,
        FewVisits,
        Known,
        KnownDynamics,
        Ledger,
        Open,
        Played,
        Problem,
        Projection,
        Trajectory,
        Transitions,
        Turn,
    )
}
CLASSES = AGENTS | PARTS
DTYPES = ("<f8", "<i8", "<i4", "|b1")


class SavedFileError(ValueError):
    """A file that is no saved agent, or a damaged one."""


def save(agent: Agent, path: str | os.PathLike[str]) -> None:
    """Write an agent, open episodes included, to a file: complete, or not at all.

    The bytes go to a temporary file beside it, which then takes the name.
    """
    if type(agent).__name__ not in AGENTS or type(agent) is not AGENTS[type(agent).__name__]:
        raise ValueError(
            f"agent must be one of {', '.join(sorted(AGENTS))}, got {checks.show(agent)}"
        )
    writer = _Writer()
    root = writer.encode(agent)
    text = json.dumps(
        {
            "agent": type(agent).__name__,
            "configuration": configuration(agent),
            "objects": writer.objects,
            "arrays": writer.arrays,
            "root": root,
        }
    ).encode()
    body = struct.pack("<Q", len(text)) + text + b"".join(writer.chunks)
    content = MARK + struct.pack("<I", VERSION) + hashlib.sha256(body).digest() + body
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Agent:
    """Read an agent back; it continues bit for bit. Raises `SavedFileError` on any other file."""
    header, arrays = _read(Path(path))
    try:
        agent = _Reader(header, arrays).decode(header["root"])
        if type(agent).__name__ not in AGENTS:
            raise ValueError(f"it holds a {type(agent).__name__}")
        return agent  # type: ignore[no-any-return]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise SavedFileError(f"{path} holds no agent that can be used: {error!r}") from None


def saved_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says of its agent: class and parameters, without loading it."""
    header, _ = _read(Path(path))
    found = header.get("configuration") if isinstance(header, dict) else None
    if not isinstance(found, dict):
        raise SavedFileError(f"{path} holds no configuration of an agent")
    return found


def configuration(agent: object) -> dict[str, Any]:
    """Class and parameters of an agent, wrappers around what they wrap."""
    described: dict[str, Any] = {"class": type(agent).__name__}
    described |= getattr(agent, "parameters", {})
    for name in ("max_delay", "weight"):
        if hasattr(agent, name):
            described[name] = getattr(agent, name)
    for name, value in described.items():
        if isinstance(value, np.generic):
            described[name] = value.item()
    inside = getattr(agent, "agent", None)
    if inside is None and isinstance(agent, Parallel | Bold):
        inside = agent.agents[0]
    if inside is not None:
        described["agent"] = configuration(inside)
    return described


def _read(path: Path) -> tuple[dict[str, Any], memoryview]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) < HEAD.size or not content.startswith(MARK):
        raise SavedFileError(f"{path} is not a saved agent")
    _, version, digest, length = HEAD.unpack_from(content)
    if version != VERSION:
        raise SavedFileError(
            f"{path} has format version {version}, this library reads version {VERSION}"
        )
    body = memoryview(content)[HEAD.size - 8 :]
    if hashlib.sha256(body).digest() != digest:
        raise SavedFileError(f"{path} is damaged: its checksum does not fit")
    text = content[HEAD.size : HEAD.size + length]
    try:
        return json.loads(text), memoryview(content)[HEAD.size + length :]
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{path} is damaged: {error}") from None


def _attributes(item: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for cls in type(item).__mro__:
        for name in getattr(cls, "__slots__", ()):
            if hasattr(item, name):
                found[name] = getattr(item, name)
    found.update(getattr(item, "__dict__", {}))
    return found


class _Writer:
    """Turns objects into JSON values; what is shared stays shared, by number."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.arrays: list[dict[str, Any]] = []
        self.chunks: list[bytes] = []
        self._seen: dict[int, tuple[Any, object]] = {}

    def encode(self, item: Any) -> Any:
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if id(item) in self._seen:
            return self._seen[id(item)][0]
        if isinstance(item, np.ndarray):
            reference = {"array": len(self.arrays)}
            self._seen[id(item)] = (reference, item)
            self._keep(item)
            return reference
        if isinstance(item, np.generic):
            return item.item()
        reference = {"object": len(self.objects)}
        self._seen[id(item)] = (reference, item)
        self.objects.append(None)
        self.objects[reference["object"]] = self._describe(item)
        return reference

    def _keep(self, array: npt.NDArray[Any]) -> None:
        contiguous = np.ascontiguousarray(array)
        self.arrays.append(
            {
                "dtype": contiguous.dtype.str,
                "shape": list(array.shape),
                "writeable": bool(array.flags.writeable),
            }
        )
        self.chunks.append(contiguous.tobytes())

    def _describe(self, item: Any) -> Any:
        name = type(item).__name__
        if name in CLASSES and type(item) is CLASSES[name]:
            fields = item._asdict() if isinstance(item, Turn) else _attributes(item)
            return {"class": name, "fields": {k: self.encode(v) for k, v in fields.items()}}
        if isinstance(item, dict):
            return {"dict": [[self.encode(k), self.encode(v)] for k, v in item.items()]}
        for kind, cls in (("list", list), ("tuple", tuple), ("deque", deque)):
            if isinstance(item, cls):
                return {kind: [self.encode(entry) for entry in item]}
        raise ValueError(f"agent must hold only what can be saved, got {checks.show(item)}")


class _Reader:
    """The other way round. Objects are made without calling anything of theirs, then checked."""

    def __init__(self, header: dict[str, Any], data: memoryview) -> None:
        self._descriptions = header["objects"]
        self._arrays = self._load_arrays(header["arrays"], data)
        self._made: dict[int, Any] = {}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            if value is None or isinstance(value, bool | int | float | str):
                return value
            raise ValueError(f"{checks.show(value)} is no value")
        if "array" in value:
            return self._arrays[_index(value["array"])]
        number = _index(value["object"])
        if number not in self._made:
            self._make(number, self._descriptions[number])
        return self._made[number]

    def _make(self, number: int, description: dict[str, Any]) -> None:
        if "class" in description:
            cls = CLASSES[description["class"]]
            fields = description["fields"]
            if cls is Turn:
                self._made[number] = Turn(**{k: int(self.decode(v)) for k, v in fields.items()})
                return
            item: Any = object.__new__(cls)
            self._made[number] = item
            for name, value in fields.items():
                object.__setattr__(item, name, self.decode(value))
            _check(item)
        elif "dict" in description:
            made: dict[Any, Any] = {}
            self._made[number] = made
            for key, value in description["dict"]:
                made[self.decode(key)] = self.decode(value)
        elif "tuple" in description:
            self._made[number] = tuple(self.decode(v) for v in description["tuple"])
        else:
            kind = "list" if "list" in description else "deque"
            entries: Any = [] if kind == "list" else deque()
            self._made[number] = entries
            entries.extend(self.decode(v) for v in description[kind])

    @staticmethod
    def _load_arrays(described: list[dict[str, Any]], data: memoryview) -> list[Any]:
        arrays, offset = [], 0
        for entry in described:
            if entry["dtype"] not in DTYPES:
                raise ValueError(f"dtype {checks.show(entry['dtype'])} is not allowed")
            shape = tuple(checks.integer("shape", n, 0) for n in entry["shape"])
            dtype = np.dtype(entry["dtype"])
            size = int(np.prod(shape, dtype=object)) * dtype.itemsize
            if offset + size > len(data):
                raise ValueError("an array is longer than the file")
            array = np.frombuffer(data[offset : offset + size], dtype=dtype).reshape(shape).copy()
            array.flags.writeable = checks.flag("writeable", entry["writeable"])
            arrays.append(array)
            offset += size
        if offset != len(data):
            raise ValueError("there are bytes that belong to no array")
        return arrays


def _index(value: object) -> int:
    return checks.integer("reference", value, 0)


def _check(item: object) -> None:
    """What indexes memory is in range, and arrays have the shapes that kernels rely on."""
    if isinstance(item, Problem | Transitions | Trajectory | Costs):
        item.__post_init__()
    elif isinstance(item, Counts):
        _check_counts(item)
    elif isinstance(item, ConfidenceSet):
        shape, rows = item.counts.counts.shape, item.counts.visits.shape
        _shaped(item.lower, np.float64, shape)
        _shaped(item.width, np.float64, shape)
        _shaped(item.unseen, np.float64, rows)
        _shaped(item.rest, np.float64, rows)
    elif isinstance(item, EmpiricalModel):
        _shaped(item.probabilities, np.float64, item.counts.counts.shape)
        _shaped(item.deviation, np.float64, item.counts.visits.shape)
    elif isinstance(item, Played):
        _shaped(item.policy, np.float64, item.policy.shape)
    elif isinstance(item, DelayedOPPO):
        shape = item.problem.shape
        _shaped(item._total, np.float64, shape)
        _shaped(item._policy, np.float64, shape)
        for entry in item._ledger:
            if entry.memory is not None:
                _shaped(entry.memory.policy, np.float64, shape)
        if isinstance(item._dynamics, Known):
            matching(item.problem, item._dynamics._transitions)
            _shaped(item._dynamics._start, np.float64, (item.problem.states,))
        if item._means is not None:
            _check_means(item._means, item.problem)
        _shaped(item._played_rates, np.float64, (len(item._played_rates),))
        if len(item._played_rates) not in (1, item.problem.horizon):
            raise ValueError("the rates have the wrong number of steps")
    elif isinstance(item, Constant):
        _shaped(item._rates, np.float64, (1,))
    elif isinstance(item, Anytime):
        _shaped(item._scale, np.float64, (len(item._scale),))
        if not len(item._scale):
            raise ValueError("the rates have no step")
    elif isinstance(item, DelayedOREPS):
        _check_oreps(item)
    elif isinstance(item, DelayedUCBVI):
        _shaped(item._policy, np.float64, item.problem.shape)
        _check_means(item._means, item.problem)


def _check_oreps(agent: DelayedOREPS) -> None:
    H, S, A = agent.problem.shape
    last, known = agent._last, agent._known
    _shaped(last.policy, np.float64, (H, S, A))
    _shaped(last.log_density, np.float64, (H, S))
    _shaped(last.log_measure, np.float64, (H, S, A) if known is not None else (H, S, A, S))
    _shaped(agent._total, np.float64, (len(agent._total), S, A))
    if known is not None:
        t = Transitions(known.successors, known.probabilities)
        if (t.states, t.actions) != (S, A) or t.steps not in (1, H) or known.horizon != H:
            raise ValueError("the transitions do not fit the problem")
        _shaped(known.start, np.float64, (S,))
        _shaped(known.reach, np.bool_, (H, S))
        _shaped(known.successors, np.int32, known.probabilities.shape)
        _shaped(known.probabilities, np.float64, known.successors.shape)


def _check_means(means: EmpiricalMeans, problem: Problem) -> None:
    _shaped(means.sums, np.float64, (len(means.sums), *problem.shape[1:]))
    _shaped(means.visits, np.int64, means.sums.shape)
    _shaped(means._steps, np.int64, (problem.horizon,))
    _within(means._steps, len(means.sums))
    if len(means.sums) not in (1, problem.horizon):
        raise ValueError("the means have the wrong number of steps")


def _check_counts(counts: Counts) -> None:
    problem = counts._problem
    T = 1 if problem.homogeneous else problem.horizon
    rows = (T, problem.states, problem.actions)
    slots = counts.successors.shape[-1]
    _shaped(counts.successors, np.int32, (*rows, slots))
    _shaped(counts.counts, np.int64, (*rows, slots))
    _shaped(counts.known, np.int32, rows)
    _shaped(counts.visits, np.int64, rows)
    _within(counts.successors, problem.states)
    _within(counts.known, slots + 1)
    for path_rows, following in counts._recent:
        _shaped(path_rows, np.int64, (problem.horizon,))
        _shaped(following, np.int64, (problem.horizon,))
        _within(path_rows, counts.visits.size)
        _within(following, problem.states)


def _shaped(array: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    if not (isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape):
        raise ValueError(f"an array must be {np.dtype(dtype)} of shape {shape}")


def _within(array: Any, high: int) -> None:
    if array.size and (array.min() < 0 or array.max() >= high):
        raise ValueError(f"an index must be from 0 to {high - 1}")
