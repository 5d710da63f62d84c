"""Compare the agents of several directories of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from belated.lab import statistics, tables
from belated.lab.catalogue.paper import title
from belated.lab.results import Results
from belated.lab.spec import Scene
from belated.lab.statistics import Line
from belated.lab.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What several directories hold.

    Attributes:
        lines: every agent in every case, named by its directory.
        scenes: a title, and the rows of all agents that face the same world, costs, delays and K.
        names: of all agents.
    """

    lines: tuple[Line, ...]
    scenes: tuple[tuple[str, pl.DataFrame], ...]
    names: tuple[str, ...]

    def tables(self) -> list[Table]:
        """Costs, and differences within a scene."""
        pairs = [pair for _, rows in self.scenes for pair in statistics.differences(rows)]
        found = [tables.costs(self.lines, "Means over seeds with 95 % intervals", brief=True)]
        if pairs:
            found.append(tables.differences(pairs, "Differences in cost per episode, seed by seed"))
        return found


def read(directories: Sequence[Path]) -> Comparison:
    """Read several directories of results."""
    lines: list[Line] = []
    names: list[str] = []
    scenes: dict[Scene, list[pl.DataFrame]] = {}
    titles: dict[Scene, str] = {}
    for directory, label in zip(directories, _labels(directories), strict=True):
        results = Results(directory)
        experiment = results.experiment
        named = results.reported.with_columns(agent=pl.lit(f"{label}: ") + pl.col("agent"))
        lines += statistics.summary(named)
        names += named["agent"].unique(maintain_order=True).to_list()
        for case in experiment.case_names():
            some = named.filter(pl.col("case") == case)
            if len(some):
                scene = experiment.scene(case)
                scenes.setdefault(scene, []).append(some)
                titles.setdefault(scene, title(experiment, case))
    found = []
    for scene, frames in scenes.items():
        case = frames[0]["case"][0]  # other directories may name the same scene differently
        same = [frame.with_columns(case=pl.lit(case)) for frame in frames]
        found.append((titles[scene], pl.concat(same)))
    return Comparison(tuple(lines), tuple(found), tuple(names))


def _labels(directories: Sequence[Path]) -> list[str]:
    """The last components of the paths, as many as are needed to tell them apart."""
    whole = [directory.resolve() for directory in directories]
    twice = [path for i, path in enumerate(whole) if path in whole[:i]]
    if twice:
        raise ValueError(f"directories must be different, got {twice[0]} twice")
    for depth in range(1, max(len(path.parts) for path in whole)):
        labels = ["/".join(path.parts[-depth:]) for path in whole]
        if len(set(labels)) == len(labels):
            return [_printable(label) for label in labels]
    return [_printable(str(path)) for path in whole]


def _printable(label: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in label)
