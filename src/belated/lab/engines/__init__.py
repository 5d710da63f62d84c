"""Ways to run tasks: processes on this machine, or a Ray cluster.

An engine is a context manager, opened with (experiment, jobs), that owns its worker processes. It
yields a function from tasks to an iterator of their outcomes, in the order in which they finish.
Engines write no files: a result is bytes, which the calling process keeps.
"""
