"""Write a file completely or not at all, and remove what killed processes left half written.

The bytes are written to a temporary file beside the target, which is then renamed to it. The
temporary file is locked while it is written, so that other processes can recognise abandoned ones.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed
    fcntl = None  # type: ignore[assignment]

PARTIAL = ".partial"
LONGEST = 100
"""The number of characters of the target's name that the temporary file's name repeats."""


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all.

    A link is followed and stays a link. An existing file keeps its permissions; a new one gets
    those of the umask. ValueError if the path is anything but a regular file, such as a device.
    """
    target = Path(os.path.realpath(path))
    mode = _mode(path, target)
    partial, file = _beside(target)
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
        raise ValueError(f"{path} must be a regular file or absent; it is {_kind(found)}")
    return stat.S_IMODE(found) & 0o777


def _kind(mode: int) -> str:
    kinds = {
        "a directory": stat.S_ISDIR,
        "a device": lambda m: stat.S_ISCHR(m) or stat.S_ISBLK(m),
        "a pipe": stat.S_ISFIFO,
        "a socket": stat.S_ISSOCK,
        "a link in a circle": stat.S_ISLNK,
    }
    return next((name for name, matches in kinds.items() if matches(mode)), "of another kind")


def _beside(target: Path) -> tuple[Path, BinaryIO]:
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
