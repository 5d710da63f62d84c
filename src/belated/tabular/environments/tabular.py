"""Small standard worlds: a random MDP, a chain, arms, and three lower bounds."""

import math

import numpy as np

from belated.core import checks
from belated.tabular import costs as processes
from belated.tabular.transitions import Transitions
from belated.tabular.world import MDP, World


def random_mdp(
    states: int = 10,
    actions: int = 3,
    horizon: int = 10,
    successors: int = 3,
    homogeneous: bool = True,
    seed: int = 0,
) -> World:
    """Random sparse dynamics, and Bernoulli costs with random means.

    Every state and action has `successors` different next states (at most S) with Dirichlet(1)
    probabilities. The seed decides the dynamics and the means; the seed of the run decides the
    costs of its episodes.

    Example:
        >>> bl.environments.random_mdp(states=3, actions=2, horizon=4).problem.shape
        (4, 3, 2)
    """
    states, actions, horizon = _whole(1, states=states, actions=actions, horizon=horizon)
    successors = checks.integer("successors", successors, 1, states)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    steps = 1 if checks.flag("homogeneous", homogeneous) else horizon
    rows = (steps, states, actions)
    checks.room(math.prod(rows) * states, states=states, actions=actions, horizon=horizon)
    order = rng.random((*rows, states)).argsort(axis=-1)
    probabilities = rng.dirichlet(np.ones(successors), rows)
    means = rng.random((steps, states, actions))
    transitions = Transitions(order[..., :successors].astype(np.int32), probabilities)
    return World(MDP(transitions, horizon), processes.stochastic(means))


def chain(states: int = 6, horizon: int = 20) -> World:
    """RiverSwim: swimming right, against the current, pays off at the far end.

    After Strehl & Littman (2008). Left always succeeds. Right moves on with probability 0.35,
    stays with 0.6 and falls back with 0.05; in the first state it moves on with 0.6 and stays with
    0.4, and in the last state it stays with 0.6 and falls back with 0.4. The cost is 1 - reward;
    left in the first state has reward 0.005 and right in the last state has reward 1.

    Example:
        >>> bl.environments.chain(states=4, horizon=5).problem.states
        4
    """
    states = checks.integer("states", states, 2)
    checks.room(2 * states**2, states=states)
    p = np.zeros((states, 2, states))
    here = np.arange(states)
    p[here, 0, np.maximum(here - 1, 0)] = 1.0
    inner = here[1:-1]
    p[inner, 1, inner - 1], p[inner, 1, inner], p[inner, 1, inner + 1] = 0.05, 0.6, 0.35
    p[0, 1, 0], p[0, 1, 1] = 0.4, 0.6
    p[-1, 1, -2], p[-1, 1, -1] = 0.4, 0.6
    costs = np.ones((1, states, 2))
    costs[0, 0, 0] = 0.995
    costs[0, -1, 1] = 0.0
    return World(MDP(Transitions.from_dense(p), horizon), costs)


def deep_sea(size: int = 12, horizon: int | None = None, seed: int = 0) -> World:
    """Deep sea: only the rightmost cell pays off, and every step towards it costs slightly more.

    The columns are the states; at every step one action leads to the left and the other to the
    right, and the seed determines which. Costs are Bernoulli with mean 1/2, or 1/2 + 1 / (20 size)
    for moves to the right; only moving right in the last column is free. In the default horizon,
    `size` steps, this is possible once, in an episode that never moves left (after Osband et al.,
    2019).

    Example:
        >>> bl.environments.deep_sea(size=4).problem.shape
        (4, 4, 2)
    """
    size = checks.integer("size", size, 2)
    checks.room(2 * size**2, size=size)
    right = np.random.default_rng(checks.integer("seed", seed, 0)).integers(0, 2, size)
    here = np.arange(size)
    p = np.zeros((size, 2, size))
    p[here, 1 - right, np.maximum(here - 1, 0)] = 1.0
    p[here, right, np.minimum(here + 1, size - 1)] = 1.0
    means = np.full((1, size, 2), 0.5)
    means[0, here, right] += 0.05 / size
    means[0, -1, right[-1]] = 0.0
    mdp = MDP(Transitions.from_dense(p), size if horizon is None else horizon)
    return World(mdp, processes.stochastic(means))


