"""What corrections and DelayedPPO cost: `python benchmarks/stale/speed.py`.

Processor time, single threaded, in turns: the best of several rounds, so that others on the machine
disturb little.
"""

import os
import time
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO

from belated.stale import KINDS, correct
from belated.stale.sb3 import DelayedPPO

STEPS, TURNS = 2048, 7


def spent(call) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def repeated(then, now, kind: str) -> None:
    for _ in range(50):
        correct(then, now, kind)


def main() -> None:
    torch.set_num_threads(1)
    models = {
        name: kind("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0, device="cpu")
        for name, kind in (("PPO", PPO), ("DelayedPPO", DelayedPPO))
    }
    for model in models.values():
        model.learn(STEPS)
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(TURNS):
        for name, model in models.items():
            times[name].append(spent(lambda m=model: m.learn(STEPS, reset_num_timesteps=False)))
    for name, found in times.items():
        print(f"{name}: {STEPS / min(found):.0f} steps per processor second, no delay")
    ratio = min(times["DelayedPPO"]) / min(times["PPO"])
    pairs = [b / a for a, b in zip(times["PPO"], times["DelayedPPO"], strict=True)]
    print(f"DelayedPPO / PPO: {ratio:.3f} of the best, {np.median(pairs):.3f} median of pairs")
    update = min(spent(lambda: PPO.train(models["PPO"])) for _ in range(TURNS))
    print(f"PPO update of {STEPS} steps, two 64-64 networks, 10 epochs: {1e3 * update:.0f} ms")
    rng = np.random.default_rng(0)
    arrays = [-rng.exponential(size=STEPS).astype(np.float32) for _ in range(2)]
    for library, make in (("NumPy", np.asarray), ("torch", torch.tensor)):
        then, now = map(make, arrays)
        worst = 0.0
        for kind in KINDS:
            for _ in range(20):
                correct(then, now, kind)
            best = min(spent(partial(repeated, then, now, kind)) for _ in range(9))
            worst = max(worst, best / 50)
        print(
            f"correct, {library}, {STEPS} numbers: at most {1e6 * worst:.0f} us, "
            f"{100 * worst / update:.3f} % of the update"
        )


if __name__ == "__main__":
    main()
