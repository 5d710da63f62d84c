"""Numbers that the pages quote, from committed data or measured again.

Numbers from a file in the repository or from one fixed seed are compared to the last digit that is
shown; those of the paper's grid have generous margins.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import belated as bl

ROOT = Path(__file__).parent.parent
WORLD = bl.environments.paper_grid()
DELAYS = bl.delays.geometric(10).draw(500, np.random.default_rng(0))


def last_cost(agent):
    run = bl.simulate(WORLD, agent, delays=DELAYS, episodes=500)
    return run.values[-20:].mean()


@pytest.mark.parametrize(
    ("transitions", "low", "high"),
    [
        (bl.parts.Bonus(), 21.3, 22),
        (bl.parts.Confidence(radius_scale=0.001, episodes=500), 21.3, 22),
        (bl.parts.Confidence(radius_scale=0.01, episodes=500), 22, 45),
        (bl.parts.Confidence(radius_scale=1.0, episodes=500), 49.5, 50),
    ],
)
@pytest.mark.long
def test_radii(transitions, low, high):
    """E11: the paper's radius learns nothing here in 500 episodes; smaller ones do."""
    agent = bl.DelayedOPPO(WORLD.problem, transitions=transitions, update=bl.parts.Softmax(0.1))
    assert low <= last_cost(agent) <= high


def test_counts_must_be_pooled():
    """E27: with one model per step nothing is learned in 500 episodes."""
    p = WORLD.problem
    per_step = bl.Problem(p.states, p.actions, p.horizon, p.start, homogeneous=False)
    agent = bl.DelayedOPPO(per_step, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.1))
    assert last_cost(agent) > 49


@pytest.mark.long
def test_delayed_beats_pipeline_beats_parallel():
    """The table of the benchmarks, plain grid: 25.7, 38.7 and 50.0 per episode."""
    longest = int(DELAYS.max())

    def make():
        return bl.DelayedOPPO(
            WORLD.problem, transitions=bl.parts.Bonus(), update=bl.parts.Softmax(0.1)
        )

    agents = (make(), bl.wrappers.Pipeline(make(), longest), bl.wrappers.Parallel(make, longest))
    runs = [bl.simulate(WORLD, a, delays=DELAYS, episodes=500).values.mean() for a in agents]
    assert runs[0] < 27
    assert 33 < runs[1] < 45
    assert runs[2] > 49.9


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def words(name):
    return " ".join(page(name).split())


def practice_table():
    """The scores by case in the first table of benchmarks/PRACTICE.md."""
    part = page("benchmarks/PRACTICE.md").split("## Bandit feedback")[1].split("## Deep")[0]
    return {case: float(x) for case, x in re.findall(r"^\| ([a-z ]+) \| (\S+) ± ", part, re.M)}


def test_what_the_page_on_practice_says_of_its_tables():
    table, text = practice_table(), words("docs/practice.md")
    still = [table.pop(case) for case in ("noise", "lost", "fixed delay", "river")]
    assert f"{min(still):.2f} to {max(still):.2f} under bandit" in text
    assert len(table) == 4
    moving = table.values()
    assert f"{min(moving):.2f} to {max(moving):.2f}, where the best fixed policy has 0" in text
    # the step size and the radius that the page works out by hand
    problem = bl.environments.random_mdp(states=6, actions=3, horizon=5, seed=1).problem
    eta = bl.tuning.oppo_bandit(problem, 2000, 20000)["learning_rate"]
    assert f"{eta:.4f}" == "0.0002"
    assert 1 - math.exp(-eta * 0.5 * 2000) == pytest.approx(1 / 5, abs=0.02)
    assert math.log(5 * 6 * 3 * 2000 / 0.4) == pytest.approx(13, abs=0.1)
    lost = dict(re.findall(r"^\| (.+?) \| \d+ \| (\d+) \|$", page("benchmarks/PRACTICE.md"), re.M))
    assert f"price of its probes ({lost['`recommend`, bandit feedback']} in 10,000" in text


