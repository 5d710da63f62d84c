"""DelayedPPO on a MuJoCo task at one delay, rollouts out of order.

    python benchmarks/stale/cheetah.py [steps] [seeds]

HalfCheetah-v5, rollouts of 16 environments x 128 steps, geometric delays of mean 6 rollouts (12,288
steps). Observations and rewards are normalised as Stable-Baselines3 does it (`VecNormalize`), the
clip of each correction is the one that `sweep.py tune` selected, minibatches have 256 samples, the
learning rate is 1e-3, all other settings are those of Stable-Baselines3. A row per run goes to
cheetah.csv beside this file: the mean reward of all steps times 1000 (an episode has 1000 steps) in
ten parts of the run. What is in the file is not run again.
"""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from runs import CHEETAH, CORRECTIONS, TUNING, read, selected
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import belated as bl
from belated.stale.sb3 import DelayedPPO

TASK, DELAY, ENVIRONMENTS, STEPS, PARTS = "HalfCheetah-v5", 6, 16, 128, 10


class WaitingPPO(DelayedPPO):
    """Updates only with rollouts of the very policy that it still plays and drops the others."""

    def _use(self, rollout) -> None:
        if rollout.updates == self._n_updates:
            super()._use(rollout)


class Rewards(BaseCallback):
    """Keeps the mean reward of every step, before it is normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.rewards: list[float] = []

    def _on_step(self) -> bool:
        self.rewards.append(float(self.training_env.get_original_reward().mean()))
        return True


def run(correction: str, clip: float, steps: int, seed: int) -> list[float]:
    """The mean reward of each part of a run, times 1000."""
    env = VecNormalize(make_vec_env(TASK, n_envs=ENVIRONMENTS, seed=seed))
    learner = WaitingPPO if correction == "waiting" else DelayedPPO
    model = learner(
        "MlpPolicy",
        env,
        delays=bl.delays.geometric(DELAY),
        correction="current" if correction == "waiting" else correction,
        clip_range=clip,
        n_steps=STEPS,
        batch_size=256,
        learning_rate=1e-3,
        seed=seed,
        device="cpu",
    )
    kept = Rewards()
    model.learn(steps, callback=kept)
    size = len(kept.rewards) // PARTS
    return [1000.0 * sum(kept.rewards[i * size : (i + 1) * size]) / size for i in range(PARTS)]


def main(steps: int, seeds: int) -> None:
    torch.set_num_threads(1)
    clips = selected(read(TUNING))
    if not CHEETAH.exists():
        columns = ",".join(f"r{i}" for i in range(PARTS))
        CHEETAH.write_text(f"correction,clip,steps,seed,{columns}\n", encoding="utf-8")
    for seed in range(seeds):
        for correction in CORRECTIONS:
            key = f"{correction},{clips[correction]},{steps},{seed},"
            have = CHEETAH.read_text(encoding="utf-8").splitlines()
            if any(line.startswith(key) for line in have):
                continue
            started = time.process_time()
            means = run(correction, clips[correction], steps, seed)
            with CHEETAH.open("a", encoding="utf-8") as out:
                out.write(f"{key}{','.join(f'{x:.1f}' for x in means)}\n")
            print(
                f"{time.strftime('%H:%M:%S')} {correction} {seed}: {sum(means[-2:]) / 2:.0f}, "
                f"{time.process_time() - started:.0f} s of processor",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(x) for x in (*sys.argv[1:], *("61440", "5")[len(sys.argv) - 1 :])))
