"""From the data of an experiment to its objects: worlds, delays and agents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from belated import config as kinds
from belated.config.briefing import Told
from belated.config.build import make
from belated.core import checks
from belated.core.arrays import Ints
from belated.core.contract import Agent, check_fresh
from belated.lab.spec import Experiment, Learner, Scene
from belated.simulation import delays_in
from belated.tabular.world import World


def world(scene: Scene) -> World:
    """The world of a scene, the same for every agent and seed."""
    made: World = make("environment", scene.environment, kinds.ENVIRONMENTS)
    checks.instance("environment", made, World)
    if scene.costs is None:
        return made
    return World(made.mdp, make("costs", scene.costs, kinds.COSTS, made))


def delays(scene: Scene, world: World, seed: int) -> Ints:
    """The delays (K,) of a seed, as `simulate` draws them; the same for every agent."""
    model = make("delays", scene.delays, kinds.DELAYS)
    if not hasattr(model, "draw"):
        raise ValueError(f"delays must be a delay model, got {checks.show(model)}")
    return delays_in(world, model, scene.episodes, seed)


def agent(
    experiment: Experiment,
    learner: Learner,
    world: World,
    delays: Ints,
    case: str = "",
    seed: int = 0,
) -> Agent:
    """A fresh agent for a world and delays (K,), those of a case and a seed."""
    told = Told(
        world.problem,
        experiment.information_of(learner, case),
        experiment.paths_of(learner),
        world.mdp.transitions,
        delays,
        seed=seed,
    )
    base = experiment.base(learner.name)
    key = f"agents[{[item.name for item in experiment.agents].index(base)}]"
    made: Agent = make(key, learner.agent, kinds.AGENTS, told)
    check_fresh(key, made)
    if made.information != told.information:
        raise ValueError(
            f"{key} must be an agent for information = {told.information!r}, as the file says, "
            f"got one for {checks.show(made.information)}"
        )
    return made


def rehearse(experiment: Experiment, source: str = "") -> None:
    """Build everything once, so that a wrong value is found before anything is run.

    source: the file that the experiment is from, to be named in errors.
    """
    for case in experiment.case_names():
        with _in(source), _in(f"case {case!r}" if case else ""):
            _rehearse(experiment, case)


def _rehearse(experiment: Experiment, case: str) -> None:
    scene = experiment.scene(case)
    made = world(scene)
    H, S, A = made.problem.shape
    checks.costs("costs of episode 0", made.costs.seeded(0).at(0), H, S, A)
    drawn = delays(scene, made, 0)
    for learner in experiment.learners_of(case):
        swept = learner.name != experiment.base(learner.name)
        with _in(f"sweep, {learner.name!r}" if swept else ""):
            agent(experiment, learner, made, drawn, case)


@contextlib.contextmanager
def _in(place: str) -> Iterator[None]:
    """Prefix errors with the place, if it has a name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}" if place else str(error)) from None
