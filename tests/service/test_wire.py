"""Bytes that no client library would send, to a server that listens on a socket."""

import gzip
import json
import socket
import threading
import time

import httpx
import pytest
import uvicorn

import limits
from belated.service import run
from belated.service.config import from_table, new_token
from belated.service.run import bound, listener
from serving import SHOP, config

TOKEN, HASH = new_token()
MINE = f"Authorization: Bearer {TOKEN}"
KIND = "Content-Type: application/json"
DECIDE = "/v1/learners/shop/decide"
BATCH = "/v1/learners/shop/feedback/batch"
LIMIT = 3000
NAMES = ["%00", "..%2f..", "%2e%2e", "shop%2f..%2fshop", "shop%0d%0aX-Evil:%20y", "sh%C3%B6p",
         "%FF", "SHOP", "shop%20", "shop;x=1", "*", "%2A", "n" * 5000,
         "';%20DROP%20TABLE%20events"]  # fmt: skip
FORGED = ["X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: evil.example",
          "X-Forwarded-Proto: https", "Forwarded: for=127.0.0.1;host=evil.example",
          "X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Real-IP: 127.0.0.1",
          "X-HTTP-Method-Override: GET", "Connection: authorization"]  # fmt: skip


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    token = {"name": "a", "sha256": HASH, "learners": ["shop"], "verbs": ["begin", "feedback"]}
    table = config(tmp_path_factory.mktemp("wire"), learners=[SHOP], limits={"body": LIMIT},
                   tokens=[token])  # fmt: skip
    settings = listener(from_table(table), 0)
    listening = bound(settings)
    listening.listen()
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    found = listening.getsockname()[1]
    while head(found, "GET", "/readyz")[0] != 200:
        time.sleep(0.01)
    yield found
    server.should_exit = True
    thread.join()


def sent(port, content):
    """The status and the text of the answer to these bytes, read up to the end of its head."""
    with socket.create_connection(("127.0.0.1", port), timeout=limits.LIMIT) as wire:
        wire.sendall(content)
        answer = b""
        while b"\r\n\r\n" not in answer and (more := wire.recv(65536)):
            answer += more
    return int(answer[9:12]), answer.decode("latin-1")


def head(port, method, path, *headers, body=b""):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return sent(port, "\r\n".join(lines).encode() + body)


def posted(port, path, content, *headers):
    length = f"Content-Length: {len(content)}"
    return head(port, "POST", path, MINE, KIND, length, *headers, body=content)


def alive(port):
    return posted(port, "/v1/learners/shop/episodes", b"{}")[0] == 200


def chunks(*parts):
    made = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return made + b"0\r\n\r\n"


