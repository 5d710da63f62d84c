"""Bounds that hold on every run, at every K: regret matching+, the anytime rule.

Full information, known transitions; costs random, chosen against the policy that is played, or in
the blocks of the lower bound; delays of every kind, lost feedback included.
"""

import itertools
import math

import numpy as np
import pytest

import belated as bl
import oracles

KINDS = ["random", "adaptive", "blocks", "one arm"]
DELAYS = ["none", "geometric", "fixed", "reversed", "lost", "bursts", "huge"]


def delays_of(kind, K, rng):
    if kind == "reversed":  # batches of 20 arrive at once, some out of order
        return np.array([19 - k % 20 + (7 if k % 3 == 0 else 0) for k in range(K)])
    if kind == "huge":
        return np.where(rng.random(K) < 0.1, rng.integers(50, 200, K), 1)
    model = {
        "none": bl.delays.none(),
        "geometric": bl.delays.geometric(8),
        "fixed": bl.delays.fixed(25),
        "lost": bl.delays.lost(0.2, bl.delays.geometric(5)),
        "bursts": bl.delays.bursts(30),
    }[kind]
    return model.draw(K, rng)


def play(mdp, agent, costs_kind, delays, rng):
    """Run K episodes; return costs (K, H, S, A), values (K,)."""
    H, S, A = mdp.problem.shape
    p, start = oracles.dense(mdp), mdp.problem.start_probabilities
    line, functions, values = bl.DelayLine(), [], []
    for k in range(len(delays)):
        policy = agent.begin_episode().policy
        if costs_kind == "random":
            costs = rng.random((H, S, A))
        elif costs_kind == "adaptive":  # high where the learner goes
            costs = np.eye(A)[policy.argmax(-1)]
        elif costs_kind == "blocks":
            block = np.random.default_rng(k // 26).integers(0, 2, A)
            costs = np.broadcast_to(block.astype(float), (H, S, A))
        else:
            costs = np.ones((H, S, A))
            costs[..., A - 1] = 0.5
        functions.append(costs)
        values.append(start @ oracles.values(p, costs, policy)[0][0])
        line.push([bl.Costs(k, costs)], int(delays[k]))
        agent.observe(line.release(k))
    return np.array(functions), np.array(values)


def regrets(mdp, functions, values):
    """R_K for every K, with the best fixed policy of the first K episodes."""
    found = []
    for K in range(1, len(values) + 1):
        _, best = bl.planning.best_policy(mdp, functions[:K].sum(0))
        found.append(values[:K].sum() - best)
    return np.array(found)


def reported(delays, K):
    """The number of the first K episodes that ever report, and their delays, cut off at K."""
    came = delays[:K] != bl.NEVER
    cut = np.minimum(delays[:K], K - 1 - np.arange(K))
    return int(came.sum()), int(cut[came].sum())


def problem_of(rng, H, S, A):
    return oracles.random_world(rng, H, S, A).mdp


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hints", [False, True])
def test_regret_matching_stays_below_its_bound_at_every_K(hints, kind, delay):
    rng = np.random.default_rng([DELAYS.index(delay), KINDS.index(kind)])
    H, S, A, K = 2, 2, 3, 120
    mdp, delays = problem_of(rng, H, S, A), delays_of(delay, K, rng)
    update = bl.parts.RegretMatching(hints=hints)
    agent = Noting(bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions, update=update))
    functions, values = play(mdp, agent, kind, delays, rng)
    n = np.array([note[3] for note in agent.notes])
    for k, regret in enumerate(regrets(mdp, functions, values)):
        K, (came, D) = k + 1, reported(delays, k + 1)
        N = n[:K][delays[:K] != bl.NEVER].sum()
        bound = H * (H + 1) / 2 * math.sqrt((A - 1) * (came + 2 * D + 2 * N)) + H * (K - came)
        assert regret <= bound
        whole = int(np.minimum(delays[:K], k - np.arange(K)).sum())
        weight = 3 * K + 4 * whole if hints else K + 2 * whole
        assert regret <= H * (H + 1) / 2 * math.sqrt((A - 1) * weight)


