"""Watch an agent at work: its diagnostics over time, as JSON lines.

The learner has ten arms, and the best one changes after 1,500 of 3,000 episodes. Reports come
twenty episodes late on average, and one in ten never comes. Every 25 episodes the diagnostics go to
`out/watch.jsonl`; docs/watch.md has the lines for TensorBoard and MLflow.
The figure is drawn from the file: entropy and cost show when the agent starts to learn anew, open
and overdue episodes show how the reports come.

pip install 'belated[lab]'
"""

import json
from pathlib import Path

import numpy as np
from drawing import BLACK, BLUE, GREEN, VERMILION, axes, save

import belated as bl

EPISODES, CHANGE, EVERY = 3000, 1500, 25
OUT = Path("out")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    file = OUT / "watch.jsonl"
    file.unlink(missing_ok=True)
    rng = np.random.default_rng(0)
    agent = bl.recommend(bl.Problem(states=1, actions=10, horizon=1), information="bandit")
    delays = bl.delays.lost(0.1, bl.delays.geometric(20)).draw(EPISODES, rng)
    line = bl.DelayLine()
    for k in range(EPISODES):
        episode = agent.begin_episode()
        action, _ = episode.act(0, 0, rng)
        good = 3 if k < CHANGE else 7
        cost = float(rng.random() < (0.2 if action == good else 0.7))
        path = bl.Trajectory(k, states=[0, 0], actions=[action])
        line.push([path, bl.Costs(k, values=[cost])], int(delays[k]))
        agent.observe(line.release(k))
        if (k + 1) % EVERY == 0:
            told = dict(agent.diagnostics())
            with file.open("a", encoding="utf-8") as lines:
                print(json.dumps({"episode": k, **told}), file=lines)

    rows = [json.loads(text) for text in file.read_text(encoding="utf-8").splitlines()]
    at = [row["episode"] for row in rows]
    figure, (left, right) = axes(2, width=10)
    left.plot(at, [row["cost"] for row in rows], color=BLUE, label="estimated cost of the policy")
    entropy = [row["entropy"] / np.log(10) for row in rows]
    left.plot(at, entropy, color=VERMILION, label="entropy of the policy (uniform: 1)")
    left.axvline(CHANGE, color="0.5", linestyle=":")
    left.set(xlabel="episode", ylim=(0, 1))
    right.plot(at, [row["open"] for row in rows], color=BLACK, label="open episodes")
    right.plot(at, [row["overdue"] for row in rows], color=GREEN, label="of these overdue")
    right.set(xlabel="episode")
    for one in (left, right):
        one.legend(frameon=False, loc="upper left")
    figure.suptitle("The best arm changes in the middle; one report in ten never comes")
    last = rows[-1]
    print(
        f"{len(rows)} lines in {file}; at the end {last['open']} open, {last['overdue']} overdue,"
    )
    print(f"half of the reports within {last['delay_50']} episodes, 99% within {last['delay_99']}")
    print(f"Figure: {save(figure, 'watch')}")


if __name__ == "__main__":
    main()
