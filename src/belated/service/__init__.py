"""The learner service: it makes decisions, accepts feedback at any time, and loses nothing.

One learner, from a request to its agent:

    connection  limits on the head of a request
    gate        limits and tokens, before a request is read
    fast_path   the learners of a server; answers well-formed requests
    app         HTTP: the documented routes, which answer all other requests
    wire        records and events as JSON
    supervisor  one learner: opens it from its storage, and again after a failure
    recovery    ... from the newest complete snapshot, then the log
    snapshot    ... and a learner as bytes
    session     ... in normal operation: orders the events, and waits until they are on disk
    episodes    the books: what is known of its episodes; only events change them
    storage     an append-only log and snapshots in SQLite; a thread writes events in groups
    storage_postgres    ... in PostgreSQL
    worker      a thread that calls the agent, in the order of the log

Around it:

    run, config, agents, commands    a server from its file, and the command line
    report, metrics, page            reports for people and programs
    export, warm                     the decision log as a table, and an agent trained on one
    errors                           why a request is refused

An event contains everything that its effect depends on: the time, random draws, and how much had
been learned. So the books and the agent are functions of the log, and a restart gives the same
learner bit for bit.
"""