@pytest.mark.parametrize("path", [DECIDE, BATCH])
def test_a_body_in_chunks_is_counted(port, path):
    body = chunks(*[b"[" * 1000] * (LIMIT // 1000 + 1))
    assert head(port, "POST", path, MINE, KIND, "Transfer-Encoding: chunked", body=body)[0] == 413
    small = chunks(b'{"episode": 0,', b' "step": 9, "state": 0}')
    status, _ = head(port, "POST", DECIDE, MINE, KIND, "Transfer-Encoding: chunked", body=small)
    assert status == 422
    assert alive(port)


@pytest.mark.parametrize("path", [DECIDE, BATCH])
def test_two_lengths_are_refused_and_the_connection_ends(port, path):
    """A proxy that believes the other length would take the rest for a new request."""
    smuggled = b"POST /v1/learners/shop/episodes HTTP/1.1\r\nHost: localhost\r\n\r\n"
    both = ("Content-Length: 5", "Transfer-Encoding: chunked")
    status, answer = head(port, "POST", path, MINE, KIND, *both, body=chunks(b"{}") + smuggled)
    assert status == 400
    assert "connection: close" in answer.lower()
    assert answer.count("HTTP/1.1") == 1
    for lengths in ("5, 6", "-1", "+5", "9" * 5000):
        assert head(port, "POST", path, MINE, KIND, f"Content-Length: {lengths}")[0] in (400, 413)
    assert alive(port)


def test_a_body_that_ends_early_is_no_request(port):
    """An empty body begins an episode; one whose client has gone before it came does not."""

    def begun():
        headers = dict(line.split(": ", 1) for line in (MINE, KIND))
        url = f"http://127.0.0.1:{port}/v1/learners/shop/episodes"
        return httpx.post(url, headers=headers, timeout=limits.LIMIT).json()["episode"]

    first = begun()
    lines = ["POST /v1/learners/shop/episodes HTTP/1.1", "Host: localhost", MINE, KIND]
    with socket.create_connection(("127.0.0.1", port), timeout=limits.LIMIT) as wire:
        wire.sendall("\r\n".join([*lines, "Content-Length: 20", "", ""]).encode())
    assert begun() == first + 1


def test_a_packed_body_is_not_unpacked(port):
    bomb = gzip.compress(b'{"records": [' + b" " * 2_000_000 + b"]}")
    assert len(bomb) < LIMIT
    for coding in ("gzip", "deflate", "br", "identity, gzip"):
        assert posted(port, BATCH, bomb, f"Content-Encoding: {coding}")[0] == 415
    assert posted(port, BATCH, bomb)[0] == 400
    assert posted(port, BATCH, b'{"records": []}', "Content-Encoding: identity")[0] == 200


def test_nothing_is_read_for_a_stranger(port):
    """The answer comes although the body never does."""
    for path in (DECIDE, BATCH, "/v1/learners/nobody/feedback", "/metrics"):
        for header in ("X-None: 1", "Authorization: Bearer belated-x"):
            status, answer = head(port, "POST", path, header, KIND, "Content-Length: 1000")
            assert status == 401
            assert "www-authenticate: bearer" in answer.lower()


@pytest.mark.parametrize("name", NAMES)
def test_odd_names_open_nothing(port, name):
    for method, rest in (("POST", "/decide"), ("POST", "/episodes"), ("GET", ""),
                         ("GET", "/episodes/0/policy"), ("DELETE", "/episodes/0")):  # fmt: skip
        path = f"/v1/learners/{name}{rest}"
        body = b'{"episode": 0, "step": 0, "state": 0}' if method == "POST" else b""
        length = f"Content-Length: {len(body)}"
        status, answer = head(port, method, path, MINE, KIND, length, body=body)
        assert status in (403, 404, 405, 422), answer
        assert "evil" not in answer.lower()
    assert alive(port)


def test_forged_headers_open_nothing(port):
    body = b'{"records": []}'
    for header in FORGED:
        length = f"Content-Length: {len(body)}"
        assert head(port, "POST", BATCH, KIND, length, header, body=body)[0] == 401
        assert head(port, "GET", "/v1/learners/shop", MINE, header)[0] == 403  # no right to read
        assert head(port, "GET", "/metrics", MINE, header)[0] == 403
        status, answer = head(port, "GET", "/v1/learners/shop/", MINE, header)
        assert status == 404  # and no redirection to wherever the headers say
        assert "evil" not in answer
    for hosts in ("evil.example", "localhost.evil.example", "localhost@evil.example", "["):
        answer = sent(port, f"GET /healthz HTTP/1.1\r\nHost: {hosts}\r\n\r\n".encode())
        assert answer[0] in (400, 421)


def test_long_and_broken_heads_are_refused(port):
    assert head(port, "GET", "/", "X: " + "y" * 200_000)[0] in (400, 431)
    for junk in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n"):
        assert sent(port, junk)[0] in (400, 421)
    assert alive(port)


def test_a_head_without_an_end_is_refused_while_it_comes(port):
    with socket.create_connection(("127.0.0.1", port), timeout=limits.LIMIT) as wire:
        wire.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        for _ in range(9):
            wire.sendall(b"y" * 8192)
        assert wire.recv(65536).startswith(b"HTTP/1.1 400 ")


def test_a_head_must_come_in_time(port, monkeypatch):
    """The server closes the connection of a client that sends a byte of a head now and then."""
    monkeypatch.setattr(run, "HEAD_PATIENCE", 0.05)
    for begun in (b"", b"GET / HTTP/1.1\r\nHost:"):
        with socket.create_connection(("127.0.0.1", port), timeout=limits.LIMIT) as wire:
            wire.sendall(begun)
            assert wire.recv(1) == b""


def test_a_request_with_two_lengths_is_refused_whatever_its_method(port):
    for method in ("GET", "DELETE", "POST"):
        both = ("Content-Length: 5", "Transfer-Encoding: chunked")
        assert head(port, method, "/healthz", MINE, KIND, *both, body=b"0\r\n\r\n")[0] == 400


def test_answers_carry_no_name_of_a_server(port):
    status, answer = posted(port, "/v1/learners/shop/episodes", json.dumps({"key": "k"}).encode())
    assert status == 200
    assert "server:" not in answer.lower().partition("\r\n\r\n")[0]


def test_no_answer_waits_for_the_acknowledgement_of_its_head(tmp_path):
    """Without TCP_NODELAY on its connections a server sends the body 40 ms after the head."""
    listening = bound(uvicorn.Config(None, host="127.0.0.1", port=0))
    with listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        with accepted, client:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
