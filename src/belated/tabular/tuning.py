"""Tuning of the algorithms: the rows in the papers' tables.

The rows of Delayed OPPO are here, those of the other algorithms beside their code. A `Setting` has
the step size, the exploration, the skipping threshold and the regret bound, and states whether the
bound is proved. If K and D are known, `Setting.at` returns the parameters for N = kappa K + D;
otherwise `Doubling` uses `Setting.phase` at N = 2^e in phase e.

    row                                   kappa      eta                 gamma     beta
    FullInformation:
      known transitions                   1          1 / (H sqrt N)      -         never skip
      unknown, paths at once              1          1 / (H sqrt N)      -         never skip
      unknown, paths late                 1          1 / (H sqrt N)      -         sqrt(D / (H S))
      the same, in order                  1          1 / (H sqrt N)      -         never skip
    BanditFeedback:
      known transitions                   A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
      unknown, paths at once              A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt D
      unknown, paths late                 A^{3/2}    1 / (H N^{2/3})     N^{-1/3}  sqrt(D / (H S A))
    Stochastic, ucbvi                     1          1 / (H sqrt N)      -         sqrt(D / (H S))
    Arms                                  A          sqrt(ln A / N)      0         never skip
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
from bisect import bisect_left
from dataclasses import dataclass, fields
from typing import ClassVar

from belated.core import checks
from belated.core.contract import PATHS
from belated.tabular.problem import Problem

CHOICES = {"paths": PATHS, "dynamics": ("known", "unknown")}
"""When trajectories arrive, and whether the transitions are known; other fields are flags."""
LEAST_EXPLORATION = 1e-100
"""The smallest exploration for which no sum of importance-weighted costs overflows."""


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
        delay_weight: the weight of a known total delay in N.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> setting: bl.tuning.Setting = bl.DelayedOPPO(problem).setting('late')
        >>> setting.useful_from(problem) > 1000
        False
    """

    paths: str = "late"
    delay_weight: ClassVar[float] = 1.0

    @property
    def proved(self) -> bool:
        """Whether the bound is proved, by the paper or us, for these parameters and all delays."""
        return True

    @property
    def exact(self) -> bool:
        """Whether `bound` includes its constants; otherwise it has the leading terms only."""
        return False

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in CHOICES:
                checks.choice(each.name, value, CHOICES[each.name])
            else:
                checks.flag(each.name, value)

    def weight(self, problem: Problem) -> float:
        """Kappa: the weight of an episode relative to a missing one."""
        return 1.0

    def rate(self, problem: Problem, N: float) -> float:
        """The step size eta for N = kappa K + D; here 1 / (H sqrt N)."""
        return 1.0 / (problem.horizon * math.sqrt(N))

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
        K, D = self._totals(problem, episodes, total_delay)
        return self._parameters(problem, self.weight(problem) * K + self.delay_weight * D, D)

    def phase(self, problem: Problem, N: float) -> Parameters:
        """The parameters of a phase in which kappa K + D is at most N."""
        return self._parameters(problem, N, N)

    def useful_from(self, problem: Problem, mean_delay: float = 0.0) -> int:
        """The smallest K from which the bound, with D = mean_delay K, is below H K."""

        def useful(K: int) -> bool:
            return self.bound(problem, K, mean_delay * K) < problem.horizon * K

        return 1 + bisect_left(range(1, 2**63), True, key=useful)

    def _totals(self, problem: Problem, episodes: int, total_delay: float) -> tuple[int, float]:
        """K and D."""
        checks.instance("problem", problem, Problem)
        K = checks.integer("episodes", episodes, 1, checks.MOST)
        return K, checks.real("total_delay", total_delay, 0.0)

    def _parameters(self, problem: Problem, N: float, D: float) -> Parameters:
        return Parameters(
            self.rate(problem, N), self.exploration(problem, N), self.threshold(problem, D)
        )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FullInformation(Setting):
    """The feedback of an episode is its whole cost function.

    Attributes:
        dynamics: whether the transitions are "known" or "unknown".
        explores: whether play is uniform in states with few observed visits (`FewVisits`).
        in_order: whether feedback arrives in the order of the episodes. Late paths are then as good
            as paths at once: when the costs of an episode arrive, all earlier paths have arrived.

    Example:
        >>> bl.tuning.FullInformation().proved
        True
    """

    dynamics: str = "unknown"
    explores: bool = False
    in_order: bool = False

    @property
    def exact(self) -> bool:
        """Whether the bound includes its constants: with known transitions it does."""
        return self.dynamics == "known"

    @property
    def _late(self) -> bool:
        """Whether a confidence set is made from counts that lag behind."""
        return self.dynamics == "unknown" and self.paths == "late" and not self.in_order

    def threshold(self, problem: Problem, D: float) -> float:
        """For late paths sqrt(D / (H S)), or without explicit exploration sqrt(D / (H S A))."""
        if not self._late:
            return math.inf
        return math.sqrt(D / (problem.horizon * rare_rows(problem, self.explores)))

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        K, D = episodes, total_delay
        if self.dynamics == "known":
            return H * (H + 1) * math.sqrt(2.0 * math.log(A) * (K + D))
        if not self._late:
            return math.pow(H, 1.5) * S * math.sqrt(A * K) + H * H * math.sqrt(K + D)
        late = rare_rows(problem, self.explores) * self.threshold(problem, D)
        return H * H * (S * math.sqrt(A * K) + math.sqrt(D) + late)


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditFeedback(Setting):
    """The feedback is the suffered costs only, and costs are arbitrary.

    Feedback in order does not help here, since an episode is weighted with the counts at its start.

    Attributes:
        dynamics: whether the transitions are "known" or "unknown".

    Example:
        >>> bl.tuning.BanditFeedback().proved
        True
    """

    dynamics: str = "unknown"

    def weight(self, problem: Problem) -> float:
        """A^{3/2}."""
        return math.pow(problem.actions, 1.5)

    def rate(self, problem: Problem, N: float) -> float:
        """1 / (H N^{2/3})."""
        return 1.0 / (problem.horizon * math.pow(N, 2 / 3))

    def exploration(self, problem: Problem, N: float) -> float:
        """N^{-1/3}."""
        return math.pow(N, -1 / 3)

    def threshold(self, problem: Problem, D: float) -> float:
        """Sqrt D, or sqrt(D / (H S A)) for late paths."""
        H, S, A = problem.shape
        late = self.dynamics == "unknown" and self.paths == "late"
        return math.sqrt(D / (H * S * A)) if late else math.sqrt(D)

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        K, D = episodes, total_delay
        penalty = H * H * (A * math.pow(K, 2 / 3) + math.pow(D, 2 / 3))
        return H * S * math.sqrt(A) * math.pow(K, 2 / 3) + penalty


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms(Setting):
    """Importance-weighted costs of one step from one state: delayed EXP3.

    Example:
        >>> bl.tuning.Arms().proved
        True
    """

    exact: ClassVar[bool] = True

    def weight(self, problem: Problem) -> float:
        """A."""
        return float(problem.actions)

    def rate(self, problem: Problem, N: float) -> float:
        """sqrt(ln A / N)."""
        return math.sqrt(math.log(problem.actions) / N)

    def exploration(self, problem: Problem, N: float) -> float:
        """0: no exploration is needed."""
        return 0.0

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound of the anytime rule."""
        A = problem.actions
        return 2.0 * math.sqrt(2.0 * math.log(A) * (A * episodes + total_delay))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stochastic(Setting):
    """The feedback is the suffered costs, drawn from fixed distributions, which are averaged.

    The paper says in a remark that the bound of full information holds; it is not proved.

    Attributes:
        explores: whether play is uniform in states with few observed visits (`FewVisits`).

    Example:
        >>> bl.tuning.Stochastic().proved
        False
    """

    proved: ClassVar[bool] = False
    explores: bool = False

    def threshold(self, problem: Problem, D: float) -> float:
        """sqrt(D / (H S)), or with S A in place of S without explicit exploration."""
        return math.sqrt(D / (problem.horizon * rare_rows(problem, self.explores)))

    def bound(self, problem: Problem, episodes: float, total_delay: float = 0.0) -> float:
        """The regret bound."""
        H, S, A = problem.shape
        late = rare_rows(problem, self.explores) * self.threshold(problem, total_delay)
        return H * H * (S * math.sqrt(A * episodes) + late + math.sqrt(total_delay))


def oppo_full(
    problem: Problem, episodes: int, total_delay: float = 0.0, *, log_actions: bool = False
) -> dict[str, float]:
    """Delayed OPPO, full information (or averaged costs): eta = 1 / (H sqrt(K + D)).

    log_actions: return the minimiser of the bound H ln(A) / eta + eta H^3 (K + D), which is larger
    by a factor sqrt(ln A).

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> sorted(bl.tuning.oppo_full(problem, episodes=1000, total_delay=5000))
        ['learning_rate']
    """
    rate = FullInformation(dynamics="known").at(problem, episodes, total_delay).learning_rate
    return {"learning_rate": rate * math.sqrt(math.log(problem.actions)) if log_actions else rate}


def oppo_bandit(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed OPPO, bandit feedback: eta = N^{-2/3} / H, gamma = N^{-1/3}, N = A^{3/2} K + D.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> sorted(bl.tuning.oppo_bandit(problem, episodes=1000, total_delay=5000))
        ['exploration', 'learning_rate']
    """
    return both(BanditFeedback(dynamics="known").at(problem, episodes, total_delay))


def exp3(problem: Problem, episodes: int, total_delay: float = 0.0) -> dict[str, float]:
    """Delayed EXP3, one step from one state: eta = sqrt(ln A / (A K + D)), gamma = 0.

    Example:
        >>> problem = bl.Problem(states=3, actions=2, horizon=4)
        >>> sorted(bl.tuning.exp3(problem, episodes=1000, total_delay=5000))
        ['exploration', 'learning_rate']
    """
    return both(Arms().at(problem, episodes, total_delay))
