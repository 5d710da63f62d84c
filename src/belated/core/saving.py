"""Agents in files: save at any episode, load anywhere, continue bit for bit.

A file holds plain data only: a JSON text and the raw bytes of the arrays, under a checksum. Nothing
in it is executed. `tree` says which values may be where; this module knows the frame of the file.

    bytes    content
    8        the mark of the format
    4        its version, little-endian
    32       SHA-256 of everything after it
    8, 8     the lengths of the two JSON texts
    ...      the types and shapes of the arrays
    ...      the versions of the software, and the tree of the agent
    ...      the arrays, one after the other
"""

import hashlib
import json
import os
import platform
import struct
import sys
from dataclasses import fields, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from belated.core import checks, files
from belated.core.contract import Agent, check_is_agent
from belated.core.tree import exact, freeze, thaw

MARK = b"belated\n"
VERSION = 3
LENGTHS = struct.Struct("<QQ")
HEAD = struct.Struct("<8sI32sQQ")
DTYPES = ("<f8", "<i8", "<i4", "<u2", "|u1", "|b1")


class SavedFileError(ValueError):
    """A file that is not a saved agent, or is damaged.

    Example:
        >>> try:
        ...     bl.load('no such file')
        ... except bl.SavedFileError as error:
        ...     print(error)
        no such file cannot be read: No such file or directory
    """


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
    arrays: list[dict[str, Any]] = []
    chunks: list[bytes] = []
    seen: dict[tuple[Any, ...], tuple[int, object]] = {}

    def keep(array: Any) -> dict[str, int]:
        """What stands for an array in the JSON text; arrays that share memory are written once."""
        if not isinstance(array, np.ndarray):
            raise ValueError(f"a state must hold plain values and arrays, got {checks.show(array)}")
        whole = np.ascontiguousarray(array)
        if whole.dtype.str not in DTYPES:
            raise ValueError(f"an array must be of {DTYPES}, got {whole.dtype}")
        key = (whole.__array_interface__["data"][0], array.shape, whole.dtype.str)
        if key not in seen or whole.size == 0:
            seen[key] = (len(arrays), whole)  # alive: no address is reused
            arrays.append({"dtype": whole.dtype.str, "shape": list(array.shape)})
            chunks.append(whole.tobytes())
        return {"array": seen[key][0]}

    header = {"versions": _versions(), "tree": freeze(item)}
    text, described = json.dumps(header, default=keep).encode(), json.dumps(arrays).encode()
    body = b"".join([LENGTHS.pack(len(described), len(text)), described, text, *chunks])
    return MARK + struct.pack("<I", VERSION) + hashlib.sha256(body).digest() + body


def from_bytes(content: bytes, where: str) -> Any:
    """The inverse of `to_bytes`. where: the name of these bytes in errors."""
    header: Any = None
    try:
        header, size = _parsed(content, where)
        exact(header, "versions", "tree")
        return thaw(header["tree"], size)
    except SavedFileError:
        raise
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
    """The class and arguments of a saved agent, as plain values."""
    found: dict[str, Any] = configuration(load(path))
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
    arguments = {}
    if hasattr(item, "configuration"):
        arguments = item.configuration()
    elif is_dataclass(item):
        arguments = {each.name: getattr(item, each.name) for each in fields(item) if each.init}
    given = {name: configuration(value) for name, value in arguments.items()}
    return {"class": type(item).__name__, **given}


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD.size)
            if not head.startswith(MARK):  # before a large file is read
                raise SavedFileError(f"{path} is not a saved agent")
            return head + file.read()
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror}") from None


def _parsed(content: bytes, path: str) -> tuple[Any, int]:
    """The description in a file, arrays included, and the number of bytes of the arrays."""
    if len(content) < HEAD.size or not content.startswith(MARK):
        raise SavedFileError(f"{path} is not a saved agent")
    _, version, digest, first, second = HEAD.unpack_from(content)
    if version != VERSION:
        raise SavedFileError(
            f"{path} has format version {version}, written by another release; "
            f"this release reads version {VERSION}"
        )
    if hashlib.sha256(memoryview(content)[HEAD.size - LENGTHS.size :]).digest() != digest:
        raise SavedFileError(f"{path} is damaged: its checksum does not fit")
    body = memoryview(content)[HEAD.size :]
    data = body[first + second :]
    arrays = _arrays(json.loads(bytes(body[:first])), data)

    def found(table: dict[str, Any]) -> Any:
        if set(table) != {"array"}:
            return table
        return arrays[checks.integer("array", table["array"], 0, len(arrays) - 1)]

    return json.loads(bytes(body[first : first + second]), object_hook=found), len(data)


def _arrays(described: Any, data: memoryview) -> list[npt.NDArray[Any]]:
    """The arrays of a file, read-only."""
    arrays, offset = [], 0
    for entry in described:
        exact(entry, "dtype", "shape")
        if entry["dtype"] not in DTYPES:
            raise ValueError(f"dtype {checks.show(entry['dtype'])} is not allowed")
        shape = tuple(checks.integer("shape", n, 0) for n in entry["shape"])
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
