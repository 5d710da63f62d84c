"""Backward passes that are optimistic about unknown transitions.

`confident` minimises over the box of every row (`counting.box`) and the simplex. With the next
values sorted once per step, the best distribution fills the box from the smallest value up. All
next states that were never seen share one width, so the fill needs O(W) per row: the mass that
goes to unseen states covers a prefix of the sorted values, without the seen ones among them.
The order of the states changes little from step to step, so each sort starts from the previous one.
"""

import numpy as np

from belated.core.arrays import Floats, Indices, Ints
from belated.core.compiled import njit
from belated.tabular.kernels.counting import Box
from belated.tabular.kernels.planning import Rows, plus_next

FEW = 6
"""Rows with up to this many known successors are sorted without branches."""


Scratch = tuple[Indices, Indices, Floats, Indices, Ints]
"""The sorted next values: order, rank (S,), prefix, buckets (S + 1,), keys (W,)."""


@njit(cache=True)
def scratch(box: Box) -> Scratch:
    """Working memory for sorting, with the states in any order."""
    _, S, _, W = box.successors.shape
    return (
        np.arange(S).astype(np.int32),
        np.empty(S, dtype=np.int32),
        np.empty(S + 1),
        np.empty(S + 1, dtype=np.int32),
        np.empty(W, dtype=np.int64),
    )


@njit(cache=True)
def _insert(values: Floats, order: Indices, moves: int) -> bool:
    """Sort an order by insertion; give up after this many moves. Returns whether it is sorted."""
    # each state in turn moves left, past all states of larger value
    for i in range(1, order.shape[0]):
        state = order[i]
        value = values[np.uint32(state)]
        j = i
        while j > 0 and values[np.uint32(order[j - 1])] > value:
            order[j] = order[j - 1]
            j -= 1
        order[j] = state
        moves -= i - j
        if moves < 0:
            return False
    return True


@njit(cache=True)
def sort_values(values: Floats, sorting: Scratch) -> None:
    """Sort states by value: from the previous order if that is quick, else by buckets or NumPy.

    values: (S,). Order becomes ascending (ties: any order), rank its inverse, and prefix the sums
    of the sorted values.
    """
    order, rank, prefix, buckets, _ = sorting
    S = values.shape[0]
    # stage 1: the order of the previous step is nearly right; a few exchanges repair it
    if not _insert(values, order, 2 * S):
        # stage 2: else sort by S buckets of equal width, and repair inside them
        smallest, largest = values.min(), values.max()
        scale = (S - 1) / (largest - smallest)
        buckets[:] = 0
        for s in range(S):  # rank temporarily holds the bucket of a state
            bucket = min(max(int((values[s] - smallest) * scale), 0), S - 1)
            rank[s] = bucket
            buckets[bucket + 1] += 1
        # buckets[i] becomes the first place of bucket i
        for i in range(S):
            buckets[i + 1] += buckets[i]
        for s in range(S):
            order[buckets[rank[s]]] = s
            buckets[rank[s]] += 1
        # nearly all values in one bucket: sort them by comparison
        if not _insert(values, order, 4 * S):
            order[:] = np.argsort(values)
    # stage 3: ranks, and prefix sums of the sorted values for runs of unseen states
    total = 0.0
    for i in range(S):
        state = order[i]
        rank[state] = i
        prefix[i] = total
        total += values[state]
    prefix[S] = total


