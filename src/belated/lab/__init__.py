"""The lab: experiments as data, runs that can be stopped and continued, figures and reports.

    result = lab.run("paper-grid", "out/paper-grid", jobs=2)     or lab.run(lab.read("my.toml"))
    result = lab.run(environment=my_world, agents={"mine": my_agent, "OPPO": "oppo"}, seeds=5)
    result.rows, result.table(), result.figure("cost")           a notebook shows table and curves

The same from a shell: `belated --help`.
"""

import importlib

try:
    from belated.config.agents import RunBrief
    from belated.config.part import Part, part
    from belated.lab.results import Results
    from belated.lab.run import RunsFailed, experiment, run
    from belated.lab.spec import Case, Experiment, Learner, Select
    from belated.lab.store import rows
    from belated.lab.toml import EXPERIMENTS, dumps, named, read
except ModuleNotFoundError as error:
    if (error.name or "").startswith("belated"):
        raise
    needed = f"belated.lab needs {error.name}: pip install 'belated[lab]'"
    raise ModuleNotFoundError(needed, name=error.name) from None

__all__ = [
    "EXPERIMENTS",
    "Case",
    "Experiment",
    "Learner",
    "Part",
    "Results",
    "RunBrief",
    "RunsFailed",
    "Select",
    "dumps",
    "experiment",
    "named",
    "part",
    "plot",
    "read",
    "rows",
    "run",
]


def __getattr__(name: str) -> object:
    """Import `lab.plot` when it is first used, since Matplotlib takes half a second."""
    if name == "plot":
        return importlib.import_module("belated.lab.plot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
