"""Several servers decide for one learner on PostgreSQL, and one of them learns.

The books of these tests are what was acknowledged; the models are copied by a trigger of the
database, so that every probability can be computed again from the model that its row names.
"""

import signal
import threading
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import httpx
import numpy as np
import psycopg
import pytest

from belated.linear.model import Model, choose
from belated.service import decider, learner, tables
from belated.service.config import Limits, from_table
from belated.service.decider import BLOCK, Decider, Holder, opened
from belated.service.run import opener
from belated.service.tables import StorageError
from belated.service.wire import Asked
from limits import LIMIT, until
from serving import TLS, Forked, InProcess, config, full, same_from_snapshot_and_rows

pytestmark = pytest.mark.slow
MAIL = {"name": "mail", "actions": ["plain", "question", "video"], "features": 2, "holdout": 0.1}
BASE = "/v1/learners/mail"
GONE = (307, 429, 503)
"""The statuses of servers that cannot answer now."""


@pytest.fixture
def table(database, tmp_path):
    made = config(tmp_path, learners=[MAIL], storage=database.get_uri())
    with psycopg.connect(database.get_uri(), autocommit=True) as db:
        db.execute("DROP SCHEMA IF EXISTS belated CASCADE")
    opener(from_table(made), from_table(made).learners[0])(True).close()
    query(made, "CREATE TABLE all_models (version BIGINT PRIMARY KEY, content BYTEA)")
    query(
        made,
        "CREATE FUNCTION copied() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO belated.all_models VALUES (NEW.seq, NEW.content); RETURN NEW; END $$",
    )
    query(
        made,
        "CREATE TRIGGER copies AFTER INSERT ON models FOR EACH ROW EXECUTE FUNCTION copied()",
    )
    return made


def query(table, statement, *values):
    with psycopg.connect(table["storage"], autocommit=True) as db:
        db.execute("SET search_path TO belated")
        found = db.execute(statement, values or None)
        return found.fetchall() if found.description else []


def asked(client, key, features=(0.5, -1.0), **more):
    return client.post(f"{BASE}/decide", json={"features": list(features), "key": key, **more})


def decides(client):
    """Wait until a server decides from a published model."""
    until(lambda: asked(client, "first").status_code == 200)
    return client


def all_taken(table):
    """Wait until the process that learns has taken all rows."""
    new = "SELECT 1 FROM episodes WHERE seq IS NULL UNION SELECT 1 FROM outcomes WHERE seq IS NULL"
    until(lambda: not query(table, new))


def check_probabilities(table, seed=0):
    """Check that every decision is that of the model that it names; returns how many there are."""
    models = {
        version: Model.from_bytes(bytes(content))
        for version, content in query(table, "SELECT version, content FROM all_models")
    }
    rows = query(
        table,
        "SELECT e.number, e.model, d.observation, d.allowed, d.action, d.probability "
        "FROM episodes e JOIN decisions d USING (learner, number) WHERE e.model IS NOT NULL",
    )
    for number, version, observation, allowed, action, probability in rows:
        x, among = eval(observation), eval(allowed, {"null": None})
        made = choose(models[version], x, seed, number, among)
        assert (made.action, made.probability) == (action, probability)
    return Counter(version for _, version, *_ in rows)


def check_books(table, books, fed):
    """Check that the tables have what was acknowledged, once, and nothing twice."""
    rows = query(
        table,
        "SELECT e.key, e.number, d.action, d.probability "
        "FROM episodes e JOIN decisions d USING (learner, number)",
    )
    assert len({number for _, number, *_ in rows}) == len(rows)
    known = {key: tuple(made) for key, *made in rows}
    assert len(known) == len(rows)
    for key, made in books.items():
        assert known[key] == made
    ((episodes,),) = query(table, "SELECT count(*) FROM episodes")
    assert episodes == len(rows)
    values = dict(query(table, "SELECT e.key, value FROM episodes e JOIN outcomes USING (number)"))
    totals = dict(query(table, "SELECT key, total FROM episodes WHERE total IS NOT NULL"))
    assert values == totals
    for key, value in fed.items():
        assert values[key] == value