@njit(cache=True)
def _back(
    box: Box,
    h: int,
    cost: Floats,
    weights: Floats,
    total: Floats,
    values: Floats,
    sorting: Scratch,
    now: Floats,
) -> None:
    """One step back: write the values now (S,) before step h, given the sorted values after it.

    cost, weights: (S, A). total: (H, S, A), or of size 0.
    """
    successors, known, lower, width, unseen, rest = box
    order, rank, prefix, _, keys = sorting
    T, S, A, _ = successors.shape
    keep = total.size > 0
    t = min(h, T - 1)
    succ, low, wide = successors[t], lower[t], width[t]
    used, other, spare = known[t], unseen[t], rest[t]
    least = values[order[0]]
    for s in range(S):
        value = 0.0
        for a in range(A):
            if not keep and weights[s, a] == 0.0:
                continue
            q = cost[s, a]
            radius = other[s, a]
            left = spare[s, a]
            # min over the box of p V: sum of low V, and the rest of the mass where V is least
            if radius >= 1.0 and left >= 1.0:  # nothing is known: all mass where V is least
                q += least
            else:
                n = used[s, a]
                for i in range(n):  # sort the slots by rank: keys of rank and slot
                    state = np.uint32(succ[s, a, i])
                    q += low[s, a, i] * values[state]
                    key = (np.int64(rank[state]) << 32) | i
                    j = i
                    if n <= FEW:  # without a branch that the processor may mispredict
                        while j > 0:
                            keys[j] = max(keys[j - 1], key)
                            key = min(keys[j - 1], key)
                            j -= 1
                    else:
                        while j > 0 and keys[j - 1] > key:
                            keys[j] = keys[j - 1]
                            j -= 1
                    keys[j] = key
                # fill in the order of V: a seen slot takes at most its width, and every unseen
                # state before it at most the radius; prefix has the sum of a run of unseen states
                covered = 0.0
                i = 0
                while i < n:
                    place = keys[i] >> 32
                    room = left - radius * (place - i)  # minus unseen states of smaller value
                    if room <= 0.0:
                        break
                    slot = keys[i] & 0xFFFFFFFF
                    there = values[order[place]]
                    if room <= wide[s, a, slot]:  # this slot takes all that is left
                        q += radius * (prefix[place] - covered) + room * there
                        left = 0.0
                        break
                    q += wide[s, a, slot] * there
                    covered += there
                    left -= wide[s, a, slot]
                    i += 1
                # the mass that is left goes to unseen states beyond the last seen slot
                if left > 0.0 and radius > 0.0:
                    full = S - n  # unseen states filled to the radius
                    if left < radius * full:
                        full = int(left / radius)
                    q += radius * (prefix[full + i] - covered)
                    if full + i < S:
                        q += (left - full * radius) * values[order[full + i]]
            # Q = cost + min p V, and V = sum over a of pi Q
            if keep:
                total[h, s, a] += q
            value += weights[s, a] * q
        now[s] = value


@njit(cache=True)
def confident(
    box: Box, costs: Floats, policy: Floats, total: Floats, last: Floats, steps: int
) -> Floats:
    """Optimistic evaluation of a policy over the steps 0 .. steps - 1.

    costs: (1 or H, S, A); policy: (H, S, A). last: (S,) values after the last of these steps.
    total: (H, S, A) to which Q is added, or an array of size 0 if Q is not wanted. Returns the
    values (S,) of step 0.
    """
    S = policy.shape[1]
    values = last.copy()
    now = np.empty(S)
    sorting = scratch(box)
    # V(h) from V(h + 1): sort V(h + 1) once for all rows, then fill every box in that order
    for h in range(steps - 1, -1, -1):
        sort_values(values, sorting)
        cost = costs[min(h, costs.shape[0] - 1)]
        _back(box, h, cost, policy[h], total, values, sorting, now)
        values, now = now, values
    return values


@njit(cache=True)
def _extreme(
    box: Box, policy: Floats, start: Floats, end: int, s: int, sign: float, sorting: Scratch
) -> float:
    """The smallest (sign 1) or minus the largest (sign -1) probability of state s at step `end`.

    This is a backward pass from a value of 1 or -1 in that state, until all values are equal.
    """
    _, S, A = policy.shape
    values, now = np.zeros(S), np.zeros(S)
    values[s] = sign
    no_costs, no_total = np.zeros((S, A)), np.zeros((0, 0, 0))
    for h in range(end - 1, -1, -1):
        sort_values(values, sorting)
        # equal values stay equal under any distribution: the bound is known
        if values[sorting[0][0]] == values[sorting[0][S - 1]]:
            break
        _back(box, h, no_costs, policy[h], no_total, values, sorting, now)
        values, now = now, values
    # the start distribution times the values of the first step
    return (start * values).sum()  # type: ignore[no-any-return]


