"""A directory of results, in which every run is complete or absent.

    spec.toml                    the experiment
    versions.json                the versions of the software
    runs/.../seed-3.parquet      the rows of one finished run
    runs/.../seed-3.sha256       their checksum, as `sha256sum` writes it
    times/.../seed-3.json        its processor time; not checked, since it differs in every run
    failed/...                   the traceback of a run that raised
    figures/, report.html        made from the files above

A file is written under another name and renamed when it is complete. The rows of a run are written
last, so a run is finished if and only if its rows exist. They are read only if the checksum is
correct and the rows belong to the run that the path names.
"""

import dataclasses
import hashlib
import json
import platform
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TypeVar

import polars as pl

import belated
from belated.core import saving
from belated.lab import toml
from belated.lab.spec import Experiment, Task
from belated.lab.task import COLUMNS, parameters

ROWS, SUMS, TIME, FAILURE = ".parquet", ".sha256", ".json", ".txt"
"""The suffixes of the files of a run."""
MAY_DIFFER = ("seeds", "title", "about")
"""Fields of an experiment that may change while it is continued."""

_Read = TypeVar("_Read")


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and the directory it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    saving.write(path, content)


def open_for(directory: Path, experiment: Experiment) -> None:
    """Make the directory, or continue in it if specification and versions are the same.

    More seeds than before, and other titles, are allowed; finished runs stay.
    """
    # A process that was killed before it wrote spec.toml may have left the other two.
    names = [path.name for path in directory.iterdir()] if directory.exists() else []
    others = [n for n in names if n != "versions.json" and not n.endswith(saving.PARTIAL)]
    # checked last, since another process may be starting now
    if (directory / "spec.toml").exists():
        before, used = spec(directory), versions(directory)
        if before.seeds > experiment.seeds:
            raise _other(directory, f"seeds = {before.seeds}, more than {experiment.seeds}")
        for name in (field.name for field in dataclasses.fields(Experiment) if field.init):
            changed = getattr(before, name) != getattr(experiment, name)
            if changed and name not in MAY_DIFFER:
                raise _other(directory, f"another specification ({name} differs)")
        for name, version in _versions().items():
            if used.get(name) != version:
                raise _other(directory, f"{name} {used.get(name)}, this is {version}")
    elif others:
        raise ValueError(f"{directory} must be empty or hold results of belated; choose another")
    write(directory / "versions.json", json.dumps(_versions(), indent=2).encode())
    write(directory / "spec.toml", toml.dumps(experiment).encode())


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


def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in ("numpy", "numba", "polars")}
    return {"belated": belated.__version__, "python": platform.python_version(), **packages}


def _parsed(path: Path, read: Callable[[], _Read]) -> _Read:
    """Read a file with `read`; any exception becomes one line that names the file."""
    try:
        return read()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in compiled code is not an Exception
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise _wrong(path, f"is damaged ({reason})") from None


def _wrong(path: Path, what: str) -> ValueError:
    """The error for a file that cannot be used; that of a run can be made again."""
    again = f"; remove {path.stem}{ROWS} and run again" if path.suffix in (ROWS, SUMS) else ""
    return ValueError(f"{path} {what}{again}")


def keep(directory: Path, task: Task, rows: bytes, seconds: float | None = None) -> None:
    """Store a finished run, unless another process has finished it in the meantime."""
    if not _finished(directory, task):
        if seconds is not None:
            text = json.dumps({"processor_seconds": round(seconds, 3)})
            write(_path(directory, task, TIME), f"{text}\n".encode())
        write(_path(directory, task, SUMS), _sum(task, rows))
        write(_path(directory, task, ROWS), rows)
    _path(directory, task, FAILURE).unlink(missing_ok=True)


def _sum(task: Task, rows: bytes) -> bytes:
    """The checksum of the rows of a run, by name; `sha256sum -c` reads it."""
    return f"{hashlib.sha256(rows).hexdigest()}  {task.name}{ROWS}\n".encode()


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
    path, sums = (_path(directory, task, ending) for ending in (ROWS, SUMS))
    content = _parsed(path, path.read_bytes)
    if not sums.exists():
        raise _wrong(path, f"has no checksum, {sums.name} is missing")
    if _parsed(sums, sums.read_bytes) != _sum(task, content):
        raise _wrong(path, "is damaged (its checksum does not fit)")
    found = _parsed(path, lambda: pl.read_parquet(content))
    other = [name for name, kind in COLUMNS.items() if found.schema.get(name) != kind]
    if other:
        raise ValueError(
            f"{path} is damaged or of another version of belated (it has no column {other[0]!r} "
            f"of type {COLUMNS[other[0]]}); run the experiment again with another --out"
        )
    episodes = experiment.scene(task.case).episodes
    if not found["episode"].equals(pl.Series(range(episodes), dtype=pl.Int64)):
        what = f"{len(found)} rows, not one for each of {episodes} episodes"
        raise _wrong(path, f"holds the rows of another run ({what})")
    expected = (experiment.name, task.case, task.learner, parameters(experiment, task), task.seed)
    for name, value in zip(COLUMNS, expected, strict=False):
        wrong = found[name].filter(found[name].ne_missing(value))
        if len(wrong):
            what = f"{name} = {wrong[0]!r}, not {value!r}"
            raise _wrong(path, f"holds the rows of another run ({what})")
    return found


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
