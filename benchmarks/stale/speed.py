"""What corrections and DelayedPPO cost: `python benchmarks/stale/speed.py`.

Processor time in one thread, in turns. Ratios are medians of pairs, single times the best of
several rounds, so that others on the machine disturb little. Numbers go to speed.csv beside this
file, from which report.py writes them.
"""

import os
import time
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
import torch
from runs import SPEED
from stable_baselines3 import PPO

import belated as bl
from belated.stale import KINDS, correct
from belated.stale.sb3 import DelayedPPO

STEPS, TURNS = 2048, 5


def spent(call) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def repeated(then, now, kind: str) -> None:
    for _ in range(50):
        correct(then, now, kind)


def made(kind, **settings):
    """A model of two 64-64 networks, the default, after one update."""
    model = kind("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0, device="cpu", **settings)
    model.learn(STEPS)
    return model


def measured() -> dict[str, float]:
    """Every number by its name in speed.csv."""
    plain, ours = made(PPO), made(DelayedPPO)
    times: dict[str, list[float]] = {"plain": [], "ours": []}
    for _ in range(TURNS):
        for name, model in (("plain", plain), ("ours", ours)):
            times[name].append(spent(lambda m=model: m.learn(STEPS, reset_num_timesteps=False)))
    pairs = [b / a for a, b in zip(times["plain"], times["ours"], strict=True)]
    found = {
        "PPO, steps per second": STEPS / min(times["plain"]),
        "DelayedPPO without delays, steps per second": STEPS / min(times["ours"]),
        "DelayedPPO / PPO, time, median of pairs": float(np.median(pairs)),
    }
    update = min(spent(lambda: PPO.train(plain)) for _ in range(TURNS))
    found["update of PPO, ms"] = 1e3 * update
    rng = np.random.default_rng(0)
    arrays = [-rng.exponential(size=STEPS).astype(np.float32) for _ in range(2)]
    for library, make in (("NumPy", np.asarray), ("PyTorch", torch.tensor)):
        then, now = map(make, arrays)
        worst = 0.0
        for kind in KINDS:
            repeated(then, now, kind)
            worst = max(worst, min(spent(partial(repeated, then, now, kind)) for _ in range(9)))
        found[f"correct, {library}, ms"] = 1e3 * worst / 50
    late = made(DelayedPPO, delays=bl.delays.fixed(1))
    late.learn(STEPS, reset_num_timesteps=False)  # the rollout that waits now is stale
    (rollout,) = late._waiting._rollouts
    found["correction with its pass and measures, ms"] = 1e3 * min(
        spent(lambda: late._corrected(rollout)) for _ in range(TURNS)
    )
    return found


def main() -> None:
    torch.set_num_threads(1)
    found = measured()
    lines = [f'"{name}",{value:.4g}\n' for name, value in found.items()]
    SPEED.write_text("".join(["what,number\n", *lines]), encoding="utf-8")
    print("".join(lines), end="")


if __name__ == "__main__":
    main()