def noted(agent):
    """The numbers and outcomes that an agent has in its log."""
    rows = agent._ledger
    at = np.flatnonzero(rows.model[: rows.count] >= 0)
    return {int(k + rows.base): float(rows.outcome[k]) for k in at}


def same_learner(table):
    """Check that a restart gives the same learner, which has learned what the tables have."""
    stopped, _ = same_from_snapshot_and_rows(table, "mail")
    told = query(table, "SELECT number, coalesce(total, 0) FROM episodes WHERE seq IS NOT NULL")
    assert noted(stopped.runner.agent) == dict(told)
    assert stopped.runner.agent.made == len(told)
    return stopped.runner.agent


STILL_THERE = "SELECT 1 FROM leases JOIN pg_stat_activity ON pid = process"
"""Leases of connections that the database has not closed yet: it does so after the client."""


def test_what_a_hindered_request_noted_is_written_by_no_other_one(table, monkeypatch):
    """Its rows were dropped with its transaction; another server may write other ones."""
    conf = from_table(table)
    make, one = opener(conf, conf.learners[0]), conf.learners[0]
    handler = learner.Learner(one, make, Limits())

    def asks(session, work):
        return [told for _, told in handler._handle(session, [(work, None, 1)])]

    def feeds(key, value):
        return lambda session: session.feed([{"key": key, "reward": value}])

    holder = opened(make(True), one, Limits())
    first, second = (opened(make(True, True), one, Limits()) for _ in range(2))
    with closing(holder.db), closing(first.db), closing(second.db):
        asks(holder, lambda session: None)
        holder.tend()
        for session in (first, second):
            session.catch_up()
        bodies = [Asked(features=[1.0, 2.0], key=key) for key in "ab"]
        asks(first, lambda session: session.choose(bodies))
        with psycopg.connect(table["storage"]) as db:
            db.execute("LOCK TABLE belated.outcomes IN SHARE MODE")
            assert asks(first, feeds("a", 5.0)) == []  # put back: it waited for the lock
        handler._jobs.clear()
        assert asks(second, feeds("a", 7.0))[0][0].outcome == "taken"
        asks(holder, lambda session: None)
        assert asks(first, feeds("b", 1.0))[0][0].outcome == "taken"
        assert asks(first, feeds("a", 5.0))[0][0].outcome == "conflict"
        found = query(table, "SELECT value, seq IS NULL FROM outcomes ORDER BY value")
        assert found == [(1.0, True), (7.0, False)]


def test_a_decider_decides_and_reports_as_the_one_that_learns(table, monkeypatch):
    monkeypatch.setattr(decider, "PUBLISHED", 0.0)  # so that no clock decides what is published
    with InProcess({**table, "url": "http://first:1"}) as first:
        with InProcess({**table, "url": "http://second:2"}) as second:
            decides(second)
            books = {}
            for i in range(60):
                if i == 30:
                    until(lambda: len(query(table, "SELECT version FROM all_models")) > 1)
                web = (first, second)[i % 2]
                made = asked(web, f"k{i}", (i % 3, 1.0))
                books[f"k{i}"] = tuple(made.json()[n] for n in ("episode", "action", "probability"))
                other = (second, first)[i % 2]
                again = asked(other, f"k{i}", (i % 3, 1.0)).json()
                assert again == {**made.json(), "created": False}
                assert asked(other, f"k{i}", (9.0, 1.0)).status_code == 409
                record = {"key": f"k{i}", "reward": float(i % 2)}
                assert other.post(f"{BASE}/feedback", json=record).json()["outcome"] == "taken"
                assert web.post(f"{BASE}/feedback", json=record).json()["outcome"] == "duplicate"
                wrong = web.post(f"{BASE}/feedback", json={**record, "reward": 7.0})
                assert (wrong.status_code, wrong.json()["outcome"]) == (409, "conflict")
            for web in (first, second):
                told = web.post(f"{BASE}/feedback", json={"episode": 10**9, "reward": 1.0})
                assert told.json()["outcome"] == "unknown"
                assert asked(web, "bad", (1.0,)).status_code == 422
                assert asked(web, "bad", among=["nothing"]).json()["field"] == "among"
            assert second.post(f"{BASE}/feedback/batch", json={"records": []}).status_code == 307
            told = second.get(f"{BASE}/report")
            assert (told.status_code, told.headers["location"]) == (
                307,
                f"http://first:1{BASE}/report",
            )
            all_taken(table)
            status = first.get(BASE).json()
            assert (status["begun"], status["open"]) == (61, 61)
            assert first.get(f"{BASE}/report").json()["begun"] == 61
            assert second.get("/readyz").json() == {"ready": True}
        until(lambda: not query(table, STILL_THERE))
    versions = check_probabilities(table)
    assert sum(versions.values()) == 31
    assert len(versions) > 1  # models were renewed in between
    check_books(table, books, {f"k{i}": float(i % 2) for i in range(60)})
    same_learner(table)
    assert not query(table, "SELECT 1 FROM leases")  # those of ended processes are released


