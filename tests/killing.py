"""Load on servers that are killed, and a record of what they acknowledged."""

import asyncio
import json

import httpx

from belated.client import AsyncClient, ServiceError
from limits import LIMIT
from serving import ROBOT, SHOP, TLS, same_from_snapshot_and_rows

MAIL = {"name": "mail", "actions": ["plain", "question"], "features": 2, "holdout": 0.1}
LEARNERS = [SHOP, ROBOT, MAIL]
SHAPES = {"shop": (1, 1), "robot": (2, 3), "mail": (1, None)}
"""Steps and states of each learner; None stands for features instead of states."""
GONE = (None, 429, 503)
"""The statuses that a client may get while a server dies; None stands for no answer."""


class Load:
    """Clients that begin, decide and feed, and what was acknowledged to them.

    Args:
        patience: seconds for which a client repeats a request. With 0 nothing is sent twice.
        connect: gives the transport of a client; None stands for the usual one.
    """

    def __init__(self, rng, patience=0.0, connect=None, workers=8):
        self.begun = {}  # (learner, key): episode
        self.asked = {}  # (learner, key): features
        self.decided = {}  # (learner, episode, step): (state, action)
        self.fed = {}  # (learner, text of the record): record
        self._numbers = set()
        self._keys = 0
        self._rng = rng
        self._patience = patience
        self._connect = connect or (lambda: httpx.AsyncHTTPTransport(verify=TLS))
        self._working = False
        self._count = workers
        self._workers = []

    def start(self, url):
        self._working = True
        self._workers = [asyncio.create_task(self._work(url)) for _ in range(self._count)]

    async def more(self, records):
        """Wait until this many more records of each learner are acknowledged, or work ends."""
        goals = {name: fed + records for name, fed in self._fed().items()}
        while not all(task.done() for task in self._workers):
            if all(fed >= goals[name] for name, fed in self._fed().items()):
                break
            await asyncio.sleep(0.01)

    def _fed(self):
        """The number of acknowledged records of each learner."""
        counts = dict.fromkeys(SHAPES, 0)
        for name, _ in self.fed:
            counts[name] += 1
        return counts

    async def stop(self):
        self._working = False
        await asyncio.gather(*self._workers)

    def _clients(self, url):
        options = {"patience": self._patience, "timeout": LIMIT}
        return {n: AsyncClient(url, n, transport=self._connect(), **options) for n in SHAPES}

    async def _work(self, url):
        clients = self._clients(url)
        while self._working:
            name = list(SHAPES)[self._rng.integers(len(SHAPES))]
            one = self._one if SHAPES[name][1] else self._some
            try:
                await one(clients[name], name)
            except ServiceError as error:
                if error.status not in GONE:
                    raise
                if error.status is None:
                    break
        for client in clients.values():
            await client.close()

    async def _one(self, client, name):
        """One episode; some of them never report."""
        H, S = SHAPES[name]
        self._keys += 1
        key = f"k{self._keys}"
        episode = await client.begin(key)
        assert (name, episode) not in self._numbers
        self._numbers.add((name, episode))
        self.begun[name, key] = episode
        states = [0, *self._rng.integers(0, S, H).tolist()]
        for h in range(H):
            action, _ = await client.decide(episode, h, states[h])
            self.decided[name, episode, h] = (states[h], action)
        if self._rng.random() < 0.2:
            return
        costs = self._rng.random(H).tolist()
        records = [{"episode": episode, "step": h, "cost": costs[h]} for h in range(H)]
        records += [] if S == 1 else [{"episode": episode, "end": states[H]}]
        self._rng.shuffle(records)
        stored = ("taken", "duplicate") if self._patience else ("taken",)
        for record, told in zip(records, await client.feedback(records), strict=True):
            assert told["outcome"] in (*stored, "late"), told
            if told["outcome"] in stored:
                self.fed[name, json.dumps(record, sort_keys=True)] = record

    async def _some(self, client, name):
        """A batch of decisions with features; some of them report, by their keys."""
        keys = [f"k{self._keys + 1 + i}" for i in range(3)]
        self._keys += 3
        asked = [{"features": self._rng.normal(size=2).tolist(), "key": key} for key in keys]
        self.asked |= {(name, one["key"]): one["features"] for one in asked}
        for made in await client.decide_many(asked):
            assert (name, made.episode) not in self._numbers
            self._numbers.add((name, made.episode))
            self.begun[name, made.key] = made.episode
            self.decided[name, made.episode, 0] = (None, made.action)
        records = [
            {"episode": self.begun[name, key], "reward": float(self._rng.normal()), "event": "x"}
            for key in keys[: self._rng.integers(1, 3)]
        ]
        named = [{**record, "key": key} for record, key in zip(records, keys, strict=False)]
        for record in named:
            del record["episode"]
        stored = ("taken", "duplicate") if self._patience else ("taken",)
        for record, told in zip(records, await client.feedback(named), strict=True):
            assert told["outcome"] in stored, told
            self.fed[name, json.dumps(record, sort_keys=True)] = record

    def acknowledged(self, name):
        """What was acknowledged of a learner: episodes by key, decisions, and values of facts."""
        return (
            {key: episode for (n, key), episode in self.begun.items() if n == name},
            {(e, h): made for (n, e, h), made in self.decided.items() if n == name},
            {fact(record): value(record) for (n, _), record in self.fed.items() if n == name},
        )

    async def check(self, url):
        """Check that the server knows the newest acknowledged requests and some older ones."""
        clients = self._clients(url)

        async def begun(name, key, episode):
            if SHAPES[name][1] is None:
                made = await clients[name].decide(features=self.asked[name, key], key=key)
                assert (made.episode, made.created) == (episode, False)
                assert self.decided[name, episode, 0] == (None, made.action)
            else:
                assert await clients[name].begin(key) == episode

        async def decided(name, episode, step, state, action):
            if state is None:
                return  # its key was checked
            try:
                assert (await clients[name].decide(episode, step, state))[0] == action
            except ServiceError as error:
                if error.status != 410:  # closed since then
                    raise

        async def fed(name, record):
            (told,) = await clients[name].feedback([record])
            assert told["outcome"] == "duplicate", (record, told)

        await asyncio.gather(
            *(begun(*key, episode) for key, episode in self._sample(self.begun)),
            *(decided(*key, *made) for key, made in self._sample(self.decided)),
            *(fed(name, record) for (name, _), record in self._sample(self.fed)),
        )
        for client in clients.values():
            await client.close()

    def _sample(self, known):
        items = list(known.items())
        older = self._rng.integers(0, max(1, len(items) - 40), 10) if items else []
        return [items[i] for i in older] + items[-40:]


