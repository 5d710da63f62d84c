"""The parts of an agent: where Q comes from, where costs come from, how the policy follows.

Each part has two halves: a setting, a small frozen value that can be printed, compared and written
in a file, and what its `start` makes, which learns.
"""
