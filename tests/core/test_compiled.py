"""Kernels of earlier sources are never run, whatever the dates of the files."""

import os
import re
import subprocess
import sys
from pathlib import Path

import belated
from belated.core.compiled import DIGEST, digest_of, discard_stale

INNER = """
from belated.core.compiled import njit

@njit(cache=True)
def times(x):
    return {factor} * x
"""
OUTER = """
from inner_kernels import times
from belated.core.compiled import njit

@njit(cache=True)
def plus_one(x):
    return times(x) + 1
"""
CALL = """
import pathlib
from belated.core import compiled
compiled.PACKAGE = pathlib.Path.cwd()
import outer_kernels
print(outer_kernels.plus_one(5))
"""


def called(folder):
    """The result of the outer kernel in a new process."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(  # noqa: PLW1510 - the message is in the assertion
        [sys.executable, "-c", CALL], cwd=folder, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_changed_file_with_an_older_date_is_compiled_again(tmp_path):
    inner = tmp_path / "inner_kernels.py"
    inner.write_text(INNER.format(factor=2))
    (tmp_path / "outer_kernels.py").write_text(OUTER)
    assert called(tmp_path) == 11
    inner.write_text(INNER.format(factor=3))
    os.utime(inner, (50.0, 50.0))
    assert called(tmp_path) == 16


def test_kernels_of_the_same_sources_stay(tmp_path):
    (tmp_path / "one.py").write_text("@njit(cache=True)")
    (tmp_path / "plain.py").write_text("")
    before = digest_of(tmp_path)
    discard_stale(tmp_path, before)
    index = tmp_path / "one.nbi"
    index.write_text("")
    (tmp_path / "plain.py").write_text("changed = 1")
    digest_of.cache_clear()
    discard_stale.cache_clear()
    assert digest_of(tmp_path) == before
    discard_stale(tmp_path, before)
    assert index.exists()
    assert (tmp_path / DIGEST).read_text() == before


def test_a_cache_without_a_digest_is_emptied(tmp_path):
    for name in ("one.nbi", "one.1.nbc"):
        (tmp_path / name).write_text("")
    discard_stale(tmp_path, "new")
    assert [path.name for path in tmp_path.iterdir()] == [DIGEST]
    discard_stale(tmp_path / "nowhere", "new")


def test_kernels_are_made_in_one_way():
    """Only then a digest lies beside every cache."""
    package = Path(belated.__file__).parent
    importing = {
        file.name
        for file in package.rglob("*.py")
        if re.search(r"^(from|import) numba", file.read_text(), re.MULTILINE)
    }
    assert importing == {"compiled.py"}
