"""The `belated` command: run experiments, draw and report their results.

Exit codes: 0 success, 1 some runs failed, 2 wrong input; 130 interrupted (`__main__`).
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter, Token
from rich.console import Console

from belated import checks

if TYPE_CHECKING:
    from belated.lab.run import Sweep
    from belated.lab.spec import Experiment
    from belated.lab.tables import Table

app = App(
    name="belated",
    help="Run experiments in learning from delayed feedback.",
    help_epilogue="Start here: belated run paper-grid --seeds 3",
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,
)


class _Plain(Console):
    """A console that shows names as they are: no markup, and no escape character gets through."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts as `_printable` ones."""
        super().print(*(_printable(o) if isinstance(o, str) else o for o in objects), **options)


def _printable(text: str) -> str:
    """The text with what a terminal would obey, such as ESC, written out."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


out = _Plain()
err = _Plain(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    try:
        code = app(
            list(sys.argv[1:] if arguments is None else arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        return _complain(f"{' '.join(str(error).split())} (see belated --help)")
    except _Mistake as mistake:
        return _complain(str(mistake))
    return code if isinstance(code, int) else 0


def _whole(kind: object, tokens: Sequence[Token]) -> int:
    """A whole number; Cyclopts would round 1.5 to 2."""
    try:
        return int(tokens[0].value)
    except ValueError:
        raise ValueError(f"must be a whole number, got {checks.show(tokens[0].value)}") from None


Whole = Annotated[int, Parameter(converter=_whole)]


class _Mistake(Exception):
    """A mistake in the input. Any other exception is a bug."""


@contextmanager
def _input() -> Iterator[None]:
    """Turn errors about the input into one line."""
    try:
        yield
    except ValueError as error:
        raise _Mistake(str(error)) from None
    except OSError as error:
        named = error.strerror and error.filename
        raise _Mistake(f"{error.strerror}: {error.filename}" if named else str(error)) from None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C; inside an import, compiled packages turn it into other exceptions."""
    before = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or not callable(before):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(signal.SIGINT, None)


def _complain(message: str) -> int:
    err.print(f"belated: {message}", style="red", highlight=False, markup=False, soft_wrap=True)
    return 2


@app.command(name="list")
def list_() -> None:
    """List the experiments that can be run by name."""
    from rich.table import Table  # noqa: PLC0415

    from belated.lab.experiments import EXPERIMENTS  # noqa: PLC0415

    table = Table("name", "what it is", "runs", box=None, pad_edge=False)
    for name, make in EXPERIMENTS.items():
        experiment = make()
        table.add_row(name, _printable(experiment.title), str(len(experiment.tasks())))
    out.print(table)
    out.print("\nbelated run NAME runs one; belated export NAME > my.toml gives a copy to change.")