def test_overlapping_pairs_and_hints_are_counted_once():
    """All delays of K = 5: the pairs of the proof sum to D, the largest hints to K + D."""
    K, most = 5, 0
    for delays in itertools.product(range(K + 1), repeat=K):  # later than the end: at the end
        arrival = [min(j + d, K - 1) for j, d in enumerate(delays)]
        order = sorted(range(K), key=lambda j: (arrival[j], j))
        mu = [
            sum(arrival[i] >= j for i in order[: order.index(j)])  # after j began and before j
            for j in range(K)
        ]
        D = sum(min(d, K - 1 - j) for j, d in enumerate(delays))
        assert sum(mu) == D
        missing = [sum(arrival[i] >= k for i in range(k)) for k in range(K)]
        assert sum(1 + m for m in missing) == K + D
        seen, N = [], 0.0
        for k in range(K):  # n = 1 + min(missing, mean delay of what has arrived)
            seen += [delays[j] for j in range(k) if j + delays[j] == k - 1]
            N += 1 + (min(missing[k], sum(seen) / len(seen)) if seen else missing[k])
        assert N <= K + D
        most = max(most, N / (K + D))
    assert most == 1.0
    # with a fixed delay of 3 both counts are tight once the first costs have arrived
    agent = bl.DelayedOPPO(bl.Problem(1, 2, 1), update=bl.parts.RegretMatching())
    line = bl.DelayLine()
    for k in range(20):
        agent.begin_episode()
        assert agent.diagnostics()["coming"] == 1 + min(k, 3)
        path = bl.Trajectory(k, [0, 0], [0])
        line.push([path, bl.Costs(k, np.zeros((1, 1, 2)))], 3)
        agent.observe(line.release(k))


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_anytime_rule_stays_below_its_bound_though_it_gives_up(kind, delay):
    rng = np.random.default_rng([7, DELAYS.index(delay), KINDS.index(kind)])
    H, S, A, K = 2, 2, 3, 120
    mdp, delays = problem_of(rng, H, S, A), delays_of(delay, K, rng)
    agent = Noting(bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions))
    functions, values = play(mdp, agent, kind, delays, rng)
    for k, regret in enumerate(regrets(mdp, functions, values)):
        P, given_up, late, _ = agent.notes[k]
        bound = H * (H + 1) * math.sqrt(2 * math.log(A) * P)
        assert regret <= bound + H * given_up + H * (H + 1) / 2 * late
        if delay not in ("lost",):  # nothing is lost: giving up costs no more than waiting
            D = reported(delays, k + 1)[1]
            most = math.sqrt(math.log(A) * P / 2) + math.sqrt(2 * D * math.log2(2 * (k + 1)))
            assert late <= most
    if delay == "lost":
        assert agent.notes[-1][1] >= 5
        forever = sum(1 + sum(j + delays[j] >= k for j in range(k)) for k in range(K))
        assert agent.notes[-1][0] < forever


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_doubling_stays_below_its_bound_at_every_K(kind, delay):
    """Derivation, section 8: the sum over episodes, and the closed form for weight 1."""
    rng = np.random.default_rng([9, DELAYS.index(delay), KINDS.index(kind)])
    mdp, scale = problem_of(rng, 2, 2, 3), float(rng.choice([1.0, 4.0]))
    phase, _, given_up, _ = check_doubling(mdp, kind, delays_of(delay, 120, rng), scale, rng)
    assert phase >= 7
    if delay == "lost":
        assert given_up >= 5


@pytest.mark.parametrize("delay", ["none", "fixed", "reversed"])
def test_doubling_stays_below_its_bound_where_it_is_far_below_the_largest_regret(delay):
    """Two arms, many episodes: here step sizes that are much too large break the bound."""
    rng = np.random.default_rng(DELAYS.index(delay))
    mdp, K = problem_of(rng, 1, 1, 2), 1500
    _, N, given_up, _ = check_doubling(mdp, "adaptive", delays_of(delay, K, rng), 1.0, rng)
    assert math.log(2) * math.sqrt(2 * N) + 2 * math.sqrt(N) + given_up < 0.45 * K


def check_doubling(mdp, kind, delays, scale, rng):
    """Play and compare with the bound at every K; returns the last values."""
    H, _, A = mdp.problem.shape
    update = bl.parts.Softmax(scale=scale)
    inside = bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions, update=update)
    agent = Phased(bl.wrappers.Doubling(inside))
    functions, values = play(mdp, agent, kind, delays, rng)
    squares, drift, before = H * (H + 1) * (2 * H + 1) / 6, 0.0, 0
    for k, regret in enumerate(regrets(mdp, functions, values)):
        phase, N, given_up, late = agent.notes[k]
        eta = scale * 2 ** (-phase / 2) / H
        drift += eta * (N - before)
        before = N
        lost = H * given_up + H * (H + 1) / 2 * late
        bound = lost + H * math.log(A) / eta + squares * drift
        assert regret <= bound
        first = H * H * math.log(A) / scale * math.sqrt(2 * max(N - 1, 1))
        second = scale * (H + 1) * (2 * H + 1) / 6 * (1 + 2 * math.sqrt(N - 1))
        assert bound <= lost + first + second + 1e-9
    return agent.notes[-1]


