"""Wrappers around agents of any kind: they know neither states nor features."""
