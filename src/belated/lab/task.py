"""One task: build the objects of a run from its specification, run it, and return its rows.

The seed of a run determines its paths, costs and delays. It is also the seed of every agent that
draws and has no `seed` of its own, and of every part with `seed = "run"`; each has its own
generator.

There is one row per episode. Columns: experiment, case, agent, parameters (of the agent, as JSON),
seed, episode, value (exact expected cost of the policy played), realised (cost suffered),
comparator (exact expected cost of the best fixed policy in hindsight), uniform (exact expected cost
of uniform play), regret (cumulative, in values), missing (episodes up to this one whose feedback
had not arrived by its end) and delay (-1 if the feedback is lost). Then the same for mean costs,
which are the costs themselves if these have no noise: mean_value, mean_comparator, mean_uniform;
best_each (the smallest expected cost of the episode) and best_so_far (the smallest expected cost of
all episodes up to this one under one fixed policy). For decisions with features, costs are negated
outcomes, and the best policy is the best action for every visitor. The last columns are diagnostics
(the agent's own numbers after some episodes, as JSON; null after the others) and step_delays (the
delays of single costs, as JSON; null if an episode reports as a whole).
"""

import contextlib
import io
import json
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

from belated.config import agents as kinds
from belated.config.agents import RunBrief
from belated.config.part import Part, Registry, accepted, inside, make, table
from belated.core import checks
from belated.core.arrays import Ints
from belated.core.contract import Agent, check_is_agent
from belated.core.delays import NEVER, DelayModel, OutcomeDependentDelay, is_oblivious, of_episodes
from belated.lab import scenes
from belated.lab.spec import Experiment, Learner, Scene, Task
from belated.linear.worlds import DecisionWorld
from belated.simulation import Run, delays_in, simulate
from belated.tabular.policies import cost_function
from belated.tabular.world import World

RUN = "run"
"""The value of a parameter `seed` that stands for the seed of the run."""
ENVIRONMENT, COSTS, DELAYS, AGENT = range(3, 7)
"""The index of the generator for the seeds of each part; `simulate` itself uses 0 to 2."""


def world_of(scene: Scene, seed: int = 0) -> World | DecisionWorld:
    """The world of a scene and a seed, the same for every agent."""
    place = _seeded(scene.environment, scenes.ENVIRONMENTS, _seeds(seed, ENVIRONMENT))
    made = make("environment", place, scenes.ENVIRONMENTS)
    if isinstance(made, DecisionWorld):
        if scene.costs is not None:
            raise ValueError(f"costs must be left out for decisions, got {scene.costs.kind!r}")
        return made
    checks.instance("environment", made, World)
    if scene.costs is None:
        return made  # type: ignore[no-any-return]
    costs = _seeded(scene.costs, scenes.COSTS, _seeds(seed, COSTS))
    return World(made.mdp, make("costs", costs, scenes.COSTS, made))


Delays = Ints | DelayModel | OutcomeDependentDelay | None
"""The delays that `simulate` accepts."""


def delays_of(scene: Scene, world: World | DecisionWorld, seed: int) -> Delays:
    """The delays of a seed, (K,) or (K, H), as `simulate` draws them; the same for every agent.

    A model whose delays depend on what happens is returned itself, and so is any model for
    decisions, whose delays no agent knows; None is "of_world".
    """
    given = _seeded(scene.delays, scenes.DELAYS, _seeds(seed, DELAYS))
    model = make("delays", given, scenes.DELAYS)
    if not is_oblivious(model):
        return model  # type: ignore[no-any-return]
    if isinstance(world, DecisionWorld) and (model is None or hasattr(model, "draw")):
        return model  # type: ignore[no-any-return]
    if not hasattr(model, "draw"):
        raise ValueError(f"delays must be a delay model, got {checks.show(model)}")
    assert isinstance(world, World)
    return delays_in(world, model, scene.episodes, seed)


def agent_of(
    experiment: Experiment,
    learner: Learner,
    world: World | DecisionWorld,
    delays: Delays,
    case: str = "",
    seed: int = 0,
) -> Agent:
    """A fresh agent for the world and the delays of a case and a seed."""
    seeds = _seeds(seed, AGENT)
    told = RunBrief(
        world.problem,
        experiment.information_of(learner, case),
        experiment.paths_of(learner),
        world.mdp.transitions if isinstance(world, World) else None,
        of_episodes(delays) if isinstance(delays, np.ndarray) else None,
        seed=next(seeds),
        length=experiment.scene(case).episodes,
        silence=world.silence if isinstance(world, DecisionWorld) else None,
    )
    base = experiment.base(learner.name)
    key = f"agents[{[item.name for item in experiment.agents].index(base)}]"
    described = _seeded(learner.agent, kinds.AGENTS, seeds, always=True)
    made: Agent = make(key, described, kinds.AGENTS, told)
    check_is_agent(key, made, fresh=True)
    if made.information != told.information:
        raise ValueError(
            f"{key} must be an agent for information = {told.information!r}, as the file says, "
            f"got one for {checks.show(made.information)}"
        )
    if made.problem != world.problem:
        raise ValueError(f"{key} must be an agent for {world.problem!r}, got {made!r}")
    return made


def _seeds(seed: int, place: int) -> Iterator[int]:
    """Seeds for the parts of a run, one after the other."""
    sequence = np.random.SeedSequence(checks.integer("seed", seed, 0), spawn_key=(place,))
    while True:
        (child,) = sequence.spawn(1)
        yield int(child.generate_state(1)[0])


