"""What `recommend` learns in 2,000 episodes, beside its rivals.

python -m benchmarks.practice               all tables, to benchmarks/PRACTICE.md; half an hour
python -m benchmarks.practice bandit full   some scores only: bandit, deep, full, deep_full, lost
python -m benchmarks.practice bandit 100    the same on other worlds: seeds from 100 on

Every score is kept in benchmarks/out/practice.json, so that a broken run continues. Worlds were set
up after the agents were fixed, ten seeds each, the same for all agents. A score is (cost - best
fixed policy) / (uniform play - best fixed policy), from exact expected costs, in expectation over
the noise of the costs.
"""

import fcntl
import json
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks.rivals import FollowTheLeader
from examples.ucbvi import UCBVI
from rich.progress import track

import belated as bl
from belated.tabular.rivals.posterior_sampling import PosteriorSampling

HERE = Path(__file__).parent
KEPT = HERE / "out" / "practice.json"
EPISODES = 2000
SEEDS = 10
OURS = "recommend"

Case = tuple[bl.World, bl.delays.DelayModel]


def random_mdp(seed: int, states: int, actions: int, horizon: int) -> bl.World:
    """Random dynamics that no other experiment uses, with Bernoulli costs."""
    return bl.environments.random_mdp(states, actions, horizon, seed=83000 + seed)


def noise(rng: np.random.Generator, seed: int) -> Case:
    return random_mdp(seed, 7, 4, 6), bl.delays.geometric(15)


def lost(rng: np.random.Generator, seed: int) -> Case:
    return random_mdp(50 + seed, 8, 3, 4), bl.delays.lost(0.25, bl.delays.geometric(20))


def fixed_delay(rng: np.random.Generator, seed: int) -> Case:
    return random_mdp(100 + seed, 6, 3, 7), bl.delays.fixed(80)


def river(rng: np.random.Generator, seed: int) -> Case:
    return bl.environments.chain(states=8, horizon=16), bl.delays.geometric(15)


def switch(rng: np.random.Generator, seed: int) -> Case:
    world = random_mdp(150 + seed, 7, 3, 5)
    costs = bl.costs.switching(rng.random((2, 1, 7, 3)), every=500)
    return bl.World(world.mdp, costs), bl.delays.heavy_tailed(1.3)


def drift(rng: np.random.Generator, seed: int) -> Case:
    world = random_mdp(200 + seed, 6, 4, 5)
    costs = bl.costs.drifting(rng.random((3, 1, 6, 4)), every=600)
    return bl.World(world.mdp, costs), bl.delays.geometric(20)


def moving_goal(rng: np.random.Generator, seed: int) -> Case:
    mdp = bl.environments.gridworld((4, 6), horizon=13).mdp
    goals = [bl.environments.goal_costs((4, 6), cell) for cell in ((3, 5), (3, 0), (0, 5))]
    return (
        bl.World(mdp, bl.costs.switching(goals, every=450)),
        bl.delays.lost(0.1, bl.delays.geometric(15)),
    )


def hidden(rng: np.random.Generator, seed: int) -> Case:
    before = rng.uniform(0.35, 0.75, (1, 1, 10))
    after = before.copy()
    after[..., rng.integers(10)] = 0.05
    costs = bl.costs.noisy(bl.costs.changing([before, after], [1000]))
    return bl.World(bl.environments.bandit(np.ones(10)).mdp, costs), bl.delays.geometric(15)


def deep_sea(rng: np.random.Generator, seed: int) -> Case:
    return bl.environments.deep_sea(15, seed=350 + seed), bl.delays.geometric(10)


def faint(rng: np.random.Generator, seed: int) -> Case:
    costs = bl.costs.stochastic(rng.uniform(0.45, 0.55, (1, 7, 4)))
    return bl.World(random_mdp(250 + seed, 7, 4, 5).mdp, costs), bl.delays.geometric(10)


def lock(rng: np.random.Generator, seed: int) -> Case:
    return bl.environments.lock(12, 4, seed=350 + seed), bl.delays.geometric(10)


def river_cycle(rng: np.random.Generator, seed: int) -> Case:
    mdp = bl.environments.chain(states=8, horizon=20).mdp
    return bl.World(mdp, bl.costs.switching(rng.random((3, 1, 8, 2)), every=10)), (
        bl.delays.geometric(10)
    )


def many_arms(rng: np.random.Generator, seed: int) -> Case:
    return bl.environments.bandit(rng.random(50)), bl.delays.geometric(10)


