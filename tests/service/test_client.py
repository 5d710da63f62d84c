"""The client: retries that count once, a buffer on disk, redirections, and learning over HTTP."""

import asyncio
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import pytest

import belated as bl
from belated.client import AsyncClient, Client, ServiceError
from limits import LIMIT
from serving import SHOP, Server, config, full, running


class Lossy(BaseHTTPRequestHandler):
    """A link that loses requests, loses answers, and is too busy at times."""

    def do(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fate = self.server.rng.random()
        if fate < 0.1:
            return self.drop()
        if fate < 0.15:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return None
        with self.server.lock:
            answer = self.server.web.request(
                self.command, self.path, content=body,
                headers={"Content-Type": "application/json"} if body else {},
            )  # fmt: skip
        if fate < 0.3:
            return self.drop()  # done, but the answer is lost
        self.send_response(answer.status_code)
        for name in ("content-type", "retry-after"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)
        return None

    do_GET = do_POST = do_DELETE = do

    def drop(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(2)

    def log_message(self, *args):
        pass

    def handle(self):
        with contextlib.suppress(OSError):
            super().handle()


@contextlib.contextmanager
def lossy(url, seed=0):
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Lossy)
    proxy.rng, proxy.lock = np.random.default_rng(seed), threading.Lock()
    proxy.web = httpx.Client(base_url=url, timeout=LIMIT)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        proxy.web.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    path = tmp_path_factory.mktemp("served")
    fleet = {
        "name": "fleet",
        "problem": {"states": 3, "actions": 2, "horizon": 3, "homogeneous": True},
    }
    with running(path, config(path, learners=[SHOP, fleet])) as server:
        yield server


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr("belated.client.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("belated.client.LONGEST_PAUSE", 0.05)


@pytest.mark.long
def test_robots_on_a_lossy_link_learn_like_the_simulator(served):
    """Any answer to the twenty robots may be lost; the server has each played episode once."""
    mdp = bl.environments.random_mdp(3, 2, 3, seed=4).mdp
    world = bl.World(mdp, np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.6]]))
    episodes = 400 if full() else 40
    with lossy(served.url) as url:
        totals = asyncio.run(fleet(url, world, episodes))
    with Client(served.url, "fleet", timeout=LIMIT) as direct:
        told = direct.status()
    assert told["begun"] == episodes
    assert told["open"] == 0
    assert len(totals) == episodes
    if not full():  # all of them are in the history
        history = sorted(cost for _, cost, _ in told["history"])
        assert history == pytest.approx(sorted(totals), abs=1e-9)
    else:
        agent = bl.recommend(world.problem, information="bandit")
        run = bl.simulate(world, agent, delays=bl.delays.uniform(0, 40), episodes=episodes, seed=0)
        here, there = np.mean(totals[-150:]), run.values[-150:].mean()
        print(f"last 150: served {here:.3f}, simulated {there:.3f}")
        assert here < 1.0  # uniform play costs about 1.45, the best policy about 0.6
        assert here == pytest.approx(there, abs=4 * np.std(totals[-150:]) / np.sqrt(150))


async def fleet(url, world, episodes):
    """Twenty robots play episodes; feedback of one may come after that of later ones."""
    totals, left = [], list(range(episodes))
    rng = np.random.default_rng(1)
    H = world.problem.horizon
    p = world.mdp.transitions.dense()

    async def robot(client):
        while left:
            left.pop()
            episode = await client.begin()
            state, states, actions, costs = 0, [0], [], []
            cost = world.costs.at(episode)
            for h in range(H):
                action, _ = await client.decide(episode, h, state)
                costs.append(float(cost[min(h, len(cost) - 1), state, action]))
                actions.append(action)
                state = int(rng.choice(len(p[h % len(p)]), p=p[h % len(p)][state, action]))
                states.append(state)
            records = [bl.StepCost(episode, h, costs[h]) for h in range(H)]
            records.append({"episode": episode, "end": state})
            rng.shuffle(records)
            await asyncio.sleep(rng.uniform(0, 0.02))
            outcomes = await client.feedback(records)
            assert {told["outcome"] for told in outcomes} <= {"taken", "duplicate"}
            totals.append(sum(costs))

    clients = [AsyncClient(url, "fleet", patience=LIMIT, timeout=LIMIT) for _ in range(20)]
    await asyncio.gather(*map(robot, clients))
    await asyncio.gather(*(client.close() for client in clients))
    return totals


