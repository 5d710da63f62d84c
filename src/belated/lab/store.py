"""A directory of results, in which every run is complete or absent.

    spec.toml                    what was run
    versions.json                with which versions
    runs/.../seed-3.parquet      the rows of one finished run
    runs/.../seed-0.visits.npy   expected visits (S, A) under the policy learned, on grids
    failed/...                   the traceback of a run that raised
    figures/, report.html        made from the files above

A file is written under another name and renamed when it is complete. The rows of a run are
written last, so a run is finished if and only if its rows are there.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import numpy as np
import polars as pl

import belated
from belated.arrays import Floats
from belated.lab import toml
from belated.lab.spec import Experiment, Task
from belated.lab.task import COLUMNS, Result

PARTIAL = ".partial"


def write(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    with partial.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def open_for(directory: Path, experiment: Experiment) -> None:
    """Make the directory, or continue in it if specification and versions are the same.

    More seeds than before are allowed; finished runs stay.
    """
    if (directory / "spec.toml").exists():
        before = spec(directory)
        for field in filter(lambda field: field.init, dataclasses.fields(Experiment)):
            old, new = getattr(before, field.name), getattr(experiment, field.name)
            if field.name == "seeds" and old > new:
                raise _other(directory, f"seeds = {old}, more than {new}")
            if field.name != "seeds" and old != new:
                raise _other(directory, f"another specification ({field.name} differs)")
        used = versions(directory)
        for name, version in _versions().items():
            if used.get(name) != version:
                raise _other(directory, f"{name} {used.get(name)}, this is {version}")
    elif directory.exists() and not all(map(_early, directory.iterdir())):
        raise ValueError(f"{directory} must be empty or hold results of belated; choose another")
    write(directory / "versions.json", json.dumps(_versions(), indent=2).encode())
    write(directory / "spec.toml", toml.dumps(experiment).encode())


def _early(path: Path) -> bool:
    """Whether a file may have been left by a process killed before writing spec.toml."""
    return path.name == "versions.json" or path.name.endswith(PARTIAL)


def _other(directory: Path, what: str) -> ValueError:
    return ValueError(f"{directory} holds results of {what}; choose another --out or remove it")


def spec(directory: Path) -> Experiment:
    """What was run in a directory."""
    if not (directory / "spec.toml").is_file():
        raise ValueError(f"{directory} must be a directory of results (with a spec.toml)")
    return toml.read(directory / "spec.toml")


def versions(directory: Path) -> dict[str, str]:
    """The versions it was run with."""
    path = directory / "versions.json"
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> ValueError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    again = "; remove it and run again" if path.suffix == ".parquet" else ""
    return ValueError(f"{path} is damaged ({reason}){again}")


def keep(directory: Path, task: Task, result: Result) -> None:
    """Keep a finished run."""
    if result.visits is not None:
        write(_path(directory, task, ".visits.npy"), result.visits)
    write(_path(directory, task, ".parquet"), result.parquet)
    _failure(directory, task).unlink(missing_ok=True)


def keep_failure(directory: Path, task: Task, trace: str) -> Path:
    """Keep the traceback of a run that raised."""
    path = _failure(directory, task)
    write(path, trace.encode())
    return path


def failed(directory: Path, experiment: Experiment) -> list[Task]:
    """The runs that raised and have not been finished since."""
    return [task for task in experiment.tasks() if _failure(directory, task).exists()]


def unfinished(directory: Path, experiment: Experiment) -> list[Task]:
    """The runs that are still to be done."""
    return [t for t in experiment.tasks() if not _path(directory, t, ".parquet").exists()]


def sweep_up(directory: Path) -> None:
    """Remove incomplete files that killed processes left. Call it when every run is finished."""
    for left in directory.rglob(f"*{PARTIAL}"):
        left.unlink(missing_ok=True)


def rows(directory: str | Path, experiment: Experiment | None = None) -> pl.DataFrame:
    """The rows of all finished runs, in the order of the specification."""
    directory = Path(directory)
    tasks: Iterable[Task] = (experiment or spec(directory)).tasks()
    paths = [path for path in (_path(directory, t, ".parquet") for t in tasks) if path.exists()]
    if not paths:
        raise ValueError(f"{directory} must hold at least one finished run, got none")
    return pl.concat([_read(path) for path in paths])


def _read(path: Path) -> pl.DataFrame:
    try:
        found = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _damaged(path, error) from None
    absent = [name for name in COLUMNS if name not in found.columns]
    if absent:
        raise ValueError(
            f"{path} is of another version of belated (it has no column {absent[0]!r}); "
            "run the experiment again with another --out"
        )
    return found


def visits(directory: Path, task: Task) -> Floats | None:
    """Expected visits (S, A) per episode under the policy that a run learned, if kept."""
    path = _path(directory, task, ".visits.npy")
    if not path.exists():
        return None
    try:
        kept: Floats = np.load(path)
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(path, error) from None
    return kept


def _failure(directory: Path, task: Task) -> Path:
    return directory / "failed" / f"{task.name}.txt"


def _path(directory: Path, task: Task, ending: str) -> Path:
    return directory / "runs" / f"{task.name}{ending}"


def _versions() -> dict[str, str]:
    packages = {name: metadata.version(name) for name in ("numpy", "numba", "polars")}
    return {"belated": belated.__version__, "python": platform.python_version(), **packages}