@pytest.mark.parametrize("features", [0, 2])
def test_decisions_of_a_decider_prove_which_action_wins(table, clock, features):
    """Their rows say what the model knew of the probabilities before the features."""
    about = {"features": features} if features else {}
    agent = {"kind": "linear_sampler", "floor": 1.0}
    plain = {"name": "plain", "actions": ["a", "b", "c"], "agent": agent, "window": 60.0, **about}
    shared = {**table, "learners": [{**plain, "range": [0.0, 1.0]}]}
    base, one = "/v1/learners/plain", {"features": [0.5, -1.0]} if features else {}
    with InProcess(shared) as first, InProcess(shared) as second:
        until(lambda: second.post(f"{base}/decide", json=one).status_code == 200)
        asked = {"decisions": [one] * 600}
        made = second.post(f"{base}/decide/batch", json=asked).json()["decisions"]
        records = [{"episode": m["episode"], "reward": float(m["action"] == 1)} for m in made]
        all_taken(table)
        first.post(f"{base}/feedback/batch", json={"records": records})
        clock.step(100.0)
        told = second.post(f"{base}/decide", json=one).json()["episode"]
        all_taken(table)
        first.post(f"{base}/feedback", json={"episode": told, "reward": 0.0})
        report = first.get(f"{base}/report").json()
    assert report["winner"] == "b"
    assert "b wins: that is sure at every look (95 %, exact)." in report["verdict"]
    known = query(table, "SELECT known FROM decisions WHERE learner = 'plain'")
    assert {row for (row,) in known} == {str([1 / 3] * 3).replace(" ", "")}


def test_a_decider_without_a_model_says_where_one_is(table, monkeypatch):
    monkeypatch.setattr(Holder, "tend", lambda self: False)  # so that nothing is published
    with InProcess({**table, "url": "http://first:1"}) as first, InProcess(table) as second:
        told = asked(second, "a")
        assert told.status_code == 307
        assert told.headers["location"] == f"http://first:1{BASE}/decide"
        assert asked(first, "a").status_code == 200
        record = {"key": "a", "reward": 1.0}
        assert second.post(f"{BASE}/feedback", json=record).json()["outcome"] == "taken"


def test_a_block_that_ran_out_is_followed_by_another(table):
    with InProcess(table) as first, InProcess(table) as second:
        decides(second)
        numbers = []
        for size in (BLOCK - 2, 3, 1, BLOCK):
            body = {"decisions": [{"features": [0.0, 1.0]}] * size}
            for web in (second, first):
                made = web.post(f"{BASE}/decide/batch", json=body).json()["decisions"]
                numbers += [one["episode"] for one in made]
        assert len(set(numbers)) == len(numbers) == 2 * (2 * BLOCK + 2)
        all_taken(table)
    assert sum(check_probabilities(table).values()) == 2 * BLOCK + 3
    agent = same_learner(table)
    assert agent.begun >= len(numbers) + 1


