"""The answer to a wrong request names its wrong field."""

import pytest

from serving import ROBOT, InProcess, config

BASE = "/v1/learners/robot"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with InProcess(config(tmp_path_factory.mktemp("fields"), learners=[ROBOT])) as client:
        client.post(f"{BASE}/episodes", json={})
        yield client


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"step": 2, "cost": 0.5}, "step"),
        ({"step": 2, "reward": 1, "range": [0, 1]}, "step"),
        ({"costs": [0.5]}, "costs"),
        ({"rewards": [1], "range": [0, 1]}, "rewards"),
        ({"rewards": [1, 2], "range": [0, 1]}, "rewards"),
        ({"path": {"states": [0, 9, 0], "actions": [0, 0]}}, "path"),
        ({"end": 3}, "end"),
    ],
)
def test_of_a_record(client, record, field):
    sent = {"episode": 0, **record}
    alone = client.post(f"{BASE}/feedback", json=sent)
    assert (alone.status_code, alone.json()["outcome"]) == (422, "invalid")
    assert alone.json()["field"] == field
    assert field in sent
    batch = client.post(f"{BASE}/feedback/batch", json={"records": [sent]}).json()
    assert batch["outcomes"] == [alone.json()]


@pytest.mark.parametrize(
    ("query", "field"), [("step=2", "step"), ("state=0", "state"), ("step=0&state=3", "state")]
)
def test_of_a_policy(client, query, field):
    answer = client.get(f"{BASE}/episodes/0/policy?{query}")
    assert answer.status_code == 422
    assert (answer.json()["outcome"], answer.json()["field"]) == ("invalid", field)


def test_of_a_body_that_is_no_json(client):
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"{BASE}/feedback", content=b'{"episode": 0, }', headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (422, "body")
    assert answer.json()["why"] == "body: JSON is malformed: trailing comma in object (byte 15)"


def test_what_a_client_forgets_is_counted_apart_from_what_the_deadline_does(client):
    number = client.post(f"{BASE}/episodes", json={}).json()["episode"]
    client.delete(f"{BASE}/episodes/{number}")
    counts = client.get(BASE).json()["counts"]
    assert (counts["forgotten_by_request"], counts["forgotten"]) == (1, 0)
