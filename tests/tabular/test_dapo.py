"""DAPO against a dense, literal twin, the means of its estimates, and an error in its proof."""

import itertools
import math

import numpy as np
import pytest
from benchmarks.rivals import DilatedBonus
from hypothesis import given
from hypothesis import strategies as st

import belated as bl
import oracles
from belated.core.arrays import frozen
from belated.tabular.kernels import delay_adapted
from belated.tabular.trial import Trial
from belated.testing import Step, drive
from settings import Setting

K = 60


def filled(low, high, v, sign):
    """The extreme of sum p v over the box and the simplex: sign 1 for the largest."""
    p, rest = low.copy(), 1 - low.sum()
    for i in np.argsort(-sign * v):
        add = min(rest, high[i] - low[i])
        p[i] += add
        rest -= add
    return p @ v


class Twin:
    """Algorithms 3 and 4, dense and multiplicative. p: (H, S, A, S), or None if unknown."""

    def __init__(self, problem, p, eta, gamma, delta=0.1, gap=2, factor=1):
        self.problem, self.p, self.eta, self.gamma = problem, p, eta, gamma
        H, S, A = problem.shape
        self.L = math.log(10 * H * S * A * K / delta)
        self.gap, self.factor = gap, factor
        self.n = np.zeros((H, S, A, S))
        self.pi, self.open = np.full((H, S, A), 1 / A), {}

    def begin(self, k):
        self.open[k] = (self.pi.copy(), self.n.copy())
        return self.pi.copy()

    def box(self, n):
        if self.problem.homogeneous:
            n = np.broadcast_to(n.sum(0), n.shape)
        visits = np.maximum(n.sum(-1, keepdims=True), 1)
        radius = 4 * np.sqrt(n / visits * self.L / visits) + 10 * self.L / visits
        unseen = n.sum(-1, keepdims=True) == 0  # all distributions; 10 L > 1 would give the same
        return np.maximum(n / visits - radius, 0), np.where(
            unseen, 1, np.minimum(n / visits + radius, 1)
        )

    def back(self, box, v, h, sign):
        """Extreme expectation of the next values: (S, A)."""
        if self.p is not None:
            return self.p[h] @ v
        _, S, A = self.problem.shape
        rows = [filled(box[0][h, s, a], box[1][h, s, a], v, sign) for s, a in np.ndindex(S, A)]
        return np.array(rows).reshape(S, A)

    def occupancy(self, pi, box, sign):
        H, S, _ = pi.shape
        q = np.zeros((H, S))
        for h, s in np.ndindex(H, S):
            v = np.eye(S)[s]
            for t in reversed(range(h)):
                v = (pi[t] * self.back(box, v, t, sign)).sum(-1)
            q[h, s] = self.problem.start_probabilities @ v
        return q

    def gain(self, j, path, costs, now):
        """Q - B of episode j against the current policy."""
        pi, n = self.open.pop(j)
        H, S, A = pi.shape
        box = self.box(n)
        upper, lower = (self.occupancy(pi, box, sign)[..., None] for sign in (1, -1))
        with np.errstate(invalid="ignore"):
            r = np.where(np.maximum(pi, now) > 0, pi / np.maximum(pi, now), 1)
        Q = np.zeros((H, S, A))
        for h in range(H):
            at = (h, path.states[h], path.actions[h])
            Q[at] = r[at] * costs[h:].sum() / (upper[at[:2]][0] * pi[at] + self.gamma)
        b = 3 * self.gamma * H * now * r / (upper * pi + self.gamma)
        b = b + self.gap * H * now * r * (upper * pi - lower * pi) / (upper * pi + self.gamma)
        B, v = np.zeros((H, S, A)), np.zeros(S)
        for h in reversed(range(H)):
            B[h] = b[h].sum(-1)[:, None] + self.factor * self.back(box, v, h, 1)
            v = (pi[h] * B[h]).sum(-1)
        return Q - B

    def observe(self, batch):
        for _, path, _ in batch:
            for h in range(self.problem.horizon - 1):
                self.n[h, path.states[h], path.actions[h], path.states[h + 1]] += 1
        gains, now = 0, self.pi
        for j, path, costs in sorted(batch, key=lambda item: item[0]):
            gains = gains + self.gain(j, path, costs, now)
        self.pi = self.moved(now, gains)

    def moved(self, pi, gain):
        pi = pi * np.exp(-self.eta * gain)
        return pi / pi.sum(-1, keepdims=True)


