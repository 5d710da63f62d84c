"""The module of every name: plain data for the package, saved files, configuration and docs.

A name is listed once. `belated` imports it when it is first used, because compiled code is slow to
import; `saving` looks up the classes that a file may hold, and `config` those that a file may name.
"""

import re

AGENTS = {
    "DAPO": "tabular.dapo",
    "DelayedFTRL": "tabular.oreps.ftrl",
    "DelayedOPPO": "tabular.oppo",
    "DelayedOREPS": "tabular.oreps.agent",
    "DelayedPlanner": "tabular.planner",
    "DelayedUCBVI": "tabular.ucbvi",
    "LinearSampler": "linear.sampler",
    "PosteriorSampling": "tabular.rivals.posterior_sampling",
    "ThompsonSampling": "tabular.rivals.thompson_sampling",
    "UOBREPS": "tabular.oreps.uob",
    "ZimmertSeldin": "tabular.zimmert_seldin",
}
"""Agents at the top of the package."""

RIVALS = {
    "InformedPlanner": "tabular.informed",
    "TableSampler": "onehot",
}
"""Agents that are not at the top of the package: those that `recommend` makes."""

PARTS = "Averaged Bonus Confidence FewVisits RegretMatching Revealed Softmax Weighted"
"""Parts of `DelayedOPPO`, public as `belated.parts`."""

WRAPPERS = "Bold Doubling Lazy Locked Parallel Pipeline Skipping"
"""Wrappers around agents, public as `belated.wrappers`."""

DATA = {
    "Choice": "linear.choice",
    "Costs": "tabular.records",
    "Features": "linear.features",
    "Inbox": "core.inbox",
    "Problem": "tabular.problem",
    "Reward": "linear.reward",
    "Trajectory": "tabular.records",
    "Transitions": "tabular.transitions",
}
"""Classes at the top of the package that a file may hold, beside agents."""

SAVED = {
    **AGENTS,
    **RIVALS,
    **DATA,
    **dict.fromkeys(PARTS.split(), "parts"),
    **dict.fromkeys(WRAPPERS.split(), "wrappers"),
    "Copying": "core.wrappers",
    "DoublingFTRL": "tabular.oreps.doubling",
    "Model": "linear.model",
}
"""Classes whose objects a file may hold."""

FUNCTIONS = {
    "advice": "advise recommend",
    "core.contract": "Agent Decision Episode FeedbackError",
    "core.delays": "DelayLine NEVER",
    "core.inbox": "Outcome Report",
    "core.saving": "SavedFileError load save",
    "simulation": "Run simulate",
    "tabular.records": "StepCost",
    "tabular.world": "MDP World",
}
"""Functions, and classes that no file holds, at the top of the package, by their modules."""

TOP = {
    **AGENTS,
    **DATA,
    **{name: home for home, names in FUNCTIONS.items() for name in names.split()},
}
"""Names at the top of the package."""

MODULES = "costs delays environments evaluation lab parts planning stale testing tuning wrappers"
"""Public modules."""


def kind(name: str) -> str:
    """The name of an agent or a part in files: `q_learning` for `QLearning`."""
    edges = "(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=UOB)(?=REPS)"
    return re.sub(edges, "_", name.removeprefix("Delayed")).lower()
