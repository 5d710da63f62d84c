"""Policy optimization with dilated bonuses: bandit feedback without delay.

Luo, Wei & Lee (NeurIPS 2021), "Policy optimization in adversarial MDPs: improved exploration via
dilated bonuses". The paper was not available. This is a reconstruction from two papers that restate
it: Lancewicki, Rosenberg & Sotnikov (ICML 2023, page 4) for the bonus with known transitions and
Chen, Luo & Rosenberg (COLT 2022, section 5), who adapt it to shortest paths.

It is `DAPO` with two changes:

    6  b_h(s) = sum over a of pi (3 gamma H + H (upper - lower)) / (q_h(s) pi + gamma)
    7  B_h(s, a) = b_h(s) + (1 + 1 / H) sum over s', a' of p(s' | s, a) pi(a' | s') B_{h+1}(s', a')

Departures: counts are used in every episode; Luo et al. use them in epochs. If feedback is late,
the ratio of `DAPO` is used, and no bound is claimed.
"""

from __future__ import annotations

import numpy as np

from belated.core.arrays import Floats
from belated.saving import register
from belated.tabular.counts import ConfidenceSet
from belated.tabular.dapo import DAPO


@register
class DilatedBonus(DAPO):
    """Policy optimization with dilated bonuses, for copies in `Parallel` or `Bold`.

    Args:
        problem: states, actions, horizon, start, and whether the dynamics are homogeneous.
        transitions: the true `Transitions`; None if they are unknown.
        learning_rate: eta; `tuning.dapo` with no delay suggests both rates.
        exploration: gamma; None: 2 eta H.
        episodes: K, in the radius of unknown transitions; None: a radius for any number.
        delta: the probability that the confidence set of unknown transitions fails.
        scale: factor on the learning rates of `Doubling`.
    """

    _gap = 1.0

    def _subtract(
        self, bonus: Floats, policy: Floats, chosen: ConfidenceSet | None, total: Floats
    ) -> None:
        """With f = 1 + 1 / H, f^h B_h is the plain Q-function of the bonuses f^h b_h."""
        H = self.problem.horizon
        powers: Floats = np.power(1.0 + 1.0 / H, np.arange(H, dtype=np.float64))[:, None, None]
        scaled = np.zeros(total.shape)
        super()._subtract(bonus * powers, policy, chosen, scaled)
        total += scaled / powers
