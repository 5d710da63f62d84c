"""Expectation maximisation: how probable is it that a silent decision is a success to come?

A silent decision of age e is one with the weight w = p S(e) / (1 - p + p S(e)), with p the present
prediction of a success and S(e) the probability that a success takes longer than e.

    bootstrap      Gigli & Stella, "Multi-armed bandits with delayed conversions" (UAI 2024): S by
                   Kaplan-Meier in which a silent decision counts by its weight; regression on both
                   copies, success with weight w and failure with 1 - w; Thompson sampling by a
                   bootstrap of the log.
    exponential    Wang, Carrion, Lin, Ji, Bao & Yan (JD.com, WWW 2022): per action a rate of
                   conversion and an exponential delay; Thompson sampling from Beta posteriors.

Departures: the log is fitted anew when it has grown by a tenth and not after every decision, each
bootstrap sample by one step from the fit of the whole log; the
regression is linear with a ridge; features of the second method become cells, the sign patterns
of the first `bits` features. Ages count decisions. Amounts count as successes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from benchmarks.rivals.decisions import DecisionRival, PendingDecision

from belated.core import checks
from belated.core.arrays import Bools, Floats
from belated.linear.choice import Choice
from belated.linear.reward import Reward

Method = Literal["bootstrap", "exponential"]
METHODS = ("bootstrap", "exponential")
DRAWS, STEPS, GROWTH = 64, 30, 1.1


def to_come(p: Floats, survival: Floats) -> Floats:
    """The probability that a silent decision is a success to come."""
    weight: Floats = p * survival / np.maximum(1.0 - p + p * survival, 1e-12)
    return weight


def weighted_survival(delays: Floats, ages: Floats, weights: Floats, at: Floats) -> Floats:
    """Kaplan-Meier S(at): successes with their delays, and silent decisions, weighted, by age."""
    times, counts = np.unique(delays, return_counts=True)
    later = np.sort(delays)
    order = np.argsort(ages)
    mass = np.append(0.0, np.cumsum(weights[order]))
    risk = len(later) - np.searchsorted(later, times)
    risk = risk + mass[-1] - mass[np.searchsorted(ages[order], times)]
    steps = np.cumprod(1.0 - counts / np.maximum(risk, 1e-12))
    found: Floats = np.append(1.0, steps)[np.searchsorted(times, at, side="right")]
    return found


class DelayEM(DecisionRival):
    """Expectation maximisation for silent decisions; see above.

    Args:
        problem: a choice with listed actions.
        method: "bootstrap" or "exponential".
        samples: the number of bootstrap samples.
        lam: the ridge of the regression.
        bits: the number of features that form cells, for "exponential".
        seed: the seed of the draws.
    """

    def __init__(
        self,
        problem: Choice,
        *,
        method: Method = "bootstrap",
        samples: int = 20,
        lam: float = 1.0,
        bits: int = 3,
        seed: int = 0,
    ) -> None:
        super().__init__(problem, seed=seed, method=method, samples=samples, lam=lam, bits=bits)
        if problem.actions is None:
            raise ValueError("problem must list its actions for DelayEM, got one that varies")
        self._method = checks.choice("method", method, METHODS)
        self._samples = checks.integer("samples", samples, 1)
        self._lam = checks.real("lam", lam, 0.0, above=True)
        self._bits = min(checks.integer("bits", bits, 0), problem.width)
        self._actions = problem.actions
        self._x: list[Floats] = []
        self._played: list[int] = []
        self._delays: dict[int, float] = {}
        self._next = 20.0
        d, cells = problem.width + 1, 2**self._bits
        self._theta = np.zeros((self._samples, self._actions, d))
        self._counts = np.ones((2, cells, self._actions))  # successes and failures
        self._fitted = False

    def _note(self, number: int, entry: PendingDecision) -> None:
        self._x.append(entry.features)
        self._played.append(entry.action)
        self._open[number] = entry

    def observe(self, records: list[Reward], now: float | None = None) -> None:  # type: ignore[override]
        """Note delays of successes, and fit anew if enough has come."""
        batch = list(records)
        super().observe(batch, now)
        for record in batch:
            if record.value != 0.0:
                self._delays.setdefault(record.episode, float(self.begun - record.episode))
        if self.begun >= self._next and self._delays:
            self._next = GROWTH * self.begun
            self._fit()

    def _learn(self, features: Floats, action: int, outcome: float, weight: float) -> None:
        """Nothing: the log is fitted as a whole."""

    def _columns(self) -> tuple[Floats, Floats, Bools, Floats]:
        """Features, actions, whether a success came, and delays or ages."""
        n = len(self._x)
        came = np.zeros(n, dtype=bool)
        time = self.begun - np.arange(n, dtype=float)
        for number, delay in self._delays.items():
            came[number], time[number] = True, delay
        return np.array(self._x), np.array(self._played), came, time

    def _fit(self) -> None:
        x, played, came, time = self._columns()
        n = len(x)
        self._fitted = True
        if self._method == "exponential":
            self._counts = self._exponential(x, played, came, time)
            return
        p, w = np.full(n, came.mean()), np.where(came, 1.0, came.mean())
        for _ in range(STEPS):
            p, w, _ = self._step(x, played, came, time, p, w)
        for b in range(self._samples):
            at = self._rng.integers(0, n, n)
            if came[at].any():
                given = (column[at] for column in (x, played, came, time, p, w))
                self._theta[b] = self._step(*given)[2]

    def _step(
        self, x: Floats, played: Floats, came: Bools, time: Floats, p: Floats, w: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """One step of both: predictions, weights (n,) and coefficients (A, d)."""
        survival = weighted_survival(time[came], time[~came], w[~came], time)
        w = np.where(came, 1.0, to_come(p, survival))
        theta, d = np.zeros((self._actions, x.shape[1])), x.shape[1]
        mean = w.mean()
        for a in range(self._actions):
            mine = played == a
            V = self._lam * np.eye(d) + x[mine].T @ x[mine]
            theta[a] = np.linalg.solve(V, x[mine].T @ (w[mine] - mean))
        theta[:, -1] += mean
        return np.clip((x * theta[played]).sum(axis=1), 1e-4, 0.99), w, theta

    def _exponential(self, x: Floats, played: Floats, came: Bools, time: Floats) -> Floats:
        """Successes and failures (2, cells, A) after some steps."""
        cells = self._cells(x)
        counts = np.ones((2, 2**self._bits, self._actions))
        for a in range(self._actions):
            hazard = 1.0 / max(time[came].mean() if came.any() else 1.0, 1.0)
            for cell in range(2**self._bits):
                mine = (played == a) & (cells == cell)
                n, hits, ages = mine.sum(), came & mine, time[mine & ~came]
                p = (hits.sum() + 1.0) / (n + 2.0)
                for _ in range(STEPS):
                    w = to_come(np.full(len(ages), p), np.exp(-hazard * ages))
                    p = (hits.sum() + w.sum() + 1.0) / (n + 2.0)
                    if hits.any():
                        hazard = hits.sum() / (time[hits].sum() + (w * ages).sum())
                counts[:, cell, a] += hits.sum() + w.sum(), n - hits.sum() - w.sum()
        return counts

    def _cells(self, x: Floats) -> Floats:
        """The sign pattern of the first features, (n,)."""
        signs: Floats = (x[:, : self._bits] > 0.0) @ (2 ** np.arange(self._bits))
        return signs

    def _probabilities(self, rows: Floats) -> Floats:
        A = len(rows)
        if not self._fitted:
            return np.full(A, 1.0 / A)
        if self._method == "exponential":
            wins, fails = self._counts[:, int(self._cells(rows[:1])[0])]
            drawn = self._rng.beta(wins, fails, size=(DRAWS, A))
        else:
            drawn = np.einsum("bad,ad->ba", self._theta, rows)
        return np.bincount(drawn.argmax(axis=1), minlength=A) / len(drawn)