@pytest.mark.slow
def test_a_shop_keeps_feedback_on_disk_while_the_server_is_away(tmp_path):
    """Conversions come late and twice while the server is down; each is counted once."""
    table = config(tmp_path, learners=[SHOP])
    server = Server(tmp_path, table).ready()
    with Client(server.url, "shop", timeout=LIMIT) as shop:
        for k in range(5):
            assert shop.begin(f"visitor {k}") == k
            assert shop.begin(f"visitor {k}") == k
            action, probability = shop.decide(k, 0, 0)
            assert shop.decide(k, 0, 0) == (action, probability)
            assert shop.policy(k)[0, 0, action] == probability
        assert shop.forget(4)["outcome"] == "taken"
        with pytest.raises(ServiceError, match="has not begun") as found:
            shop.decide(99, 0, 0)
        assert found.value.status == 404
    port = int(server.url.rpartition(":")[2])
    server.kill()
    buffer = tmp_path / "buffer"
    with Client(server.url, "shop", buffer=buffer, patience=0.0) as shop:
        for k in (2, 0, 2, 1):
            assert shop.feedback([bl.Costs(k, [0.5])]) is None
        assert shop.undelivered == 4
        with pytest.raises(ServiceError):
            shop.flush()
    with (
        running(tmp_path, {**table, "port": port}) as server,
        Client(server.url, "shop", buffer=buffer, timeout=LIMIT) as shop,  # another process, say
    ):
        assert [told["outcome"] for told in shop.flush()] == [
            "taken", "taken", "duplicate", "taken"
        ]  # fmt: skip
        assert shop.undelivered == 0
        (told,) = shop.feedback([bl.Costs(3, [0.25])])
        assert told["outcome"] == "taken"
        assert shop.status()["open"] == 0


def test_a_redirection_is_followed_with_the_token():
    """A server that does not drive the learner names the one that does."""
    seen = []

    class Other(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.path, self.headers["authorization"], json.loads(body)))
            first = self.server is servers[0]
            self.send_response(307 if first else 200)
            content = b"{}" if first else b'{"episode": 7}'
            if first:
                port = servers[1].server_address[1]
                self.send_header("Location", f"http://127.0.0.1:{port}{self.path}")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Other) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{servers[0].server_address[1]}"
    with Client(url, "x", token="secret", timeout=LIMIT) as client:
        assert client.begin("k") == 7
    assert seen == 2 * [("/v1/learners/x/episodes", "Bearer secret", {"key": "k"})]
    for server in servers:
        server.shutdown()
        server.server_close()


def test_servers_that_name_one_another_are_asked_again():
    """Two servers may do so for a moment, when a third takes over from both."""
    asked = []

    def answer(request):
        asked.append(request.url.host)
        if len(asked) > 8:
            return httpx.Response(200, json={"episode": 7})
        other = "b" if request.url.host == "a" else "a"
        return httpx.Response(307, headers={"Location": f"http://{other}{request.url.path}"})

    with Client("http://a", "x", transport=httpx.MockTransport(answer)) as client:
        assert client.begin("k") == 7
    assert asked[:6] == ["a", "b", "a", "b", "a", "a"]
    asked.clear()
    with (
        Client("http://a", "x", patience=0.0, transport=httpx.MockTransport(answer)) as client,
        pytest.raises(ServiceError, match="redirected 5 times"),
    ):
        client.begin("k")


def test_a_token_sent_over_tls_is_not_sent_without():
    def answer(request):
        assert request.url.scheme == "https"
        return httpx.Response(307, headers={"Location": "http://other/v1/learners/x/episodes"})

    with (
        Client("https://a", "x", token="secret", transport=httpx.MockTransport(answer)) as client,
        pytest.raises(ServiceError, match="redirected from https"),
    ):
        client.begin("k")


def test_patience_ends():
    with Client("http://127.0.0.1:1", "x", patience=0.1) as client, pytest.raises(ServiceError):
        client.begin()
    with pytest.raises(ValueError, match="url must start with"):
        Client("ftp://x", "y")


def test_a_server_that_takes_less_at_once_gets_smaller_batches(tmp_path):
    sizes = []

    def answer(request):
        records = json.loads(request.content)["records"]
        sizes.append(len(records))
        if len(records) > 200:
            return httpx.Response(413, json={"why": "too many"})
        outcomes = [{"outcome": "taken", "episode": record["episode"]} for record in records]
        return httpx.Response(200, json={"outcomes": outcomes})

    transport = httpx.MockTransport(answer)
    with Client("http://shop", "shop", transport=transport, buffer=tmp_path / "b") as client:
        told = client.feedback([{"episode": k, "costs": [0.5]} for k in range(700)])
        assert client.undelivered == 0
    assert [outcome["episode"] for outcome in told] == list(range(700))
    assert sizes == [500, 250, 125, 125, 250, 125, 125, 200]


