"""The fast path and the documented route give the same answers."""

import json

import pytest

from belated.service import fast_path as quick
from belated.service import gate as tokens
from serving import ROBOT, SHOP, InProcess, config

JSON = {"Content-Type": "application/json"}
GOOD = {"episode": 0, "step": 0, "state": 0}
BODIES = [
    GOOD,
    {**GOOD, "step": 1, "state": 2},
    {**GOOD, "step": 1, "state": 1},  # a conflict with the one before
    {**GOOD, "step": 2},
    {**GOOD, "state": 3},
    {**GOOD, "state": -1},
    {**GOOD, "state": 2**63},
    {**GOOD, "state": True},
    {**GOOD, "state": 0.0},
    {**GOOD, "state": "0"},
    {**GOOD, "state": None},
    {**GOOD, "more": 1},
    {**GOOD, "episode": 9},
    {"episode": 0, "step": 0},
    {"episode": 0, "step": 0, "place": 0},
    {**GOOD, "state": 10**900},
    [0, 0, 0],
    0,
    None,
]
TEXTS = [json.dumps(body).encode() for body in BODIES] + [
    b"", b"{", b"\xff", b"[" * 900, b'{"episode":0,"step":0,"state":NaN}', b" " * 3000,
    b'{"episode":7,"episode":0,"step":0,"state":0}', json.dumps(GOOD).encode("utf-16"),
]  # fmt: skip


def in_pieces(text):
    """A body of unknown length, which does not take the fast path."""

    async def pieces():
        yield text[:5]
        yield text[5:]

    return pieces()


KEYS = [
    {}, {"key": None}, {"key": "a"}, {"key": "a" * 200}, {"key": "a" * 201}, {"key": ""},
    {"key": "\N{SNOWMAN}"}, {"key": 1}, {"key": ["a"]}, {"key": "a", "more": 1}, {"more": 1}, [],
]  # fmt: skip
KEYS = [json.dumps(body).encode() for body in KEYS] + [
    b"null", b"{", b"\xff", b'{"key":"\\ud800"}', b'{"key":"a","key":"b"}', b'{"key":NaN}',
]  # fmt: skip


def answers(client, name, text, headers=None, what="decide"):
    """The answers of the fast path and of the route: status, some headers, and body."""
    found = []
    for content in (text, in_pieces(text)):
        said = {"Content-Type": "application/json", **(headers or {})}
        got = client.post(f"/v1/learners/{name}/{what}", content=content, headers=said)
        kept = ("content-type", "www-authenticate", "retry-after")
        found.append((got.status_code, [got.headers.get(name) for name in kept], got.text))
    return found


@pytest.fixture
def client(tmp_path):
    with InProcess(config(tmp_path, learners=[ROBOT])) as made:
        made.post("/v1/learners/robot/episodes", json={})
        yield made


def test_path_and_route_give_the_same_answer(client, monkeypatch):
    for text in TEXTS:
        short, documented = answers(client, "robot", text)
        assert short == documented, text
    for name in ("other", "a" * 64, "%2e", "robot%2fdecide", ""):
        short, documented = answers(client, name, TEXTS[0])
        assert short == documented, name
    parsed, taken = quick._loaded, []
    monkeypatch.setattr(quick, "_loaded", lambda m: taken.append(parsed(m)) or taken[-1])
    answers(client, "robot", TEXTS[0])
    assert taken == [GOOD]  # once: the documented route does not use it


def test_path_and_route_begin_alike(client):
    for text in KEYS:
        client.post("/v1/learners/robot/episodes", content=text, headers=JSON)  # uses the key
        short, documented = answers(client, "robot", text, what="episodes")
        begun = ["episode" in answer[2] for answer in (short, documented)]
        if begun == [True, True] and json.loads(short[2])["created"]:  # two episodes, without a key
            first, second = (json.loads(answer[2]) for answer in (short, documented))
            assert first == {**second, "episode": second["episode"] - 1}
            short, documented = short[:2], documented[:2]
        assert short == documented, text


def test_the_fast_path_asks_for_a_token(tmp_path):
    token, sha256 = tokens.new()
    reader = {"name": "r", "sha256": sha256, "learners": ["shop"], "verbs": ["read"]}
    table = config(tmp_path, learners=[SHOP], tokens=[reader])
    with InProcess(table) as client:
        for said, status in (({}, 401), ({"Authorization": f"Bearer {token}"}, 403)):
            for text, what in ((TEXTS[0], "decide"), (KEYS[0], "episodes")):
                short, documented = answers(client, "shop", text, said, what)
                assert short == documented
                assert short[0] == status


MAIL = {"name": "mail", "actions": ["a", "b"], "features": {"age": "number", "land": ["dk"]}}
ASKED = [
    {"features": {"age": 3}, "key": "k"}, {"features": {"age": 3}, "key": "k", "among": ["a"]},
    {"features": {"age": "x"}, "key": "m"}, {"features": [1], "key": "m"}, {"features": None},
    {"features": {"age": 3}, "among": [True], "key": "n"}, {"features": {}, "among": "a"},
    {"features": {}, "among": [7]}, {"features": {}, "among": []}, {"features": {}, "key": ""},
    {"features": {}, "more": 1}, {"features": {}, "state": 0}, {"features": {}, "episode": 0},
    {"features": {"land": "\N{SNOWMAN}"}, "key": "o"}, {"features": {}, "key": "\N{SNOWMAN}"},
]  # fmt: skip


def test_path_and_route_decide_with_features_alike(tmp_path):
    texts = [json.dumps(body).encode() for body in ASKED]
    texts += [b'{"features":{"age":NaN},"key":"p"}', b'{"features":{"land":"\\ud800"},"key":"q"}']
    with InProcess(config(tmp_path, learners=[MAIL])) as client:
        for text in texts:
            client.post("/v1/learners/mail/decide", content=text, headers=JSON)  # uses the key
            short, documented = answers(client, "mail", text)
            assert short == documented, text
