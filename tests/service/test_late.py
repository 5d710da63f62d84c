"""When a record that comes late is used: while its episode is open, and never after that."""

from belated.service.log import read
from serving import SHOP, InProcess, config, fingerprint, restored


def test_a_late_record_is_kept_and_changes_nothing(tmp_path):
    table = config(tmp_path, learners=[{**SHOP, "deadline_episodes": 2}])
    base = "/v1/learners/shop"
    with InProcess(table) as client:
        for k in range(4):
            client.post(f"{base}/episodes", json={})
            client.post(f"{base}/decide", json={"episode": k, "step": 0, "state": 0})
    found, rows = restored(table, "shop")
    agent = fingerprint(found.pupil.agent)

    def feed(episode):
        with InProcess(table) as client:
            answer = client.post(f"{base}/feedback", json={"episode": episode, "costs": [0.25]})
        found, rows = restored(table, "shop")
        return answer.json()["outcome"], fingerprint(found.pupil.agent), rows

    outcome, after, longer = feed(0)  # closed by the deadline, with the default
    assert (outcome, after) == ("late", agent)
    assert len(longer) == len(rows) + 1
    assert read(longer[-1].written, longer[-1].format).records[0].episode == 0
    outcome, after, _ = feed(1)  # the oldest that is open
    assert outcome == "taken"
    assert after != agent