def test_no_decision_after_the_answer_plays_a_retired_action(table):
    with InProcess(table) as first, InProcess(table) as second:
        decides(second)
        made, stop = [], threading.Event()

        def work():
            while not stop.is_set():
                made.append(asked(second, f"w{len(made)}").json())

        with ThreadPoolExecutor(1) as pool:
            pool.submit(work)
            until(lambda: len(made) > 5)
            assert first.delete(f"{BASE}/actions/plain").json()["changed"]
            before = len(made) + 1
            until(lambda: len(made) > before + 30)
            assert first.post(f"{BASE}/actions", json={"name": "letter"}).json()["action"] == 3
            after = len(made) + 1
            until(lambda: len(made) > after + 60)
            stop.set()
        assert "plain" not in {one["name"] for one in made[before:]}
        assert "letter" in {one["name"] for one in made[after:]}
        refused = asked(second, "only", among=["plain"])
        assert (refused.status_code, refused.json()["field"]) == (422, "among")
        assert asked(second, "new", among=["letter"]).json()["probability"] == 1.0
        all_taken(table)
    check_probabilities(table)
    same_learner(table)


def test_a_key_at_two_servers_at_the_same_time_is_one_decision(table):
    with InProcess(table) as first, InProcess(table) as second:
        decides(second)
        with ThreadPoolExecutor(16) as pool:
            for turn in range(6):
                same = [f"s{turn}.{i}" for i in range(8)]
                sent = [(web, key, (0.0, 1.0)) for key in same for web in (first, second)]
                differ = [(web, f"d{turn}", (x, 0.0)) for web, x in ((first, 1.0), (second, 2.0))]
                sent += differ

                told = list(pool.map(lambda given: (given[1], asked(*given)), sent))
                for key in same:
                    answers = [answer.json() for name, answer in told if name == key]
                    assert sorted(one.pop("created") for one in answers) == [False, True]
                    assert answers[0] == answers[1]
                assert sorted(t.status_code for key, t in told if key == f"d{turn}") == [200, 409]
        all_taken(table)
        assert first.get(BASE).json()["begun"] == 1 + 6 * 9
    check_probabilities(table)
    same_learner(table)


@pytest.fixture
def sessions(table):
    """The session that learns and one that decides, without servers."""
    made = from_table({**table, "learners": [{**MAIL, "deadline_seconds": 100.0, "grace": 0}]})
    (one,) = made.learners
    db = opener(made, one)(True)
    holder = opened(db, one, Limits())
    other = opener(made, one)(True, joins=True)
    yield holder, opened(other, one, Limits())
    other.close()
    db.close()


def in_turn(session, work):
    with session.db.transaction():
        session.start()
        return work(session)


def test_what_was_taken_in_time_is_learned_before_its_episode_is_closed(clock, sessions):
    """The rows were written in time, and nobody has numbered them when the deadline passes."""
    holder, other = sessions
    assert isinstance(holder, Holder)
    assert isinstance(other, Decider)
    in_turn(holder, lambda session: None)
    holder.tend()
    ask = Asked(features=[0.0, 1.0])
    (made,) = in_turn(other, lambda session: session.choose([ask]))
    clock.step(99.0)
    told = in_turn(other, lambda s: s.feed([{"episode": made.episode, "reward": 2.0}]))
    assert told[0].outcome == "taken"
    with holder.db.transaction():
        holder.catch_up()  # takes the rows
    (late,) = in_turn(other, lambda session: session.choose([ask]))
    told = in_turn(other, lambda s: s.feed([{"episode": late.episode, "reward": 3.0}]))
    clock.step(101.0)
    with holder.db.transaction():
        holder.start()  # closes both, though it has not looked since the second was made
    holder.runner.learn_all()
    assert noted(holder.runner.agent) == {made.episode: 2.0, late.episode: 3.0}
    for number in (made.episode, late.episode):
        assert not holder.runner.agent.is_open(number)
        record = {"episode": number, "reward": 5.0, "event": "x"}
        told = in_turn(other, lambda s, given=record: s.feed([given]))
        assert (told[0].outcome, told[0].used) == ("late", False)