@pytest.mark.parametrize("delay", DELAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_literal_doubling_stays_below_its_bound_at_every_K(kind, delay):
    """Derivation, section 8: phase by phase, and what older phases add."""
    rng = np.random.default_rng([10, DELAYS.index(delay), KINDS.index(kind)])
    H, S, A, K = 2, 2, 3, 120
    mdp, delays = problem_of(rng, H, S, A), delays_of(delay, K, rng)
    inside = bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions)
    agent = Phased(bl.wrappers.Doubling(inside, literal=True))
    functions, values = play(mdp, agent, kind, delays, rng)
    phases, j = np.array([note[0] for note in agent.notes]), np.arange(K)
    arrival = np.minimum(j + delays, 10 * K)
    for k, regret in enumerate(regrets(mdp, functions, values)):
        bound = 0.0
        for e in np.unique(phases[: k + 1]):
            mine = j[: k + 1][phases[: k + 1] == e]
            eta = 2.0 ** (-e / 2) / H
            pending = (np.minimum(arrival[mine], mine[-1]) - mine + 1).sum()
            bound += H * math.log(A) / eta + eta * H * (H + 1) * (2 * H + 1) / 6 * pending
        come = j[: k + 1][arrival[: k + 1] <= k]
        older = (phases[come] < phases[arrival[come]]).sum()
        assert regret <= bound + H * (H + 1) / 2 * older


class Phased:
    """Notes the phase of each episode and what its doubling counted, as the episode ends."""

    def __init__(self, agent):
        self.agent, self.notes = agent, []

    def begin_episode(self, now=None):
        return self.agent.begin_episode()

    def observe(self, records, now=None):
        self.agent.observe(records)
        waiting = self.agent._waiting
        self.notes.append((self.agent.phase, waiting.total, waiting.given_up, waiting.late))


class Noting:
    """Notes what an agent counted when each episode ended."""

    def __init__(self, agent):
        self.agent, self.notes, self.information = agent, [], "full"

    def begin_episode(self, now=None):
        episode = self.agent.begin_episode()
        self.coming = self.agent.diagnostics().get("coming", 0.0)
        return episode

    def observe(self, records, now=None):
        self.agent.observe(records)
        waiting = self.agent._waiting
        self.notes.append((waiting.total, waiting.given_up, waiting.late, self.coming))


@pytest.mark.parametrize(("name", "factor"), [("anytime", 3), ("exp3", 4)])
@pytest.mark.long
def test_lost_feedback_does_not_make_regret_linear(name, factor):
    """A fifth of the feedback is lost, arms are stationary: regret after ten times the episodes.

    If lost episodes counted as missing for ever, it would be ten times as large. One fixed seed;
    the gap between the arms is large on purpose: with means 0.6, 0.4, 0.5, 0.6 and K from 2,000 to
    20,000 the factors are 5.4 (anytime) and 5.5 (EXP3). The limits were set after seeing the
    factors.
    """
    world = bl.environments.bandit([0.9, 0.2, 0.8, 0.9])
    delays = bl.delays.lost(0.2, bl.delays.geometric(5))
    found = []
    for K in (1000, 10_000):
        costs = bl.parts.Weighted() if name == "exp3" else bl.parts.Revealed()
        agent = bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions, costs=costs)
        found.append(bl.simulate(world, agent, delays=delays, episodes=K, seed=0).regret[-1])
    assert found[1] < factor * found[0]


@pytest.mark.long
def test_lost_feedback_and_doubling_on_arms_that_are_hard_to_tell():
    """A fifth of the feedback is lost: regret after ten times the episodes, one fixed seed.

    The factor is 5.4, and was 9.0 when every phase began with a uniform policy (uniform play:
    11.1). The limit of 7 was set after seeing both.
    """
    world = bl.environments.bandit([0.6, 0.4, 0.5, 0.6])
    delays = bl.delays.lost(0.2, bl.delays.geometric(5))
    agent = bl.wrappers.Doubling(bl.DelayedOPPO(world.problem, transitions=world.mdp.transitions))
    run = bl.simulate(world, agent, delays=delays, episodes=20_000, seed=0)
    assert run.regret[-1] < 7 * run.regret[1999]
    assert run.regret[-1] < 0.45 * (run.uniform - run.comparator).sum()
