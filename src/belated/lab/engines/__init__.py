"""Ways to run tasks: local processes, or a Ray cluster.

An engine is a function from (experiment, tasks, jobs) to an iterator of outcomes, in the order in
which they come. It writes nothing: what a run gives is bytes, and one process keeps them.
"""
