"""Protection from strangers: tokens, limits, hosts, and bodies that are meant to harm."""

import io
import json
import re
import threading
from itertools import product

import numpy as np
import pytest

from belated.service.config import VERBS, from_table, hashed, new_token
from belated.service.learner import Learner
from belated.service.run import application
from killing import same_as_never_stopped
from serving import ROBOT, SHOP, InProcess, config, full, restored

ROUTES = [
    ("POST", "/v1/learners/{}/episodes", {}, "begin"),
    ("POST", "/v1/learners/{}/decide", {"episode": 0, "step": 0, "state": 0}, "begin"),
    ("POST", "/v1/learners/{}/decide/batch", {"decisions": []}, "begin"),
    ("GET", "/v1/learners/{}/episodes/0/policy", None, "begin"),
    ("POST", "/v1/learners/{}/feedback", {"episode": 0, "costs": [0]}, "feedback"),
    ("POST", "/v1/learners/{}/feedback/batch", {"records": []}, "feedback"),
    ("DELETE", "/v1/learners/{}/episodes/0", None, "feedback"),
    ("GET", "/v1/learners/{}", None, "read"),
    ("GET", "/v1/learners/{}/episodes", None, "read"),
    ("GET", "/v1/learners/{}/report", None, "read"),
    ("GET", "/v1/learners/{}/evaluation", None, "read"),
    ("GET", "/v1/learners/{}/decisions", None, "admin"),
    ("POST", "/v1/learners/{}/actions", {}, "admin"),
    ("DELETE", "/v1/learners/{}/actions/ACTION", None, "admin"),
    ("POST", "/v1/learners/{}/snapshot", {}, "admin"),
]
MAIL = {
    "name": "mail",
    "actions": ["plain", "question"],
    "features": {"age": "number", "country": ["dk", "se"]},
    "deadline_seconds": 100.0,
    "grace": 100.0,
}
OPEN = {"/", "/healthz", "/readyz", "/docs", "/openapi.json"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a token per verb for the shop, and a token for everything."""
    given, listed = {}, []

    def add(name, learners, verbs):
        given[name], digest = new_token()
        listed.append({"name": name, "sha256": digest, "learners": learners, "verbs": verbs})

    for verb in VERBS:
        add(f"shop {verb}", ["shop"], [verb])
    add("all", ["*"], list(VERBS))
    with InProcess(config(tmp_path_factory.mktemp("guarded"), tokens=listed)) as client:
        yield client, given


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_every_route_is_in_the_table(guarded):
    app = guarded[0]
    known = {(method, path.replace("{}", "{name}").replace("/0", "/{episode}")
              .replace("ACTION", "{action}")) for method, path, _, _ in ROUTES}  # fmt: skip
    known |= {("GET", "/v1/learners"), ("GET", "/metrics"), ("GET", "/healthz"), ("GET", "/readyz")}
    found = {
        (method.upper(), path)
        for path, item in app.get("/openapi.json").json()["paths"].items()
        for method in item
    }
    assert found == known


@pytest.mark.parametrize(("method", "path", "body", "verb"), ROUTES)
def test_a_token_opens_its_learner_and_verb_and_nothing_else(guarded, method, path, body, verb):
    client, given = guarded

    def status(learner, headers):
        return client.request(method, path.format(learner), json=body, headers=headers).status_code

    for learner, owned in product(("shop", "robot", "nobody"), VERBS):
        told = status(learner, bearer(given[f"shop {owned}"]))
        if learner == "shop" and owned == verb:
            assert told not in (401, 403)
        else:
            assert told == 403
    wrong = given["all"][:-1] + ("a" if given["all"][-1] != "a" else "b")
    for headers in ({}, bearer(wrong), bearer(""), {"Authorization": given["all"]},
                    {"Authorization": f"Basic {given['all']}"}):  # fmt: skip
        assert status("shop", headers) == 401
    assert status("nobody", bearer(given["all"])) == 404


def test_lists_and_metrics_show_what_the_token_may_read(guarded):
    client, given = guarded
    mine, all_ = bearer(given["shop read"]), bearer(given["all"])
    assert client.get("/v1/learners").status_code == 401
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers=bearer(given["shop begin"])).status_code == 403
    names = [item["name"] for item in client.get("/v1/learners", headers=mine).json()["learners"]]
    assert names == ["shop"]
    assert "robot" not in client.get("/metrics", headers=mine).text
    assert "robot" in client.get("/metrics", headers=all_).text
    for path in OPEN:
        answer = client.get(path)
        assert answer.status_code == 200
        assert "shop" not in answer.text


@pytest.mark.parametrize(("method", "path", "body", "verb"), ROUTES)
def test_a_redirection_is_for_those_who_may(guarded, monkeypatch, method, path, body, verb):
    """Where a learner is driven elsewhere, each server asks for the token itself."""
    client, given = guarded
    live = client.app.learners["shop"]
    monkeypatch.setattr(live, "session", None)
    monkeypatch.setattr(live, "address", "http://other:1")
    path = path.format("shop")
    forged = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}

    def asked(headers, query=""):
        return client.request(method, path + query, json=body, headers={**headers, **forged})

    assert asked({}).status_code == 401
    for owned in VERBS:
        answer = asked(bearer(given[f"shop {owned}"]), "?x=%0d%0aSet-Cookie:a%3db")
        assert answer.status_code == (307 if owned == verb else 403)
        if owned == verb:
            assert answer.headers["location"] == f"http://other:1{path}?x=%0d%0aSet-Cookie:a%3db"
            assert "set-cookie" not in answer.headers


def test_tokens_are_kept_as_hashes():
    token, digest = new_token()
    assert token not in digest
    assert len(token) > 40
    assert hashed(token) == digest
    assert new_token()[0] != token


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_another_address_needs_tokens(tmp_path, host):
    with pytest.raises(ValueError, match="tokens are required"):
        application(from_table(config(tmp_path, host=host)))
    _, digest = new_token()
    token = {"name": "a", "sha256": digest, "learners": ["shop"], "verbs": ["read"]}
    assert not from_table(config(tmp_path, host=host, tokens=[token])).loopback


WRONG = [
    ({"learners": []}, "at least one"),
    ({"learners": [SHOP, SHOP]}, "different names"),
    ({"learners": [{**SHOP, "name": "../shop"}]}, "lower-case letters"),
    ({"learners": [{**SHOP, "nme": 1}]}, "did you mean 'name'"),
    (
        {"learners": [{**SHOP, "agent": "dorm"}]},
        "agent",
    ),
    ({"learners": [{"name": "m", "actions": 2, "default": 1.0}]}, "default must be left out"),
    ({"learners": [{"name": "m", "actions": ["a", "a"]}]}, "actions must differ"),
    ({"learners": [{"name": "m", "actions": 2, "features": {"age": "nmber"}}]}, "age"),
    ({"learners": [{**SHOP, "clip": True}]}, "clip needs rewards"),
    ({"learners": [{**SHOP, "default_reward": 1}]}, "default_reward needs rewards"),
    ({"learners": [{**SHOP, "agent": {"kind": "oppo", "transitions": "known"}}]}, "does not know"),
    ({"learners": [{**SHOP, "deadline_seconds": 1}]}, "got both"),
    ({"learners": [{**ROBOT, "default": 1.0}]}, "needs a deadline"),
    ({"learners": [{**ROBOT, "rewards": [1, 0]}]}, "rewards must be"),
    ({"learners": [{**ROBOT, "problem": {"states": 0, "actions": 1, "horizon": 1}}]}, "states"),
    ({"port": 70000}, "port"),
    ({"limits": {"batch": 100_000}}, "limits.batch = 100000"),
    ({"tokens": [{"name": "a", "sha256": "x", "learners": ["*"]}]}, "64 digits"),
    ({"tokens": [{"name": "a", "sha256": "0" * 64, "learners": ["nobody"]}]}, "nobody"),
    ({"tokens": [{"name": "a", "sha256": "0" * 64, "learners": [], "verbs": ["x"]}]}, "verbs"),
]


@pytest.mark.parametrize(("change", "why"), WRONG, ids=[why for _, why in WRONG])
def test_a_wrong_configuration_is_refused_in_one_line(tmp_path, change, why):
    with pytest.raises(ValueError, match=re.escape(why)) as found:
        from_table(config(tmp_path, **change))
    assert "\n" not in str(found.value)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server with small limits."""
    limits = {"body": 2000, "batch": 5, "open": 20, "waiting": 10}
    with InProcess(config(tmp_path_factory.mktemp("small"), limits=limits)) as client:
        yield client


def test_a_body_a_batch_and_open_episodes_are_limited(small):
    base = "/v1/learners/robot"
    long = json.dumps({"records": [], "x": "y" * 3000})
    kind = {"Content-Type": "application/json"}

    async def chunks():  # a body that does not say its length
        for _ in range(10):
            yield b"[" * 500

    for content in (long, chunks()):
        answer = small.post(f"{base}/feedback/batch", content=content, headers=kind)
        assert answer.status_code == 413
    answer = small.post(f"{base}/feedback/batch", json={"records": [0] * 6})
    assert (answer.status_code, answer.json()["field"]) == (413, "records")
    for _ in range(20):
        assert small.post(f"{base}/episodes", json={}).status_code == 200
    answer = small.post(f"{base}/episodes", json={})
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert small.delete(f"{base}/episodes/3").status_code == 200
    assert small.post(f"{base}/episodes", json={}).status_code == 200


def test_a_long_policy_is_not_written_as_json(small, monkeypatch):
    path = "/v1/learners/shop/episodes/0/policy"
    small.post("/v1/learners/shop/episodes", json={})
    whole = small.get(path).json()["policy"]
    monkeypatch.setattr("belated.service.app.LONGEST_JSON", 2)
    assert small.get(path).status_code == 413
    answer = small.get(f"{path}?format=npy")
    assert np.load(io.BytesIO(answer.content), allow_pickle=False).tolist() == whole


def test_keys_of_any_text_survive_a_restart(tmp_path):
    table = config(tmp_path, learners=[SHOP])
    base = "/v1/learners/shop/episodes"
    keys = ["\u2028", "<script>", "\N{SNOWMAN}" * 200, "'; DROP TABLE events; --", "../x"]
    for created in (True, False):
        with InProcess(table) as client:
            for i, key in enumerate(keys):
                told = client.post(base, json={"key": key}).json()
                assert told == {"episode": i, "created": created}
            half = client.post(base, content='{"key": "\\ud800"}',
                               headers={"Content-Type": "application/json"})  # fmt: skip
            assert half.status_code in (400, 422)
            assert client.post(base, json={"key": "\0"}).status_code == 422  # not in all databases


def test_other_hosts_and_types_are_refused(small):
    path = "/v1/learners/shop/episodes"
    assert small.post(path, json={}, headers={"Host": "evil.example"}).status_code == 421
    assert small.get("/", headers={"Host": "evil.example:8571"}).status_code == 421
    assert small.get("/", headers={"Host": "127.0.0.1:8571"}).status_code == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        answer = small.post(path, content="{}", headers={"Content-Type": kind})
        assert answer.status_code == 415
    begun = small.get("/v1/learners/shop").json()["begun"]
    assert small.post(path).status_code == 415  # another site can send an empty body, of no type
    assert small.get("/v1/learners/shop").json()["begun"] == begun
    charset = {"Content-Type": "application/json; charset=x"}
    assert small.post(path, content="{}", headers=charset).status_code == 200


def test_the_queue_of_the_agent_is_bounded(tmp_path, monkeypatch):
    """The agent learns nothing until `go`; then it learns everything that was acknowledged."""
    go, learn = threading.Event(), Learner._learn

    def held(*given, **named):
        if go.is_set():
            learn(*given, **named)

    monkeypatch.setattr(Learner, "_learn", held)
    table = config(tmp_path, learners=[SHOP], limits={"waiting": 10, "batch": 10})
    base = "/v1/learners/shop"
    with InProcess(table) as client:
        statuses = []
        for n in range(30):
            begun = client.post(f"{base}/episodes", json={})
            if begun.status_code == 200:
                body = {"episode": n, "step": 0, "state": 0}
                assert client.post(f"{base}/decide", json=body).status_code in (200, 429)
            statuses.append(client.post(f"{base}/feedback", json={"episode": n, "costs": [0.5]}))
        codes = [answer.status_code for answer in statuses]
        assert set(codes) == {200, 429}
        assert all(int(a.headers["retry-after"]) >= 1 for a in statuses if a.status_code == 429)
        again = client.post(f"{base}/feedback", json={"episode": 0, "costs": [0.5]})
        assert again.status_code == 429
        assert client.get(base).json()["waiting"] >= 10
        go.set()
    found, rows = restored(table, "shop")
    fed = [number for _, number, fact, *_ in rows["outcomes"] if fact == "step 0"]
    assert len(fed) == codes.count(200)
    assert found.runner.waiting == 0


def hostile(rng):
    """A body that is meant to harm."""
    good = ['{"episode":0,"costs":[0.5]}', '{"episode":0,"step":0,"state":0}', '{"key":"a"}',
            '{"records":[{"episode":0,"end":0}]}',
            '{"episode":0,"path":{"states":[0,0],"actions":[0]}}', '{"name":"video"}',
            '{"features":{"age":34,"country":"dk"},"among":["plain"],"key":"a"}', '{"state":0}',
            '{"decisions":[{"features":{"age":3},"key":"b"},{"state":0,"among":[1]}]}',
            '{"key":"a","reward":12.5,"event":"order-17","time":1700000000.5}',
            '{"records":[{"episode":0,"reward":1e308,"time":"2026-03-01T09:30:00+01:00"}]}'
            ]  # fmt: skip
    text = good[rng.integers(len(good))].encode()
    kind = rng.integers(8)
    if kind == 0:
        return rng.bytes(int(rng.integers(1, 200)))
    if kind == 1:
        return text[: rng.integers(len(text))]
    if kind == 2:
        return b"[" * int(rng.integers(1, 100_000))
    if kind == 3:
        return b'{"records":' + b'{"a":' * int(rng.integers(1, 5000)) + b"1"
    nasty = [b"NaN", b"-Infinity", b"1e999", b"-1", b"9" * 5000, b"9" * 300, b'"\\ud800"', b"null",
             b"true", b'"\\u0000"', b"1.5", b"[]", b"{}", b"-0.0", b"2147483648", b"1e-400",
             b'"' + b"x" * 5000 + b'"', b"[[[[1]]]]", b'{"__class__":"os.system"}']  # fmt: skip
    chosen = nasty[rng.integers(len(nasty))]
    if kind == 4:
        return chosen
    if kind == 5:
        return re.sub(rb"\d+(\.\d+)?", lambda m: chosen if rng.random() < 0.5 else m[0], text)
    if kind == 6:
        return re.sub(rb'"\w+"', lambda m: b'"\\ud800\\"<x>"' if rng.random() < 0.3 else m[0], text)
    place = int(rng.integers(len(text)))
    return text[:place] + rng.bytes(3) + text[place:]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shop", "mail"])
def test_hostile_bodies_do_no_harm(tmp_path, name):
    """No body causes an error of the server, and it works as before."""
    rng = np.random.default_rng(0)
    kind = {"Content-Type": "application/json"}
    paths = [path.format(name) for method, path, _, _ in ROUTES if method == "POST"]
    table = config(tmp_path, learners=[SHOP, MAIL])
    fresh = {"shop": {"state": 0}, "mail": {"features": {"age": 3}}}[name]
    with InProcess(table) as client:
        assert client.post(f"/v1/learners/{name}/decide", json=fresh).json()["created"]
        seen = set()
        for _ in range(10_000 if full() else 200):
            path = paths[rng.integers(len(paths))]
            answer = client.post(path, content=hostile(rng), headers=kind)
            seen.add(answer.status_code)
            assert answer.status_code < 500, (path, answer.text)
            answer.json()
        assert {200, 400, 422} <= seen
        assert client.post(f"/v1/learners/{name}/decide", json=fresh).json()["created"]
        assert client.get(f"/v1/learners/{name}/report").status_code == 200
        assert client.get(f"/v1/learners/{name}/decisions").status_code == 200
    same_as_never_stopped(table, name)


@pytest.mark.long
@pytest.mark.parametrize("name", ["shop", "mail"])
def test_schemathesis_finds_no_error_of_the_server(tmp_path, name):
    schemathesis = pytest.importorskip("schemathesis")
    from hypothesis import HealthCheck, given, settings

    with InProcess(config(tmp_path, learners=[SHOP, MAIL])) as client:
        client.post(f"/v1/learners/{name}/decide", json={})
        schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        operations = [found.ok() for found in schema.get_all_operations()]
        assert len(operations) >= len(ROUTES)
        for operation in operations:

            @settings(max_examples=200 if full() else 5, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy())
            def never_fails(case):
                sent = case.as_transport_kwargs(base_url="http://localhost")
                path = sent["url"].removeprefix("http://localhost").replace("%7Bname%7D", name)
                path = re.sub(r"/v1/learners/[^/?]*", f"/v1/learners/{name}", path)
                options = {k: sent[k] for k in ("json", "params", "headers") if sent.get(k)}
                headers = {k: str(v) for k, v in (options.pop("headers", None) or {}).items()}
                headers = {k: v for k, v in headers.items() if v.isascii() and v.isprintable()}
                answer = client.request(sent["method"], path, headers=headers, **options)
                assert answer.status_code < 500 or answer.status_code == 503, answer.text

            never_fails()