@app.command
def run(
    experiment: str,
    /,
    *,
    seeds: Whole | None = None,
    episodes: Whole | None = None,
    jobs: Whole | None = None,
    engine: str = "local",
    out_dir: Annotated[Path | None, Parameter(name="--out")] = None,
    no_own_code: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Run an experiment, or continue one that was stopped.

    Args:
        experiment: A name from `belated list`, or a TOML file.
        seeds: Number of repetitions (seeds 0 to N-1), instead of the experiment's.
        episodes: Episodes per run, instead of the experiment's.
        jobs: Number of runs at once; all cores by default.
        engine: local (processes on this machine) or ray (the cluster at RAY_ADDRESS, else one
            that is started here).
        out_dir: Directory for the results; out/NAME by default.
        no_own_code: Refuse a file that names code of its own (module:function).
    """
    with _uninterrupted():
        from belated.lab.spec import own_code, slug  # noqa: PLC0415

    with _input():
        chosen = _changed(_find(experiment), seeds, episodes)
        if no_own_code and (own := own_code(chosen)):
            raise ValueError(f"{own[0]} is code, which --no-own-code refuses to run")
        directory = out_dir or Path("out") / slug(chosen.name)
        done = _with_progress(chosen, directory, _cores() if jobs is None else jobs, engine)
    from belated.lab import drawing, figures, report, statistics, store, tables  # noqa: PLC0415

    for outcome in done.failed:
        err.print(f"failed: {outcome.task.name}: {outcome.reason}", style="red", soft_wrap=True)
    if done.found:
        out.print(f"Finished before: {_runs(done.found)}.")
    if done.failed:
        err.print(f"Failed: {_runs(len(done.failed))}; see {directory / 'failed'}.")
        if done.found + done.done == 0:
            return 1
    with _input():
        rows = store.rows(directory, chosen)
        lines = statistics.summary(rows)
        drawings = figures.draw(directory, rows, lines)
    title = chosen.title or chosen.name
    _print(tables.results(chosen, lines, title))
    for warning in tables.warnings(lines):
        out.print(warning, style="bold red", highlight=False, soft_wrap=True)
    drawing.save(directory, drawings, ("png", "svg"))
    report.write(directory, drawings, lines, statistics.differences(rows))
    _say("figures", directory / "figures")
    _say("report", directory / "report.html")
    return 1 if done.failed else 0


@app.command
def plot(directory: Path, /, *, pdf: bool = False) -> None:
    """Draw the figures of a directory of results again.

    Args:
        directory: Where `belated run` put the results.
        pdf: Write PDF as well as PNG and SVG.
    """
    from belated.lab import drawing, figures, statistics, store  # noqa: PLC0415

    with _input():
        rows = store.rows(directory)
        drawings = figures.draw(directory, rows, statistics.summary(rows))
    forms = ("png", "svg", "pdf") if pdf else ("png", "svg")
    for path in drawing.save(directory, drawings, forms):
        out.print(str(path), highlight=False, soft_wrap=True)


@app.command(name="report")
def report_(directory: Path, /) -> None:
    """Write report.html, one self-contained file, for a directory of results.

    Args:
        directory: Where `belated run` put the results.
    """
    from belated.lab import figures, report, statistics, store  # noqa: PLC0415

    with _input():
        rows = store.rows(directory)
        lines = statistics.summary(rows)
        drawings = figures.draw(directory, rows, lines)
        path = report.write(directory, drawings, lines, statistics.differences(rows))
    out.print(str(path), highlight=False, soft_wrap=True)


@app.command
def compare(*directories: Path) -> None:
    """Compare the agents of several directories of results.

    Args:
        directories: Directories of results. If world, costs, delays and episodes are the same,
            differences are taken seed by seed.
    """
    from belated.lab import tables  # noqa: PLC0415

    with _input():
        if not directories:
            raise ValueError("compare needs at least one directory of results")
        found = tables.compared(directories)
    for table in found:
        _print(table)


@app.command
def export(experiment: str, /) -> None:
    """Print an experiment as TOML, a copy to change: belated export paper-grid > my.toml.

    Args:
        experiment: A name from `belated list`, or a TOML file.
    """
    from belated.lab import toml  # noqa: PLC0415

    with _input():
        found = _find(experiment)
    sys.stdout.write(toml.dumps(found))


@app.command
def serve(config: Path | None = None, /, *, port: Whole | None = None) -> int:
    """Serve learners over HTTP until stopped; without a file, a demonstration.

    Args:
        config: A TOML file that names the learners.
        port: Listen here, instead of the port of the file; 0 is any free one.
    """
    run = _service("run")
    with _input():
        return int(run.serve(config, port))


@app.command
def token() -> None:
    """Print a new token for the service, and the hash that its configuration needs."""
    made, hashed = _service("tokens").new()
    out.print(f"token:  {made}\nsha256: {hashed}", highlight=False, soft_wrap=True)


def _service(name: str) -> Any:
    """A module of the service, if its packages are there."""
    try:
        with _uninterrupted():
            return importlib.import_module(f"belated.service.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("belated"):
            raise
        raise _Mistake(f"the service needs {error.name}: pip install 'belated[serve]'") from None


def _find(name: str) -> Experiment:
    from belated.lab import toml  # noqa: PLC0415
    from belated.lab.experiments import named  # noqa: PLC0415

    if name.endswith(".toml") or os.sep in name or Path(name).is_file():
        return toml.read(Path(name))
    return named(name)


def _changed(experiment: Experiment, seeds: int | None, episodes: int | None) -> Experiment:
    changes: dict[str, object] = {}
    if seeds is not None:
        changes["seeds"] = seeds
    if episodes is not None:
        own = [case for case in experiment.cases if case.episodes is not None]
        if own:
            raise ValueError(
                f"--episodes must be left out if cases have their own, got {episodes} for "
                f"{experiment.name} with episodes = {own[0].episodes} in {own[0].name!r}"
            )
        changes["episodes"] = episodes
    return dataclasses.replace(experiment, **changes)  # type: ignore[arg-type]


def _with_progress(experiment: Experiment, directory: Path, jobs: int, engine: str) -> Sweep:
    from rich import progress  # noqa: PLC0415

    from belated.lab.run import run  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("runs, time left"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(
        *columns, console=err, transient=True, disable=not err.is_terminal
    ) as bar:
        line = bar.add_task(_printable(experiment.name), total=None)
        return run(
            experiment,
            directory,
            jobs=jobs,
            engine=engine,
            begun=lambda left: bar.update(line, total=left),
            meanwhile=_prepare,
            progress=lambda outcome: bar.advance(line),
        )


def _prepare() -> None:
    """Import what figures need, which takes half a second, while workers are busy."""
    with _uninterrupted():
        importlib.import_module("belated.lab.figures")
    gc.freeze()  # these objects live to the end; collecting among them is slow


def _print(table: Table) -> None:
    from rich import box  # noqa: PLC0415
    from rich.measure import Measurement  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415

    shown = RichTable(
        title=_printable(table.title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1),
    )
    rows = [[_printable(cell) for cell in row] for row in table.cells]
    for i, head in enumerate(map(_printable, table.head)):
        name = i < table.names
        cells = [row[i] for row in rows]
        words = [word for text in (head, *cells) for word in text.split()]
        whole = [] if name else cells  # numbers stay on one line
        shown.add_column(
            head,
            justify="left" if name else "right",
            min_width=max([13 if name else 0, *map(len, words), *map(len, whole)]),
        )
    for row in rows:
        shown.add_row(*row)
    wide = out.options.update(max_width=sys.maxsize)
    least = Measurement.get(out, wide, shown).minimum
    out.print(shown, width=max(out.width, least), crop=False)


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _say(what: str, path: Path) -> None:
    out.print(f"{what}: {path}", highlight=False, soft_wrap=True)
