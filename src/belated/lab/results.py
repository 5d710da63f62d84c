"""Results of an experiment, for Python programs and notebooks."""

import json
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from belated.core import checks
from belated.lab import statistics, store, tables
from belated.lab.spec import SCORE, Experiment, label, shown
from belated.lab.statistics import Choices, Line, Series
from belated.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = ("results", "costs", "differences", "selected")
NEAR_UNIFORM = 0.9
"""With a score above this, regret grows as for uniform play, and a slope has no other meaning."""


class Results:
    """The finished runs in a directory: rows, tables and figures. Notebooks show the latter two.

    Attributes:
        directory: the directory of the results.
        experiment: the experiment that was run.
    """

    def __init__(self, directory: str | Path, experiment: Experiment | None = None) -> None:
        self.directory = Path(directory)
        self.experiment = store.spec(self.directory) if experiment is None else experiment
        self._lines: dict[tuple[str, str | None, bool], list[Line]] = {}

    @cached_property
    def _read(self) -> pl.DataFrame:
        return store.rows(self.directory, self.experiment)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One row per episode of every finished run; swept parameters are columns too."""
        rows = self._read
        for path, values in self.experiment.sweep:
            name = label(self.experiment, path)
            plain = all(isinstance(value, int | float | str) for value in values)
            runs = rows.select("case", "agent").unique(maintain_order=True)
            at = [self.experiment.at(*run).get(path) for run in runs.rows()]
            column = [value if plain or value is None else shown(value) for value in at]
            found = runs.with_columns(
                pl.Series(path if name in rows.columns else name, column, strict=False)
            )
            rows = rows.join(found, on=["case", "agent"], how="left", maintain_order="left")
        return rows

    @cached_property
    def diagnostics(self) -> pl.DataFrame:
        """The diagnostics over time: case, agent, seed, episode, name and value."""
        some = self._read.filter(pl.col("diagnostics").is_not_null())
        found = [
            (*key, name, float(value))
            for *key, text in some.select("case", "agent", "seed", "episode", "diagnostics").rows()
            for name, value in json.loads(text).items()
        ]
        names = ("case", "agent", "seed", "episode", "name", "value")
        return pl.DataFrame(found, schema=names, orient="row")

    @cached_property
    def seconds(self) -> pl.DataFrame:
        """Processor time of the finished runs: case, agent, seed and seconds."""
        found = store.times(self.directory, self.experiment)
        rows = [(task.case, task.learner, task.seed, value) for task, value in found.items()]
        return pl.DataFrame(rows, schema=("case", "agent", "seed", "seconds"), orient="row")

    @cached_property
    def choices(self) -> Choices:
        """The settings of swept agents, the selected first; empty if none are selected."""
        return statistics.choose(self.experiment, self._read)

    @cached_property
    def reported(self) -> pl.DataFrame:
        """The rows of tables and curves; with a selection, only the seeds that it did not use."""
        found = statistics.reported(self.experiment, self._read, self.choices)
        if not len(found):
            raise ValueError(
                f"{self.directory} must hold finished runs of the seeds that are reported, got none"
            )
        return found

    @property
    def agents(self) -> list[str]:
        """The names of all agents, whose order determines colours."""
        return [learner.name for learner in self.experiment.learners]

    def title(self, case: str = "") -> str:
        """The title of the experiment, or of one of its cases."""
        return ": ".join(filter(None, [self.experiment.title or self.experiment.name, case]))

    @property
    def lines(self) -> list[Line]:
        """Means over seeds with intervals, by case and agent."""
        return self.lines_on()

    def lines_on(
        self, on: str = "means", regret: str | None = None, *, swept: bool = False
    ) -> list[Line]:
        """`lines` on mean or drawn costs, with one of the regrets; see `table`.

        swept: all settings, on the seeds on which they are selected (all if none are).
        """
        swept = swept and self.experiment.select is not None
        if (on, regret, swept) not in self._lines:
            rows = statistics.chosen_on(self.experiment, self._read) if swept else self.reported
            self._lines[on, regret, swept] = statistics.summary(rows, on, regret)
        return self._lines[on, regret, swept]

    def exponents(self, on: str = "means", regret: str | None = None) -> dict[str, Series]:
        """The growth of regret against K or K + D, by agent; see `table`."""
        kind = regret or statistics.DEFAULT[on]
        lines = self.lines_on(on, regret)
        return statistics.exponents(self.experiment, self.reported, lines, kind)

    @property
    def warnings(self) -> list[str]:
        """Warnings about agents that have not learned, and about meaningless slopes."""
        found = tables.warnings(self.lines)
        if self.experiment.against in ("episodes", "total_delay"):
            near: dict[str, list[str]] = {}
            for line in self.lines:
                if line.score.mean > NEAR_UNIFORM:
                    near.setdefault(line.agent, []).append(line.case)
            found += [
                f"WARNING: {agent}: a score above {NEAR_UNIFORM} in {'; '.join(cases)}; it plays "
                "like chance there, and the slope is that of uniform play"
                for agent, cases in near.items()
            ]
        return found

    def table(
        self,
        which: str | None = None,
        *,
        on: str = "means",
        regret: str | None = None,
        baseline: str | None = None,
    ) -> Table:
        """A table, which can be printed, or converted by markdown(), latex() and csv().

        Args:
            which: "results" (the table of `belated run`, the default), "costs", "differences" (the
                default with a baseline) or "selected".
            on: costs in expectation over their noise ("means"), or as they were drawn ("drawn").
            regret: "hindsight", "means", "dynamic" or "so far"; by default against the best fixed
                policy of the whole run, on the costs that `on` names.
            baseline: for differences, the agent that all others are compared with.
        """
        usual = "results" if baseline is None else "differences"
        which = checks.choice("which", usual if which is None else which, TABLES)
        if baseline is not None and which != "differences":
            raise ValueError(f"baseline is for the table of differences, not for {which!r}")
        experiment, against, title = self.experiment, self.experiment.against, self.title()
        lines = self.lines_on(on, regret)
        if statistics.noisy(self.reported) and on == "means":
            title += ", on mean costs"
        if regret is not None:
            title += f", {statistics.REGRETS[regret]}"
        if which == "differences":
            pairs = statistics.differences(self.reported, baseline, on)
            return tables.differences(pairs, f"{title}: first minus second")
        if which == "selected":
            if not self.choices:
                why = "no setting has all its seeds" if experiment.select else "select is not given"
                raise ValueError(f"{self.directory} has no selected settings: {why}")
            return tables.choices(experiment, self.choices, f"{title}: settings selected")
        if which == "costs" or against is None:
            return tables.costs(lines, title, brief=which != "costs")
        if against == SCORE:
            return tables.scores(experiment, lines, f"{title}. {tables.SCALE}")
        if against in dict(experiment.sweep):
            return self._swept(against, title, on, regret)
        return tables.scaling(experiment, lines, title, self.exponents(on, regret))

    def compared(self) -> list[Table]:
        """The tables over all cases or over every swept parameter, if the experiment has any."""
        if self.experiment.against is not None:
            return [self.table()]
        paths = [path for path, values in self.experiment.sweep if len(values) > 1]
        return [self._swept(path, f"Regret of whole runs over {path}") for path in paths]

    def _swept(self, path: str, title: str, on: str = "means", regret: str | None = None) -> Table:
        if (select := self.experiment.select) is not None:
            chosen = statistics.seeds(self.experiment.first_seed, select.seeds)
            title += f", {chosen}, on which settings are selected"
        lines = self.lines_on(on, regret, swept=True)
        return tables.swept(self.experiment, lines, path, title)

    def figures(self) -> list[str]:
        """The names of the figures."""
        from belated.lab import plot  # noqa: PLC0415

        return list(plot.figures(self))

    def figure(self, name: str = "cost", **look: Any) -> "Figure":
        """A figure by its name, for Matplotlib; `savefig` saves it in the lab's style.

        Args:
            name: one of `figures()`, e.g. "cost" or "regret".
            look: width, title, block, on, regret, agents and labels, as in `lab.plot.Look`.
        """
        from belated.lab import plot  # noqa: PLC0415

        makers = plot.figures(self, plot.Look(**look))
        return makers[checks.choice("name", name, makers)]()

    def report(self) -> Path:
        """Write report.html, a self-contained file."""
        from belated.lab import plot, report  # noqa: PLC0415

        return report.write(self, plot.draw(self))

    def __repr__(self) -> str:
        runs = self._read.select("case", "agent", "seed").n_unique()
        return f"Results of {self.experiment.name}, {runs} finished runs in {self.directory}"

    def _repr_html_(self) -> str:
        from belated.lab import plot, report  # noqa: PLC0415

        notes = [statistics.sentence(self.experiment), *self.warnings]
        text = "".join(f"<p>{escape(note)}</p>" for note in notes if note)
        first = next(iter(plot.figures(self).values()))
        return f"{self.table()._repr_html_()}{text}{report.figure(first())}"
