"""The buffer of the client: no record blocks others, and calls get their own outcomes."""

import asyncio
import json
import select
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from belated.client import AsyncClient, Client
from limits import LIMIT
from serving import SHOP, config, running

PATIENT = {"patience": LIMIT, "timeout": LIMIT}
"""A request that times out and is sent again would be answered as a duplicate."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop")
    learner = {**SHOP, "deadline_episodes": 10_000}
    with running(path, config(path, learners=[learner], limits={"body": 4_000})) as server:
        yield server.url


def begun(url, count):
    """New episodes, each with a decision; returns their numbers."""
    with Client(url, "shop", **PATIENT) as client:
        numbers = [client.begin() for _ in range(count)]
        for number in numbers:
            client.decide(number, 0, 0)
    return numbers


def kinds(told):
    return [outcome["outcome"] for outcome in told]


def test_numbers_of_numpy_are_sent_as_numbers(shop, tmp_path):
    first, second = begun(shop, 2)
    for place, buffer in ((first, tmp_path / "b"), (second, None)):
        record = {"episode": np.int64(place), "costs": np.array([0.5], dtype=np.float32)}
        with Client(shop, "shop", buffer=buffer, **PATIENT) as client:
            assert kinds(client.feedback([record])) == ["taken"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_cannot_be_written_is_refused_and_the_buffer_goes_on(shop, tmp_path, bad):
    (number,) = begun(shop, 1)
    good = {"episode": number, "costs": [0.5]}
    with Client(shop, "shop", buffer=tmp_path / "b", **PATIENT) as client:
        with pytest.raises(ValueError, match="a record must have finite numbers, texts and lists"):
            client.feedback([good, {"episode": number, "costs": [bad]}])
        assert client.undelivered == 0
        with Client(
            shop, "shop", buffer=tmp_path / "b", **PATIENT
        ) as other:  # another process, say
            assert kinds(other.feedback([good])) == ["taken"]
        assert kinds(client.feedback([good])) == ["duplicate"]


def test_a_record_that_is_never_taken_is_set_aside(shop, tmp_path):
    numbers = begun(shop, 5)
    records = [{"episode": number, "costs": [0.5]} for number in numbers]
    huge = {"episode": numbers[2], "costs": [0.125] * 2_000}  # more than the server reads
    with Client(shop, "shop", buffer=tmp_path / "b", **PATIENT) as client:
        told = client.feedback([*records[:2], huge, *records[2:]])
        assert kinds(told) == [*2 * ["taken"], "undeliverable", *3 * ["taken"]]
        assert told[2]["status"] == 413
        assert client.undelivered == 0
        ((record, why),) = client.set_aside
        assert record == huge
        assert "at most 4000 bytes" in why
        assert client.flush() == []
    with Client(shop, "shop", buffer=tmp_path / "b", **PATIENT) as client:
        assert len(client.set_aside) == 1


@pytest.mark.parametrize("head", ["", "Content-Type: text/plain\r\n"])
def test_a_rejected_request_hears_why_however_late_its_body_is_sent(shop, head):
    """A connection that is closed over unread bytes is reset, and the answer is lost with it."""
    place = urlsplit(shop)
    with socket.create_connection((place.hostname, place.port), timeout=LIMIT) as connection:
        size = 5_000_000 if not head else 3_000
        connection.sendall(
            f"POST /v1/learners/shop/feedback HTTP/1.1\r\nHost: {place.netloc}\r\n{head}"
            f"Content-Length: {size}\r\n\r\n".encode()
        )
        select.select([connection], [], [], LIMIT)  # the answer is there
        connection.sendall(b" " * size)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 415 " if head else b"HTTP/1.1 413 ")
    assert answer.endswith(b"}")


def test_what_the_server_refuses_is_set_aside_with_the_reason(shop, tmp_path):
    """Nothing vanishes: invalid and unknown records, and those in conflict, stay in the buffer."""
    good, other = begun(shop, 2)
    with Client(shop, "shop", buffer=tmp_path / "b", **PATIENT) as client:
        records = [
            {"episode": good, "costs": [0.5]},
            {"episode": good, "costs": [0.75]},
            {"episode": other, "costs": [7]},
            {"episode": 10**9, "costs": [0.5]},
            {"key": "nobody", "cost": 0.5},
        ]
        told = kinds(client.feedback(records))
        assert told == ["taken", "conflict", "invalid", "unknown", "unknown"]
        assert client.undelivered == 0
        assert [record for record, _ in client.set_aside] == records[1:]
        assert all(why for _, why in client.set_aside)


def test_a_buffer_belongs_to_one_learner_of_one_server(shop, tmp_path):
    Client(shop, "shop", buffer=tmp_path / "b").close()
    Client(shop + "/", "shop", buffer=tmp_path / "b").close()
    for url, learner in ((shop, "other"), ("http://127.0.0.1:1", "shop")):
        with pytest.raises(ValueError, match=r"its records belong to http.*/shop, not to") as told:
            Client(url, learner, buffer=tmp_path / "b")
        assert "\n" not in str(told.value)


def test_a_damaged_buffer_and_a_wrong_name_are_one_sentence(shop, tmp_path):
    (tmp_path / "b").write_bytes(b"not a database" * 500)
    with pytest.raises(ValueError, match=r"buffer .* cannot be used: file is not a database"):
        Client(shop, "shop", buffer=tmp_path / "b")
    for name in ("../../healthz?", "", "Shop", "a/b"):
        with pytest.raises(ValueError, match="learner must be the name of one"):
            Client(shop, name)


def filled(path, count=60):
    """A buffer with records that could not be sent."""
    away = httpx.MockTransport(lambda request: httpx.Response(503))
    with Client("http://x", "shop", buffer=path, patience=0.0, transport=away) as client:
        for k in range(count):
            assert client.feedback([{"episode": k, "text": "x" * 200}]) is None


def test_a_buffer_with_a_damaged_page_is_one_sentence(tmp_path):
    filled(tmp_path / "b")
    pages = bytearray((tmp_path / "b").read_bytes())
    pages[4096:8192] = pages[8192:12288]
    (tmp_path / "b").write_bytes(pages)
    for path in ("b", "no/such/directory", "."):
        with pytest.raises(ValueError, match=r"buffer .* cannot be used: ") as told:
            Client("http://x", "shop", buffer=tmp_path / path)
        assert "\n" not in str(told.value)


def test_a_damaged_record_does_not_block_the_others(tmp_path):
    """What is no JSON any more is refused by the server, and set aside as it is."""
    filled(tmp_path / "b", 3)
    content = (tmp_path / "b").read_bytes()
    assert content.count(b'{"episode": 1,') == 1
    (tmp_path / "b").write_bytes(content.replace(b'{"episode": 1,', b'\xff"episode": 1,'))

    def answer(request):
        try:
            records = json.loads(request.content)["records"]
        except ValueError:
            return httpx.Response(422, json={"why": "no JSON"})
        return httpx.Response(200, json={"outcomes": [{"outcome": "taken"} for _ in records]})

    transport = httpx.MockTransport(answer)
    with Client("http://x", "shop", buffer=tmp_path / "b", transport=transport) as client:
        assert kinds(client.flush()) == ["taken", "undeliverable", "taken"]
        assert client.undelivered == 0
        ((record, why),) = client.set_aside
    assert record["damaged"].startswith('\N{REPLACEMENT CHARACTER}"episode": 1,')
    assert why == "no JSON"


def test_concurrent_calls_get_the_outcomes_of_their_own_records(shop, tmp_path):
    numbers = begun(shop, 20)

    async def all_at_once():
        async with AsyncClient(shop, "shop", buffer=tmp_path / "b", **PATIENT) as client:
            calls = [client.feedback([{"episode": n, "costs": [0.5]}]) for n in numbers]
            return await asyncio.gather(*calls), client.undelivered

    told, left = asyncio.run(all_at_once())
    assert [[outcome["episode"] for outcome in one] for one in told] == [[n] for n in numbers]
    assert {kind for one in told for kind in kinds(one)} == {"taken"}
    assert left == 0


def test_threads_get_the_outcomes_of_their_own_records(shop, tmp_path):
    numbers = begun(shop, 40)
    pairs = [numbers[i : i + 2] for i in range(0, 40, 2)]
    with (
        Client(shop, "shop", buffer=tmp_path / "b", **PATIENT) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        records = [[{"episode": n, "costs": [0.5]} for n in pair] for pair in pairs]
        told = list(pool.map(client.feedback, records))
        assert client.undelivered == 0
    assert [[outcome["episode"] for outcome in one] for one in told] == pairs
    assert {kind for one in told for kind in kinds(one)} == {"taken"}


def test_two_clients_share_a_buffer(shop, tmp_path):
    """Each hears of its own records; what both have sent is counted once."""
    numbers = begun(shop, 40)
    clients = [Client(shop, "shop", buffer=tmp_path / "b", **PATIENT) for _ in range(2)]

    def report(place, number):
        return clients[place].feedback([{"episode": number, "costs": [0.5]}])

    with clients[0], clients[1], ThreadPoolExecutor(4) as pool:
        told = list(pool.map(report, [0, 1] * 20, numbers))
        assert clients[0].undelivered == clients[1].undelivered == 0
        assert clients[0].set_aside == []
    assert [one["episode"] for (one,) in told] == numbers
    assert {one["outcome"] for (one,) in told} <= {"taken", "duplicate"}


def test_what_was_left_in_the_buffer_is_not_an_outcome_of_the_next_call(shop, tmp_path):
    first, second = begun(shop, 2)

    def unplugged(request):
        raise httpx.ConnectError("no route")

    lost = {"patience": 0.0, "transport": httpx.MockTransport(unplugged)}
    with Client(shop, "shop", buffer=tmp_path / "b", **lost) as away:
        assert away.feedback([{"episode": first, "costs": [0.5]}]) is None
        assert away.undelivered == 1
    with Client(shop, "shop", buffer=tmp_path / "b", **PATIENT) as client:
        (told,) = client.feedback([{"episode": second, "costs": [0.5]}])
        assert (told["episode"], told["outcome"]) == (second, "taken")
        assert client.undelivered == 0


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_buffer_that_is_gone_is_noticed(tmp_path, how):
    """Records in a file without a name would be lost with the process."""
    away = httpx.MockTransport(lambda request: httpx.Response(503))
    path = tmp_path / "b"
    with Client("http://x", "shop", buffer=path, patience=0.0, transport=away) as client:
        assert client.feedback([{"episode": 0, "cost": 0.5}]) is None
        path.unlink()
        if how == "replaced":
            path.write_bytes(b"")
        calls = [lambda: client.feedback([{"episode": 1, "cost": 0.5}]), client.flush]
        for call in (*calls, lambda: client.undelivered, lambda: client.set_aside):
            with pytest.raises(OSError, match=r"buffer .* was deleted or replaced") as told:
                call()
            assert "\n" not in str(told.value)
