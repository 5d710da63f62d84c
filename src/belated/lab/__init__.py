"""The lab: experiments as data, runs that survive anything, figures and reports from rows.

    experiment = lab.named("paper-grid")           or lab.read(Path("my.toml"))
    lab.run(experiment, Path("out/paper-grid"), jobs=2)
    lab.rows(Path("out/paper-grid"))               a polars DataFrame, one row per episode

The same from a shell: `belated --help`.
"""

from belated.lab.experiments import EXPERIMENTS, named
from belated.lab.learners import Told
from belated.lab.parts import Part, part
from belated.lab.spec import Case, Experiment, Learner
from belated.lab.store import rows
from belated.lab.sweep import Sweep, run
from belated.lab.toml import dumps, read

__all__ = [
    "EXPERIMENTS",
    "Case",
    "Experiment",
    "Learner",
    "Part",
    "Sweep",
    "Told",
    "dumps",
    "named",
    "part",
    "read",
    "rows",
    "run",
]
