"""A second planner: dense and slow, written from the docstrings and the formulas of the docs."""

import math

import numpy as np

KEEPS = (1.0, 0.99, 0.9)


def normal(y, mean, variance):
    return math.exp(-0.5 * (y - mean) ** 2 / variance) / math.sqrt(2 * math.pi * variance)


class PlannerTwin:
    """known: dense transitions (H, S, A, S) or None."""

    def __init__(self, problem, known=None, changing=True, seed=0):
        self.problem, self.known, self.seed = problem, known, seed
        H = problem.horizon
        self.keeps = KEEPS if changing else KEEPS[:1]
        self.rate = min(0.08, 0.1 / H) if changing else 0.0
        self.patience, self.fruitless = 100, 0
        # memory -> {(s, a) or (h, s, a): [sum, weight]}
        self.memories = [{} for _ in self.keeps] + [{}]
        self.pooled = len(self.keeps)
        self.g = [0.0] * len(self.memories)
        self.local = {}
        self.err, self.coins = [0.0] * len(self.memories), 0.0
        self.m0, self.t2, self.eps = 0.5, 1 / 12, 0.5
        self.n = {}  # (t, s, a) -> {next state: count}
        self.said, self.coming, self.paths, self.costs = {}, {}, {}, {}
        self.delays = []

    def phi(self):
        if self.coins == 0:
            return 1.0
        return min(min(self.err) / self.coins, 1.0)

    def noise(self, s, a):
        total, weight = self.memories[0].get((s, a), (0.0, 0.0))
        m = (total + 1) / (weight + 2)
        return max(0.004, self.phi() * m * (1 - m))

    def among(self, s, a):
        """The noise of a cell if it belongs to the core."""
        return max(self.noise(s, a), self.phi() * self.m0 * (1 - self.m0))

    def fit(self):
        cells, r = [], []
        for cell, (total, weight) in sorted(self.memories[0].items()):
            y, v = total / weight, self.among(*cell) / weight
            slab = self.eps * normal(y, 0.5, 1 / 12 + self.noise(*cell) / weight)
            core = (1 - self.eps) * normal(y, self.m0, self.t2 + v)
            cells.append((y, v))
            r.append(slab / (slab + core))
        if not cells:
            return
        y, v = np.array(cells).T
        r = np.array(r)
        om = (1 - r) / (self.t2 + v)
        m0 = (np.sum(om * y) + 12 * 0.5) / (np.sum(om) + 12)
        om = (1 - r) / (self.t2 + v) ** 2
        po = 0.1 * om.mean()
        T = (np.sum(om * ((y - self.m0) ** 2 - v)) + po / 12) / (np.sum(om) + po)
        self.m0, self.t2 = m0, min(max(T, 2.5e-5), 1 / 12)
        self.eps = (1 + r.sum()) / (2 + len(cells))

    def slow(self, s, a):
        """Mean and variance of the two-part posterior, by Bayes' rule part by part."""
        total, weight = self.memories[0].get((s, a), (0.0, 0.0))
        parts = []
        for share, mean, variance, g in (
            (1 - self.eps, self.m0, self.t2, self.among(s, a)),
            (self.eps, 0.5, 1 / 12, self.noise(s, a)),
        ):
            likely = normal(total / weight, mean, variance + g / weight) if weight else 1.0
            precision = 1 / variance + weight / g
            parts.append((share * likely, (mean / variance + total / g) / precision, 1 / precision))
        norm = sum(share for share, _, _ in parts)
        mean = sum(share * m for share, m, _ in parts) / norm
        second = sum(share * (v + m**2) for share, m, v in parts) / norm
        return mean, second - mean**2

    def say(self, s, a, h):
        """Means and variances of all memories in a cell at a step."""
        kappa = 12 * self.noise(s, a)
        mean, variance = self.slow(s, a)
        means, variances, behind = [mean], [variance], 0.5
        for memory in self.memories[1 : self.pooled]:
            total, weight = memory.get((s, a), (0.0, 0.0))
            behind = (total + kappa * behind) / (weight + kappa)
            means.append(behind)
            variances.append(self.noise(s, a) / (weight + kappa))
        total, weight = self.memories[-1].get((h, s, a), (0.0, 0.0))
        means.append((total + kappa * mean) / (weight + kappa))
        variances.append(self.noise(s, a) / (weight + kappa))
        return means, variances

    def begin(self, k):
        H, S, A = self.problem.shape
        if self.delays:
            limit = 2 * np.mean(self.delays) + 5
            self.coming = {j: c for j, c in self.coming.items() if k - j <= limit}
        rng = np.random.Generator(np.random.Philox(key=self.seed, counter=(0, 0, 0, k)))
        rate = self.rate * min(1, self.patience / max(self.fruitless, 1))
        probing = rng.random() < rate
        self.fruitless += probing
        optimism = 1.5 if probing else 0.8
        draws = rng.random((H, S))
        policy = np.zeros((H, S, A))
        self.said[k] = {}
        V = np.zeros(S)
        for h in reversed(range(H)):
            Q = np.zeros((S, A))
            for s in range(S):
                for a in range(A):
                    means, variances = self.say(s, a, h)
                    self.said[k][h, s, a] = means
                    if probing:
                        M, u = means[1], variances[1]
                    else:
                        M, u = self.weighed(s, a, means, variances)
                    pend = sum(
                        visits
                        for rows in self.coming.values()
                        for row, visits in rows.items()
                        if row[1:] == (s, a)
                    )
                    u = u / (1 + u * pend / self.noise(s, a))
                    e, variance = self.next_value(h, s, a, V)
                    Q[s, a] = M + e - optimism * math.sqrt(u + variance)
            Q = np.maximum(Q, 0)
            for s in range(S):
                best = np.flatnonzero(Q[s] <= Q[s].min() + 1e-9)
                policy[h, s, best[int(draws[h, s] * len(best))]] = 1
            V = Q.min(1)
        self.fit()
        self.coming[k] = self.visits(policy)
        return policy

    def weighed(self, s, a, means, variances):
        local = self.local.get((s, a), [0.0] * len(means))
        scores = np.array(self.g) + local
        scores -= scores.max()
        w = np.where(scores > math.log(0.01), np.exp(scores), 0)
        w = w / w.sum()
        return w @ means, w @ variances

    def row(self, h, s, a):
        return (0 if self.problem.homogeneous else h, s, a)

    def next_value(self, h, s, a, V):
        if self.known is not None:
            return self.known[h, s, a] @ V, 0.0
        row = self.row(h, s, a)
        pend = sum(rows.get(row, 0.0) for rows in self.coming.values())
        seen = self.n.get(row)
        if not seen:
            return V.mean() * pend / (1 + pend), 0.0
        n = sum(seen.values())
        p = np.zeros(len(V))
        for state, number in seen.items():
            p[state] = number / n
        mean = (n * p @ V + 0.05 * V.mean()) / (n + 0.05)
        return mean, max(p @ V**2 - (p @ V) ** 2, 0) / (n + pend + 1)

    def visits(self, policy):
        H, S, _ = self.problem.shape
        rows = {}
        mass = self.problem.start_probabilities
        for h in range(H):
            onward = np.zeros(S)
            for s in range(S):
                a = int(policy[h, s].argmax())
                row = self.row(h, s, a)
                if mass[s] > 0:
                    rows[row] = rows.get(row, 0.0) + mass[s]
                    if self.known is not None:
                        onward += mass[s] * self.known[h, s, a]
                    elif self.n.get(row):
                        n = sum(self.n[row].values())
                        for state, number in self.n[row].items():
                            onward[state] += mass[s] * number / n
            mass = onward
        return {row: math.floor(min(x, 1) * 2**20) / 2**20 for row, x in rows.items()}

    def observe(self, paths, costs, k):
        """paths, costs: the new ones, by episode."""
        H = self.problem.horizon
        for j in sorted(paths):
            path = self.paths[j] = paths[j]
            for h in range(H):
                row = self.row(h, path.states[h], path.actions[h])
                seen = self.n.setdefault(row, {})
                seen[path.states[h + 1]] = seen.get(path.states[h + 1], 0) + 1
            if j in self.coming:
                self.coming[j] = {
                    self.row(h, int(path.states[h]), int(path.actions[h])): 1.0 for h in range(H)
                }
        self.costs.update(costs)
        for j in sorted(paths.keys() | costs.keys()):
            if j in self.paths and j in self.costs:
                self.learn(j)
                self.coming.pop(j, None)
                self.delays.append(k - j)

    def forget(self, j):
        self.coming.pop(j, None)

    def learn(self, j):
        H = self.problem.horizon
        path, costs = self.paths[j], self.costs[j]
        steps = {}
        for h in range(H):
            steps.setdefault((int(path.states[h]), int(path.actions[h])), []).append(h)
        count = len(self.memories)
        errors, tolls, coins = np.zeros(count), np.zeros(count), 0.0
        for (s, a), hs in steps.items():
            said = np.array([self.said[j][h, s, a] for h in hs])  # (visits, memories)
            error = ((costs[hs][:, None] - said) ** 2).mean(0)
            toll = np.full(count, 0.005)
            toll[0] = 0
            errors += error
            tolls += toll
            coins += (said[:, 0] * (1 - said[:, 0])).mean()
            local = np.array(self.local.get((s, a), [0.0] * count)) - 2 * (error + toll)
            self.local[s, a] = np.maximum(local - local.max(), math.log(0.01))
        g = np.array(self.g) - 2 * (errors + tolls) / math.sqrt(H)
        self.g = np.maximum(g - g.max(), math.log(0.01))
        if self.g[0] < 0:
            self.fruitless = 0
        self.err = np.array(self.err) + errors
        self.coins += coins
        for keep, memory in zip(self.keeps, self.memories, strict=False):
            for cell in memory:
                memory[cell] = [keep * x for x in memory[cell]]
            for (s, a), hs in steps.items():
                total, weight = memory.get((s, a), (0.0, 0.0))
                memory[s, a] = [total + costs[hs].mean(), weight + 1.0]
        for h in range(H):
            cell = (h, int(path.states[h]), int(path.actions[h]))
            total, weight = self.memories[-1].get(cell, (0.0, 0.0))
            self.memories[-1][cell] = [total + costs[h], weight + 1.0]
