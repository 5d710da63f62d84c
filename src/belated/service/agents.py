"""Agents of a service, by the kinds of the lab.

A service knows the problem and the information. It knows neither the true transitions nor future
delays, so kinds that need them are refused.
"""

from __future__ import annotations

from typing import Any, NoReturn

from belated.config import AGENTS, DECIDERS
from belated.config.part import Part
from belated.config.registry import Registry, make
from belated.core import saving
from belated.core.contract import Agent, Information, check_fresh


class Served:
    """What an agent of a service knows, in place of `RunBrief`."""

    paths = "late"
    tuned = None

    def __init__(self, problem: Any, information: Information) -> None:
        self.problem = problem
        self.information = information

    def largest(self, max_delay: Any) -> Any:
        """A largest delay, which must be a number."""
        return self.said("max_delay", max_delay) if isinstance(max_delay, str) else max_delay

    def said(self, name: str, word: str) -> NoReturn:
        """Raise: a word in place of a number is not allowed."""
        self._unknown(name)

    def undelayed(self, episodes: int) -> Served:
        """The same: a service knows no delays."""
        return self

    def __getattr__(self, name: str) -> NoReturn:
        """Transitions, delays and the number of episodes are not known."""
        if name.startswith("__"):
            raise AttributeError(name)
        self._unknown(name)

    def _unknown(self, name: str) -> NoReturn:
        raise ValueError(f"a service does not know {name}; give a number or another kind")


def registry(problem: Any) -> Registry:
    """The kinds of agents for a problem."""
    return DECIDERS if problem.states is None else AGENTS


def usual(problem: Any) -> str:
    """The default kind of agent."""
    return "linear_sampler" if problem.states is None else "recommended"


def made(key: str, part: Part, problem: Any, information: Information) -> Agent:
    """A fresh agent that can be saved. key: its place in the file."""
    told: Any = problem if problem.states is None else Served(problem, information)
    agent: Agent = make(key, part, registry(problem), told)
    check_fresh(key, agent)
    _check_fits(key, agent, problem, information)
    try:
        saving.to_bytes(agent)
    except ValueError as error:
        raise ValueError(f"{key} must be an agent that can be saved: {error}") from None
    return agent


def loaded(key: str, path: str, problem: Any, information: Information) -> Agent:
    """The agent in a file of `belated.save`."""
    agent = saving.load(path)
    _check_fits(key, agent, problem, information)
    waiting = agent.open_episodes()
    if waiting:
        raise ValueError(
            f"{key} must be an agent without open episodes (forget them first), got one with "
            f"{len(waiting)}, the oldest being {waiting[0]}"
        )
    return agent


def _check_fits(key: str, agent: Agent, problem: Any, information: Information) -> None:
    if (agent.problem, agent.information) != (problem, information):
        raise ValueError(
            f"{key} must be an agent for {problem} and information = {information!r}, "
            f"got one for {agent.problem} and {agent.information!r}"
        )
