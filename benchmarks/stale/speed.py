"""What corrections and DelayedPPO cost: `python benchmarks/stale/speed.py [cycles]`.

Processor time in one thread. A cycle is four rollouts of 256 steps with their updates: PPO,
DelayedPPO without delays twice, PPO, and the other way round in every second cycle, so that other
work on the machine disturbs both alike. Both do the same work bit for bit. The four times of a
cycle are added to pairs.csv beside this file, so that runs add up; the other numbers, for rollouts
of 2048 steps, each the best of several, go to speed.csv. report.py makes tables of both.
"""

import os
import sys
import time
from functools import partial
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
import torch
from runs import PAIRS, SPEED, add
from stable_baselines3 import PPO
from stable_baselines3.common.utils import set_random_seed

import belated as bl
from belated.stale import KINDS, correct
from belated.stale.sb3 import DelayedPPO

STEPS, SHORT, TURNS = 2048, 256, 5


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
    return model.learn(model.n_steps)


def cycles(count: int) -> None:
    """Add cycles to pairs.csv: the two times of PPO, then those of DelayedPPO."""
    models = made(PPO, n_steps=SHORT), made(DelayedPPO, n_steps=SHORT)
    header = "PPO,PPO again,DelayedPPO,DelayedPPO again"
    for i in range(count):
        times: tuple[list[float], list[float]] = ([], [])
        for which in (0, 1, 1, 0) if i % 2 == 0 else (1, 0, 0, 1):
            set_random_seed(2 * i + len(times[which]))  # the same for both models
            more = partial(models[which].learn, SHORT, reset_num_timesteps=False)
            times[which].append(spent(more))
        add(PAIRS, header, [",".join(f"{x:.4f}" for x in (*times[0], *times[1]))])
    first, second = (model.policy.state_dict() for model in models)
    if not all(torch.equal(first[name], second[name]) for name in first):
        raise SystemExit("PPO and DelayedPPO without delays did not do the same work")


def measured() -> dict[str, float]:
    """Every other number by its name in speed.csv."""
    plain, ours = made(PPO), made(DelayedPPO)
    found = {"update of PPO, ms": 1e3 * min(spent(plain.train) for _ in range(TURNS))}
    with mock.patch.object(PPO, "train"):
        own = min(spent(ours.train) for _ in range(TURNS))
    found["DelayedPPO without delays, all but PPO's update, ms"] = 1e3 * own
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


def main(count: int) -> None:
    torch.set_num_threads(1)
    cycles(count)
    lines = [f'"{name}",{value:.4g}\n' for name, value in measured().items()]
    SPEED.write_text("".join(["what,number\n", *lines]), encoding="utf-8")
    print("".join(lines), end="")


if __name__ == "__main__":
    main(int((*sys.argv[1:], "60")[0]))
