"""A learner moves from a program to the service and back."""

import tomli_w

import belated as bl
from belated import cli
from serving import ROBOT, SHOP, InProcess, config, fingerprint, restored


def test_a_learner_moves_to_the_service_and_back(tmp_path, capsys):
    world = bl.environments.bandit([0.2, 0.5, 0.8])
    agent = bl.recommend(world.problem, information="bandit")
    bl.simulate(world, agent, delays=bl.delays.fixed(0), episodes=30)
    for number in agent.open_episodes():
        agent.forget(number)
    bl.save(agent, tmp_path / "start.belated")
    problem = {**SHOP["problem"], "homogeneous": True}
    shop = {**SHOP, "problem": problem, "start": str(tmp_path / "start.belated")}
    table = config(tmp_path, learners=[shop])
    with InProcess(table) as client:
        base = "/v1/learners/shop"
        early = client.post(f"{base}/feedback", json={"episode": 29, "costs": [0]}).json()
        assert early["outcome"] == "late"
        begun = client.post(f"{base}/episodes", json={}).json()
        assert begun == {"episode": 30, "created": True}
        played = agent.begin_episode()
        policy = client.get(f"{base}/episodes/30/policy").json()["policy"]
        assert policy == played.policy.tolist()
        path = {"episode": 30, "path": {"states": [0, 0], "actions": [1]}}
        assert client.post(f"{base}/feedback", json=path).json()["outcome"] == "taken"
        costs = {"episode": 30, "costs": [0.5]}
        assert client.post(f"{base}/feedback", json=costs).json()["outcome"] == "taken"
    agent.observe([bl.Trajectory(30, [0, 0], [1])])
    agent.observe([bl.Costs(30, [0.5])])
    again, _ = restored(table, "shop")
    assert fingerprint(again.runner.agent) == fingerprint(agent)
    file = tmp_path / "serve.toml"
    file.write_text(tomli_w.dumps(table))
    assert cli.main(["extract", str(file), "shop", str(tmp_path / "out.belated")]) == 0
    assert fingerprint(bl.load(tmp_path / "out.belated")) == fingerprint(agent)
    other = {"name": "robot", "problem": ROBOT["problem"], "start": shop["start"]}
    file.write_text(tomli_w.dumps(config(tmp_path, learners=[other])))
    assert cli.main(["serve", str(file)]) == 2
    assert "must be an agent for" in capsys.readouterr().err.replace("\n", " ")


def test_a_token_is_printed_with_its_hash(capsys):
    from belated.service.config import hashed

    assert cli.main(["token"]) == 0
    token, sha256 = (line.split()[1] for line in capsys.readouterr().out.splitlines())
    assert hashed(token) == sha256
