"""Exact values, best policies and occupancy measures by dynamic programming."""

from belated.tabular.planning import (
    best_policy,
    occupancy,
    occupancy_from,
    policy_from,
    policy_values,
    transitions_from,
)

__all__ = [
    "best_policy",
    "occupancy",
    "occupancy_from",
    "policy_from",
    "policy_values",
    "transitions_from",
]
