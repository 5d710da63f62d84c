"""A directory of results, in which every run is complete or absent.

    spec.toml                    the experiment
    versions.json                the versions of the software
    runs/.../seed-3.parquet      the rows of one finished run
    runs/.../seed-3.sha256       the checksums of its files, as `sha256sum` writes them
    runs/.../seed-0.visits.npy   expected visits (S, A) under the policy learned, on grids
    times/.../seed-3.json        its processor time; not checked, since it differs in every run
    failed/...                   the traceback of a run that raised
    figures/, report.html        made from the files above

A file is written under another name and renamed when it is complete. The rows of a run are written
last, so a run is finished if and only if its rows exist. They are read only if the checksums are
correct and the rows belong to the run that the path names.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import math
import platform
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

import belated
from belated.config.part import File
from belated.core import files
from belated.core.arrays import Floats
from belated.lab import toml
from belated.lab.spec import Experiment, Task
from belated.lab.task import COLUMNS, Result, parameters

ROWS, VISITS, SUMS, TIME, FAILURE = ".parquet", ".visits.npy", ".sha256", ".json", ".txt"
"""The suffixes of the files of a run."""

_Read = TypeVar("_Read")


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and the directory it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, content)


def open_for(directory: Path, experiment: Experiment) -> None:
    """Make the directory, or continue in it if specification and versions are the same.

    More seeds than before are allowed; finished runs stay.
    """
    others = directory.exists() and not all(map(_early, directory.iterdir()))
    if (
        directory / "spec.toml"
    ).exists():  # checked last, since another process may be starting now
        before = spec(directory)
        for field in filter(lambda field: field.init, dataclasses.fields(Experiment)):
            old, new = getattr(before, field.name), getattr(experiment, field.name)
            if field.name == "seeds" and old > new:
                raise _other(directory, f"seeds = {old}, more than {new}")
            if field.name != "seeds" and old != new:
                what = _changed_file(old, new) or field.name
                raise _other(directory, f"another specification ({what} differs)")
        used = versions(directory)
        for name, version in _versions().items():
            if used.get(name) != version:
                raise _other(directory, f"{name} {used.get(name)}, this is {version}")
    elif others:
        raise ValueError(f"{directory} must be empty or hold results of belated; choose another")
    write(directory / "versions.json", json.dumps(_versions(), indent=2).encode())
    write(directory / "spec.toml", toml.dumps(experiment, directory).encode())


def _changed_file(old: object, new: object) -> str:
    """The first file whose content differs between two parts of a specification."""
    before = {file.path.name: file for file in _files(old)}
    for file in _files(new):
        if before.get(file.path.name, file) != file:
            return f"the content of {file.path.name}"
    return ""


def _files(value: object) -> Iterator[File]:
    """All files in a part of a specification."""
    if isinstance(value, File):
        yield value
    elif dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            yield from _files(getattr(value, each.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from _files(item)


def _early(path: Path) -> bool:
    """Whether a file may have been left by a process killed before writing spec.toml."""
    return path.name == "versions.json" or path.name.endswith(files.PARTIAL)


def _other(directory: Path, what: str) -> ValueError:
    return ValueError(f"{directory} holds results of {what}; choose another --out or remove it")


def spec(directory: Path) -> Experiment:
    """The experiment of a directory."""
    if not directory.exists():
        raise ValueError(f"{directory} is missing: there is no such directory")
    if not (directory / "spec.toml").is_file():
        raise ValueError(f"{directory} must be a directory of results (with a spec.toml)")
    return toml.read(directory / "spec.toml")


def versions(directory: Path) -> dict[str, str]:
    """The versions it was run with."""
    path = directory / "versions.json"
    return _parsed(path, lambda: dict(json.loads(path.read_text("utf-8"))))


def _damaged(path: Path, reason: str | BaseException) -> ValueError:
    if isinstance(reason, BaseException):
        reason = next(iter(str(reason).splitlines()), type(reason).__name__)
    return ValueError(f"{path} is damaged ({reason}){_again(path)}")


def _again(path: Path) -> str:
    """The advice for a damaged file of a run, as the end of an error message."""
    if not path.name.endswith((ROWS, VISITS, SUMS)):
        return ""
    rows = path.name.partition(".")[0] + ROWS
    return f"; remove {'it' if path.name == rows else rows} and run again"


def keep(directory: Path, task: Task, result: Result) -> None:
    """Store a finished run, unless another process has finished it in the meantime."""
    if not _finished(directory, task):
        if not math.isnan(result.seconds):
            seconds = json.dumps({"processor_seconds": round(result.seconds, 3)})
            write(_path(directory, task, TIME), f"{seconds}\n".encode())
        contents = {VISITS: result.visits, ROWS: result.parquet}
        kept = {ending: content for ending, content in contents.items() if content is not None}
        for ending, content in {SUMS: _sums(task, kept), **kept}.items():
            write(_path(directory, task, ending), content)
    _path(directory, task, FAILURE).unlink(missing_ok=True)


def _sums(task: Task, contents: dict[str, bytes]) -> bytes:
    """The checksums of the files of a run, by name; `sha256sum -c` reads them."""
    sums = ((hashlib.sha256(contents[ending]).hexdigest(), ending) for ending in sorted(contents))
    return "".join(f"{digest}  {task.name}{ending}\n" for digest, ending in sums).encode()


def keep_failure(directory: Path, task: Task, trace: str) -> None:
    """Store the traceback of a run that raised."""
    write(_path(directory, task, FAILURE), trace.encode())


def failed(directory: Path, experiment: Experiment) -> list[Task]:
    """The runs that raised and have not been finished since."""
    return [task for task in experiment.tasks() if _path(directory, task, FAILURE).exists()]


def unfinished(directory: Path, experiment: Experiment) -> list[Task]:
    """The runs that are not finished."""
    return [task for task in experiment.tasks() if not _finished(directory, task)]


def rows(directory: str | Path, experiment: Experiment | None = None) -> pl.DataFrame:
    """The rows of all finished runs, in the order of the specification."""
    directory = Path(directory)
    experiment = experiment or spec(directory)
    done = (task for task in experiment.tasks() if _finished(directory, task))
    found = [_rows(directory, experiment, task) for task in done]
    if not found:
        raise ValueError(f"{directory} must hold at least one finished run, got none")
    return pl.concat(found)


def _rows(directory: Path, experiment: Experiment, task: Task) -> pl.DataFrame:
    """The rows of one run; checks that they belong to it."""
    path = _path(directory, task, ROWS)
    content = _contents(directory, task)[ROWS]
    found = _parsed(path, lambda: pl.read_parquet(content))
    other = [name for name, kind in COLUMNS.items() if found.schema.get(name) != kind]
    if other:
        raise ValueError(
            f"{path} is damaged or of another version of belated (it has no column {other[0]!r} "
            f"of type {COLUMNS[other[0]]}); run the experiment again with another --out"
        )
    episodes = experiment.scene(task.case).episodes
    if not found["episode"].equals(pl.Series(range(episodes), dtype=pl.Int64)):
        raise _another(path, f"{len(found)} rows, not one for each of {episodes} episodes")
    expected = {
        "experiment": experiment.name,
        "case": task.case,
        "agent": task.learner,
        "seed": task.seed,
        "parameters": parameters(experiment, task),
    }
    for name, value in expected.items():
        wrong = found[name].filter(found[name].ne_missing(value))
        if len(wrong):
            raise _another(path, f"{name} = {wrong[0]!r}, not {value!r}")
    return found


def _another(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} holds the rows of another run ({what}){_again(path)}")


def visits(directory: Path, task: Task) -> Floats | None:
    """Expected visits (S, A) per episode under the policy that a run learned, if kept."""
    content = _contents(directory, task).get(VISITS) if _finished(directory, task) else None
    if content is None:
        return None
    path = _path(directory, task, VISITS)
    kept: Floats = _parsed(path, lambda: np.load(io.BytesIO(content)))
    if kept.dtype != np.float64 or kept.ndim != 2 or not np.all(np.isfinite(kept)):
        raise _damaged(path, "it holds no table of visits")
    return kept


def _contents(directory: Path, task: Task) -> dict[str, bytes]:
    """The files of a finished run by suffix, if the checksums are correct."""
    paths = {ending: _path(directory, task, ending) for ending in (VISITS, ROWS)}
    kept = {ending: _parsed(p, p.read_bytes) for ending, p in paths.items() if p.exists()}
    sums = _path(directory, task, SUMS)
    if not sums.exists():
        missing = f"has no checksum, {sums.name} is missing"
        raise ValueError(f"{paths[ROWS]} {missing}{_again(paths[ROWS])}")
    written = _parsed(sums, sums.read_bytes)
    if written != _sums(task, kept):
        wrong = [e for e, content in kept.items() if _sums(task, {e: content}) not in written]
        raise _damaged(paths[wrong[-1]] if wrong else sums, "its checksum does not fit")
    return kept


def _parsed(path: Path, read: Callable[[], _Read]) -> _Read:
    """Read a file with `read`; any exception becomes one line that names the file."""
    try:
        return read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in compiled code is not an Exception
        raise _damaged(path, error) from None


def _finished(directory: Path, task: Task) -> bool:
    return _path(directory, task, ROWS).exists()


def times(directory: Path, experiment: Experiment) -> dict[Task, float]:
    """The processor seconds of the finished runs, if known."""
    found = {}
    for task in experiment.tasks():
        path = _path(directory, task, TIME)
        if path.exists():
            told = _parsed(path, partial(json.loads, path.read_bytes()))
            found[task] = float(told["processor_seconds"])
    return found


def _path(directory: Path, task: Task, ending: str) -> Path:
    """The path of a file of a run, by its suffix."""
    folder = {TIME: "times", FAILURE: "failed"}.get(ending, "runs")
    return directory / folder / f"{task.name}{ending}"


def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in ("numpy", "numba", "polars")}
    return {"belated": belated.__version__, "python": platform.python_version(), **packages}