def _seeded(made: Part, registry: Registry, seeds: Iterator[int], *, always: bool = False) -> Part:
    """The part, and the parts inside, with seeds of the run where they are requested.

    always: whether kinds that take a `seed` get one even if it is not requested.
    """

    def each(key: str, part: Part, kinds: Registry) -> Part:
        return _seeded(part, kinds, seeds, always=always)

    values = inside("", made, registry, each)
    maker = None if made.own else registry.kinds[made.kind]
    wanted = RUN if always and maker is not None and "seed" in accepted(maker) else None
    if values.get("seed", wanted) == RUN:
        values["seed"] = next(seeds)
    return Part(made.kind, tuple(sorted(values.items())), made.function)


def rehearse(experiment: Experiment) -> None:
    """Build the world, the delays and the agents of every case once, with the first seed."""
    seed = experiment.first_seed
    for case in experiment.case_names():
        with _in(f"case {case!r}" if case else ""):
            scene = experiment.scene(case)
            world = world_of(scene, seed)
            if isinstance(world, World):
                what, costs = "costs of episode 0", world.costs.seeded(0).at(0)
                checks.in_unit_interval(what, cost_function(what, costs, world.problem.shape))
            delays = delays_of(scene, world, seed)
            for learner in experiment.learners_of(case):
                swept = learner.name != experiment.base(learner.name)
                with _in(f"sweep, {learner.name!r}" if swept else ""):
                    agent_of(experiment, learner, world, delays, case, seed)


@contextlib.contextmanager
def _in(place: str) -> Iterator[None]:
    """Prefix errors with the place, if it has a name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{place}: {error}" if place else str(error)) from None


COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("experiment", "case", "agent", "parameters"), pl.String()),
    **dict.fromkeys(("seed", "episode"), pl.Int64()),
    **dict.fromkeys(("value", "realised", "comparator", "uniform", "regret"), pl.Float64()),
    **dict.fromkeys(("missing", "delay"), pl.Int64()),
    **dict.fromkeys(("mean_value", "mean_comparator", "mean_uniform"), pl.Float64()),
    **dict.fromkeys(("best_each", "best_so_far"), pl.Float64()),
    **dict.fromkeys(("diagnostics", "step_delays"), pl.String()),
}


def perform(experiment: Experiment, task: Task) -> tuple[bytes, float]:
    """Run a task: its rows as a Parquet file, and its processor time in seconds.

    The rows are bytes, so that a worker needs no shared disk; the same task gives the same ones.
    """
    scene = experiment.scene(task.case)
    learner = experiment.learner(task.learner)
    world = world_of(scene, task.seed)
    delays = delays_of(scene, world, task.seed)
    agent = agent_of(experiment, learner, world, delays, task.case, task.seed)
    watched: dict[int, str] = {}
    begun = time.process_time()
    run = simulate(
        world,
        agent,
        delays=delays,
        episodes=scene.episodes,
        seed=task.seed,
        paths=experiment.paths_of(learner),
        progress=partial(_watched, agent, watched),
    )
    seconds = time.process_time() - begun
    _frame(experiment, task, run, watched).write_parquet(buffer := io.BytesIO())
    return buffer.getvalue(), seconds


POINTS = 200
"""The largest number of times that the diagnostics of a run are recorded."""


def _watched(agent: Agent, found: dict[int, str], episodes: range) -> Iterator[int]:
    """The episodes one by one; the agent's diagnostics are noted between them, as JSON.

    They are noted at even intervals, and after the last episode.
    """
    every = -(-len(episodes) // POINTS)
    for k in episodes:
        yield k
        if (k + 1) % every == 0 or k == episodes[-1]:
            found[k] = json.dumps(dict(agent.diagnostics()), sort_keys=True)


def parameters(experiment: Experiment, task: Task) -> str:
    """The parameters of the agent of a run, as JSON."""
    learner = experiment.learner(task.learner)
    given = table(learner.agent) | {
        "information": experiment.information_of(learner, task.case),
        "paths": experiment.paths_of(learner),
    }
    return json.dumps(given, sort_keys=True)


def _frame(experiment: Experiment, task: Task, run: Run, watched: dict[int, str]) -> pl.DataFrame:
    """The rows of a run."""
    K = len(run.values)
    means = run.means or run
    steps = run.step_delays
    best = means.best  # of decisions the comparator is the best action of every visitor
    return pl.DataFrame(
        {
            "experiment": experiment.name,
            "case": task.case,
            "agent": task.learner,
            "parameters": parameters(experiment, task),
            "seed": task.seed,
            "episode": np.arange(K),
            "value": run.values,
            "realised": run.realised,
            "comparator": run.comparator,
            "uniform": run.uniform,
            "regret": run.regret,
            "missing": run.missing,
            "delay": np.where(run.delays == NEVER, -1, run.delays),
            "mean_value": means.values,
            "mean_comparator": means.comparator,
            "mean_uniform": means.uniform,
            "best_each": run.comparator if best is None else best.each,
            "best_so_far": np.cumsum(run.comparator) if best is None else best.so_far,
            "diagnostics": [watched.get(k) for k in range(K)],
            "step_delays": None
            if steps is None
            else [json.dumps(row) for row in np.where(steps == NEVER, -1, steps).tolist()],
        },
        COLUMNS,
    )
