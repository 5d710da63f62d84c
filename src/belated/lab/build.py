"""From the data of an experiment to its objects: worlds, delays and agents.

The seed of a run decides its paths, costs and delays. It also becomes the seed of every agent that
draws and is not given a `seed` of its own, and of whatever says `seed = "run"`; each gets its own
generator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from belated import config as kinds
from belated.config.briefing import Told
from belated.config.build import make
from belated.config.part import Part, as_part
from belated.config.registry import Registry, accepted, is_own
from belated.core import checks
from belated.core.arrays import Ints
from belated.core.contract import Agent, check_fresh
from belated.core.delays import DelayModel
from belated.core.delays.seen import SeeingModel
from belated.core.delays.steps import of_episodes
from belated.core.memory import check_room
from belated.lab.spec import Experiment, Learner, Scene
from belated.linear.world import DecisionWorld
from belated.simulation import check_steps, delays_in, record_bytes
from belated.tabular.world import World

RUN = "run"
"""The value of a parameter `seed` that stands for the seed of the run."""
ENVIRONMENT, COSTS, DELAYS, AGENT = range(3, 7)
"""Which generator of a run gives the seeds of a part; `simulate` uses 0 to 2 itself."""


def world(scene: Scene, seed: int = 0) -> World | DecisionWorld:
    """The world of a scene and a seed, the same for every agent."""
    place = _seeded(scene.environment, kinds.ENVIRONMENTS, _Seeds(seed, ENVIRONMENT))
    made = make("environment", place, kinds.ENVIRONMENTS)
    if isinstance(made, DecisionWorld):
        if scene.costs is not None:
            raise ValueError(f"costs must be left out for decisions, got {scene.costs.kind!r}")
        return made
    checks.instance("environment", made, World)
    if scene.costs is None:
        return made  # type: ignore[no-any-return]
    costs = _seeded(scene.costs, kinds.COSTS, _Seeds(seed, COSTS))
    return World(made.mdp, make("costs", costs, kinds.COSTS, made))


Delays = Ints | DelayModel | SeeingModel | None
"""What `simulate` takes as delays."""


def delays(scene: Scene, world: World | DecisionWorld, seed: int) -> Delays:
    """The delays of a seed, (K,) or (K, H), as `simulate` draws them; the same for every agent.

    A model that looks at what happened is returned itself: its delays depend on the agent. So is
    any model for decisions, of which nobody is told the delays; None is "of_world".
    """
    given = _seeded(scene.delays, kinds.DELAYS, _Seeds(seed, DELAYS))
    model = make("delays", given, kinds.DELAYS)
    if isinstance(model, SeeingModel):
        return model
    if isinstance(world, DecisionWorld) and (model is None or hasattr(model, "draw")):
        return model  # type: ignore[no-any-return]
    if not hasattr(model, "draw"):
        raise ValueError(f"delays must be a delay model, got {checks.show(model)}")
    assert isinstance(world, World)
    return delays_in(world, model, scene.episodes, seed)


def agent(
    experiment: Experiment,
    learner: Learner,
    world: World | DecisionWorld,
    delays: Delays,
    case: str = "",
    seed: int = 0,
) -> Agent:
    """A fresh agent for a world and delays, those of a case and a seed."""
    seeds = _Seeds(seed, AGENT)
    told = Told(
        world.problem,
        experiment.information_of(learner, case),
        experiment.paths_of(learner),
        world.mdp.transitions if isinstance(world, World) else None,
        of_episodes(delays) if isinstance(delays, np.ndarray) else None,
        seed=seeds(),
        length=experiment.scene(case).episodes,
        silence=world.silence if isinstance(world, DecisionWorld) else None,
    )
    base = experiment.base(learner.name)
    key = f"agents[{[item.name for item in experiment.agents].index(base)}]"
    described = _seeded(learner.agent, kinds.AGENTS, seeds, always=True)
    made: Agent = make(key, described, kinds.AGENTS, told)
    check_fresh(key, made)
    if made.information != told.information:
        raise ValueError(
            f"{key} must be an agent for information = {told.information!r}, as the file says, "
            f"got one for {checks.show(made.information)}"
        )
    if made.problem != world.problem:
        raise ValueError(f"{key} must be an agent for {world.problem!r}, got {made!r}")
    return made


class _Seeds:
    """Seeds for the parts of a run, one after the other."""

    def __init__(self, seed: int, place: int) -> None:
        self._sequence = np.random.SeedSequence(checks.integer("seed", seed, 0), spawn_key=(place,))

    def __call__(self) -> int:
        """The next seed."""
        (child,) = self._sequence.spawn(1)
        return int(child.generate_state(1)[0])


def _seeded(made: Part, registry: Registry, seeds: _Seeds, *, always: bool = False) -> Part:
    """The part, and the parts inside, with seeds of the run where they are wanted.

    always: kinds that take a `seed` and are not given one get one, too.
    """

    def inner(value: object, inside: Registry | None) -> object:
        if isinstance(value, tuple):
            return tuple(inner(item, inside) for item in value)
        described = value if inside is None else as_part(value)
        if not isinstance(described, Part):
            return value
        found = _seeded(described, inside or registry, seeds, always=always)
        return value if found == described else found

    maker = None if is_own(made.kind) else registry.kinds.get(made.kind)
    wanted = RUN if always and maker is not None and "seed" in accepted(maker) else None
    for name, value in made.parameters:
        made = made.replaced(name, inner(value, registry.inside(name)))
    return made.replaced("seed", seeds()) if made.values.get("seed", wanted) == RUN else made


def rehearse(experiment: Experiment, source: str = "", runs: int = 1) -> None:
    """Build everything once, so that a wrong value is found before anything is run.

    source: the file that the experiment is from, to be named in errors. runs: how many are made at
    once on this machine; their open episodes must fit into its memory.
    """
    for case in experiment.case_names():
        with _in(source), _in(f"case {case!r}" if case else ""):
            _rehearse(experiment, case, runs)


def _rehearse(experiment: Experiment, case: str, runs: int) -> None:
    scene = experiment.scene(case)
    seed = experiment.first_seed
    made = world(scene, seed)
    if isinstance(made, World):
        H, S, A = made.problem.shape
        checks.costs("costs of episode 0", made.costs.seeded(0).at(0), H, S, A)
    drawn = delays(scene, made, seed)
    for learner in experiment.learners_of(case):
        swept = learner.name != experiment.base(learner.name)
        with _in(f"sweep, {learner.name!r}" if swept else ""):
            fresh = agent(experiment, learner, made, drawn, case, seed)
            if isinstance(made, World) and isinstance(drawn, np.ndarray):
                costs, information = made.costs.seeded(0), fresh.information
                size = record_bytes(costs, made.problem, information, scene.episodes)
                check_steps(fresh, drawn)
                check_room(fresh, of_episodes(drawn), size, runs=runs)


@contextlib.contextmanager
def _in(place: str) -> Iterator[None]:
    """Prefix errors with the place, if it has a name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}" if place else str(error)) from None