def fact(record):
    """The episode and the name in the tables of what a record reports."""
    name = "end" if "end" in record else f"={record.get('event')}"
    return record["episode"], f"step {record['step']}" if "step" in record else name


def value(record):
    return next(record[name] for name in ("cost", "end", "reward") if name in record)


class Audit:
    """The tables of the learners, read beside the servers.

    read: gives the rows of a statement for a learner. leased: the learners for which several
    servers decide, with gaps between their numbers.
    """

    def __init__(self, read, leased=()):
        self._read = read
        self._leased = leased

    def check(self, load):
        """Check that all that was acknowledged is there once; returns the numbers of records."""
        kept = {}
        for name in SHAPES:
            begun, decided, fed = load.acknowledged(name)
            episodes = self._read(name, "SELECT key, number FROM episodes")
            assert len(episodes) == len({key for key, _ in episodes})
            numbers = sorted(number for _, number in episodes)
            assert name in self._leased or numbers == list(range(len(episodes)))
            assert begun.items() <= dict(episodes).items(), name
            rows = self._read(name, "SELECT number, step, observation, action FROM decisions")
            made = {(n, h): (seen if load_state(name) else None, a) for n, h, seen, a in rows}
            for place, (state, action) in decided.items():
                seen = None if state is None else str(state)
                assert made[place] == (seen, action), (name, place)
            rows = self._read(name, "SELECT number, fact, value FROM outcomes")
            told = {(number, fact): value for number, fact, value in rows}
            assert fed.items() <= told.items(), name
            kept[name] = len(fed)
        return kept


def load_state(name):
    """Whether decisions of a learner have states."""
    return SHAPES[name][1] is not None


def same_as_never_stopped(table, name):
    """Check that the learner equals one that gets all its rows; returns the number of requests."""
    stopped, _ = same_from_snapshot_and_rows(table, name)
    assert stopped.snapshot == stopped.seq > 0
    return stopped.seq
