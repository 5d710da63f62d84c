"""Posterior sampling, with tables for MDPs and for arms; neither takes delays into account."""

from belated.tabular.rivals.posterior_sampling import PosteriorSampling
from belated.tabular.rivals.thompson_sampling import ThompsonSampling

__all__ = ["PosteriorSampling", "ThompsonSampling"]
