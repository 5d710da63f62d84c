"""Agents in files: save at any episode, load anywhere, continue bit for bit.

A file holds plain data only: a JSON text and the raw bytes of the arrays, under a checksum.
Nothing in it is executed. A class has a `state` and reads one back with `from_state`, which checks
every field; this module knows the frame of the file and which classes may appear.

    bytes    content
    8        the mark of the format
    4        its version, little-endian
    32       SHA-256 of everything after it
    8        length of the JSON text
    ...      the JSON text: versions, the agent and its parts, the types and shapes of the arrays
    ...      the arrays, one after the other
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import struct
import sys
from dataclasses import fields, is_dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from belated import names
from belated.core import checks, files, stored
from belated.core.contract import Agent, check_is_agent

MARK = b"belated\n"
VERSION = 2
HEAD = struct.Struct("<8sI32sQ")
DTYPES = ("<f8", "<i8", "<i4", "|b1")
MOST_LEVELS = 200
"""The deepest nesting that a file may have."""
SMALL = 2**24
"""Bytes: agents are made only if their policies together need at most the file's size and this."""

_OWN: dict[str, type] = {}
"""Classes that `register` has added, by name."""


class SavedFileError(ValueError):
    """A file that is not a saved agent, or is damaged.

    Example:
        >>> try:
        ...     bl.load('no such file')
        ... except bl.SavedFileError as error:
        ...     print(error)
        no such file cannot be read: No such file or directory
    """


def register(cls: type, name: str | None = None) -> type:
    """Allow objects of a class of your own to be saved and loaded; usable as a decorator.

    A frozen dataclass, such as a part, is saved by its fields. Any other class needs `state()`,
    a dictionary of plain values, and the class method `from_state(state)`.
    """
    if not isinstance(cls, type):
        raise ValueError(f"cls must be a class, got {checks.show(cls)}")
    name = cls.__name__ if name is None else name
    if not (is_dataclass(cls) or (hasattr(cls, "state") and hasattr(cls, "from_state"))):
        raise ValueError(f"{name} must be a dataclass, or have state() and from_state(state)")
    if _OWN.get(name, cls) is not cls or name in names.SAVED:
        raise ValueError(f"name must be one that is not taken, got {name!r}")
    _OWN[name] = cls
    return cls


def _class_of(name: object) -> Any:
    """The class that a file names; the library's own are imported when they are needed."""
    name = checks.choice("class", name, (*names.SAVED, *_OWN))
    if name in _OWN:
        return _OWN[name]
    return getattr(import_module(f"belated.{names.SAVED[name]}"), name)


def _name_of(cls: type) -> str | None:
    """The name under which objects of a class are saved; None if they are not."""
    name = cls.__name__
    if name in names.SAVED and _class_of(name) is cls:
        return name
    return next((name for name, own in _OWN.items() if own is cls), None)


def save(agent: Agent, path: str | os.PathLike[str]) -> None:
    """Write an agent, open episodes included, to a file: complete, or not at all.

    The bytes are written to a temporary file beside the target, which is then renamed. Links are
    followed, an existing file keeps its permissions, and anything but a regular file is refused.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), 'agent')
        >>> agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=4))
        >>> bl.save(agent, path)
        >>> bl.load(path).begun
        0
    """
    check_is_agent("agent", agent)
    files.write(Path(path), to_bytes(agent))


def load(path: str | os.PathLike[str]) -> Agent:
    """Read an agent back; it continues bit for bit. Raises `SavedFileError` on any other file.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), 'agent')
        >>> agent = bl.recommend(bl.Problem(states=3, actions=2, horizon=4))
        >>> bl.save(agent, path)
        >>> repr(bl.load(path)) == repr(agent)
        True
    """
    agent = from_bytes(_content(Path(path)), str(path))
    try:
        check_is_agent("the file", agent)
    except ValueError as error:
        raise SavedFileError(f"{path} holds no agent that can be used: {error}") from None
    return agent  # type: ignore[no-any-return]


def to_bytes(item: Any) -> bytes:
    """The content of a saved file; also for dictionaries and lists of agents and values."""
    return b"".join(to_chunks(item))


