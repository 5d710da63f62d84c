"""Ways to run tasks: local processes, or a Ray cluster.

An engine is a context, opened with (experiment, jobs), in which its processes live. It gives a
function from tasks to an iterator of their outcomes, in the order in which they come. It writes
nothing: what a run gives is bytes, and one process keeps them.
"""
