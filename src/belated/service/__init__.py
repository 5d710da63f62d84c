"""The learner service: hand out decisions, take feedback whenever it comes, lose nothing.

One learner, from a request to its agent:

    app        HTTP: reads a request, asks `limits` and `tokens`, and answers
    records    feedback as JSON, to and from records
    live       one learner: opened from its storage, driven, opened again if something breaks
    session    ... while all is well: orders the events, and waits until they are on disk
    books      what is known of its episodes; changed by events and by nothing else
    log        the events, and how they are written
    commit     a thread that writes events in groups, each group at once
    learning   a thread that calls the agent, in the order of the log
    storage    SQLite or PostgreSQL: an append-only log and snapshots

What an event needs, the clock, chance and how much had been learned, is in the event. So the books
and the agent are functions of the log, and a restart gives the same learner bit for bit.
"""
