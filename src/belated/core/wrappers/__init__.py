"""Agents around agents that know neither states nor features."""