def test_a_process_that_was_stopped_between_two_rows_frees_its_locks(table, monkeypatch):
    """PostgreSQL waits for the rest of a pipeline: the process is not idle in its transaction."""
    monkeypatch.setattr(tables, "STANDSTILL", 1)
    shared = from_table(table)
    with closing(opener(shared, shared.learners[0])(True)) as first:
        assert first.taken is None
        with closing(opener(shared, shared.learners[0])(True, True)) as second:
            assert second.taken is not None
            second.all("BEGIN")
            sent = second._db.pgconn
            sent.enter_pipeline_mode()
            sent.send_query_params(b"LOCK TABLE leases", None)
            sent.send_flush_request()
            sent.flush()
            locks = "SELECT 1 FROM pg_locks WHERE relation = 'leases'::regclass"
            until(lambda: query(table, locks), "the lock is never taken")
            until(lambda: not query(table, locks), "the lock is kept")
            with pytest.raises(StorageError):
                second.all("SELECT 1")


def test_rows_wait_in_the_tables_while_the_queue_of_the_agent_is_full(sessions):
    holder, other = sessions
    in_turn(holder, lambda session: None)
    holder.tend()
    holder.limits = Limits(batch=1, waiting=3)
    ask = Asked(features=[0.0, 1.0])

    def taken():
        in_turn(holder, lambda session: None)
        return holder.runner.waiting

    in_turn(other, lambda session: session.choose([ask] * 3))
    assert taken() == 3
    in_turn(other, lambda session: session.choose([ask] * 2))
    assert taken() == 3  # no room
    holder.runner.learn()
    assert taken() == 4
    holder.runner.learn_all()
    assert holder.runner.agent.made == 5


def test_a_schema_of_another_layout_is_refused(table):
    made = from_table(table)
    query(table, "COMMENT ON SCHEMA belated IS 'layout 3'")
    with pytest.raises(StorageError, match="belated has layout 3, that of another release"):
        opener(made, made.learners[0])(True)
    query(table, "COMMENT ON SCHEMA belated IS NULL")
    with pytest.raises(StorageError, match="belated has no layout"):
        opener(made, made.learners[0])(True)


def test_deciding_goes_on_while_learning_stands_still(table, monkeypatch):
    monkeypatch.setattr(learner, "STILL", 0.1)
    monkeypatch.setattr(decider, "PUBLISHED", 0.1)
    go, real = threading.Event(), Holder.catch_up
    go.set()

    def waits(self, **named):
        go.wait()
        return real(self, **named)

    monkeypatch.setattr(Holder, "catch_up", waits)
    with InProcess(table) as first, InProcess(table) as second:
        decides(second)
        all_taken(table)
        go.clear()
        for i in range(5):
            assert asked(second, f"a{i}").status_code == 200
        until(lambda: second.get("/readyz").json() == {"ready": True, "still": ["mail"]})
        listed = second.get("/v1/learners").json()["learners"]
        assert listed == [{"name": "mail", "ready": True, "still": True}]
        go.set()
        until(lambda: second.get("/readyz").json() == {"ready": True})
        all_taken(table)
        assert first.get(BASE).json()["begun"] == 6
    same_learner(table)


