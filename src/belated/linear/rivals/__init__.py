"""What people would otherwise use for decisions with features, fed late outcomes as they do.

They are here to be compared with. None of them can be saved.
"""

from belated.linear.rivals.otf_lin_ucb import OTFLinUCB
from belated.linear.rivals.ridge import RidgeRival
from belated.linear.rivals.thompson_by_hand import ThompsonByHand
from belated.linear.rivals.vowpal_wabbit import VowpalWabbit

__all__ = ["OTFLinUCB", "RidgeRival", "ThompsonByHand", "VowpalWabbit"]
