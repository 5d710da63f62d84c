"""How fast DAPO is, in one run on one thread.

    python benchmarks/later.py     tables, to benchmarks/LATER.md as well

Known transitions: one feedback of DAPO against one of Delayed OPPO under bandit feedback, both
with known transitions; an episode begins, is observed, and the next policy is made. Unknown
transitions: the parts of one feedback of DAPO. It needs the largest and the least probability of
every state at every step; they are compared with the same bounds in dense NumPy. The dense version
sorts the next values and fills all rows of a step at once; it is timed on a sample of its steps and
multiplied by their number, as a whole one takes minutes. Processor time.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

from collections.abc import Callable

import numpy as np
import pages

import belated as bl
from belated.core.arrays import Floats, frozen
from belated.tabular.kernels import delay_adapted, optimism

SIZE, H = 10, 50
RATES = {"learning_rate": 0.01, "exploration": 0.01}
SAMPLE = 40
"""Steps of the dense version that are timed."""


def feedback(world: bl.World, agent: bl.Agent) -> Callable[[], None]:
    """Plays an episode with feedback at once; only the agent's part takes time worth counting."""
    rng = np.random.default_rng(0)
    paths = iter([])
    costs = rng.random(H)

    def one() -> None:
        nonlocal paths
        episode = agent.begin_episode()
        path = next(paths, None)
        if path is None:
            paths = iter([world.mdp.play(episode.policy, rng, k) for k in range(200)])
            path = next(paths)
        agent.observe(
            [
                bl.Trajectory(episode.number, path.states, path.actions),
                bl.Costs(episode.number, costs),
            ]
        )

    return one


def dense_step(low: Floats, width: Floats, policy: Floats, values: Floats) -> Floats:
    """One step back over all rows: low, width (S, A, S), policy (S, A), values (S,)."""
    order = np.argsort(values)
    filled = np.cumsum(width[..., order], axis=-1)
    rest = (1 - low.sum(-1))[..., None]
    upto = np.minimum(filled, rest)
    added = np.diff(upto, axis=-1, prepend=0.0)
    q = low @ values + added @ values[order]
    return (policy * q).sum(-1)


def dense_box(box: optimism.Box, S: int) -> tuple[Floats, Floats]:
    """Lower bound and width (S, A, S) of every next state."""
    low = np.zeros((*box.known.shape[1:], S))
    width = np.broadcast_to(box.unseen[0][..., None], low.shape).copy()
    for s, a in np.ndindex(*low.shape[:2]):
        n = box.known[0, s, a]
        low[s, a, box.successors[0, s, a, :n]] = box.lower[0, s, a, :n]
        width[s, a, box.successors[0, s, a, :n]] = box.width[0, s, a, :n]
    return low, width


def main() -> None:
    """Measure, print, write."""
    world = bl.environments.gridworld(SIZE, horizon=H)
    problem, transitions = world.problem, world.mdp.transitions
    oppo = bl.DelayedOPPO(
        problem,
        transitions=transitions,
        costs=bl.parts.Weighted(0.01),
        update=bl.parts.Softmax(0.01),
    )
    dapo = bl.DAPO(problem, transitions=transitions, **RATES)
    first, second = (pages.cpu_time(feedback(world, agent), 300) for agent in (oppo, dapo))
    lines = [
        "# Later algorithms: one feedback",
        "",
        f"{SIZE} x {SIZE} grid, H = {H}.",
        "",
        "| known transitions | ms | OPPO feedbacks |",
        "|---|---|---|",
        f"| Delayed OPPO, bandit | {first:.3f} | 1 |",
        f"| DAPO | {second:.3f} | {second / first:.2f} |",
        "",
        "| unknown transitions, after | bounds, ms | B, ms | Q and b, ms "
        "| dense NumPy bounds, s | times faster |",
        "|---|---|---|---|---|---|",
        *(unknown(world, episodes) for episodes in (200, 2000, 20000)),
        "",
    ]
    pages.write("LATER.md", lines)


def unknown(world: bl.World, episodes: int) -> str:
    """A row of the table: DAPO after this many episodes of the uniform policy."""
    problem = world.problem
    _, S, A = problem.shape
    rng = np.random.default_rng(0)
    uniform = frozen(np.full(problem.shape, 1 / A))
    agent = bl.DAPO(problem, episodes=episodes, **RATES)
    for k in range(episodes):
        agent._set.add(world.mdp.play(uniform, rng, k))
    agent._set.counts.recall_from(episodes)
    policy = frozen(rng.dirichlet(np.ones(A), problem.shape[:2]))
    box, start = agent._set.box, problem.start_probabilities
    found = optimism.occupancy_bounds(box, policy, start)
    bounds = pages.cpu_time(lambda: optimism.occupancy_bounds(box, policy, start), 3)
    total, last = np.zeros(problem.shape), np.zeros(S)
    path, costs = world.mdp.play(uniform, rng, 0), frozen(rng.random(H))
    arguments = (path.states, path.actions, costs, policy, policy, *found, 0.01, 2.0, total)
    bonus = frozen(delay_adapted.learn(*arguments))
    estimates = pages.cpu_time(lambda: delay_adapted.learn(*arguments), 20)
    backward = pages.cpu_time(lambda: optimism.confident(box, bonus, policy, total, last, H), 20)
    low, width = dense_box(box, S)
    values = rng.random(S)
    one = pages.cpu_time(lambda: dense_step(low, width, policy[0], values), SAMPLE)
    steps = 2 * S * (H - 1) * H / 2
    dense = one * steps / 1e3
    return (
        f"| {episodes} episodes | {bounds:.0f} | {backward:.2f} | {estimates:.2f} "
        f"| {dense:.0f} | {dense * 1e3 / bounds:.0f} |"
    )


if __name__ == "__main__":
    main()
