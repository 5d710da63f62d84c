"""Policies of every agent of the registry over one fixed run, as numbers that can be compared.

    python tests/recorded.py          compare with tests/data/policies.json, bit for bit too
    python tests/recorded.py write    write the file again, after an intended change

A policy is recorded as its product with fixed weights, rounded to 12 digits, and the whole run as a
digest of all bits. The digest may differ between machines; the numbers may not.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

import belated as bl
import oracles
from registry import AGENTS, ARMS

FILE = Path(__file__).parent / "data" / "policies.json"
EPISODES = 16


def worlds():
    return {
        "per step": (oracles.random_world(np.random.default_rng(0), 3, 4, 2), AGENTS),
        "arms": (bl.environments.bandit([0.2, 0.5, 0.7]), ARMS),
    }


def played(world, agent):
    """The policies (K, H, S, A) of a run with late, lost and early feedback."""
    rng, line, policies = np.random.default_rng(2), bl.DelayLine(), []
    for k in range(EPISODES):
        policy = agent.begin_episode().policy
        policies.append(policy.copy())
        path, costs = world.mdp.play(policy, rng, k), world.costs.at(k)
        if agent.information == "bandit":
            costs = bl.tabular.records.suffered(costs, path)
        delay = bl.NEVER if k % 7 == 3 else int(rng.integers(0, 5))
        line.push([path], 0 if k % 4 == 0 else delay)
        line.push([bl.Costs(k, costs)], delay)
        agent.observe(line.release(k))
    return np.array(policies)


def record(world, make):
    policies = played(world, make(world))
    weights = np.random.default_rng(0).random(policies.shape[1:])
    values = (policies * weights).sum(axis=(1, 2, 3))
    bits = hashlib.blake2b(policies.tobytes(), digest_size=8).hexdigest()
    return {"values": [round(float(value), 12) for value in values], "bits": bits}


def main(write):
    found = {
        f"{name}: {agent}": record(world, make)
        for name, (world, agents) in worlds().items()
        for agent, make in agents.items()
    }
    if write:
        FILE.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
        return
    stored = json.loads(FILE.read_text())
    for name in sorted(found.keys() | stored.keys()):
        if found.get(name) != stored.get(name):
            print("differs:", name)


if __name__ == "__main__":
    main("write" in sys.argv[1:])
