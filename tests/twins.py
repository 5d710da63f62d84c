"""Second versions of shared parts, written from their docstrings."""

import math

import numpy as np


class Counting:
    """The episodes whose feedback is on its way."""

    def __init__(self, actions):
        self.waiting, self.delays, self.total, self.actions = {}, [], 0, actions

    def begin(self, k):
        threshold = math.sqrt(8 * (self.total + 1) / math.log(self.actions))
        threshold = min(threshold, 2 * max(self.delays, default=0) + 8)
        for j in [j for j in self.waiting if k - j > threshold]:
            del self.waiting[j]
        missing = len(self.waiting)
        self.waiting[k] = True
        self.total += 1 + missing
        mean = np.mean(self.delays) if self.delays else math.inf
        return missing, min(missing, mean)

    def arrive(self, j, k):
        self.delays.append(k - j)
        self.waiting.pop(j, None)


class Phases:
    """Doubling around Delayed OPPO: dense and slow, written from the pseudo-code and the settings.

    costs: "revealed", "weighted" or "averaged". known: dense transitions (H, S, A, S), or None for
    confidence sets with a radius of `width` times the paper's at K episodes. Averaged costs are
    lowered by `width` times the paper's deviation, but not where transitions are known. scale:
    factor on the step sizes. least: the smallest number of episodes for which one is remembered.
    """

    def __init__(self, problem, costs, known, paths, literal, K, width, scale, least=1000):
        H, S, A = problem.shape
        self.problem, self.costs, self.known, self.literal = problem, costs, known, literal
        self.width, self.scale, self.least = width, scale, least
        self.late_paths = known is None and paths == "late"
        self.arms = costs == "weighted" and H == 1 and not isinstance(problem.start, tuple)
        self.log = math.log(H * S * A * K / 0.4)
        self.kappa = {"weighted": float(A) if self.arms else A**1.5}.get(costs, 1.0)
        self.e = 1 if literal else max(1, math.ceil(math.log2(self.kappa)))
        self.n = np.zeros((H, S, A, S))
        self.sums, self.seen = np.zeros((H, S, A)), np.zeros((H, S, A))
        self.total, self.estimate, self.first, self.kept_from = np.zeros((H, S, A)), 0.0, 0, 0
        self.counting, self.missing = Counting(A), 0
        self.played, self.paths = {}, {}
        self.used, self.too_late, self.old = 0, 0, 0

    def parameters(self):
        """The step size eta, the exploration gamma and the threshold beta."""
        H, S, A = self.problem.shape
        N = 2.0**self.e
        if self.arms:
            return math.sqrt(math.log(A) / N), 0.0, math.inf
        if self.costs == "weighted":
            beta = math.sqrt(N / (H * S * A)) if self.late_paths else math.sqrt(N)
            return N ** (-2 / 3) / H, N ** (-1 / 3), beta
        skips = self.late_paths or self.costs == "averaged"
        return N**-0.5 / H, 0.0, math.sqrt(N / (H * S * A)) if skips else math.inf

    def begin(self, k):
        counted, _ = self.counting.begin(k)
        if k:
            self.estimate += self.kappa + (self.missing if self.literal else counted)
            before = self.e
            while self.estimate > 2.0**self.e:
                self.e += 1
                if self.literal:
                    break
            fresh = self.literal or (self.costs == "weighted" and not self.arms)
            if self.e > before and fresh:
                self.total[:], self.first = 0.0, k
        if not self.literal:
            longest = max(self.least, 4 * max(self.counting.delays, default=0))
            self.kept_from = max(self.kept_from, k - longest)
        self.missing += 1
        z = self.scale * self.parameters()[0] * self.total
        policy = np.exp(z.min(-1, keepdims=True) - z)
        policy /= policy.sum(-1, keepdims=True)
        self.played[k] = (policy, self.n.copy())
        return policy

    def observe(self, paths, costs, k):
        """paths: those of this batch. costs: (episode, values) of this batch, oldest first."""
        for path in paths:
            self.paths[path.episode] = path
            if path.episode >= self.kept_from:
                for h, (s, a) in enumerate(zip(path.states[:-1], path.actions, strict=True)):
                    self.n[h, s, a, path.states[h + 1]] += 1
        if self.costs == "averaged":
            for j, values in costs:
                path = self.paths[j]
                if j >= self.kept_from:
                    cells = (np.arange(len(values)), path.states[:-1], path.actions)
                    self.sums[cells] += values
                    self.seen[cells] += 1
        for j, values in costs:
            self.missing -= 1
            self.counting.arrive(j, k)
            keeps = not self.literal and (self.costs != "weighted" or self.arms)
            if j < self.kept_from or k - j > self.parameters()[2]:
                self.too_late += 1
            elif self.literal or keeps or j >= self.first:
                self.used += 1
                self.old += j < self.first
                self.total += self.q(j, values)

    def q(self, j, values):
        H, S, A = self.problem.shape
        policy, n = self.played[j]
        n = n if self.costs == "weighted" else self.n
        given = np.zeros((H, S, A))
        if self.costs == "revealed":
            given[:] = values
        elif self.costs == "averaged":
            log = math.log(8) + self.log  # ln(2 H S A K / delta), not ln(H S A K / (4 delta))
            width = 0.0 if self.known is not None else self.width * math.sqrt(log / 2)
            visits = np.maximum(self.seen, 1)
            given = np.maximum(self.sums / visits - width / np.sqrt(visits), 0) * (self.seen > 0)
        else:
            for h, (s, a) in enumerate(
                zip(self.paths[j].states[:-1], self.paths[j].actions, strict=True)
            ):
                reach = np.eye(S)[s]
                for t in reversed(range(h)):
                    reach = (policy[t] * -self.least_of(n, t, -reach)).sum(-1)
                reach = min(1.0, self.problem.start_probabilities @ reach)
                given[h, s, a] = values[h] / (reach * policy[h, s, a] + self.parameters()[1])
        V, Q = np.zeros(S), np.zeros((H, S, A))
        for h in reversed(range(H)):
            Q[h] = given[h] + self.least_of(n, h, V)
            V = (policy[h] * Q[h]).sum(-1)
        return Q

    def least_of(self, n, h, V):
        """The smallest p V (S, A) over the confidence set of step h."""
        if self.known is not None:
            return self.known[h] @ V
        return least_means(n[h], V, self.log, self.width)


def least_means(n, V, log, width):
    """Least p V (S, A) over the confidence set around the frequencies of the counts n (S, A, S)."""
    S, A, _ = n.shape
    found = np.zeros((S, A))
    for s, a in np.ndindex(S, A):
        visits = n[s, a].sum()
        p = n[s, a] / max(visits, 1)
        radius = 4 * np.sqrt(p * (1 - p) * log / max(visits, 1))
        radius = width * (radius + 10 * log / max(visits, 1))
        low, high = np.maximum(0, p - radius), np.minimum(1, p + radius)
        if visits == 0:
            low, high = np.zeros(S), np.ones(S)
        mass = low.copy()
        for t in np.argsort(V, kind="stable"):
            mass[t] += min(high[t] - low[t], 1 - mass.sum())
        found[s, a] = mass @ V
    return found
