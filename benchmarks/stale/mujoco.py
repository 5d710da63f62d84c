"""DelayedPPO on a MuJoCo task at one delay, rollouts out of order.

    python benchmarks/stale/mujoco.py [steps] [seeds]

HalfCheetah-v5, rollouts of 2048 steps, geometric delays of mean 6 rollouts (12,288 steps), settings
of Stable-Baselines3. A row per run goes to mujoco.csv beside this file: the mean reward of all
steps times 1000 (an episode has 1000 steps) in ten parts of the run. What is in the file is not run
again.
"""

import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

import belated as bl
from belated.stale.sb3 import CORRECTIONS, DelayedPPO

FILE = Path(__file__).parent / "mujoco.csv"
PARTS = 10


class Rewards(BaseCallback):
    """Keeps the reward of every step."""

    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[float] = []

    def _on_step(self) -> bool:
        self.rewards.append(float(self.locals["rewards"][0]))
        return True


def main(steps: int, seeds: int) -> None:
    torch.set_num_threads(1)
    if not FILE.exists():
        columns = ",".join(f"r{i}" for i in range(PARTS))
        FILE.write_text(f"correction,steps,seed,{columns}\n", encoding="utf-8")
    for seed in range(seeds):
        for correction in CORRECTIONS:
            have = FILE.read_text(encoding="utf-8").splitlines()
            if any(line.startswith(f"{correction},{steps},{seed},") for line in have):
                continue
            started = time.process_time()
            model = DelayedPPO(
                "MlpPolicy",
                gymnasium.make("HalfCheetah-v5"),
                delays=bl.delays.geometric(6),
                correction=correction,
                seed=seed,
                device="cpu",
            )
            kept = Rewards()
            model.learn(steps, callback=kept)
            rewards = np.array(kept.rewards[: steps // PARTS * PARTS])
            means = 1000.0 * rewards.reshape(PARTS, -1).mean(1)
            with FILE.open("a", encoding="utf-8") as out:
                out.write(f"{correction},{steps},{seed},{','.join(f'{x:.1f}' for x in means)}\n")
            print(
                f"{time.strftime('%H:%M:%S')} {correction} {seed}: {means[-2:].mean():.0f}, "
                f"{time.process_time() - started:.0f} s of processor",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(x) for x in (*sys.argv[1:], "102400", "3")[:2]))
