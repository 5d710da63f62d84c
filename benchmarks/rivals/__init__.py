"""Other people's methods, as agents, and their kinds: `kind = "benchmarks.rivals:q_learning"`.

Each learns from feedback when it arrives; of these, `DelayEM` alone takes delays into account.
"""

from benchmarks.rivals.actor_critic import ActorCritic
from benchmarks.rivals.delay_em import DelayEM
from benchmarks.rivals.dilated_bonus import DilatedBonus
from benchmarks.rivals.exp3 import Exp3
from benchmarks.rivals.follow_the_leader import FollowTheLeader
from benchmarks.rivals.otf_lin_ucb import OTFLinUCB
from benchmarks.rivals.poold import Poold
from benchmarks.rivals.q_learning import QLearning
from benchmarks.rivals.ridge import RidgeRival
from benchmarks.rivals.thompson_by_hand import ThompsonByHand
from benchmarks.rivals.ucb1 import UCB1
from benchmarks.rivals.vowpal_wabbit import VowpalWabbit

from belated.config.agents import from_constructor

actor_critic = from_constructor(ActorCritic)
dilated_bonus = from_constructor(DilatedBonus)
exp3 = from_constructor(Exp3)
follow_the_leader = from_constructor(FollowTheLeader)
poold = from_constructor(Poold)
q_learning = from_constructor(QLearning)
ucb1 = from_constructor(UCB1)

# for decisions with features
delay_em = from_constructor(DelayEM)
otf_lin_ucb = from_constructor(OTFLinUCB)
ridge = from_constructor(RidgeRival, "silence")
thompson_by_hand = from_constructor(ThompsonByHand)
vowpal_wabbit = from_constructor(VowpalWabbit, "silence")

__all__ = [
    "UCB1",
    "ActorCritic",
    "DelayEM",
    "DilatedBonus",
    "Exp3",
    "FollowTheLeader",
    "OTFLinUCB",
    "Poold",
    "QLearning",
    "RidgeRival",
    "ThompsonByHand",
    "VowpalWabbit",
]
