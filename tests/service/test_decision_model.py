"""Random requests for decisions, compared with a small model, with restarts in between."""

import json

import numpy as np
import pytest

from serving import InProcess, config, full, same_from_snapshot_and_rows

BASE = "/v1/learners/mail"
STEPS = 2_000 if full() else 120


class Model:
    """The expected answers: decisions by key, the values of their events, and the actions."""

    def __init__(self):
        self.decisions = {}  # key: (episode, action, probability)
        self.features = {}  # key: what was asked
        self.events = {}  # (key, event): value
        self.names = ["plain", "question"]
        self.retired = set()

    @property
    def begun(self):
        return len(self.decisions)

    def feed(self, key, event, value):
        if key not in self.decisions:
            return "unknown"
        if (known := self.events.get((key, event))) is not None:
            return "duplicate" if known == value else "conflict"
        self.events[key, event] = value
        return "taken"


class Player:
    """Makes random requests, and checks each answer."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.model = Model()

    def key(self):
        """A key, new or used."""
        return f"k{self.rng.integers(self.model.begun + 3)}"

    def check(self, key, made):
        known = self.model.decisions.get(key)
        told = (made["episode"], made["action"], made["probability"])
        if known is None:
            assert made["created"]
            assert made["episode"] == self.model.begun
            assert made["name"] == self.model.names[made["action"]]
            assert made["action"] not in self.model.retired
            self.model.decisions[key] = told
        else:
            assert not made["created"]
            assert told == known

    def asked(self, key):
        """A request for a decision; with a used key, the same one again."""
        features = self.model.features.get(key) or self.rng.normal(size=2).tolist()
        return {"features": features, "key": key}

    def decide(self, client):
        key = self.key()
        body = self.asked(key)
        self.check(key, client.post(f"{BASE}/decide", json=body).json())
        self.model.features[key] = body["features"]
        for other in ({"features": [0.5, "x"]}, {"among": [0]}, {"features": [0.5, 0.5]}):
            answer = client.post(f"{BASE}/decide", json={**body, **other})
            assert (answer.status_code, answer.json()["field"]) == (409, "key")

    def batch(self, client):
        keys = list(dict.fromkeys(self.key() for _ in range(self.rng.integers(1, 6))))
        asked = [self.asked(key) for key in keys]
        wrong = self.rng.random() < 0.3
        if wrong:
            asked.insert(int(self.rng.integers(len(asked) + 1)), {"features": [1.0]})
        answer = client.post(f"{BASE}/decide/batch", json={"decisions": asked})
        if wrong:  # none of them is made
            assert answer.status_code == 422
            assert client.get(BASE).json()["begun"] == self.model.begun
        else:
            for one, made in zip(asked, answer.json()["decisions"], strict=True):
                self.check(one["key"], made)
                self.model.features[one["key"]] = one["features"]

    def feed(self, client):
        keys = [self.key() for _ in range(3)]
        records = [
            {"key": key, "reward": float(self.rng.integers(3)), "event": f"e{i % 2}"}
            for i, key in enumerate(keys)
        ]
        told = client.post(f"{BASE}/feedback/batch", json={"records": records}).json()
        for record, outcome in zip(records, told["outcomes"], strict=True):
            expected = self.model.feed(record["key"], record["event"], record["reward"])
            assert outcome["outcome"] == expected, (record, outcome)

    def change(self, client):
        name = f"n{len(self.model.names)}"
        if self.rng.random() < 0.5 and len(self.model.names) < 6:
            told = client.post(f"{BASE}/actions", json={"name": name}).json()
            assert told == {"action": len(self.model.names), "name": name, "changed": True}
            self.model.names.append(name)
            return
        action = int(self.rng.integers(len(self.model.names)))
        answer = client.delete(f"{BASE}/actions/{self.model.names[action]}")
        if len(self.model.retired | {action}) == len(self.model.names):
            assert answer.status_code == 422
        else:
            assert answer.json()["changed"] == (action not in self.model.retired)
            self.model.retired.add(action)

    def look(self, client):
        told = client.get(f"{BASE}/report").json()
        assert told["begun"] == sum(row["plays"] for row in told["actions"]) == self.model.begun
        assert [row["name"] for row in told["actions"]] == self.model.names
        assert [row["action"] for row in told["actions"] if row["retired"]] == sorted(
            self.model.retired
        )
        reported = {key for key, _ in self.model.events}
        assert sum(row["reports"] for row in told["actions"]) <= len(reported)
        assert told["pending"] == self.model.begun - len(reported)


@pytest.mark.parametrize("seed", range(2))
def test_random_requests_are_answered_as_the_model_says(tmp_path, seed):
    learner = {"name": "mail", "actions": ["plain", "question"], "features": 2, "holdout": 0.2}
    table = config(tmp_path, learners=[learner], limits={"snapshot": 25})
    player = Player(seed)
    kinds = (player.decide, player.batch, player.feed, player.change, player.look)
    left = STEPS
    while left:
        with InProcess(table) as client:
            for _ in range(min(left, STEPS // 3)):
                kinds[player.rng.choice(5, p=[0.3, 0.2, 0.35, 0.05, 0.1])](client)
                left -= 1
            rows = client.get(f"{BASE}/decisions").text.splitlines()
            assert len(rows) == 1 + player.model.begun
            assert json.dumps(client.get(BASE).json()["problem"]["names"]) == json.dumps(
                player.model.names
            )
    stopped, _ = same_from_snapshot_and_rows(table, "mail")
    assert stopped.seq > 20
