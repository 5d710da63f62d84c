"""The lab: experiments as data, runs that can be stopped and continued, figures and reports.

    experiment = lab.named("paper-grid")           or lab.read(Path("my.toml"))
    lab.run(experiment, Path("out/paper-grid"), jobs=2)
    lab.rows(Path("out/paper-grid"))               a polars DataFrame, one row per episode

The same from a shell: `belated --help`.
"""

from belated.lab.experiments import EXPERIMENTS, named
from belated.lab.kinds.part import Part, part
from belated.lab.kinds.told import Told
from belated.lab.run import Sweep, run
from belated.lab.spec import Case, Experiment, Learner
from belated.lab.store import rows
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
