"""Posterior sampling, with tables for MDPs and for arms; neither takes delays into account."""
