"""The rows of tuning of Delayed OPPO; `tuning` has the table.

Lancewicki, Rosenberg & Mansour (AAAI 2022), Corollary on skipping and the doubling algorithm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from belated.core import checks
from belated.tabular.problem import Problem
from belated.tabular.tuning import DynamicsSetting, Setting, both, rare_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class FullInformation(DynamicsSetting):
    """The feedback of an episode is its whole cost function.

    Attributes:
        explores: whether play is uniform in states with few observed visits (`FewVisits`).
        in_order: whether feedback arrives in the order of the episodes. Late paths are then as good
            as paths at once: when the costs of an episode arrive, all earlier paths have arrived.

    Example:
        >>> bl.tuning.FullInformation().proved
        True
    """

    explores: bool = False
    in_order: bool = False

    def __post_init__(self) -> None:
        super(FullInformation, self).__post_init__()
        checks.flag("explores", self.explores)
        checks.flag("in_order", self.in_order)

    @property
    def exact(self) -> bool:
        """Whether the bound includes its constants: with known transitions it does."""
        return self.dynamics == "known"

    @property
    def _late(self) -> bool:
        """Whether a confidence set is made from counts that lag behind."""
        return self.dynamics == "unknown" and self.paths == "late" and not self.in_order

    def rate(self, problem: Problem, N: float) -> float:
        """1 / (H sqrt N)."""
        return 1.0 / (problem.horizon * math.sqrt(N))

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
class BanditFeedback(DynamicsSetting):
    """The feedback is the suffered costs only, and costs are arbitrary.

    Feedback in order does not help here, since an episode is weighted with the counts at its start.

    Example:
        >>> bl.tuning.BanditFeedback().proved
        True
    """

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

    @property
    def exact(self) -> bool:
        """True: the bound includes its constants."""
        return True

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

    explores: bool = False

    @property
    def proved(self) -> bool:
        """False: no proof has been published."""
        return False

    def __post_init__(self) -> None:
        super(Stochastic, self).__post_init__()
        checks.flag("explores", self.explores)

    def rate(self, problem: Problem, N: float) -> float:
        """1 / (H sqrt N)."""
        return 1.0 / (problem.horizon * math.sqrt(N))

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