class Load:
    """Clients that ask any server until one answers, and what was acknowledged to them."""

    def __init__(self, servers, seed):
        self.books, self.fed = {}, {}
        self._servers, self._rng = servers, np.random.default_rng(seed)
        self._stop, self._count = threading.Event(), 0
        self._mutex = threading.Lock()

    def _send(self, path, body):
        while True:
            with self._mutex:
                url = self._servers[self._rng.integers(len(self._servers))].url
            with suppress(httpx.TransportError):
                told = httpx.post(f"{url}{BASE}/{path}", json=body, timeout=10.0, verify=TLS)
                if told.status_code not in GONE:
                    return told
            if self._stop.wait(0.05) and self._stop.is_set():
                return None

    def work(self):
        while not self._stop.is_set():
            with self._mutex:
                self._count += 1
                key, features = f"k{self._count}", self._rng.normal(size=2).tolist()
                value = float(self._rng.integers(0, 5))
            told = self._send("decide", {"features": features, "key": key})
            if told is None:
                return
            assert told.status_code == 200, told.text
            self.books[key] = tuple(told.json()[n] for n in ("episode", "action", "probability"))
            if value:
                told = self._send("feedback", {"key": key, "reward": value})
                if told is None:
                    return
                assert told.json()["outcome"] in ("taken", "duplicate"), told.text
                self.fed[key] = value

    def more(self, records):
        goal = len(self.fed) + records
        until(lambda: len(self.fed) >= goal)

    def stop(self):
        self._stop.set()


def killed_in_turn(table, tmp_path, database, size, kills, seed):
    servers, turns = [], []

    def started(i):
        directory = tmp_path / str(i)
        directory.mkdir(exist_ok=True)
        return Forked(directory, {**table, "limits": {"snapshot": 150}})

    def holds(server):
        """Whether a server learns: it alone answers questions about the learner."""
        with suppress(httpx.TransportError):
            return httpx.get(f"{server.url}{BASE}", timeout=LIMIT, verify=TLS).status_code == 200

    servers += [started(i) for i in range(size)]
    for server in servers:
        server.ready()
    load = Load(servers, seed)
    rng = np.random.default_rng(seed)
    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(load.work) for _ in range(4)]
        try:
            for turn in range(kills):
                load.more(15)
                kind = ("holder", "decider", "database")[turn % 3]
                turns.append(kind)
                if kind == "database":
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        database.stop()
                        database.start()
                    continue
                until(lambda: any(map(holds, servers)))
                which = [i for i, one in enumerate(servers) if holds(one) == (kind == "holder")]
                i = int(rng.choice(which))
                if turn % 2:
                    servers[i].process.send_signal(signal.SIGSTOP)
                    load.more(3)
                servers[i].kill()
                load.more(5 if size > 1 else 0)
                servers[i] = started(i)
            load.more(15)
        finally:
            load.stop()
        for one in working:
            one.result()
    for server in servers:
        server.ready()
    all_taken(table)
    for server in servers:
        server.stop()
    return load, Counter(turns)


def checked(table, load):
    versions = check_probabilities(table)
    check_books(table, load.books, load.fed)
    agent = same_learner(table)
    open_ = {number for (number,) in query(table, "SELECT number FROM episodes")}
    assert set(noted(agent)) == open_
    return len(load.books), len(load.fed), sum(versions.values()), len(versions)


def test_kills_of_two_servers_and_their_database_lose_and_double_nothing(table, tmp_path, database):
    load, _ = killed_in_turn(table, tmp_path, database, 2, 3, seed=1)
    decisions, records, elsewhere, _ = checked(table, load)
    assert elsewhere > 0
    assert decisions >= records >= 50


@pytest.mark.long
@pytest.mark.parametrize("size", [2, 4])
def test_many_kills_lose_and_double_nothing(table, tmp_path, database, size):
    kills = 40 if full() else 3
    load, turns = killed_in_turn(table, tmp_path, database, size, kills, seed=size)
    decisions, records, elsewhere, models = checked(table, load)
    print(f"{size} servers, kills {dict(turns)}: {decisions} decisions ({elsewhere} by deciders "
          f"from {models} models) and {records} records acknowledged, all there once")  # fmt: skip
    assert elsewhere > 0
