"""From sums to models: exposures of blocks, weights of the memories, ridge regressions.

With x_k the features of the chosen action, r_k what has come of decision k so far, F_k its
exposure, g the discount of a memory, and D the ridge:

    V_i = D + sum g^(t-k) w_k F_k x_k x_k'
    b_i = sum g^(t-k) w_k r_k x_k
    f_i = sum g^(t-k) w_k F_k x_k

over the decisions of model i; E[r_k | x_k] = F_k E[outcome | x_k] makes this the regression of the
outcome. One unpenalised constant mu for all models is eliminated in closed form,

    mu = (sum r - sum_i f_i' V_i^-1 b_i) / (sum F - sum_i f_i' V_i^-1 f_i)
    theta_i = V_i^-1 (b_i - mu f_i)
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from belated.core.arrays import Floats
from belated.linear.exposure import Exposure, share_at
from belated.linear.sums import Old, Young

PSEUDO = 0.1
"""Weight of the mean outcome in the constant of all models."""
WIDE = 32
"""Features above which fewer memories are kept and the models are fitted less often."""
SAMPLES = 16
"""Decisions of a block whose ages give its exposure."""


@njit(cache=True)
def block_shares(
    young: Young,
    blocks: int,
    exposure: Exposure,
    base: int,
    clock: Floats,
    seen: int,
    time: float,
    out: Floats,
) -> None:
    """Mean exposure of each block and model into out (B, A), by slot."""
    A = out.shape[1]
    one = np.zeros(A)
    for place in range(blocks):
        slot = young.order[place]
        low, high = young.low[slot], young.high[slot]
        count = min(high - low, SAMPLES)
        out[slot] = 0.0
        kept = 0
        for s in range(count):
            k = low + ((2 * s + 1) * (high - low)) // (2 * count)
            if k >= base:
                kept += 1
                if k < seen:
                    share_at(exposure, time - clock[k - base], one)
                    out[slot] += one
        out[slot] /= max(kept, 1)


@njit(cache=True)
def factor(V: Floats) -> None:
    """Overwrite the upper triangle of V (d, d) with U, V = U'U; a diagonal (d, 1) with its root."""
    d, e = V.shape
    if e == 1:
        for u in range(d):
            V[u, 0] = math.sqrt(V[u, 0])
        return
    for k in range(d):
        root = math.sqrt(V[k, k])
        for v in range(k, d):
            V[k, v] /= root
        for u in range(k + 1, d):
            ratio = V[k, u]
            if ratio != 0.0:
                for v in range(u, d):
                    V[u, v] -= ratio * V[k, v]


@njit(cache=True)
def solve(U: Floats, x: Floats) -> None:
    """Overwrite x (d,) with V^-1 x, given the factor of V."""
    d, e = U.shape
    if e == 1:
        for u in range(d):
            x[u] /= U[u, 0] * U[u, 0]
        return
    for u in range(d):
        x[u] /= U[u, u]
        for v in range(u + 1, d):
            x[v] -= U[u, v] * x[u]
    for u in range(d - 1, -1, -1):
        for v in range(u + 1, d):
            x[u] -= U[u, v] * x[v]
        x[u] /= U[u, u]


@njit(cache=True)
def add_inverse(U: Floats, weight: float, out: Floats) -> None:
    """Add weight * V^-1 to out, given the factor of V."""
    d, e = U.shape
    if e == 1:
        for u in range(d):
            out[u, 0] += weight / (U[u, 0] * U[u, 0])
        return
    # Row u of W is row u of the inverse of U' (lower triangular); V^-1 = W' W.
    W = np.zeros((d, d))
    for u in range(d):
        W[u, u] = 1.0
        for k in range(u):
            ratio = U[k, u]
            if ratio != 0.0:
                for v in range(k + 1):
                    W[u, v] -= ratio * W[k, v]
        for v in range(u + 1):
            W[u, v] /= U[u, u]
    for k in range(d):
        for u in range(k + 1):
            ratio = weight * W[k, u]
            for v in range(k + 1):
                out[u, v] += ratio * W[k, v]


@njit(cache=True)
def fit_models(
    young: Young,
    blocks: int,
    old: Old,
    shares: Floats,
    precisions: Floats,
    begun: int,
    discounts: Floats,
    ridge: Floats,
    mean: float,
    theta: Floats,
    constant: Floats,
) -> None:
    """Fit theta (M, A, d) and constant (M,).

    shares, precisions: of blocks and models, (B, A) by slot. ridge: (d,). mean: of the outcomes.
    """
    M, A, d = theta.shape
    e = old.xx.shape[3]
    V = np.empty((d, e))
    b = np.empty(d)
    f = np.empty((A, d))
    for m in range(M):
        top, low = PSEUDO * mean, PSEUDO
        for i in range(A):
            scale = old.scale[m]
            V[:] = scale * old.xx[m, i]
            b[:] = scale * old.rx[m, i]
            x = scale * old.x[m, i]
            top += scale * old.r[m, i]
            low += scale * old.n[m, i]
            for place in range(blocks):
                slot = young.order[place]
                age = begun - 0.5 * (young.low[slot] + young.high[slot] - 1)
                weight = discounts[m] ** age * precisions[slot, i]
                seen = weight * shares[slot, i]
                if weight < 1e-9 or young.n[slot, i] == 0.0:
                    continue
                top += weight * young.r[slot, i]
                low += seen * young.n[slot, i]
                for u in range(d):
                    b[u] += weight * young.rx[slot, i, u]
                    x[u] += seen * young.x[slot, i, u]
                if seen > 0.0:
                    for u in range(d):
                        for v in range(e):
                            V[u, v] += seen * young.xx[slot, i, u, v]
            for u in range(d):
                V[u, u if e > 1 else 0] += ridge[u]
            f[i] = x
            factor(V)
            solve(V, b)
            solve(V, f[i])
            theta[m, i] = b
            for u in range(d):
                top -= x[u] * b[u]
                low -= x[u] * f[i, u]
        constant[m] = top / max(low, PSEUDO)
        for i in range(A):
            theta[m, i] -= constant[m] * f[i]


@njit(cache=True)
def fit_spread(old: Old, weights: Floats, ridge: Floats, out: Floats) -> None:
    """The inverse of what was asked, averaged over the memories by weight, into out (A, d, e).

    Above `WIDE` features, where inverses are what takes time: the inverse of the average.
    """
    M, A, d, e = old.asked.shape
    out[:] = 0.0
    together = d > WIDE
    G = np.empty((d, e))
    for i in range(A):
        for m in range(M):
            weight = weights[m] * old.scale[m] if together else old.scale[m]
            if m == 0 or not together:
                G[:] = 0.0
                for u in range(d):
                    G[u, u if e > 1 else 0] = ridge[u]
            G += weight * old.asked[m, i]
            if m == M - 1 or not together:
                factor(G)
                add_inverse(G, 1.0 if together else weights[m], out[i])
