"""What people would otherwise use, each fed late feedback the obvious way: when it arrives.

None of these methods knows of delays. They are here to be compared with; `lab.kinds.rivals` makes
them for an experiment.
"""

from belated.lab.rivals.actor_critic import ActorCritic
from belated.lab.rivals.exp3 import Exp3
from belated.lab.rivals.poold import Poold
from belated.lab.rivals.posterior_sampling import PosteriorSampling
from belated.lab.rivals.q_learning import QLearning
from belated.lab.rivals.thompson_sampling import ThompsonSampling
from belated.lab.rivals.ucb1 import UCB1

__all__ = [
    "UCB1",
    "ActorCritic",
    "Exp3",
    "Poold",
    "PosteriorSampling",
    "QLearning",
    "ThompsonSampling",
]
