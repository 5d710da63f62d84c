"""OTFLinUCB: Vernade, Carpentier, Lattimore, Zappella, Ermis & Brückner (ICML 2020), Algorithm 1.

    paper       here
    m           window
    A_t         the features of the chosen action, in the block of its model
    V_t, B_t    inverse, moments; B_t adds A_s when its outcome arrives within m rounds
    f_{t,d}     sqrt(lam) + sqrt(2 log(1/delta) + d log((d lam + t) / (d lam)))
    a_{t,d}     scale * (2 f + sum over the last m decisions of |A_s| as it was when s was played)

The sum uses the norms under V_s, as the paper's "improved computation complexity" does. Departures:
`scale` multiplies the width, which the paper's constants make too large for some thousand rounds
(1 is the paper); features are not rescaled to norm 1; with a model per action the blocks are
independent, and d is the length of all of them together.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from benchmarks.rivals.decisions import DecisionRival, greedy
from benchmarks.rivals.ridge import Regression

from belated.core import checks
from belated.core.arrays import Floats
from belated.linear.choice import Choice


class OTFLinUCB(DecisionRival):
    """Optimism with a window for late outcomes; silence counts as 0 at once.

    Args:
        problem: the choice.
        window: m, in decisions; later outcomes are ignored.
        delta: the probability that the bound fails.
        lam: the ridge.
        scale: factor on the width; 1 is the paper.
        seed: the seed of the draws among ties.
    """

    def __init__(
        self,
        problem: Choice,
        *,
        window: int = 200,
        delta: float = 0.1,
        lam: float = 1.0,
        scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(problem, join="at once", seed=seed, delta=delta, lam=lam, scale=scale)
        self._arguments["window"] = self._m = checks.integer("window", window, 1)
        self._delta = checks.real("delta", delta, 0.0, 1.0, above=True)
        self._lam = checks.real("lam", lam, 0.0, above=True)
        self._scale = checks.real("scale", scale, 0.0)
        d = problem.width + (0 if problem.shared else 1)
        self._models = 1 if problem.shared else int(problem.actions or 1)
        self._length = d * self._models
        self._fit = Regression(self._models, d, self._lam)
        self._norms: deque[float] = deque(maxlen=self._m)

    def _probabilities(self, rows: Floats) -> Floats:
        while self._open and (oldest := next(iter(self._open))) < self.begun - self._m:
            del self._open[oldest]
        models = np.zeros(len(rows), dtype=int) if self._models == 1 else np.arange(len(rows))
        means, widths = self._fit.predict(models, rows)
        d = self._length
        inside = 2.0 * math.log(1.0 / self._delta)
        inside += d * math.log((d * self._lam + self.begun) / (d * self._lam))
        f = math.sqrt(self._lam) + math.sqrt(inside)
        return greedy(means + self._scale * (2.0 * f + sum(self._norms)) * widths)

    def _learn(self, features: Floats, action: int, outcome: float, weight: float) -> None:
        model = 0 if self._models == 1 else action
        if weight > 0.0:
            norm = float(features @ self._fit.inverse[model] @ features)
            self._norms.append(math.sqrt(max(norm, 0.0)))
        self._fit.add(model, features, outcome, weight)
