"""Exact values, best policies and occupancy measures by dynamic programming."""

from belated.tabular.planning import (
    best_policy as best_policy,
    occupancy as occupancy,
    occupancy_from as occupancy_from,
    policy_from as policy_from,
    policy_values as policy_values,
    transitions_from as transitions_from,
)
