"""Decisions with features whose outcomes arrive late, and mostly never."""
