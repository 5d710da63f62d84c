"""DelayedPPO on a MuJoCo task at one delay, rollouts out of order.

    python benchmarks/stale/inverted.py [seeds]

InvertedPendulum-v5, rollouts of 16 environments x 32 steps, geometric delays of mean 6 rollouts
(3,072 steps), 20,480 steps. Observations and rewards are normalised as Stable-Baselines3 does it
(`VecNormalize`). The clip of each correction is the one that `sweep.py tune` selected; four epochs
of four minibatches and the learning rate of 1e-3 are those of the sweeps, all other settings those
of Stable-Baselines3. A row per run goes to inverted.csv beside this file: the steps between two
falls (steps divided by falls, or by 1 if there are none) in ten parts of 2,048 steps each. Runs
that are in the file are not repeated.
"""

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from runs import CORRECTIONS, INVERTED, TUNING, add, read, rows_of, selected
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import belated as bl
from belated.stale.sb3 import DelayedPPO

DELAY, ENVIRONMENTS, STEPS, ROLLOUTS, PARTS = 6, 16, 32, 40, 10


class WaitingPPO(DelayedPPO):
    """Updates only with rollouts of the very policy that it still plays and drops the others."""

    def _use(self, rollout) -> None:
        if rollout.updates == self._n_updates:
            super()._use(rollout)


class Falls(BaseCallback):
    """Counts the falls of every step; an episode that stands for 1000 steps is not a fall."""

    def __init__(self) -> None:
        super().__init__()
        self.falls: list[int] = []

    def _on_step(self) -> bool:
        cut = [info.get("TimeLimit.truncated", False) for info in self.locals["infos"]]
        self.falls.append(sum(self.locals["dones"]) - sum(cut))
        return True


def run(correction: str, clip: float, seed: int) -> list[float]:
    """The steps between two falls in each part of a run."""
    env = VecNormalize(make_vec_env("InvertedPendulum-v5", n_envs=ENVIRONMENTS, seed=seed))
    learner = WaitingPPO if correction == "waiting" else DelayedPPO
    model = learner(
        "MlpPolicy",
        env,
        delays=bl.delays.geometric(DELAY),
        correction="current" if correction == "waiting" else correction,
        clip_range=clip,
        n_steps=STEPS,
        n_epochs=4,
        batch_size=128,
        learning_rate=1e-3,
        seed=seed,
        device="cpu",
    )
    kept = Falls()
    model.learn(ROLLOUTS * ENVIRONMENTS * STEPS, callback=kept)
    size = len(kept.falls) // PARTS
    falls = [sum(kept.falls[i * size : (i + 1) * size]) for i in range(PARTS)]
    return [size * ENVIRONMENTS / max(1, count) for count in falls]


def main(seeds: int) -> None:
    torch.set_num_threads(1)
    clips = selected(read(TUNING))
    header = ",".join(("correction", "clip", "seed", *(f"r{i}" for i in range(PARTS))))
    for seed in range(seeds):
        for correction in CORRECTIONS:
            key = [correction, str(clips[correction]), str(seed)]
            if key in [row[:3] for row in rows_of(INVERTED)]:
                continue
            started = time.process_time()
            means = run(correction, clips[correction], seed)
            add(INVERTED, header, [",".join([*key, *(f"{x:.2f}" for x in means)])])
            print(
                f"{time.strftime('%H:%M:%S')} {correction} {seed}: {sum(means[-2:]) / 2:.1f}, "
                f"{time.process_time() - started:.0f} s of processor",
                flush=True,
            )


if __name__ == "__main__":
    main(int((*sys.argv[1:], "5")[0]))
