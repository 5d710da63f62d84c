"""The parts of an agent: transitions, costs, the update of the policy, and exploration.

A part is a small frozen setting that can be printed, compared and saved. Its `start` makes the
object that holds what is learned.
"""