def play(world, agent, twin, delays, *, paths="late", seed=0):
    """Play one run with both; their policies must agree to 1e-9 in every episode."""
    rng = np.random.default_rng(seed)
    waiting = {}
    for k, delay in enumerate(delays):
        policy = agent.begin_episode().policy
        assert np.max(np.abs(policy - twin.begin(k))) < 1e-9
        path = world.mdp.play(policy, rng, k)
        costs = rng.random(world.problem.horizon)
        early = paths == "at once"
        if early:
            agent.observe([path])
        if delay != bl.NEVER:
            waiting.setdefault(k + delay, []).append((k, path, costs))
        batch = waiting.pop(k, [])
        twin.observe(batch)
        records = [[bl.Costs(j, c)] if early else [path, bl.Costs(j, c)] for j, path, c in batch]
        for some in (records[::2], records[1::2]):  # several calls in one episode
            agent.observe([record for pair in some for record in pair])
    return policy


DELAYS = {
    "none": lambda rng, n: np.zeros(n, dtype=np.int64),
    "random": lambda rng, n: oracles.random_delays(rng, n, largest=9),
    "bursts": lambda rng, n: 6 - np.arange(n) % 7,
}


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("homogeneous", [False, True])
def test_known_transitions_equal_the_twin(delays, homogeneous):
    rng = np.random.default_rng(3)
    start = None if homogeneous else (0.5, 0.5, 0, 0)
    world = oracles.random_world(rng, 3, 4, 3, homogeneous=homogeneous, start=start)
    agent = bl.DAPO(
        world.problem,
        transitions=world.mdp.transitions,
        learning_rate=0.1,
        exploration=0.02,
    )
    twin = Twin(world.problem, oracles.dense(world.mdp), 0.1, 0.02)
    last = play(world, agent, twin, DELAYS[delays](rng, K))
    assert np.max(np.abs(last - 1 / 3)) > 0.1


NARROW = 0.05


class Narrow(bl.DAPO):
    """DAPO with a narrow set; the set of the theory has all distributions for a long time."""

    def _log_term(self):
        return NARROW


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("homogeneous", [False, True])
@pytest.mark.parametrize("paths", ["late", "at once"])
def test_unknown_transitions_equal_the_twin(delays, homogeneous, paths):
    rng = np.random.default_rng(4)
    start = (0.5, 0.5, 0) if homogeneous else None
    world = oracles.random_world(rng, 3, 3, 2, homogeneous=homogeneous, start=start)
    agent = Narrow(world.problem, learning_rate=0.1, exploration=0.02)
    twin = Twin(world.problem, None, 0.1, 0.02)
    twin.L = NARROW
    play(world, agent, twin, DELAYS[delays](rng, K), paths=paths)


class NarrowDilated(Narrow, DilatedBonus):
    """The same for dilated bonuses."""


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("delays", ["none", "random"])
def test_dilated_bonuses_equal_the_twin(known, delays):
    rng = np.random.default_rng(7)
    world = oracles.random_world(rng, 3, 3, 2)
    p, dense = (world.mdp.transitions, oracles.dense(world.mdp)) if known else (None, None)
    agent = NarrowDilated(world.problem, transitions=p, learning_rate=0.1, exploration=0.02)
    twin = Twin(world.problem, dense, 0.1, 0.02, gap=1, factor=1 + 1 / 3)
    twin.L = NARROW
    play(world, agent, twin, DELAYS[delays](rng, K))


def test_dilated_bonuses_are_saved_and_printed(tmp_path):
    world = oracles.random_world(np.random.default_rng(8), 3, 3, 2)
    agent = DilatedBonus(world.problem, learning_rate=0.1, exploration=0.02)
    drive(Trial(world), agent, [Step(1, 2)] * 10, 0)
    bl.save(agent, tmp_path / "a.belated")
    again = bl.load(tmp_path / "a.belated")
    assert repr(again) == repr(agent)
    path = world.mdp.play(agent.begin_episode().policy, np.random.default_rng(0), 10)
    again.begin_episode()
    for one in (agent, again):
        one.observe([path, bl.Costs(10, np.ones(3))])
    assert np.array_equal(agent.begin_episode().policy, again.begin_episode().policy)


