"""Kernels are compiled when one of them is first called, in any thread."""

import importlib
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import belated
from belated.core.compiled import discard_old

INNER = """
from belated.core.compiled import njit

@njit()
def twice(x):
    return 2 * x
"""
OUTER = """
from inner_kernels import twice
from belated.core.compiled import njit

@njit()
def plus_one(x):
    return twice(x) + 1

@njit()
def both(x):
    return plus_one(x) + twice(x)
"""


def test_threads_may_call_first_at_once(tmp_path, monkeypatch):
    """The kernels call kernels of their own module and of another one."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "inner_kernels.py").write_text(INNER)
    (tmp_path / "outer_kernels.py").write_text(OUTER)
    importlib.invalidate_caches()
    outer = importlib.import_module("outer_kernels")
    inner = sys.modules["inner_kernels"]
    both, plus_one, twice = outer.both, outer.plus_one, inner.twice
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(kernel, 5) for kernel in (both, plus_one, twice) * 2]
        assert [call.result() for call in calls] == [21, 11, 10] * 2
    assert (both.__name__, both(1), outer.both(1)) == ("both", 5, 5)
    assert outer.both is not both  # the module now holds numba's own function


def test_nobody_else_imports_numba():
    """A kernel that numba makes directly cannot call one that is not compiled yet."""
    package = Path(belated.__file__).parent
    importing = {
        file.name
        for file in package.rglob("*.py")
        if re.search(r"^(from|import) numba", file.read_text(), re.MULTILINE)
    }
    assert not importing


@pytest.mark.parametrize(
    ("edited", "left"), [(150.0, {"new.nbi", "old.nbc"}), (1e12, {"new.nbi", "old.nbi", "old.nbc"})]
)
def test_kernels_older_than_any_file_with_kernels_are_compiled_again(tmp_path, edited, left):
    """Also those whose own file has not changed; a file from the future says nothing."""
    cache = tmp_path / "room" / "__pycache__"
    cache.mkdir(parents=True)
    for path, when in (
        (tmp_path / "caller.py", 50.0),
        (tmp_path / "room" / "called.py", edited),
        (tmp_path / "plain.py", 300.0),
        (cache / "old.nbi", 100.0),
        (cache / "old.nbc", 100.0),
        (cache / "new.nbi", 200.0),
    ):
        path.write_text("" if path.stem == "plain" else "@njit(cache=True)")
        os.utime(path, (when, when))
    discard_old(tmp_path)
    assert {path.name for path in cache.iterdir()} == left


def test_a_package_without_files_is_left_alone(tmp_path):
    discard_old(tmp_path / "nowhere")
