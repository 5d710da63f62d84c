"""The learner service: it makes decisions, accepts feedback at any time, and loses nothing.

One learner, from a request to its agent:

    app         HTTP: one table of operations, from which OpenAPI is made; run limits the head
    wire        the JSON of requests, records and answers, and refusals
    learner     one learner and its thread: groups of requests, each in one transaction
    session     what each request reads and writes
    tables      the tables, in SQLite or PostgreSQL
    runner      the agent, and the calls for it that follow from rows, now or at a start

Around it:

    run, config, tokens, commands    a server from its file, and the command line
    report, page                     reports for people and programs
    export                           the decision log as a table

The tables are the truth, and the process is a cache that may die at any moment. Rows contain
everything that their effect depends on: the time, random draws, and how much had been learned. So
the agent is a function of the rows, and a restart gives the same learner bit for bit.
"""
