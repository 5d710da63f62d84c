"""Standard algorithms for comparison; each learns from feedback when it arrives.

None of these methods takes delays into account.
"""

from belated.tabular.rivals.actor_critic import ActorCritic
from belated.tabular.rivals.exp3 import Exp3
from belated.tabular.rivals.posterior_sampling import PosteriorSampling
from belated.tabular.rivals.q_learning import QLearning
from belated.tabular.rivals.thompson_sampling import ThompsonSampling
from belated.tabular.rivals.ucb1 import UCB1

__all__ = [
    "UCB1",
    "ActorCritic",
    "Exp3",
    "PosteriorSampling",
    "QLearning",
    "ThompsonSampling",
]