def to_chunks(item: Any) -> list[bytes | memoryview]:
    """The same in chunks that share memory with the arrays, which must not change meanwhile."""
    writer = _Writer()
    root = writer.encode(item, "agent")
    header = {
        "versions": _versions(),
        "configuration": configuration(item),
        "agent": root,
        "arrays": writer.arrays,
    }
    text = json.dumps(header).encode()
    body: list[bytes | memoryview] = [struct.pack("<Q", len(text)), text, *writer.chunks]
    digest = hashlib.sha256()
    for chunk in body:
        digest.update(chunk)
    return [MARK + struct.pack("<I", VERSION) + digest.digest(), *body]


def from_bytes(content: bytes, where: str) -> Any:
    """The inverse of `to_bytes`. where: the name of these bytes in errors."""
    header, data = _parsed(content, where)
    try:
        stored.exact(header, "versions", "configuration", "agent", "arrays")
        return _Reader(_arrays(header["arrays"], data), len(data)).decode(header["agent"])
    except (
        *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError),
        *(RecursionError, MemoryError),
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SavedFileError(
            f"{where} holds no agent that can be used: {reason}{_written_by(header)}"
        ) from None


def _release() -> str:
    """The version of the package; imported late, because the package imports this module."""
    return str(sys.modules["belated"].__version__)


def _versions() -> dict[str, str]:
    """The versions of the software that writes a file."""
    versions = {name: metadata.version(name) for name in ("numpy", "numba")}
    return {"belated": _release(), "python": platform.python_version(), **versions}


def _written_by(header: object) -> str:
    """The release that wrote a file, for a message, if it is another one."""
    versions = header.get("versions") if isinstance(header, dict) else None
    release = versions.get("belated") if isinstance(versions, dict) else None
    if release is None or release == _release():
        return ""
    return f" (written by belated {checks.show(release)}, this is {_release()})"


