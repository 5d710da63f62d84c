"""The mailer through the real server: nightly batches, a crash, a changed action, a second opinion.

`belated serve` runs in a process of its own with SQLite on disk; only its clock is set by this
script, so that 40 days pass in a minute. Every day 300 mails are decided in one request. Purchases
are made one to three days later and come with that night's batch; who does not buy never reports.

On day 12 the server is killed, between the decisions and the night, and started again. On day 16
`story` becomes a fourth subject line, and on day 30 `question` is retired. A tenth of the mails go
out with a line at random, the holdout. In the end the decision log says what other policies would
have brought.

The same learner in the library, told the same at the same times, makes the same decisions.

    pip install 'belated[lab,serve]'
    python examples/mailer_served.py
"""
