"""Standard algorithms for decisions with features, with the usual treatments of late outcomes.

They are for comparisons, and cannot be saved.
"""

from belated.linear.rivals.otf_lin_ucb import OTFLinUCB
from belated.linear.rivals.ridge import RidgeRival
from belated.linear.rivals.thompson_by_hand import ThompsonByHand
from belated.linear.rivals.vowpal_wabbit import VowpalWabbit

__all__ = ["OTFLinUCB", "RidgeRival", "ThompsonByHand", "VowpalWabbit"]
