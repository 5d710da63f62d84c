"""Decisions with features whose outcomes come late, and mostly not at all."""
