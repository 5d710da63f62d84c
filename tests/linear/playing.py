"""A small world for tests of learners of decisions, and a loop that plays it."""

from collections.abc import Callable

import numpy as np

import belated as bl


def world(seed: int = 0, T: int = 300, A: int = 3, d: int = 2, mean_delay: float = 20.0):
    """Features (T, d), outcomes (T, A) that are 0 or 1, and their delays (T, A)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (T, d))
    rates = np.clip(x @ rng.normal(0, 0.3, (d, A)) + rng.uniform(0.2, 0.5, A), 0.02, 0.95)
    outcomes = (rng.random((T, A)) < rates).astype(float)
    return x, outcomes, rng.geometric(1.0 / mean_delay, (T, A)) - 1


def play(
    agent: bl.LinearSampler,
    given: tuple,
    start: int = 0,
    stop: int | None = None,
    due: dict | None = None,
    value: Callable[[float], float] = float,
    each: Callable[[int, bl.LinearSampler], bl.LinearSampler] | None = None,
):
    """Play decisions start to stop; only outcomes of 1 report, as `value(1.0)`.

    Returns the agent and (action, probability) of every decision. each: called before every
    decision; returns the agent that decides.
    """
    x, outcomes, delays = given
    due = {} if due is None else due
    done = []
    for k in range(start, len(x) if stop is None else stop):
        if each is not None:
            agent = each(k, agent)
        decision = agent.decide(x[k])
        done.append((decision.action, decision.probability))
        if outcomes[k, decision.action]:
            when = k + int(delays[k, decision.action])
            due.setdefault(when, []).append(bl.Reward(decision.number, value(1.0)))
        agent.observe(due.pop(k, []))
    return agent, done
