"""The proof of docs/derivation.md in plain NumPy, for every state and step of a random run."""

import numpy as np

import belated as bl

rng = np.random.default_rng(0)
H, S, A, K, eta = 4, 3, 3, 60, 0.05
p = rng.dirichlet(np.ones(S), size=(H, S, A))
mdp = bl.MDP(bl.Transitions.from_dense(p), horizon=H)
costs = rng.random((K, H, S, A))
delays = rng.integers(0, 15, K)
delays[rng.random(K) < 0.1] = K  # lost: later than the end of the run
arrival = np.arange(K) + delays
best, _ = bl.planning.best_policy(mdp, costs.sum(axis=0))
D = np.minimum(delays, K - 1 - np.arange(K)).sum()
G = (H - np.arange(H))[:, None, None]


def softmax(logits):
    """The exponential weights (..., A) of logits."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def values(policy, k):
    """The value at the start and Q (H, S, A) of a policy for the costs of episode k."""
    V, Q = bl.planning.policy_values(mdp, policy, costs[k])
    return V[0, 0], Q


def run(rate_of):
    """Equation (2); rate_of(k, pending) gives the step sizes (H, 1, 1) of episode k."""
    Q, played, pending, rates = [], [], [], []
    for k in range(K):
        pending.append([j for j in range(k + 1) if arrival[j] >= k])
        rates.append(rate_of(k, pending))
        arrived = [Q[j] for j in range(k) if arrival[j] < k]
        played.append(softmax(-rates[k] * sum(arrived, np.zeros((H, S, A)))))
        Q.append(values(played[k], k)[1])
    return np.array(Q), np.array(played), pending, rates


def check(Q, played, pending, rates):
    """Every inequality of the proof; returns the regret."""
    assert ((Q >= 0) & (Q <= G)).all()  # (1)
    visits = bl.planning.occupancy(mdp, best).sum(axis=-1)  # (H, S)
    gaps = np.array([values(played[k], k)[0] - values(best, k)[0] for k in range(K)])
    local = (Q * (played - best)).sum(axis=-1)  # (K, H, S)
    assert np.allclose(gaps, (visits * local).sum(axis=(1, 2)))  # (3)
    ahead = np.array([softmax(-rates[k] * Q[: k + 1].sum(axis=0)) for k in range(K)])
    one = (Q * (ahead - best)).sum(axis=(0, 3))  # (I), (H, S)
    assert (one <= (np.log(A) / rates[-1])[:, :, 0] + 1e-9).all()
    for k in range(K):  # (6)
        drift = (Q[k] * (played[k] - ahead[k])).sum(axis=-1)
        assert (drift <= (rates[k] * G**2 * len(pending[k]))[:, :, 0] + 1e-9).all()
    assert sum(map(len, pending)) == K + D  # (7)
    return gaps.sum()


def anytime(k, pending):
    """The step sizes of section 6."""
    N = sum(map(len, pending))
    return np.sqrt(np.log(A) / (2 * N)) / G


def told(name, regret, bound):
    """One line per theorem."""
    print(f"{name}: regret {regret:.1f}, bound {bound:.1f}")
    assert regret <= bound


constant = run(lambda k, pending: np.full((H, 1, 1), eta))
squares = (np.arange(1, H + 1) ** 2).sum()
told("constant step size", check(*constant), H * np.log(A) / eta + eta * (K + D) * squares)
told("anytime", check(*run(anytime)), H * (H + 1) * np.sqrt(2 * np.log(A) * (K + D)))


def play(agent):
    """The policies of an agent of the library, its regret and its diagnostics."""
    played = []
    for k in range(K):
        played.append(agent.begin_episode().policy)
        agent.observe([bl.Costs(j, costs[j]) for j in range(k + 1) if arrival[j] == k])
    regret = sum(values(played[k], k)[0] - values(best, k)[0] for k in range(K))
    said = agent.diagnostics()
    return played, regret, said


def oppo(**update):
    """Delayed OPPO that knows the transitions."""
    update = bl.parts.Softmax(**update)
    return bl.DelayedOPPO(mdp.problem, transitions=mdp.transitions, update=update)


assert np.allclose(play(oppo(learning_rate=eta))[0], constant[1])  # the same policies

_, regret, said = play(oppo())  # section 7
overdue = said["given_up"] * H + said["came_late"] * H * (H + 1) / 2
N = np.log(A) / 2 / (said["learning_rate"] * H) ** 2  # from the last step size, at h = 1
assert N <= K + D
told("anytime agent", regret, overdue + H * (H + 1) * np.sqrt(2 * np.log(A) * N))

_, regret, said = play(bl.wrappers.Doubling(oppo()))  # section 8
overdue = said["given_up"] * H + said["came_late"] * H * (H + 1) / 2
N = said["estimate"] + 1
assert N <= K + D
bound = overdue + H**2 * np.log(A) * np.sqrt(2 * (N - 1))
told("doubling", regret, bound + (H + 1) * (2 * H + 1) / 6 * (1 + 2 * np.sqrt(N - 1)))