@pytest.mark.parametrize("buffered", [False, True])
def test_a_batch_without_records_is_sent(tmp_path, buffered):
    """A learner hears that nothing has arrived until now; silence is told from a lost link."""
    sent = []

    def answer(request):
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"outcomes": []})

    buffer = tmp_path / "b" if buffered else None
    with Client(
        "http://shop", "shop", transport=httpx.MockTransport(answer), buffer=buffer
    ) as shop:
        assert shop.feedback([]) == []
    assert sent == [{"records": []}]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"url": "http://"}, "url must start with http:// or https://, then a host, got 'http://'"),
        ({"url": "http://x/y?z"}, r"then a host, got 'http://x/y\?z'"),
        ({"url": "http://x:abc"}, "then a host, got 'http://x:abc'"),
        ({"url": None}, "then a host, got None"),
        ({"url": "HTTPS://x"}, "then a host, got 'HTTPS://x'"),  # or the token might go on without
        ({"learner": None}, "learner must be the name of one"),
        ({"token": "two words"}, "token must be ASCII characters without spaces"),
        ({"token": 5}, "token must be ASCII characters without spaces"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(given, why):
    with pytest.raises(ValueError, match=why) as told:
        Client(**{"url": "http://shop", "learner": "shop", **given})
    assert "\n" not in str(told.value)


def answering(status, content):
    return httpx.MockTransport(lambda request: httpx.Response(status, content=content))


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"{}", b"\xff", b""])
def test_an_answer_of_something_else_is_a_service_error(tmp_path, content):
    """A page of a proxy is no answer, and a record in the buffer stays there."""
    given = {"transport": answering(200, content), "buffer": tmp_path / "b"}
    with Client("http://shop", "shop", **given) as shop:
        calls = (shop.begin, shop.decide, lambda: shop.decide_many([{}]))
        for call in (*calls, lambda: shop.feedback([{"episode": 0, "cost": 0.5}])):
            with pytest.raises(ServiceError, match="the answer is not that of a learner"):
                call()
        assert shop.undelivered == 1


def test_episodes_and_actions_are_named_exactly():
    """1.5 is not episode 1, and the action ".." is not the address above."""
    asked = []

    def answer(request):
        asked.append(request.url.raw_path)
        return httpx.Response(200, json={})

    with Client("http://shop", "shop", transport=httpx.MockTransport(answer)) as shop:
        for call in (shop.forget, shop.policy):
            for wrong in (1.5, "1", -1, None, True):
                with pytest.raises(ValueError, match="episode must be a whole number"):
                    call(wrong)
        for action in ("..", "a/b", "0", 0):
            shop.retire(action)
    names = (b"%2E%2E", b"a%2Fb", b"0", b"0")
    assert asked == [b"/v1/learners/shop/actions/" + name for name in names]


def test_records_that_a_server_does_not_read_are_outcomes_too():
    """A record that is too large does not stop those beside it, also without a buffer."""

    def answer(request):
        if len(request.content) > 200:
            return httpx.Response(413, json={"why": "too large"})
        records = json.loads(request.content)["records"]
        return httpx.Response(200, json={"outcomes": [{"outcome": "taken"} for _ in records]})

    records = [{"episode": 0, "cost": 0.5}, {"episode": 1, "costs": [0.125] * 90}]
    with Client("http://shop", "shop", transport=httpx.MockTransport(answer)) as shop:
        told = shop.feedback([*records, records[0]])
    assert [one["outcome"] for one in told] == ["taken", "undeliverable", "taken"]
    assert (told[1]["status"], told[1]["why"]) == (413, "too large")


def test_values_of_any_depth_are_refused_in_one_sentence():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with (
        Client("http://shop", "shop", transport=answering(200, b"{}")) as shop,
        pytest.raises(ValueError, match="a record must have finite numbers, texts and lists only"),
    ):
        shop.feedback([{"episode": deep}])


@pytest.mark.parametrize("buffered", [False, True])
def test_an_answer_with_wrong_items_is_a_service_error(tmp_path, buffered):
    """Each of them is JSON with the right words, and not what was asked for."""
    made = {"action": 0, "probability": 1.0}
    begun = {**made, "episode": 0}
    wrong = {
        "begin": [{"episode": None}, {"episode": "x"}, []],
        "decide": [made, {**begun, "action": "a"}, {**begun, "probability": None}],
        "decide_many": [{"decisions": d} for d in (None, 7, [], [7], [made], [begun, begun])],
        "feedback": [{"outcomes": o} for o in (None, 7, [], [7], [{}], 2 * [{"outcome": "taken"}])],
        "policy": [{"policy": []}],
        "status": [[], 7, None],
    }
    given = {"decide_many": [[{}]], "feedback": [[{"episode": 0, "cost": 0.5}]], "policy": [0]}
    for name, answers in wrong.items():
        for answer in answers:
            transport = answering(200, json.dumps(answer))
            buffer = tmp_path / "b" if buffered else None
            with (
                Client("http://shop", "shop", transport=transport, buffer=buffer) as shop,
                pytest.raises(ServiceError, match="the answer is not that of a learner") as told,
            ):
                getattr(shop, name)(*given.get(name, []))
            assert "\n" not in str(told.value)
