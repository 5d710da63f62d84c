"""A file that a part reads: its path as written, its place, and a checksum of its content.

Two files are equal if their contents are, wherever they are: a project that is moved stays the same
experiment, and a project with changed data becomes another one.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from belated.core import checks

KEYS = ("file", "sha256")
"""The keys of a table that describes a file with known content."""


@dataclass(frozen=True, slots=True)
class File:
    """A file.

    Attributes:
        written: its path as it was given.
        path: the absolute path.
        sha256: the checksum of its content; empty if the file did not exist.
        identity: what identifies the file: its checksum, or the path if there is none.
    """

    written: str = field(compare=False)
    path: Path = field(compare=False)
    sha256: str = field(compare=False)
    identity: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", self.sha256 or str(self.path))

    @classmethod
    def at(cls, written: str | Path, directory: Path | None = None, sha256: str = "") -> Self:
        """The file of a path that is relative to a directory, by default the current one."""
        path = (directory or Path()).resolve() / written
        return cls(str(written), path, sha256 or _digest(path))

    @property
    def name(self) -> str:
        """Its name without the directory."""
        return self.path.name

    def relative_to(self, directory: Path) -> str:
        """The path relative to this directory; an absolute path stays absolute."""
        if os.path.isabs(self.written):
            return self.written
        try:
            return Path(os.path.relpath(self.path, directory.resolve())).as_posix()
        except ValueError:  # on another drive
            return str(self.path)

    def table(self, directory: Path) -> str | dict[str, str]:
        """Its entry in a specification in this directory."""
        path = self.relative_to(directory)
        return dict(zip(KEYS, (path, self.sha256), strict=True)) if self.sha256 else path

    def checked(self, key: str) -> str:
        """Its absolute path, if the content is unchanged. key: for the message."""
        if self.sha256 and _digest(self.path) not in ("", self.sha256):
            raise ValueError(
                f"{key} must be the file with sha256 {self.sha256[:12]}..., got {self.path} with "
                "another content"
            )
        return str(self.path)


def as_written(found: File) -> str:
    """The path of a file as it was given."""
    return found.written


def as_content(found: File) -> str:
    """What identifies a file."""
    return found.identity


def _digest(path: Path) -> str:
    """The checksum of a file; empty if there is none. Pipes and devices are not read."""
    if not os.path.isfile(path):
        return ""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def is_table(value: object) -> bool:
    """Whether a table describes a file."""
    return isinstance(value, Mapping) and "file" in value and set(value) <= set(KEYS)


def from_table(value: Mapping[str, Any], directory: Path | None = None) -> File:
    """The file that a table describes, e.g. `{ file = "waits.csv", sha256 = "..." }`."""
    path, sha256 = value["file"], value.get("sha256", "")
    if not isinstance(path, str):
        raise ValueError(f"file must be a path, got {checks.show(path)}")
    if not isinstance(sha256, str) or not re.fullmatch("([0-9a-f]{64})?", sha256):
        raise ValueError(f"sha256 must be 64 letters from 0 to f, got {checks.show(sha256)}")
    return File.at(path, directory, sha256)


def is_path(value: object) -> bool:
    """Whether a parameter that may be a file is a path."""
    return isinstance(value, str | Path)


def is_parameter(kind: object, name: str) -> bool:
    """Whether a path given for this parameter of a kind is a file to read."""
    return kind == "trace" and name == "delays"


def is_swept(path: str) -> bool:
    """Whether paths given for this parameter of a sweep are files to read."""
    return path.endswith(".delays")
