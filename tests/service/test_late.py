"""A record that comes late is used while its episode is open, and never after that."""

import time

import pytest

import belated as bl
from belated.service.tables import StorageError
from limits import until
from serving import (
    ROBOT,
    SHOP,
    InProcess,
    config,
    fingerprint,
    learner,
    restored,
)


def test_a_late_record_is_kept_and_changes_nothing(tmp_path):
    table = config(tmp_path, learners=[{**SHOP, "deadline_episodes": 2}])
    base = "/v1/learners/shop"
    with InProcess(table) as client:
        for k in range(4):
            client.post(f"{base}/episodes", json={})
            client.post(f"{base}/decide", json={"episode": k, "step": 0, "state": 0})
    found, rows = restored(table, "shop")
    agent = fingerprint(found.runner.agent)

    def feed(episode):
        with InProcess(table) as client:
            answer = client.post(f"{base}/feedback", json={"episode": episode, "costs": [0.25]})
        found, rows = restored(table, "shop")
        return answer.json()["outcome"], fingerprint(found.runner.agent), rows

    outcome, after, longer = feed(0)  # closed by the deadline, with the default
    assert (outcome, after) == ("late", agent)
    assert len(longer["outcomes"]) == len(rows["outcomes"]) + 1
    assert ("shop", 0, "step 0", 0.25) in {row[:4] for row in longer["outcomes"]}
    outcome, after, _ = feed(1)  # the oldest that is open
    assert outcome == "taken"
    assert after != agent


def test_within_the_grace_a_late_record_moves_the_agent_as_it_would_without_a_server(tmp_path):
    robot = {**ROBOT, "deadline_episodes": 1, "grace": 2}
    table = config(tmp_path, learners=[robot], limits={"snapshot": 7})
    agent = learner(table, "robot").fresh()
    base = "/v1/learners/robot"

    def feed(**record):
        answer = client.post(f"{base}/feedback", json=record).json()
        return answer["outcome"], answer.get("used")

    def begin():
        while client.get(base).json()["waiting"]:
            time.sleep(0.005)  # an episode does not wait for the agent to learn
        client.post(f"{base}/episodes", json={})

    with InProcess(table) as client:
        for k in range(4):
            begin()
            played = agent.begin_episode().policy
            assert client.get(f"{base}/episodes/{k}/policy").json()["policy"] == played.tolist()
            assert feed(episode=k, path={"states": [0, 1, 2], "actions": [1, 0]}) == ("taken", None)
            agent.observe([bl.Trajectory(k, [0, 1, 2], [1, 0])])
        told = client.get(base).json()
        assert (told["open"], told["overdue"], told["grace"]) == (4, 2, 2)
        assert feed(episode=0, step=1, cost=0.25) == ("late", True)
        assert feed(episode=0, step=1, cost=0.25) == ("duplicate", None)
        assert feed(episode=0, step=0, cost=1.0) == ("late", True)
        agent.observe([bl.Costs(0, [1.0, 0.25])])
        for _ in (4, 5):
            begin()
            agent.begin_episode()
        agent.forget(1)  # its grace ended when episode 5 began
        assert feed(episode=1, costs=[0.5, 0.5]) == ("late", False)
        assert feed(episode=1, costs=[0.5, 0.5]) == ("duplicate", None)
        assert feed(episode=1, costs=[0.5, 1.0]) == ("conflict", None)
        counts = client.get(base).json()["counts"]
        metrics = client.get("/metrics").text
    assert {name: counts[name] for name in ("late", "late_used", "overdue", "forgotten")} == {
        "late": 3, "late_used": 2, "overdue": 4, "forgotten": 1
    }  # fmt: skip
    assert 'belated_late_used_total{learner="robot"} 2.0' in metrics
    assert 'belated_episodes_overdue{learner="robot"} 2.0' in metrics
    stopped, rows = restored(table, "robot")
    never, _ = restored(table, "robot", snapshots=False)
    assert stopped.snapshot == stopped.seq
    for found in (stopped, never):
        assert fingerprint(found.runner.agent) == fingerprint(agent)
    facts = [(number, fact) for _, number, fact, *_ in rows["outcomes"]]
    assert facts == [
        (0, "end"), (0, "outcome"), (0, "path"), (0, "step 0"), (0, "step 1"),
        (1, "end"), (1, "path"), (1, "step 0"), (1, "step 1"),
        (2, "end"), (2, "path"), (3, "end"), (3, "path"),
    ]  # fmt: skip
    for change in ({"grace": 3}, {"grace": None}):
        with pytest.raises(StorageError, match="grace must stay as it was"):
            restored({**table, "learners": [{**robot, **change}]}, "robot")


def test_a_grace_in_seconds_passes_without_a_request(tmp_path, clock):
    shop = {"name": "shop", "problem": SHOP["problem"], "deadline_seconds": 1e5, "grace": 4e5}
    table = config(tmp_path, learners=[shop])
    base = "/v1/learners/shop"
    with InProcess(table) as client:
        for k in range(2):
            client.post(f"{base}/episodes", json={})
            client.post(f"{base}/decide", json={"episode": k, "step": 0, "state": 0})
        clock.step(1.5e5)
        late = client.post(f"{base}/feedback", json={"episode": 0, "costs": [0.5]}).json()
        assert (late["outcome"], late["used"]) == ("late", True)
        clock.step(4e5)
        until(lambda: client.get(base).json()["open"] == 0)
        counts = client.get(base).json()["counts"]
        assert (counts["overdue"], counts["forgotten"]) == (2, 1)
