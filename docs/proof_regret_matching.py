"""The bounds of docs/algorithms/regret_matching.md on a random run, and DORM+ as a special case."""

import numpy as np

import belated as bl

rng = np.random.default_rng(1)
H, S, A, K = 3, 3, 4, 200
mdp = bl.MDP(bl.Transitions.from_dense(rng.dirichlet(np.ones(S), size=(H, S, A))), horizon=H)
costs = rng.random((K, H, S, A)) * rng.random((1, H, S, A))
delays = rng.integers(0, 15, K)
delays[rng.random(K) < 0.1] = bl.NEVER
arrival = np.arange(K) + delays
J = np.flatnonzero(arrival < K)  # what reports before the end
cut = delays[J].sum()  # D'


def check(*, hints):
    """The counting, the length of the regrets, and the theorem."""
    agent = bl.DelayedOPPO(
        mdp.problem, transitions=mdp.transitions, update=bl.parts.RegretMatching(hints=hints)
    )
    values, Q, played, n, order, begun_at = [], [], [], [], [], []
    for k in range(K):
        begun_at.append(len(order))
        played.append(agent.begin_episode().policy)
        n.append(agent.diagnostics()["coming"])  # 0 without hints
        V, q = bl.planning.policy_values(mdp, played[k], costs[k])
        values.append(V[0, 0])
        Q.append(q)
        come = [j for j in range(k + 1) if arrival[j] == k]
        agent.observe([bl.Costs(j, costs[j]) for j in come])
        order.extend(come)
    assert sorted(order) == list(J)
    mu = [order.index(j) - begun_at[j] for j in J]
    assert sum(mu) <= cut  # each pair once
    N = sum(n[j] for j in J)
    G = (H - np.arange(H))[:, None]
    R = np.zeros((H, S, A))
    for j in order:
        r = (played[j] * Q[j]).sum(axis=-1, keepdims=True) - Q[j]
        assert ((r**2).sum(axis=-1) <= (A - 1) * G**2 + 1e-9).all()
        R = np.maximum(R + r, 0)
    assert ((R**2).sum(axis=-1) <= (A - 1) * G**2 * (len(J) + 2 * cut + 2 * N)).all()
    _, best = bl.planning.best_policy(mdp, costs.sum(axis=0))
    bound = H * (H + 1) / 2 * np.sqrt((A - 1) * (len(J) + 2 * cut + 2 * N)) + H * (K - len(J))
    regret = sum(values) - best
    print(f"hints={hints}: regret {regret:.1f}, bound {bound:.1f}, N = {N:.0f}")
    assert regret <= bound


def dorm_plus(losses, delay):
    """What DORM+ without hints plays, one row per round."""
    played, regret = [], np.zeros(losses.shape[1])
    for t in range(len(losses)):
        if t > delay:
            loss, weights = losses[t - delay - 1], played[t - delay - 1]
            regret = np.maximum(regret + loss @ weights - loss, 0)
        uniform = np.full(len(regret), 1 / len(regret))
        played.append(regret / regret.sum() if regret.sum() > 0 else uniform)
    return played


print(f"K' = {len(J)} of {K}, D' = {cut}")
check(hints=False)
check(hints=True)

losses = rng.random((60, 5))
agent = bl.DelayedOPPO(bl.Problem(1, 5, 1), update=bl.parts.RegretMatching(hints=False))
for t, weights in enumerate(dorm_plus(losses, delay=7)):
    assert np.allclose(agent.begin_episode().policy[0, 0], weights)
    if t >= 7:
        path = bl.Trajectory(t - 7, states=[0, 0], actions=[0])
        agent.observe([path, bl.Costs(t - 7, losses[t - 7].reshape(1, 1, 5))])
