"""After kill -9 under load, everything acknowledged is kept once and the learner is the same."""

import asyncio
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from killing import LEARNERS, SHAPES, Audit, Load, same_as_never_stopped
from serving import Forked, config, full

KILLS, SEEDS = (25, range(1, 5)) if full() else (1, [1])


async def until_killed(server, load, seconds):
    """Check, put load on a server, and kill it."""
    await load.check(server.url)
    load.start(server.url)
    await load.more(6)
    await asyncio.sleep(seconds)
    server.kill()
    await load.stop()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_by_kills(tmp_path, seed):
    table = config(tmp_path, learners=LEARNERS, limits={"snapshot": 150})

    def read(name, statement):
        with closing(sqlite3.connect(tmp_path / "data" / f"{name}.sqlite")) as db:
            return db.execute(statement).fetchall()

    rng = np.random.default_rng(seed)
    load, audit = Load(rng), Audit(read)
    for _ in range(KILLS):
        server = Forked(tmp_path, table).ready()
        audit.check(load)
        asyncio.run(until_killed(server, load, rng.uniform(0.0, 0.3)))
    server = Forked(tmp_path, table).ready()
    asyncio.run(load.check(server.url))
    kept = audit.check(load)
    server.stop()
    for name in SHAPES:
        events = same_as_never_stopped(table, name)
        print(f"{name}: {KILLS} kills, {events} requests, {kept[name]} acknowledged records")
    assert min(kept.values()) >= 5 * KILLS
