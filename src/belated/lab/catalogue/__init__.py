"""Experiments by name."""
