"""Tuning of the algorithms: the common base of the rows in the papers' tables.

Every algorithm has its own rows beside its code: a `Setting` has the step size, the exploration,
the skipping threshold and the regret bound, and states whether the bound is proved. If K and D are
known, `Setting.at` returns the parameters for N = kappa K + D; otherwise `Doubling` uses
`Setting.phase` at N = 2^e in phase e.

    row                                   kappa      eta                 gamma     beta
    oppo_tuning.FullInformation:
      known transitions                   1          1 / (H sqrt N)      -         never skip
      unknown, paths at once              1          1 / (H sqrt N)      -         never skip
      unknown, paths late                 1          1 / (H sqrt N)      -         sqrt(D / (H S))
      the same, in order                  1          1 / (H sqrt N)      -         never skip
    oppo_tuning.BanditFeedback:
      known transitions                   A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
      unknown, paths at once              A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
      unknown, paths late                 A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt(D / (H S A))
    oppo_tuning.Stochastic, ucbvi         1          1 / (H sqrt N)      -         sqrt(D / (H S))
    oppo_tuning.Arms                      A          sqrt(ln A / N)      0         never skip
    oreps.agent                           1          sqrt(2 ln(SA) / N)  -         never skip
    dapo, known transitions               1+SA/H^2   1 / (H^2 sqrt N)    2 eta H   sqrt(D) / H
    dapo, unknown                         1+SA/H^2   1 / (H sqrt N)      2 eta H   sqrt(D/A) / (H S)
    oreps.ftrl                            SA         sqrt(ln(H N) / N)   -         never skip
    oreps.uob                             B / H      sqrt(l / (B N))     eta       never skip

with B = sqrt(X A), X = 2 + (H - 1) S the states of all steps, and l = ln(H X A / delta) at
delta = 0.1.

The two thresholds sqrt(D / (H S)) are for explicit exploration (`explores`). Without it the term of
the largest delay has an additional factor A, and the threshold is sqrt(D / (H S A)).

Lancewicki, Rosenberg & Mansour (AAAI 2022), Corollary on skipping and the doubling algorithm.
Departures: the threshold is beta = sqrt D in the first two bandit rows, as in the doubling
pseudo-code; the Corollary has sqrt(D / (H S)), which has the same rate. Only the "bandit, known"
row of the doubling table is printed; the other rows follow from the requirements of its proof.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from belated.core import checks
from belated.core.contract import PATHS
from belated.tabular.problem import Problem

DYNAMICS = ("known", "unknown")
"""Whether the transitions are known."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of an algorithm.

    Attributes:
        learning_rate: the step size eta.
        exploration: gamma; None if costs are not importance-weighted.
        threshold: beta, the delay beyond which feedback is skipped; infinity skips nothing.
        barrier: eta / gamma of FTRL as printed; None: the agent's own value.

    Example:
        >>> bl.tuning.Parameters(learning_rate=0.1, exploration=None, threshold=4.0).barrier
    """

    learning_rate: float
    exploration: float | None
    threshold: float
    barrier: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(ABC):
    """A row of the table above: one algorithm in one setting.

    Attributes:
        paths: whether trajectories arrive "late", with the costs, or "at once".

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> setting: bl.tuning.Setting = bl.DelayedOPPO(problem).setting('late')
        >>> setting.useful_from(problem) > 1000
        False
    """

    paths: str = "late"

    @property
    def proved(self) -> bool:
        """Whether the bound is proved, by the paper or us, for these parameters and all delays."""
        return True

    @property
    def exact(self) -> bool:
        """Whether `bound` includes its constants; otherwise it has the leading terms only."""
        return False

    def __post_init__(self) -> None:
        checks.choice("paths", self.paths, PATHS)

    def weight(self, problem: Problem) -> float:
        """Kappa: the weight of an episode relative to a missing one."""
        return 1.0

    @abstractmethod
    def rate(self, problem: Problem, N: float) -> float:
        """The step size eta for N = kappa K + D."""

    def exploration(self, problem: Problem, N: float) -> float | None:
        """Gamma; None if costs are not importance-weighted."""
        return None

    def threshold(self, problem: Problem, D: float) -> float:
        """Beta, the delay beyond which feedback is skipped, for a total delay D."""
        return math.inf

    @abstractmethod
    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound for K episodes and a total delay D, at the best threshold.

        If only a rate is known, constants, logarithms and terms of lower order are omitted. The
        bound does not need the paper's assumption S >= max(A, H^2). Infinity: no bound is known.
        See `exact` and `proved`.
        """

    def at(self, problem: Problem, episodes: int, total_delay: float = 0.0) -> Parameters:
        """The parameters for known K and D."""
        K, D = self._checked(problem, episodes, total_delay)
        return self._parameters(problem, self.weight(problem) * K + self._counted(D), D)

    def phase(self, problem: Problem, N: float) -> Parameters:
        """The parameters of a phase in which kappa K + D is at most N."""
        return self._parameters(problem, N, N)

    def useful_from(self, problem: Problem, mean_delay: float = 0.0) -> int:
        """The smallest K from which the bound, with D = mean_delay K, is below H K."""

        def useful(K: int) -> bool:
            return self.bound(problem, K, mean_delay * K) < problem.horizon * K

        high = 1
        while not useful(high):
            if high > 2**62:
                return high
            high *= 2
        low = high // 2  # not useful, or 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if useful(middle) else (middle, high)
        return high

    def _checked(self, problem: Problem, episodes: int, total_delay: float) -> tuple[int, float]:
        """K and D."""
        checks.instance("problem", problem, Problem)
        K = checks.integer("episodes", episodes, 1, checks.MOST)
        return K, checks.real("total_delay", total_delay, 0.0)

    def _counted(self, D: float) -> float:
        """The term of a known total delay in N."""
        return D

    def _parameters(self, problem: Problem, N: float, D: float) -> Parameters:
        return Parameters(
            self.rate(problem, N), self.exploration(problem, N), self.threshold(problem, D)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicsSetting(Setting):
    """A row that depends on whether the transitions are known.

    Attributes:
        dynamics: "known" or "unknown".
    """

    dynamics: str = "unknown"

    def __post_init__(self) -> None:
        super(DynamicsSetting, self).__post_init__()
        checks.choice("dynamics", self.dynamics, DYNAMICS)


def both(tuned: Parameters) -> dict[str, float]:
    """Learning rate and exploration, as arguments of an agent."""
    return {"learning_rate": tuned.learning_rate, "exploration": tuned.exploration or 0.0}


def rare_rows(problem: Problem, explores: bool) -> int:
    """The number of states, or rows (s, a), whose first visits must be observed."""
    return problem.states if explores else problem.states * problem.actions


def exploration_threshold(problem: Problem, max_delay: float, delta: float = 0.1) -> float:
    """Explicit exploration: more than 2 d_max ln(H S A / delta) visits must have been observed.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> round(bl.tuning.exploration_threshold(problem, max_delay=10))
        110
    """
    checks.instance("problem", problem, Problem)
    max_delay = checks.real("max_delay", max_delay, 0.0)
    delta = checks.real("delta", delta, 0.0, 1.0, above=True)
    rows = problem.horizon * problem.states * problem.actions
    return 2.0 * max_delay * math.log(rows / delta)
