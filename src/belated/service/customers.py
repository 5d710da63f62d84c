"""Simulated customers of the demonstration, so that its page lives."""

from __future__ import annotations

import heapq
import random
import time

from belated.client import Client, ServiceError

PAUSE = 0.5
"""Seconds between two customers."""
DELAY = 20.0
"""Seconds that a purchase takes on average."""


def chance(action: str, age: int) -> float:
    """The probability that a customer buys."""
    return {"plain": 0.08, "question": 0.25 if age < 45 else 0.05, "discount": 0.15}[action]


def visit(url: str) -> None:
    """Visit the learner `mail` until the process ends; purchases come some seconds later."""
    rng = random.Random()
    coming: list[tuple[float, str, float]] = []
    with Client(url, "mail", patience=3600.0) as mail:
        while True:
            age = rng.randint(18, 80)
            asked = {"age": age, "country": rng.choice(["dk", "se"])}
            try:
                made = mail.decide(features=asked)
                if rng.random() < chance(made.name or "", age):
                    at = time.monotonic() + rng.expovariate(1.0 / DELAY)
                    heapq.heappush(coming, (at, made.key, round(rng.uniform(5.0, 50.0), 2)))
                while coming and coming[0][0] < time.monotonic():
                    _, key, reward = heapq.heappop(coming)
                    mail.feedback([{"key": key, "reward": reward, "event": "purchase"}])
            except ServiceError:  # such as too many open decisions; they close by themselves
                pass
            time.sleep(PAUSE)