def test_the_radius_of_the_paper():
    world = oracles.random_world(np.random.default_rng(5), 3, 3, 2)
    agent = bl.DAPO(world.problem, learning_rate=0.1, exploration=0.02, episodes=K, delta=0.3)
    twin = Twin(world.problem, None, 0.1, 0.02, delta=0.3)
    assert agent._set.log_term == pytest.approx(twin.L, rel=1e-14)
    play(world, agent, twin, np.full(20, 2))


def trajectories(p, policy, start):
    """All paths of a dense problem with their probabilities."""
    H, S, A = policy.shape
    for states in itertools.product(range(S), repeat=H):
        for actions in itertools.product(range(A), repeat=H):
            chance = start[states[0]]
            for h in range(H):
                chance *= policy[h, states[h], actions[h]]
                if h + 1 < H:
                    chance *= p[h, states[h], actions[h], states[h + 1]]
            if chance > 0:
                yield np.array([*states, 0]), np.array(actions), chance


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_of_the_estimate(seed):
    """E[Q-hat] = r q / (u pi + gamma) Q for any bound u of q, over all paths; u = q if known."""
    rng = np.random.default_rng(seed)
    H, S, A, gamma = 3, 2, 2, 0.1
    p, costs = rng.dirichlet(np.ones(S), (H, S, A)), rng.random((H, S, A))
    played, newest = (frozen(rng.dirichlet(np.ones(A), (H, S))) for _ in range(2))
    start = np.array([0.3, 0.7])
    q = oracles.occupancy(p, played, start)
    reach = q.sum(-1)
    for upper in (reach, np.minimum(1, reach + 0.2 * rng.random((H, S)))):
        mean = np.zeros((H, S, A))
        for states, actions, chance in trajectories(p, played, start):
            total = np.zeros((H, S, A))
            met = frozen(costs[np.arange(H), states[:-1], actions])
            arguments = (frozen(states), frozen(actions), met, played, newest)
            delay_adapted.learn(*arguments, frozen(upper), frozen(reach), gamma, 2.0, total)
            mean += chance * total
        _, Q = oracles.values(p, costs, played)
        r = played / np.maximum(played, newest)
        expected = r * q / (upper[..., None] * played + gamma) * Q
        assert np.max(np.abs(mean - expected)) < 1e-12
        assert np.all(mean <= Q + 1e-12)  # optimistic


def hedge(losses, arrivals, eta, ties="together"):
    """The policies of Hedge at each arrival; costs of one arrival are used together or in turn."""
    n, A = losses.shape
    pi, at = np.full(A, 1 / A), np.zeros((n, A))
    for k in range(max(arrivals) + 1):
        batch = [j for j in range(n) if arrivals[j] == k]
        now = pi
        for j in batch:
            at[j] = now if ties == "in turn" else pi
            now = now * np.exp(-eta * losses[j])
            now = now / now.sum()
        pi = now
    return at


def sides(losses, arrivals, eta, ties="together"):
    """Both sides of Lemma E.6 for the best comparator."""
    at = hedge(losses, arrivals, eta, ties)
    left = (at * losses).sum() - losses.sum(0).min()
    return left, math.log(losses.shape[1]) / eta + eta * (at * losses**2).sum()


def test_lemma_e6_is_false_when_feedback_arrives_together():
    losses = np.tile([0.0, 1.0], (10, 1))
    left, right = sides(losses, [9] * 10, 0.5)
    assert left == 5.0
    assert right == pytest.approx(3.886, abs=1e-3)
    left, right = sides(losses, [9] * 10, 0.5, "in turn")  # used one by one, it holds
    assert left <= right
    for seed in range(20):  # it also holds on random losses, in turn
        rng = np.random.default_rng(seed)
        many, late = rng.random((30, 3)) * rng.integers(1, 8), rng.integers(0, 12, 30)
        left, right = sides(many, list(np.arange(30) + late), rng.random(), "in turn")
        assert left <= right + 1e-12


