"""The kinds of agents and their parts that a file may name, in one registry per sort."""

from belated.config.agents import AGENTS, DECIDERS, PARTS

__all__ = ["AGENTS", "DECIDERS", "PARTS"]
