"""An environment of your own in 30 lines: a machine wears out and is inspected late."""

from pathlib import Path

import matplotlib
import numpy as np

import belated as bl

matplotlib.use("Agg")
from matplotlib import pyplot as plt

NEW, WORN, BROKEN = range(3)
RUN, REPAIR = range(2)
p = np.zeros((3, 2, 3))  # (state, action, next state)
p[NEW, RUN] = [0.8, 0.2, 0.0]
p[WORN, RUN] = [0.0, 0.6, 0.4]
p[BROKEN, RUN] = [0.0, 0.0, 1.0]
p[:, REPAIR] = [0.9, 0.1, 0.0]
costs = np.array([[0.1, 0.5], [0.3, 0.5], [1.0, 0.7]])  # (state, action)
mdp = bl.MDP(bl.Transitions.from_dense(p), horizon=12, start=NEW)
world = bl.World(mdp, bl.costs.stochastic(costs))  # each episode draws 0 or 1 with these means

agent = bl.DelayedOPPO(world.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.2))
run = bl.simulate(world, agent, delays=bl.delays.uniform(5, 15), episodes=400)
print(f"regret {run.regret[-1]:.0f}, {run.values.mean():.2f} per episode paid")
plt.figure(figsize=(7, 4), layout="constrained")
plt.plot(np.arange(1, 401), run.regret, color="#0072B2")
plt.xlabel("episode")
plt.ylabel("regret (exact, one run)")
plt.title("A machine that wears out, inspected 5 to 15 episodes late")
Path("out").mkdir(exist_ok=True)
plt.savefig("out/own_environment.png", dpi=150)