def grid(rng: np.random.Generator, seed: int) -> Case:
    return bl.environments.gridworld((7, 7), horizon=26), bl.delays.geometric(10)


def lake(rng: np.random.Generator, seed: int) -> Case:
    return bl.environments.from_gymnasium("FrozenLake-v1", horizon=28), bl.delays.geometric(20)


CASES: dict[Callable[[np.random.Generator, int], Case], str] = {
    noise: "random MDP, Bernoulli costs, geometric 15",
    lost: "random MDP, Bernoulli costs, geometric 20, 25 % lost",
    fixed_delay: "random MDP, Bernoulli costs, always 80 late",
    river: "RiverSwim, fixed costs, geometric 15",
    switch: "random MDP, two cost functions in turns of 500, heavy-tailed 1.3",
    drift: "random MDP, drift between three cost functions, geometric 20",
    moving_goal: "4 x 6 grid, the goal moves every 450, geometric 15, 10 % lost",
    hidden: "10 arms, one becomes the best after 1,000, geometric 15",
}

DEEP: dict[Callable[[np.random.Generator, int], Case], str] = {
    deep_sea: "deep sea of 15 columns and steps, Bernoulli costs, geometric 10",
    faint: "random MDP, Bernoulli costs with means between 0.45 and 0.55, geometric 10",
    lock: "combination lock of 12 states, 4 actions, geometric 10",
    river_cycle: "RiverSwim's dynamics, a cycle of three cost functions, geometric 10",
    many_arms: "50 arms, Bernoulli costs, geometric 10",
    grid: "7 x 7 grid, geometric 10",
    lake: "FrozenLake, 28 steps, geometric 20",
}

Make = Callable[[bl.Problem, int, int], bl.Agent]


def recommended(information: str) -> Make:
    return lambda problem, D, seed: bl.recommend(problem, information=information, seed=seed)


BANDIT: dict[str, Make] = {
    OURS: recommended("bandit"),
    "PSRL": lambda problem, D, seed: PosteriorSampling(problem, seed=seed),
    "UCBVI": lambda problem, D, seed: UCBVI(problem),
}
FULL: dict[str, Make] = {
    OURS: recommended("full"),
    "leader": lambda problem, D, seed: FollowTheLeader(problem, forget=0.9, seed=seed),
}


def once(key: str, compute: Callable[[], float]) -> float:
    """A number that was computed before, or now."""
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        file.seek(0)
        found = dict(json.loads(line) for line in file)
    if key not in found:
        found[key] = float(compute())
        with KEPT.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps([key, found[key]]) + "\n")
    return found[key]


def scores(
    what: str, makes: dict[str, Make], cases: Iterable[Callable[..., Case]], first: int
) -> dict[str, list[list[float]]]:
    """Scores of the seeds from the first on, case by case, for every agent."""
    found: dict[str, list[list[float]]] = {name: [] for name in makes}
    for number, case in enumerate(track(list(cases), description=what)):

        def score(make: Make, seed: int, case=case, number=number) -> float:
            world, model = case(np.random.default_rng([47, number, seed]), seed)
            delays = model.draw(EPISODES, np.random.default_rng([48, number, seed]))
            agent = make(world.problem, bl.delays.total_delay(delays), seed)
            run = bl.simulate(world, agent, delays=delays, episodes=EPISODES, seed=seed)
            return run.score_on_means

        for name, make in makes.items():
            each = [
                once(f"{what} {case.__name__} {name} {seed}", partial(score, make, seed))
                for seed in range(first, first + SEEDS)
            ]
            found[name].append(each)
    return found


def lost_feedback() -> list[str]:
    """Regret after 1,000 and 10,000 episodes of four arms, a fifth of the feedback lost."""
    world = bl.environments.bandit([0.9, 0.2, 0.8, 0.9])
    model = bl.delays.lost(0.2, bl.delays.geometric(5))
    known = {"transitions": world.mdp.transitions}
    agents: dict[str, Callable[[], bl.Agent]] = {
        "`recommend`, full information": lambda: bl.recommend(world.problem, information="full"),
        "`recommend`, bandit feedback": lambda: bl.recommend(world.problem, information="bandit"),
        "anytime softmax, full information": lambda: bl.DelayedOPPO(world.problem, **known),
        "anytime EXP3, bandit feedback": lambda: bl.DelayedOPPO(
            world.problem, costs=bl.parts.Weighted(), **known
        ),
    }
    lines = ["| agent | 1,000 episodes | 10,000 episodes |", "|---|---|---|"]
    for name, make in agents.items():

        def regret(K: int, seed: int, make=make) -> float:
            return bl.simulate(world, make(), delays=model, episodes=K, seed=seed).regret[-1]

        numbers = [
            np.mean([once(f"lost {name} {K} {s}", partial(regret, K, s)) for s in range(2)])
            for K in (1000, 10_000)
        ]
        lines.append(f"| {name} | {numbers[0]:.0f} | {numbers[1]:.0f} |")
    return lines


