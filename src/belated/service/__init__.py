"""The learner service: hand out decisions, take feedback whenever it comes, lose nothing.

One learner, from a request to its agent:

    gate        limits and tokens, before anything of a request is read
    fast_path   the learners of a server; answers what is as documented
    app         HTTP: the documented routes, which answer everything else
    wire        records and events as JSON
    supervisor  one learner: opened from its storage, and opened again if something breaks
    recovery    ... how: the newest whole snapshot, then the log
    snapshot    ... and a learner as bytes
    session     ... while all is well: orders the events, and waits until they are on disk
    episodes    what is known of its episodes, the books; changed by events and by nothing else
    storage     an append-only log and snapshots in SQLite; a thread writes events in groups
    storage_postgres    ... in PostgreSQL
    worker      a thread that calls the agent, in the order of the log

Around it:

    run, config, agents, commands    a server from its file, and the command line
    report, metrics, page            what people and programs ask of a learner
    export, warm                     the decision log as a table, and an agent that starts from one
    errors                           why a request is refused

What an event needs, the clock, chance and how much had been learned, is in the event. So the books
and the agent are functions of the log, and a restart gives the same learner bit for bit.
"""