@njit(cache=True)
def occupancy_bounds(box: Box, policy: Floats, start: Floats) -> tuple[Floats, Floats]:
    """The largest and the smallest probability, over the box, of every state at every step.

    policy: (H, S, A); start: (S,). Returns upper and lower, (H, S).
    """
    H, S, _ = policy.shape
    upper, lower = np.zeros((H, S)), np.zeros((H, S))
    upper[0], lower[0] = start, start
    sorting = scratch(box)
    # one backward pass for each step, state and side
    for end in range(1, H):
        for s in range(S):
            upper[end, s] = min(-_extreme(box, policy, start, end, s, -1.0, sorting), 1.0)
            lower[end, s] = max(_extreme(box, policy, start, end, s, 1.0, sorting), 0.0)
    return upper, lower


@njit(cache=True)
def upper_occupancy(box: Box, policy: Floats, start: Floats, states: Ints) -> Floats:
    """The largest probability, over the box, of one state at every step: states (H,) or longer.

    policy: (H, S, A); start: (S,). Returns (H,).
    """
    H = policy.shape[0]
    upper = np.empty(H)
    upper[0] = start[states[0]]
    sorting = scratch(box)
    for end in range(1, H):
        upper[end] = min(-_extreme(box, policy, start, end, states[end], -1.0, sorting), 1.0)
    return upper


@njit(cache=True)
def with_bonus(
    rows: Rows,
    visits: Ints,
    deviation: Floats,
    free: bool,
    costs: Floats,
    policy: Floats,
    total: Floats,
) -> Floats:
    """Evaluate a policy on observed frequencies with costs reduced by a bonus.

    Q = costs - deviation + p V, clipped to [0, steps left]. free: whether Q of a row without visits
    is 0; otherwise it counts as one visit, the episode ends there, and the last step has no bonus.
    visits, deviation: (T, S, A); costs: (1 or H, S, A); policy: (H, S, A). total: (H, S, A), to
    which Q is added. Returns the values (S,) of step 0.
    """
    successors, probabilities = rows
    H, S, A = policy.shape
    V = np.zeros((H + 1, S))
    none = np.zeros((S, A))
    for h in range(H - 1, -1, -1):
        t = min(h, successors.shape[0] - 1)
        succ, prob, count, less = successors[t], probabilities[t], visits[t], deviation[t]
        if h == H - 1 and not free:
            less = none
        cost, weights = costs[min(h, costs.shape[0] - 1)], policy[h]
        after, now, add = V[h + 1], V[h], total[h]
        high = float(H - h)  # steps left, each of which costs at most 1
        for s in range(S):
            value = 0.0
            for a in range(A):
                # Q = c - deviation + p V(h + 1), clipped; a free row without visits has Q = 0
                if not free or count[s, a] > 0:
                    q = plus_next(cost[s, a] - less[s, a], prob, succ, after, s, a)
                    q = min(max(q, 0.0), high)
                    add[s, a] += q
                    value += weights[s, a] * q
            now[s] = value
    return V[0]  # type: ignore[no-any-return]


@njit(cache=True)
def plan(
    rows: Rows, visits: Ints, widths: Floats, costs: Floats, observed: Ints, horizon: int
) -> Floats:
    """Optimistic value iteration on observed frequencies.

    Q_h = costs - (steps after h) * widths + p V_{h+1}, clipped to [0, steps left], and 0 in
    unvisited rows. visits, widths: (T, S, A). costs, observed: (1 or H, S, A), the lowered mean
    costs and the number of observed costs. Returns Q (H, S, A).
    """
    successors, probabilities = rows
    _, S, A, _ = successors.shape
    V = np.zeros((horizon + 1, S))
    Q = np.zeros((horizon, S, A))
    for h in range(horizon - 1, -1, -1):
        t = min(h, successors.shape[0] - 1)
        c = min(h, costs.shape[0] - 1)
        left = horizon - h
        for s in range(S):
            for a in range(A):
                if visits[t, s, a] > 0 and observed[c, s, a] > 0:
                    q = costs[c, s, a] - (left - 1) * widths[t, s, a]
                    q = plus_next(q, probabilities[t], successors[t], V[h + 1], s, a)
                    Q[h, s, a] = min(max(q, 0.0), left)
            V[h, s] = Q[h, s].min()
    return Q