def saved_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The class and arguments of a saved agent, without loading it."""
    header, _ = _parsed(_content(Path(path)), str(path))
    found = header.get("configuration") if isinstance(header, dict) else None
    if not isinstance(found, dict):
        raise SavedFileError(f"{path} holds no configuration of an agent")
    return found


def configuration(item: Any) -> Any:
    """The class and arguments of an agent or a part as plain values; arrays as their shapes."""
    if item is None or isinstance(item, bool | int | float | str):
        return item
    if isinstance(item, np.generic):
        return item.item()
    if isinstance(item, np.ndarray):
        return {"shape": list(item.shape)}
    if isinstance(item, tuple | list):
        return [configuration(value) for value in item]
    if hasattr(item, "configuration"):
        arguments = item.configuration()
    elif is_dataclass(item):
        arguments = {field.name: getattr(item, field.name) for field in _saved(type(item))}
    else:
        arguments = {}
    given = {name: configuration(value) for name, value in arguments.items()}
    return {"class": type(item).__name__, **given}


def _saved(cls: Any) -> list[Any]:
    """The fields of a dataclass that its constructor takes."""
    return [field for field in fields(cls) if field.init]


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD.size)
            if not head.startswith(MARK):  # before a large file is read
                raise SavedFileError(f"{path} is not a saved agent")
            return head + file.read()
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror}") from None


def _parsed(content: bytes, path: str) -> tuple[dict[str, Any], memoryview]:
    if len(content) < HEAD.size or not content.startswith(MARK):
        raise SavedFileError(f"{path} is not a saved agent")
    _, version, digest, length = HEAD.unpack_from(content)
    if version != VERSION:
        raise SavedFileError(
            f"{path} has format version {version}, written by another release; "
            f"this release reads version {VERSION}"
        )
    checked = memoryview(content)[HEAD.size - 8 :]  # header length, and all after it
    if hashlib.sha256(checked).digest() != digest:
        raise SavedFileError(f"{path} is damaged: its checksum does not fit")
    body = checked[8:]
    try:
        return json.loads(bytes(body[:length])), body[length:]
    except (ValueError, RecursionError) as error:
        raise SavedFileError(f"{path} is damaged: {error}") from None


class _Writer:
    """Turns states into JSON values. Arrays that share memory are written once."""

    def __init__(self) -> None:
        self.arrays: list[dict[str, Any]] = []
        self.chunks: list[memoryview] = []
        self._seen: dict[tuple[Any, ...], tuple[int, object]] = {}

    def encode(self, item: Any, where: str) -> Any:
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, np.generic):
            return item.item()
        if isinstance(item, np.ndarray):
            return {"array": self._keep(item, where)}
        if isinstance(item, list | tuple):
            kind = "list" if isinstance(item, list) else "tuple"
            return {kind: [self.encode(v, f"{where}[{i}]") for i, v in enumerate(item)]}
        if isinstance(item, dict):
            return {
                "dict": {_key(k, where): self.encode(v, f"{where}.{k}") for k, v in item.items()}
            }
        if not isinstance(item, stored.KeptObject):
            item = stored.kept(item)
        name = _name_of(item.cls)
        if name is None:
            hint = getattr(item.cls, "unsaved", "belated.saving.register adds one")
            raise ValueError(
                f"{where} must be of a class that can be saved ({hint}), "
                f"got one of {item.cls.__name__}"
            )
        written = item.state
        if not hasattr(item.cls, "from_state"):
            written = {field.name: getattr(written, field.name) for field in _saved(item.cls)}
        return {"class": name, "state": self.encode(written, where)["dict"]}

    def _keep(self, array: npt.NDArray[Any], where: str) -> int:
        contiguous = np.ascontiguousarray(array)
        if contiguous.dtype.str not in DTYPES:
            raise ValueError(f"{where} must be an array of {DTYPES}, got {contiguous.dtype}")
        place = contiguous.__array_interface__["data"][0]
        key = (place, array.shape, contiguous.dtype.str)
        if key not in self._seen or contiguous.size == 0:
            self._seen[key] = (len(self.arrays), contiguous)  # alive, so no address is reused
            self.arrays.append({"dtype": contiguous.dtype.str, "shape": list(array.shape)})
            self.chunks.append(contiguous.reshape(-1).view(np.uint8).data)
        return self._seen[key][0]


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        raise ValueError(f"{where} must have texts as keys, got {checks.show(key)}")
    return key


class _Reader:
    """The inverse of the writer. Classes read their own states; equal frozen values are made once.

    So the copies of `Parallel` still share the transitions after loading.
    """

    def __init__(self, arrays: list[npt.NDArray[Any]], size: int) -> None:
        self._arrays = arrays
        self._left = size + SMALL  # bytes left for policies
        self._values: dict[str, Any] = {}

    def decode(self, value: Any, depth: int = 0) -> Any:
        if depth > MOST_LEVELS:
            raise ValueError(f"nesting must be at most {MOST_LEVELS} levels deep")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"{checks.show(value)} is no value")
        if set(value) == {"array"}:
            return self._arrays[checks.integer("array", value["array"], 0, len(self._arrays) - 1)]
        if set(value) == {"list"}:
            return [self.decode(item, depth + 1) for item in value["list"]]
        if set(value) == {"tuple"}:
            return tuple(self.decode(item, depth + 1) for item in value["tuple"])
        if set(value) == {"dict"}:
            return self._fields(value["dict"], depth)
        stored.exact(value, "class", "state")
        cls = _class_of(value["class"])
        if hasattr(cls, "from_state"):
            return cls.from_state(self._fields(value["state"], depth))
        if not cls.__dataclass_params__.frozen:
            return self._made(cls, value["state"], depth)
        key = json.dumps(value, sort_keys=True)
        if key not in self._values:
            self._values[key] = self._made(cls, value["state"], depth)
        made = self._values[key]
        if hasattr(made, "policy_size"):
            self._left -= 8 * made.policy_size
            if self._left < 0:
                raise ValueError(f"{made} is too large for the arrays of the file")
        return made

    def _made(self, cls: Any, fields: Any, depth: int) -> Any:
        """The dataclass with these fields."""
        state = self._fields(fields, depth)
        return cls(**stored.exact(state, *(field.name for field in _saved(cls))))

    def _fields(self, value: Any, depth: int) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"fields must be a table, got {checks.show(value)}")
        return {name: self.decode(item, depth + 1) for name, item in value.items()}


def _arrays(described: Any, data: memoryview) -> list[npt.NDArray[Any]]:
    arrays, offset = [], 0
    for entry in stored.items("arrays", described):
        stored.exact(entry, "dtype", "shape")
        if entry["dtype"] not in DTYPES:
            raise ValueError(f"dtype {checks.show(entry['dtype'])} is not allowed")
        shape = tuple(checks.integer("shape", n, 0) for n in stored.items("shape", entry["shape"]))
        dtype = np.dtype(entry["dtype"])
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if offset + size > len(data):
            raise ValueError("an array is longer than the file")
        array = np.frombuffer(data[offset : offset + size], dtype=dtype).reshape(shape).copy()
        array.flags.writeable = False
        arrays.append(array)
        offset += size
    if offset != len(data):
        raise ValueError("there are bytes that belong to no array")
    return arrays