@pytest.mark.long
def test_lost_feedback_and_doubling():
    """docs/algorithms/doubling.md: 2,000 and 20,000 episodes, seed 0."""
    world = bl.environments.bandit([0.6, 0.4, 0.5, 0.6])
    delays = bl.delays.lost(0.2, bl.delays.geometric(5))
    known = {"transitions": world.mdp.transitions}

    def runs(wrap):
        made = [wrap(bl.DelayedOPPO(world.problem, **known)) for _ in range(2)]
        return [
            bl.simulate(world, agent, delays=delays, episodes=K, seed=0)
            for agent, K in zip(made, (2000, 20_000), strict=True)
        ]

    def factor(pair):
        return f"{pair[1].regret[-1] / pair[0].regret[-1]:.1f}"

    text = words("docs/algorithms/doubling.md")
    short, long = runs(bl.wrappers.Doubling)
    assert f"from {short.regret[-1]:.0f} at 2,000 episodes to {long.regret[-1]:.0f}" in text
    assert f"by a factor of {factor((short, long))}; with the anytime rule" in text
    assert f"anytime rule by {factor(runs(lambda agent: agent))}." in text
    uniform = (long.uniform.sum() - long.optimum) / (short.uniform.sum() - short.optimum)
    assert f"Uniform play has {uniform:.1f}, and so has `literal=True`" in text
    literal = runs(lambda agent: bl.wrappers.Doubling(agent, literal=True))
    assert factor(literal) == f"{uniform:.1f}"


def test_the_means_over_tables_of_one_step():
    """docs/decisions.md quotes the means of benchmarks/ONE_STEP.md over three groups of cases."""
    rows = [line for line in page("benchmarks/ONE_STEP.md").splitlines() if "±" in line]
    found = [[float(m) for m in re.findall(r"(-?\d\.\d\d) ±", line)] for line in rows]
    text = page("docs/decisions.md")
    groups = ("8 where costs stay", found[:8]), ("6 where costs change", found[8:14])
    for start, some in (*groups, ("4 where only successes", found[14:])):
        (line,) = re.findall(rf"^\| {start}.*$", text, re.M)
        told = [float(number) for number in re.findall(r"\| (-?\d\.\d\d)", line)]
        means = [sum(column) / len(some) for column in zip(*some, strict=True)]
        assert told == pytest.approx(means, abs=0.00501)


def bandit_policies(nudge, episodes=600):
    """What Delayed OPPO plays if the first cost is smaller by this share; draws are by episode."""
    world = bl.environments.random_mdp(states=6, actions=3, horizon=5, seed=1)
    agent = bl.DelayedOPPO(
        world.problem,
        transitions=world.mdp.transitions,
        costs=bl.parts.Weighted(exploration=0.01),
        update=bl.parts.Softmax(learning_rate=0.2),
    )
    line, played = bl.DelayLine(), []
    for k in range(episodes):
        played.append(agent.begin_episode().policy)
        path = world.mdp.play(played[k], np.random.default_rng(k), k)
        costs = world.costs.at(k)[0, path.states[:-1], path.actions]
        line.push([path, bl.Costs(k, costs * (1 - nudge if k == 0 else 1))], 5)
        agent.observe(line.release(k))
    return np.array(played)


def test_rounding_grows_in_bandit_runs():
    """docs/notes.md: single long runs cannot be compared between implementations."""
    apart = np.abs(bandit_policies(0.0) - bandit_policies(1e-15)).max(axis=(1, 2, 3))
    assert 0 < apart[99] < 1e-13
    assert 1e-9 < apart[299] < 1e-6
    assert apart[-1] > 0.1


@pytest.mark.long
def test_what_dapo_leaves_of_the_gap():
    """docs/algorithms/dapo.md: four problems, delays of 0 and 20 episodes."""
    for known in (True, False):
        left = []
        for delay in (0, 20):
            for seed in range(4):
                world = bl.environments.random_mdp(states=4, actions=2, horizon=3, seed=seed)
                told = {"transitions": world.mdp.transitions} if known else {"episodes": 3000}
                agent = bl.DAPO(world.problem, learning_rate=0.005, exploration=0.002, **told)
                run = bl.simulate(
                    world, agent, delays=bl.delays.fixed(delay), episodes=3000, seed=seed
                )
                best = run.optimum / 3000
                gap = run.uniform[-300:].mean() - best
                left.append((run.values[-300:].mean() - best) / gap)
        name = "known" if known else "unknown"
        said = f"| {name} transitions | {min(left):.2f} to {max(left):.2f} |"
        assert said in page("docs/algorithms/dapo.md")
