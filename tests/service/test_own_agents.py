"""Agents of the library are served, and agents of a user's own, with own problems and records."""

import numpy as np
import pytest

import belated as bl
from belated.service.config import from_table
from belated.service.runner import AgentRunner
from serving import InProcess, config, same_from_snapshot_and_rows

OWN = {
    "name": "own",
    "problem": {"kind": "small_linear:Visits", "actions": 3, "features": 2},
    "agent": {"kind": "small_linear:Greedy", "epsilon": 0.3},
}


def test_a_linear_agent_in_one_file_of_its_own_is_served(tmp_path):
    table = config(tmp_path, learners=[OWN], limits={"snapshot": 15})
    rng = np.random.default_rng(0)
    base = "/v1/learners/own"
    for _ in range(2):  # and a restart
        with InProcess(table) as client:
            for _ in range(20):
                x = rng.normal(size=2).tolist()
                made = client.post(f"{base}/decide", json={"features": x, "among": [0, 2]}).json()
                assert made["action"] in (0, 2)
                record = {"episode": made["episode"], "value": x[0], "event": "paid"}
                assert client.post(f"{base}/feedback", json=record).json()["outcome"] == "taken"
                again = client.post(f"{base}/feedback", json=record).json()
                assert again["outcome"] in ("duplicate", "late")
            assert client.post(f"{base}/decide", json={"features": [1]}).status_code == 422
            wrong = client.post(f"{base}/feedback", json={"episode": 0, "worth": 1})
            assert (wrong.status_code, wrong.json()["field"]) == (422, "record")
            assert client.post(f"{base}/episodes", json={}).status_code == 422
            told = client.get(f"{base}/report").json()
            assert sum(row["plays"] for row in told["actions"]) == told["begun"]
            assert client.get(f"{base}/decisions").text.count("\n") == 1 + told["begun"]
    agent = same_from_snapshot_and_rows(table, "own")[0].runner.agent
    assert agent.begun == 40
    assert agent.b[0].any()


@pytest.mark.parametrize("kind", ["thompson_sampling", "posterior_sampling"])
def test_agents_of_the_library_are_served(tmp_path, kind):
    arms = {"name": "arms", "problem": {"states": 1, "actions": 2, "horizon": 1}, "agent": kind}
    table = config(tmp_path, learners=[arms], limits={"snapshot": 15})
    base = "/v1/learners/arms"
    with InProcess(table) as client:
        for _ in range(20):
            made = client.post(f"{base}/decide", json={"state": 0}).json()
            record = {"episode": made["episode"], "cost": float(made["action"])}
            assert client.post(f"{base}/feedback", json=record).json()["outcome"] == "taken"
        told = client.get(f"{base}/report").json()
        assert told["actions"][0]["mean"] in (0.0, None)
    same_from_snapshot_and_rows(table, "arms")


def test_a_policy_is_served_without_a_copy_and_as_a_wrapper_has_changed_it():
    class Second(bl.DelayedOPPO):
        def begin_episode(self, now=None):
            episode = super().begin_episode(now)
            episode.policy[:] = [0.0, 1.0]
            return episode

    problem = bl.Problem(states=1, actions=2, horizon=1)
    _, policy = AgentRunner(Second(problem)).begin()
    assert np.array_equal(policy, [[[0.0, 1.0]]])
    runner = AgentRunner(bl.DelayedOPPO(problem))
    (_, first), (_, second) = runner.begin(), runner.begin()
    assert np.shares_memory(first, second)
    assert not first.flags.writeable


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"problem": {"kind": "arms", "actions": 2}}, "must be code of your own, module:function"),
        ({"problem": {"kind": "small_linear:Paid", "episode": 1, "value": 2.0}}, "without actions"),
        ({"problem": {"kind": "nowhere:Visits"}}, "nowhere"),
    ],
)
def test_a_bad_problem_of_ones_own_is_one_sentence(tmp_path, change, said):
    with pytest.raises(ValueError, match=said) as wrong:
        from_table(config(tmp_path, learners=[{**OWN, **change}]))
    assert "\n" not in str(wrong.value)
