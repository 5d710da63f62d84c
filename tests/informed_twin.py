"""A second planner for full information: dense and slow, written from the docstrings."""

import math

import numpy as np

KEEPS = (1.0, 0.97, 0.8)
LEAST, FLOOR = math.log(0.01), math.log(0.0001)


def normal(y, mean, variance):
    return np.exp(-0.5 * (y - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)


class InformedTwin:
    """known: dense transitions (H, S, A, S) or None."""

    def __init__(self, problem, known=None, changing=True, seed=0):
        self.problem, self.known, self.seed = problem, known, seed
        self.keeps = KEEPS if changing else KEEPS[:1]
        H, S, A = problem.shape
        self.sums = [np.zeros((H, S, A)) for _ in self.keeps]
        self.weights = [0.0] * len(self.keeps)
        self.g = np.zeros(len(self.keeps))
        self.local = np.zeros((len(self.keeps), H, S, A))
        self.log_weights = np.array([FLOOR, 0.0])
        self.err, self.coins = np.zeros(len(self.keeps)), 0.0
        self.m0, self.t2, self.eps = 0.5, 1 / 12, 0.5
        self.R, self.hint = np.zeros((H, S, A)), np.zeros((H, S, A))
        self.n = np.zeros((H, S, A, S))  # counts per step; summed over steps if homogeneous
        self.suggested, self.coming, self.delays = {}, {}, []
        self.counted, self.total = [], 0
        self.steps = 1  # steps of the costs that came; 1 while they are the same at every step

    def phi(self):
        return min(self.err.min() / self.coins, 1) if self.coins else 1.0

    def noises(self, mean, n):
        """The noise of a cell, and its noise if it belongs to the core."""
        m = (n * mean + 1) / (n + 2)
        noise = np.maximum(0.004, self.phi() * m * (1 - m))
        return noise, np.maximum(noise, self.phi() * self.m0 * (1 - self.m0))

    def slab(self, y, n):
        noise, among = self.noises(y, n)
        slab = self.eps * normal(y, 0.5, 1 / 12 + noise / n)
        return slab / (slab + (1 - self.eps) * normal(y, self.m0, self.t2 + among / n))

    def fit(self):
        """One update of the prior from the cells, of one step while the steps are alike."""
        y, n = (self.sums[0] / self.weights[0])[: self.steps], self.weights[0]
        r, v = self.slab(y, n), self.noises(y, n)[1] / n
        om = (1 - r) / (self.t2 + v)
        m0 = ((om * y).sum() + 12 * 0.5) / (om.sum() + 12)
        om = (1 - r) / (self.t2 + v) ** 2
        po = 0.1 * om.mean()
        target = ((om * ((y - self.m0) ** 2 - v)).sum() + po / 12) / (om.sum() + po)
        self.m0, self.eps = m0, (1 + r.sum()) / (2 + r.size)
        self.t2 = min(max(target, 2.5e-5), 1 / 12)

    def say(self):
        """The means of the memories; the slowest one has the learned prior."""
        total, n = self.sums[0], self.weights[0]
        y = total / n if n else np.full(total.shape, 0.5)
        noise, among = self.noises(y, n)
        r = self.slab(y, n) if n else self.eps
        core = (self.m0 / self.t2 + total / among) / (1 / self.t2 + n / among)
        slab = (0.5 * 12 + total / noise) / (12 + n / noise)
        said, behind = [(1 - r) * core + r * slab], 0.5
        for total, n in zip(self.sums[1:], self.weights[1:], strict=True):
            behind = (total + 12 * noise * behind) / (n + 12 * noise)
            said.append(behind)
        return said

    def counts(self, h):
        return self.n.sum(0) if self.problem.homogeneous else self.n[h]

    def frequencies(self, h):
        if self.known is not None:
            return self.known[h]
        n = self.counts(h)
        return n / np.maximum(n.sum(2, keepdims=True), 1)

    def begin(self, k):
        A = self.problem.actions
        if self.delays:
            limit = 2 * np.mean(self.delays) + 5
            self.coming = {j: v for j, v in self.coming.items() if k - j <= limit}
        ahead = 1 + self.expected_reports(k)
        lean = np.maximum(self.R + ahead * self.hint, 0)
        total = lean.sum(2, keepdims=True)
        matched = np.where(total > 0, lean / np.where(total > 0, total, 1), 1 / A)
        self.said = self.say()
        if self.weights[0]:
            self.fit()
        draws = np.random.Generator(np.random.Philox(key=self.seed, counter=(0, 0, 0, k)))
        planned = self.plan(draws.random(self.problem.shape[:2]))
        w = np.where(self.log_weights > FLOOR, np.exp(self.log_weights), 0)
        played = (w[0] * matched + w[1] * planned) / w.sum()
        self.suggested[k] = played, matched, planned, self.said
        self.coming[k] = self.visits(played)
        return played

    def expected_reports(self, k):
        """The number of reports on their way: those missing, at most the mean delay (Little)."""
        A = self.problem.actions
        limit = min(
            2 * max(self.delays, default=0) + 8,
            math.sqrt(8 / math.log(A) * (self.total + 1)),
        )
        self.counted = [j for j in self.counted if k - j <= limit]
        missing = len(self.counted)
        self.counted.append(k)
        self.total += 1 + missing
        return min(missing, np.mean(self.delays) if self.delays else math.inf)

    def plan(self, draws):
        H, S, A = self.problem.shape
        score = self.g[:, None, None, None] + self.local
        score -= score.max(0)
        w = np.where(score > LEAST, np.exp(score), 0)
        w /= w.sum(0)
        costs = sum(w[m] * mean for m, mean in enumerate(self.said))
        policy, V = np.zeros((H, S, A)), np.zeros(S)
        pend = sum(self.coming.values(), np.zeros((H, S, A)))
        for h in reversed(range(H)):
            Q = np.zeros((S, A))
            for s in range(S):
                for a in range(A):
                    Q[s, a] = costs[h, s, a] + self.next_value(h, s, a, V, pend[h, s, a])
            Q = np.maximum(Q, 0)
            for s in range(S):
                best = np.flatnonzero(Q[s] <= Q[s].min() + 1e-9)
                policy[h, s, best[int(draws[h, s] * len(best))]] = 1
            V = Q.min(1)
        return policy

    def next_value(self, h, s, a, V, pend):
        """The mean next value; an unknown state has the value 0."""
        if self.known is not None:
            return self.known[h, s, a] @ V
        n = self.counts(h)[s, a]
        if not n.any():
            return V.mean() * pend / (1 + pend)
        p = (n + 0.05 / len(V)) / (n.sum() + 0.05 + 0.02)
        return p @ V

    def reach(self, policy):
        mass, found = self.problem.start_probabilities, []
        for h in range(self.problem.horizon):
            found.append(mass)
            mass = np.einsum("s,sa,sat->t", mass, policy[h], self.frequencies(h))
        return np.array(found)[:, :, None]

    def visits(self, policy):
        """Expected visits of the rows of every step (H, S, A), equal over steps if homogeneous."""
        rows = self.reach(policy) * policy
        if self.problem.homogeneous:
            rows = np.broadcast_to(rows.sum(0), rows.shape)
        return np.floor(np.minimum(rows, 1) * 2**20) / 2**20

    def observe(self, paths, costs, k):
        H, S, A = self.problem.shape
        for path in paths.values():
            for h in range(H):
                self.n[h, path.states[h], path.actions[h], path.states[h + 1]] += 1
            self.coming.pop(path.episode, None)
        for j in sorted(costs):
            self.steps = max(self.steps, len(costs[j]))
            self.learn(j, np.broadcast_to(costs[j], (H, S, A)))
            self.counted = [i for i in self.counted if i != j]
            self.delays.append(k - j)

    def learn(self, j, costs):
        H = self.problem.horizon
        played, matched, planned, said = self.suggested[j]
        values = [self.value(costs, policy) for policy in (matched, planned)]
        scores = self.log_weights - 2 / H * np.array(values) - (0.1, 0)
        self.log_weights = np.maximum(scores - scores.max(), FLOOR)
        errors = np.array([(costs - mean) ** 2 for mean in said])  # (M, H, S, A)
        cells = costs[: self.steps].size
        self.err = self.err + cells * errors.mean((1, 2, 3))
        self.coins += cells * (said[0] * (1 - said[0])).mean()
        self.g = self.g - 2 * math.sqrt(H) * errors.mean((1, 2, 3))
        self.g = np.maximum(self.g - self.g.max(), LEAST)
        self.local = self.local - 2 * errors
        self.local = np.maximum(self.local - self.local.max(0), LEAST)
        for m, keep in enumerate(self.keeps):
            self.sums[m] = keep * self.sums[m] + costs
            self.weights[m] = keep * self.weights[m] + 1
        Q = self.q(costs, played)
        r = (played * Q).sum(2, keepdims=True) - Q
        self.R = np.maximum(self.R + r, 0)
        self.hint = self.hint + (r - self.hint) / 4

    def value(self, costs, policy):
        return (self.reach(policy) * policy * costs).sum()

    def q(self, costs, policy):
        """Q of a policy; clipped if p is unknown."""
        H, S, A = self.problem.shape
        Q, V = np.zeros((H, S, A)), np.zeros(S)
        for h in reversed(range(H)):
            Q[h] = costs[h] + self.frequencies(h) @ V
            if self.known is None:
                Q[h] = np.clip(Q[h], 0, H - h)
            V = (policy[h] * Q[h]).sum(1)
        return Q