@pytest.mark.parametrize("known", [True, False])
def test_phases_and_skipping(known):
    """Doubling sets both rates; the threshold of the tuning is that of the paper."""
    world = oracles.random_world(np.random.default_rng(6), 3, 4, 2)
    p = {"transitions": world.mdp.transitions} if known else {}
    agent = bl.DAPO(world.problem, learning_rate=1, exploration=1, **p)
    dynamics = "known" if known else "unknown"
    assert agent.setting("late") == Setting(information="bandit", dynamics=dynamics, dapo=True)
    tuned = agent.setting("late").at(world.problem, 100, 900)
    H, S, A = world.problem.shape
    eta = (H**2 * S * A * 100 + H**4 * 1000) ** -0.5 * (1 if known else H)
    assert tuned.learning_rate == pytest.approx(eta, rel=1e-12)
    assert tuned.exploration == pytest.approx(2 * eta * H, rel=1e-12)
    assert tuned.threshold == pytest.approx(30 / H if known else 30 / (H * S * A**0.5))
    assert bl.tuning.dapo(world.problem, 100, 900, dynamics=dynamics) == {
        "learning_rate": tuned.learning_rate,
        "exploration": tuned.exploration,
    }
    doubling = bl.wrappers.Doubling(agent)
    run = bl.simulate(world, doubling, delays=bl.delays.geometric(4), episodes=40)
    phase = agent.setting("late").phase(world.problem, 2.0**doubling.phase)
    assert run.diagnostics["learning_rate"] == phase.learning_rate
    assert run.diagnostics["exploration"] == phase.exploration
    scaled = bl.DAPO(world.problem, learning_rate=1, exploration=1, scale=7, **p)
    scaled.restart(phase)
    assert scaled.diagnostics()["learning_rate"] == 7 * phase.learning_rate
    assert scaled.diagnostics()["exploration"] == phase.exploration


@pytest.mark.parametrize("known", [True, False])
def test_extremes(known):
    """Policies stay distributions at large rates, tiny exploration, and with one state or step."""
    for seed, shape in enumerate([(3, 4, 2), (1, 1, 3), (1, 3, 2), (4, 1, 2), (2, 2, 1)]):
        world = oracles.random_world(np.random.default_rng(seed), *shape)
        p = {"transitions": world.mdp.transitions} if known else {}
        for eta, gamma in ((1e6, 1e-100), (1e-12, 1e12), (30.0, 1e-3)):
            agent = bl.DAPO(world.problem, learning_rate=eta, exploration=gamma, **p)
            delays = oracles.random_delays(np.random.default_rng(seed), 30)
            bl.simulate(world, agent, delays=delays, episodes=30)
            policy = agent.begin_episode().policy
            assert np.all(policy >= 0)
            assert np.max(np.abs(policy.sum(-1) - 1)) < 1e-12


def test_bad_input():
    problem = bl.Problem(states=2, actions=2, horizon=2)
    for wrong, says in (
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0"),
        ({"exploration": 0}, "exploration must be a finite number at least 1e-100"),
        ({"transitions": 3}, "transitions must be a Transitions, or None"),
        ({"episodes": 0}, "episodes must be a whole number"),
    ):
        with pytest.raises(ValueError, match=says):
            bl.DAPO(problem, **{"learning_rate": 0.1, "exploration": 0.1, **wrong})


@given(st.integers(0, 10_000), st.floats(1e-6, 1.0))
def test_bonuses_and_estimates_are_bounded(seed, exploration):
    """T20 with known transitions: b <= 3 H, B <= 3 H^2, Q-hat <= H / gamma."""
    rng = np.random.default_rng(seed)
    H, S, A = 4, 3, 2
    world = oracles.random_world(rng, H, S, A)
    played, newest = (frozen(rng.dirichlet(np.full(A, 0.2), (H, S))) for _ in range(2))
    reach = frozen(bl.planning.occupancy(world.mdp, played).sum(-1))
    path = world.mdp.play(played, rng)
    total = np.zeros((H, S, A))
    record = (path.states, path.actions, frozen(rng.random(H)), played, newest)
    less = delay_adapted.learn(*record, reach, reach, exploration, 2.0, total)
    assert 0 <= total.min() <= total.max() <= H / exploration
    assert 0 <= -less.max() <= -less.min() <= 3 * H + 1e-9
    _, B = bl.planning.policy_values(world.mdp, played, -less / (3 * H))
    assert B.max() <= H + 1e-9