def lock(states: int = 10, actions: int = 3, horizon: int | None = None, seed: int = 0) -> World:
    """A combination lock: one action of every state leads on, all others back to the first state.

    The seed determines the combination. Every state costs 1, except the last one, which costs 0.1.
    The default horizon is twice the number of states.

    Example:
        >>> bl.environments.lock(states=4).problem.shape
        (8, 4, 3)
    """
    states, actions = _whole(2, states=states, actions=actions)
    checks.room(actions * states**2, states=states, actions=actions)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    here = np.arange(states)
    p = np.zeros((states, actions, states))
    p[:, :, 0] = 1.0
    right = rng.integers(0, actions, states)
    p[here, right] = 0.0
    p[here, right, np.minimum(here + 1, states - 1)] = 1.0
    costs = np.ones((1, states, actions))
    costs[0, -1] = 0.1
    return World(MDP(Transitions.from_dense(p), 2 * states if horizon is None else horizon), costs)


def bandit(means: object, noise: str = "bernoulli") -> World:
    """A bandit: one state, one step, and mean costs (A,), one per arm.

    Example:
        >>> bl.environments.bandit([0.2, 0.5]).problem.actions
        2
    """
    array = checks.floats("means", means, "(A,)", (1,))
    return World(_circle(1, len(array), 1), processes.stochastic(array[None, None, :], noise=noise))


def signals(laws: object, means: object, noise: str = "bernoulli") -> World:
    """Arms with a signal before the cost: two steps, and a state for every signal.

    The action of the first step draws one of M signals from its distribution, `laws` (A, M), and
    the signal determines the mean cost, `means` (M,); the action of the second step has no effect.
    With `paths="at once"` in `simulate` the signal of an episode is observed at its end, and the
    cost after the delay (the intermediate observations of Esposito et al., 2023).

    Example:
        >>> world = bl.environments.signals([[0.9, 0.1], [0.3, 0.7]], [0.8, 0.1])
        >>> world.problem.shape
        (2, 3, 2)
    """
    given = checks.distributions("laws", checks.floats("laws", laws, "(A, M)", (2,)))
    costs = checks.floats("means", means, "(M,)", (1,))
    actions, count = given.shape
    if len(costs) != count:
        raise ValueError(f"means must be {count}, one for every signal, got {len(costs)}")
    p = np.zeros((1 + count, actions, 1 + count))
    p[0, :, 1:] = given
    signalled = np.arange(1, 1 + count)
    p[signalled, :, signalled] = 1.0
    table = np.zeros((1, 1 + count, actions))
    table[0, 1:] = costs[:, None]
    return World(MDP(Transitions.from_dense(p), 2), processes.stochastic(table, noise=noise))


def delay_lower_bound(delay: int, states: int = 1, actions: int = 2, horizon: int = 1) -> World:
    """The world in which every learner with a fixed delay has the same expected regret.

    The costs are fair coins that stay constant on blocks of delay + 1 episodes. With
    `delays.fixed(delay)`, no feedback on a block arrives before the block ends.

    Example:
        >>> bl.environments.delay_lower_bound(delay=3).problem.shape
        (1, 1, 2)
    """
    costs = processes.blocks(states, actions, checks.integer("delay", delay, 0) + 1)
    return World(_circle(states, actions, horizon), costs)


