"""`numba.njit` for the kernels of the package, without machine code of earlier sources.

Numba compares a cached kernel with the file of that kernel alone, and would go on using code that
contains an earlier version of a kernel of another file. So a digest of all files with kernels lies
beside every cache, and a cache with another digest is emptied.
"""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGE = Path(__file__).parents[1]
DIGEST = "belated.sha256"
"""The file beside cached kernels that says which sources they were compiled from."""


def njit(**options: Any) -> Callable[[Function], Function]:
    """`numba.njit`, which finds no machine code of earlier sources in its cache."""

    def compiled(function: Function) -> Function:
        made = numba.njit(**options)(function)
        if options.get("cache") and hasattr(made, "stats"):  # not with NUMBA_DISABLE_JIT
            discard_stale(Path(made.stats.cache_path), digest_of(PACKAGE))
        return made  # type: ignore[no-any-return]

    return compiled


@functools.cache
def digest_of(package: Path) -> str:
    """The digest of the names and contents of all files with kernels."""
    made = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        if b"njit" in content:
            made.update(f"{path.relative_to(package)} {len(content)}\n".encode() + content)
    return made.hexdigest()


@functools.cache
def discard_stale(cache: Path, digest: str) -> None:
    """Empty a directory of cached kernels that were compiled from other sources."""
    mark = cache / DIGEST
    try:
        if mark.exists() and mark.read_text(encoding="ascii") == digest:
            return
        for old in cache.glob("*.nb[ic]"):  # an index is written before the code that it names
            old.unlink(missing_ok=True)
        mark.write_text(digest, encoding="ascii")  # last, so that nobody trusts a full cache
    except OSError:
        return  # another process empties it, or nobody may: then numba cannot write to it either
