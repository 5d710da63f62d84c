"""kill -9 under load: what was acknowledged is there exactly once, and the learner is the same."""

import asyncio
import json
from collections import Counter

import httpx
import numpy as np
import pytest

from serving import Server, books_fingerprint, config, fingerprint, full, restored

KILLS = 100 if full() else 2
WORKERS = 8


class Acknowledged:
    """What the server said yes to, kept outside of it."""

    def __init__(self):
        self.begun = {}  # (learner, key): episode
        self.decided = {}  # (learner, episode, step): (state, action)
        self.fed = {}  # (learner, text of the record)
        self.keys = 0


async def work(url, seen, rng, stop):
    """Begin, decide and feed until the server is gone; note what was acknowledged."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        while not stop.is_set():
            name = ("shop", "robot")[rng.integers(2)]
            H, S = (1, 1) if name == "shop" else (2, 3)
            try:
                await one(client, name, H, S, seen, rng)
            except httpx.TransportError:
                return


async def one(client, name, H, S, seen, rng):
    base = f"/v1/learners/{name}"
    seen.keys += 1
    key = f"k{seen.keys}"
    answer = await client.post(f"{base}/episodes", json={"key": key})
    if answer.status_code != 200:
        assert answer.status_code in (429, 503)
        return
    episode = answer.json()["episode"]
    assert episode not in [e for (n, _), e in list(seen.begun.items())[-200:] if n == name]
    seen.begun[name, key] = episode
    states = [0, *rng.integers(0, S, H).tolist()]
    for h in range(H):
        body = {"episode": episode, "step": h, "state": states[h]}
        answer = await client.post(f"{base}/decide", json=body)
        if answer.status_code != 200:
            assert answer.status_code in (429, 503)
            return
        seen.decided[name, episode, h] = (states[h], answer.json()["action"])
    if rng.random() < 0.2:
        return  # lost
    records = [{"episode": episode, "step": h, "cost": float(rng.random())} for h in range(H)]
    records += [] if S == 1 else [{"episode": episode, "end": states[H]}]
    rng.shuffle(records)
    answer = await client.post(f"{base}/feedback/batch", json={"records": records})
    if answer.status_code == 200:
        for record, outcome in zip(records, answer.json()["outcomes"], strict=True):
            assert outcome["outcome"] in ("taken", "late")
            if outcome["outcome"] == "taken":
                seen.fed[name, json.dumps(record, sort_keys=True)] = record
    else:
        assert answer.status_code in (429, 503)


async def load(server, seen, rng, seconds):
    stop = asyncio.Event()
    workers = [asyncio.create_task(work(server.url, seen, rng, stop)) for _ in range(WORKERS)]
    goal = len(seen.fed) + 30
    while len(seen.fed) < goal and not all(task.done() for task in workers):
        await asyncio.sleep(0.01)
    await asyncio.sleep(seconds)
    server.kill()
    stop.set()
    await asyncio.gather(*workers)


def check(server, seen, rng):
    """The newest acknowledged things, and some older ones, are all known to the server."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for (name, key), episode in sample(seen.begun.items(), rng):
            answer = client.post(f"/v1/learners/{name}/episodes", json={"key": key}).json()
            assert answer == {"episode": episode, "created": False}
        for (name, episode, step), (state, action) in sample(seen.decided.items(), rng):
            body = {"episode": episode, "step": step, "state": state}
            answer = client.post(f"/v1/learners/{name}/decide", json=body)
            assert answer.status_code == 410 or answer.json()["action"] == action
        for (name, _), record in sample(seen.fed.items(), rng):
            answer = client.post(f"/v1/learners/{name}/feedback", json=record).json()
            assert answer["outcome"] == "duplicate", (record, answer)


def sample(items, rng):
    items = list(items)
    older = [items[i] for i in rng.integers(0, max(1, len(items) - 40), 10)] if items else []
    return older + items[-40:]


def check_log(rows, name, seen):
    """Every acknowledged record is in the log, and none is there twice."""
    events = [json.loads(row.written) for row in rows]
    fed = Counter(
        json.dumps(r, sort_keys=True)
        for e in events if e["do"] == "feedback" for r in e["records"]
    )  # fmt: skip
    begun = Counter(e["key"] for e in events if e["do"] == "begin")
    decided = Counter((e["episode"], e["step"]) for e in events if e["do"] == "decide")
    for counted in (begun, decided):
        assert set(counted.values()) <= {1}
    assert {key for n, key in seen.begun if n == name} <= set(begun)
    assert {(e, h) for n, e, h in seen.decided if n == name} <= set(decided)
    texts = {text for n, text in seen.fed if n == name}
    assert texts <= set(fed)
    assert all(fed[text] == 1 for text in texts)
    return len(texts)


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_by_kills(tmp_path):
    table = config(tmp_path, limits={"snapshot": 150})
    seen, rng = Acknowledged(), np.random.default_rng(1)
    for _ in range(KILLS):
        server = Server(tmp_path, table).ready()
        check(server, seen, rng)
        asyncio.run(load(server, seen, rng, rng.uniform(0.0, 0.3)))
    server = Server(tmp_path, table).ready()
    check(server, seen, rng)
    server.stop()
    for name in ("shop", "robot"):
        stopped, rows = restored(table, name)  # from the snapshot that the last server left
        never, _ = restored(table, name, snapshots=False)  # from the log alone, without a stop
        assert stopped.snapshot == len(rows) > 0
        assert fingerprint(stopped.pupil.agent) == fingerprint(never.pupil.agent)
        assert books_fingerprint(stopped.books) == books_fingerprint(never.books)
        kept = check_log(rows, name, seen)
        assert kept >= 5 * KILLS
        print(f"{name}: {KILLS} kills, {len(rows)} events, {kept} acknowledged records")