def table(found: dict[str, list[list[float]]], cases: Iterable[Callable[..., Case]]) -> list[str]:
    """Means, the first with standard errors, and the paired difference to the best rival."""
    names, rivals = list(found), [name for name in found if name != OURS]
    head = [*names, "to the best rival"]
    lines = ["| case | " + " | ".join(head) + " |", "|---|" + "---|" * len(head)]
    means = {name: [float(np.mean(each)) for each in found[name]] for name in names}
    for i, case in enumerate(cases):
        best = min(rivals, key=lambda name: means[name][i])
        ours = np.array(found[OURS][i])
        behind = ours - np.array(found[best][i])
        error, paired = (each.std(ddof=1) / len(each) ** 0.5 for each in (ours, behind))
        cells = [f"{ours.mean():.2f} ± {error:.2f}", *(f"{means[name][i]:.2f}" for name in rivals)]
        cells.append(f"{behind.mean():+.2f} ± {paired:.2f}")
        lines.append(f"| {case.__name__.replace('_', ' ')} | {' | '.join(cells)} |")
    for word, function in (("worst", max), ("mean", np.mean)):
        cells = [f"{function(means[name]):.2f}" for name in names]
        lines.append(f"| **{word}** | {' | '.join(cells)} | |")
    return lines


def listed(cases: dict[Callable[..., Case], str]) -> list[str]:
    return [
        "| case | world, costs and delays |",
        "|---|---|",
        *(f"| {case.__name__.replace('_', ' ')} | {words} |" for case, words in cases.items()),
    ]


PARTS: dict[str, Callable[[int], list[str]]] = {
    "bandit": lambda first: table(scores("bandit", BANDIT, CASES, first), CASES),
    "deep": lambda first: table(scores("deep", BANDIT, DEEP, first), DEEP),
    "full": lambda first: table(scores("full", FULL, CASES, first), CASES),
    "deep_full": lambda first: table(scores("deep_full", FULL, DEEP, first), DEEP),
    "lost": lambda _: lost_feedback(),
}


def main(given: list[str]) -> None:
    parts = [part for part in given if not part.isdecimal()]
    first = next((int(number) for number in given if number.isdecimal()), 0)
    made = {part: PARTS[part](first) for part in parts or PARTS}
    if parts:
        print("\n".join(line for part in parts for line in [f"\n{part}", *made[part]]))
        return
    text = [
        "# Learning in practice\n",
        "Written by `python -m benchmarks.practice`.\n",
        f"(cost - best fixed policy) / (uniform play - best fixed policy) over {EPISODES:,} "
        f"episodes, mean of {SEEDS} seeds. 1 is uniform "
        "play, 0 the best fixed policy in hindsight; below 0 an agent follows changes that no "
        "fixed policy can. Transitions are unknown and paths come with the costs. "
        "The last column is the mean difference to the best rival over paired seeds: above 0 is a "
        "loss. After ± come standard errors. All is in expectation over the noise of the costs.\n",
        *listed(CASES),
        "\n## Bandit feedback\n",
        "`recommend` is told the size of the problem and nothing else. PSRL is posterior sampling, "
        "UCBVI is `examples/ucbvi.py`.\n",
        *made["bandit"],
        "\n## Deep exploration, faint differences\n",
        "Bandit feedback too.\n",
        *listed(DEEP),
        "",
        *made["deep"],
        "\n## Full information\n",
        "The rival plans for mean costs that are discounted by 0.9 per arrival.\n",
        *made["full"],
        "",
        *made["deep_full"],
        "\n## A fifth of the feedback lost\n",
        "Regret on four arms with Bernoulli costs (means 0.9, 0.2, 0.8, 0.9), geometric delays of "
        "mean 5 and a fifth of all feedback lost; mean of two seeds.\n",
        *made["lost"],
        "",
    ]
    (HERE / "PRACTICE.md").write_text("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main(sys.argv[1:])
