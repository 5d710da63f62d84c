"""Thompson sampling: Thompson (1933); Chapelle & Li (2011) under delays.

    means     Beta(1 + total cost, 1 + plays - total cost), from the observed plays
    policy    the arm with the smallest of one draw per arm, drawn anew for every episode

Costs between 0 and 1 count as a fraction of a success. The draws of an episode depend only on the
seed and the episode number.
"""

from belated.core import checks
from belated.core.arrays import Floats
from belated.core.episodes import Learner, Open, generator
from belated.tabular.parts.costs import RunningMeans
from belated.tabular.policies import greedy
from belated.tabular.problem import Problem, check_arms


class ThompsonSampling(Learner[bool]):
    """The best arm of a draw from the posterior.

    Args:
        problem: one state and one step.
        seed: the seed of the draws, from 0 to 2**63 - 1.

    Example:
        >>> world = bl.environments.bandit([0.2, 0.5, 0.7])
        >>> agent = bl.ThompsonSampling(world.problem, seed=1)
        >>> bl.simulate(world, agent, delays=bl.delays.fixed(5), episodes=300).score > 0.5
        False
    """

    _means: RunningMeans

    def __init__(self, problem: Problem, *, seed: int = 0) -> None:
        check_arms("ThompsonSampling", problem)
        super().__init__(problem, seed=checks.integer("seed", seed, 0, 2**63 - 1))
        self._means = RunningMeans(problem, 1)

    def _next_policy(self) -> tuple[Floats, bool]:
        rng = generator(self.seed, self.begun)
        sums, plays = self._means.sums, self._means.visits
        return greedy(rng.beta(1.0 + sums, 1.0 + plays - sums)), True

    def _learn(self, entry: Open[bool]) -> None:
        self._means.add(entry.path, entry.costs.values)