def bandit_lower_bound(
    episodes: int, states: int = 2, actions: int = 2, horizon: int = 2, seed: int = 0
) -> World:
    """A world in which bandit feedback costs every learner of the order H sqrt(S A K).

    The first state and every next state are uniform, whatever the action: every state at every
    step is a separate bandit, and knowing the transitions does not help. Costs are Bernoulli with
    mean 1/2; one action, which the seed draws for each state and step, has mean 1/2 - epsilon,
    epsilon = sqrt(3 S A / (128 K)). Averaged over the seeds, the regret of every learner that
    observes only its own costs is at least H K epsilon / 4.

    Args:
        episodes: K, for which the world is made; at least S and 3 S A / 8.
        states: at least 1.
        actions: at least 2.
        horizon: at least 1.
        seed: determines the better actions.

    Example:
        >>> bl.environments.bandit_lower_bound(episodes=100).problem.horizon
        2
    """
    K = checks.integer("episodes", episodes, 1, checks.MOST)
    S, H = _whole(1, states=states, horizon=horizon)
    A = checks.integer("actions", actions, 2)
    least = max(S, math.ceil(3 * S * A / 8))
    if least > K:
        raise ValueError(f"episodes must be at least S and 3 S A / 8, here {least}, got {K}")
    checks.room(max(H, S) * S * A, states=S, actions=A, horizon=H)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    means = np.full((H, S, A), 0.5)
    better = rng.integers(0, A, (H, S, 1))
    np.put_along_axis(means, better, 0.5 - math.sqrt(3 * S * A / (128 * K)), axis=2)
    transitions = Transitions.from_dense(np.full((S, A, S), 1.0 / S))
    start = (1.0 / S,) * S if S > 1 else 0
    return World(MDP(transitions, H, start), processes.stochastic(means))


def dynamics_lower_bound(
    episodes: int, states: int = 2, actions: int = 2, horizon: int = 4, seed: int = 0
) -> World:
    """A world whose unknown transitions cost every learner of the order H^{3/2} sqrt(S A K).

    The states form pairs of a bad one, in which every step costs 1, and a good one, in which steps
    are free. An episode begins in a uniformly drawn bad state. At the first H / 2 steps (rounded
    down) every action leads from there to the good state with probability delta = 1 / (8 H); one
    action, which the seed draws for each pair and step, does so with delta + epsilon,
    epsilon = sqrt(7 S A / (2048 H K)). After that the state does not change. Averaged over the
    seeds, the regret of every learner that does not know the transitions is at least
    7/64 m (H - m) epsilon K, m = floor(H / 2). Since the costs never change, this also holds under
    full information and without delays.

    Args:
        episodes: K, for which the world is made; at least 7 H S A / 32.
        states: an even number.
        actions: at least 2.
        horizon: at least 2.
        seed: determines the better actions.

    Example:
        >>> bl.environments.dynamics_lower_bound(episodes=100).problem.horizon
        4
    """
    K = checks.integer("episodes", episodes, 1, checks.MOST)
    S, A, H = _whole(2, states=states, actions=actions, horizon=horizon)
    if S % 2:
        raise ValueError(f"states must be an even number, got {S}")
    if 32 * K < 7 * H * S * A:
        least = math.ceil(7 * H * S * A / 32)
        raise ValueError(f"episodes must be at least 7 H S A / 32 = {least}, got {K}")
    leave, more = 1 / (8 * H), math.sqrt(7 * S * A / (2048 * H * K))
    checks.room(H * S * A * S, states=S, actions=A, horizon=H)
    rng = np.random.default_rng(checks.integer("seed", seed, 0))
    better = rng.integers(0, A, (H // 2, S // 2))
    p = np.zeros((H, S, A, S))
    p[:, np.arange(S), :, np.arange(S)] = 1.0
    for h, pair in np.ndindex(H // 2, S // 2):
        bad, good = 2 * pair, 2 * pair + 1
        out = np.full(A, leave)
        out[better[h, pair]] += more
        p[h, bad, :, good], p[h, bad, :, bad] = out, 1.0 - out
    start = np.tile([2.0 / S, 0.0], S // 2)
    costs = np.zeros((1, S, A))
    costs[0, ::2] = 1.0
    return World(MDP(Transitions.from_dense(p), H, tuple(start)), costs)


def _whole(low: int, **numbers: object) -> list[int]:
    """Whole numbers that are at least `low`, by the names of their arguments."""
    return [checks.integer(name, value, low) for name, value in numbers.items()]


def _circle(states: int, actions: int, horizon: int) -> MDP:
    """Dynamics in which every action leads to the next state of a cycle."""
    states, actions = _whole(1, states=states, actions=actions)
    checks.room(states * actions, states=states, actions=actions)
    following = ((np.arange(states) + 1) % states).astype(np.int32)
    successors = np.broadcast_to(following[None, :, None, None], (1, states, actions, 1))
    return MDP(Transitions(successors, np.ones((1, states, actions, 1))), horizon)
