"""Stale rollouts: policy gradients with data of an older policy.

A rollout was collected with pi_b ("then") and arrives when the policy is pi_k ("now"). Every
correction here is plain PPO with another old log-probability, the anchor, and a weight on the
advantage:

    fix = belated.stale.correct(then=log_pi_b, now=log_pi_k, kind="delay-adapted")
    loss = ppo(log_pi, old=fix.anchor, advantage=fix.weight * advantage)

`correct` computes both, `vtrace` computes targets and advantages too, and `staleness` measures how
far the policy has moved. All three take arrays of NumPy, JAX or PyTorch and return the same kind;
in JAX they can be compiled and vectorised. `belated.stale.sb3` has `DelayedPPO` for
Stable-Baselines3.
"""

from belated.stale.corrections import KINDS, Correction, correct
from belated.stale.measures import Staleness, staleness
from belated.stale.targets import VTrace, vtrace

__all__ = ["KINDS", "Correction", "Staleness", "VTrace", "correct", "staleness", "vtrace"]
