"""Agents in files: save at any episode, load anywhere, continue bit for bit.

A file holds plain data only: a JSON text and the raw bytes of the arrays, under a checksum. Nothing
in it is executed. `tree` says which values may be where; this module knows the frame of the file.

    bytes    content
    8        the mark of the format
    4        its version, little-endian
    32       SHA-256 of everything after it
    8        the length of the JSON text
    ...      the text: the release that wrote the file, and the tree of the agent, in which an array
             is its place among the arrays, its type and its shape
    ...      the arrays, one after the other

A file is written completely or not at all: to a temporary file beside it, which is then renamed.
The temporary file is locked while it is written, so that other processes can recognise abandoned
ones, which killed processes left half written.
"""

import contextlib
import hashlib
import json
import math
import os
import secrets
import stat
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from belated.core import checks
from belated.core.arrays import frozen
from belated.core.contract import Agent, check_is_agent
from belated.core.tree import describe, exact, freeze, thaw

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

MARK = b"belated\n"
VERSION = 6
HEAD = struct.Struct("<8sI32sQ")
BODY = HEAD.size - 8
"""Where the bytes under the checksum begin."""
ARRAY = ("array", "dtype", "shape")
DTYPES = ("<f8", "<i8", "<i4", "<u2", "|u1", "|b1")

KINDS = {
    "d": "a directory",
    "c": "a device",
    "b": "a device",
    "p": "a pipe",
    "s": "a socket",
    "l": "a link in a circle",
}
"""What is no regular file, by the first letter of its mode."""
PARTIAL = ".partial"
LONGEST = 100
"""The number of characters of the target's name that the temporary file's name repeats."""


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
    write(Path(path), to_bytes(agent))


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
    return cast(Agent, from_bytes(_read(Path(path)), str(path), check_is_agent))


def to_bytes(item: Any) -> bytes:
    """The content of a saved file; also for dictionaries and lists of agents and values."""
    data = bytearray()
    written: dict[tuple[Any, ...], tuple[dict[str, Any], object]] = {}

    def stored(array: Any) -> dict[str, Any]:
        """What stands for an array in the text; arrays that share memory are written once."""
        if not isinstance(array, np.ndarray) or array.dtype.str not in DTYPES:
            raise ValueError(
                f"a state must hold plain values and arrays of {DTYPES}, got {checks.show(array)}"
            )
        whole = np.ascontiguousarray(array)
        key = (whole.__array_interface__["data"][0], array.shape, array.dtype.str)
        if key not in written or whole.size == 0:
            place = {"array": len(data), "dtype": array.dtype.str, "shape": list(array.shape)}
            written[key] = (place, whole)  # alive: no address is reused
            data.extend(whole.tobytes())
        return written[key][0]

    text = json.dumps({"belated": _release(), "tree": freeze(item)}, default=stored).encode()
    body = struct.pack("<Q", len(text)) + text + data
    return MARK + struct.pack("<I", VERSION) + hashlib.sha256(body).digest() + body


def from_bytes(
    content: bytes, where: str, check: Callable[[str, object], None] | None = None
) -> Any:
    """The inverse of `to_bytes`. where: the name of these bytes in errors."""
    written_by = ""
    try:
        header, size = _unpacked(content, where)
        release = exact(header, "belated", "tree")["belated"]
        if release != _release():
            written_by = f" (written by belated {checks.show(release)}, this is {_release()})"
        made = thaw(header["tree"], size)
        if check is not None:
            check("the file", made)
        return made
    except SavedFileError:
        raise
    except (
        *(ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError),
        *(RecursionError, MemoryError),
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SavedFileError(
            f"{where} holds no agent that can be used: {reason}{written_by}"
        ) from None


def _release() -> str:
    """The version of the package; imported late, because the package imports this module."""
    return str(sys.modules["belated"].__version__)


def saved_configuration(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The class and arguments of a saved agent, as plain values."""
    return cast(dict[str, Any], describe(load(path)))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(HEAD.size)
            return head + file.read() if head.startswith(MARK) else b""  # it may be a large file
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror}") from None


def _unpacked(content: bytes, path: str) -> tuple[Any, int]:
    """The text of a file, arrays included, and the number of bytes of the arrays."""
    if len(content) < HEAD.size or not content.startswith(MARK):
        raise SavedFileError(f"{path} is not a saved agent")
    _, version, digest, length = HEAD.unpack_from(content)
    if version != VERSION:
        raise SavedFileError(
            f"{path} has format version {version}, written by another release; "
            f"this release reads version {VERSION}"
        )
    if hashlib.sha256(memoryview(content)[BODY:]).digest() != digest:
        raise SavedFileError(f"{path} is damaged: its checksum does not fit")
    data = memoryview(content)[HEAD.size + length :]
    arrays: dict[tuple[Any, ...], npt.NDArray[Any]] = {}
    left = len(data)

    def array_of(table: dict[str, Any]) -> Any:
        """The array that a table stands for, read-only and one for all equal tables."""
        nonlocal left
        if "dtype" not in table:
            return table
        start, dtype, sizes = (exact(table, *ARRAY)[name] for name in ARRAY)
        shape = tuple(checks.integer("shape", n, 0) for n in sizes)
        key = (start, checks.choice("dtype", dtype, DTYPES), shape)
        if key not in arrays:
            left -= math.prod(shape) * np.dtype(dtype).itemsize
            if left < 0:
                raise ValueError("arrays must be as long as the file at most, and not overlap")
            whole = np.frombuffer(data, dtype, math.prod(shape), start).reshape(shape)
            arrays[key] = frozen(whole.copy())
        return arrays[key]

    return json.loads(content[HEAD.size : HEAD.size + length], object_hook=array_of), len(data)


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all.

    A link is followed and stays a link. An existing file keeps its permissions; a new one gets
    those of the umask. ValueError if the path is anything but a regular file, such as a device.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(path, target)
    partial, file = _temporary_file(target)
    try:
        with file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if mode is not None:
                os.chmod(partial, mode)
            os.replace(partial, target)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def sweep(directory: Path) -> None:
    """Remove abandoned temporary files; those of running processes stay."""
    for left in directory.rglob(f"*{PARTIAL}"):
        with contextlib.suppress(OSError), left.open("r+b") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _mode(path: Path, target: Path) -> int | None:
    """The permissions of an existing file; None if there is no file."""
    try:
        found = target.lstat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found):
        raise ValueError(
            f"{path} must be a regular file or absent; "
            f"it is {KINDS.get(stat.filemode(found)[0], 'of another kind')}"
        )
    return stat.S_IMODE(found) & 0o777


def _temporary_file(target: Path) -> tuple[Path, BinaryIO]:
    """A new, locked file in the directory of the target."""
    while True:
        name = f".{target.name[:LONGEST]}.{secrets.token_hex(8)}{PARTIAL}"
        partial = target.with_name(name)
        file = partial.open("xb")
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if partial.exists():  # else `sweep` removed it before it was locked
            return partial, file
        file.close()
