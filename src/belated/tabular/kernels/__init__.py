"""Compiled functions on plain arrays: no classes, no checks, no input or output.

Transitions are sparse: `successors` (T, S, A, W) names the next states of a row and
`probabilities` (T, S, A, W) their probabilities, padded with probability 0. The leading axis of
transitions, costs and rates is 1 (the same at every step) or H; one code path serves both.
Every function also runs uncompiled (`NUMBA_DISABLE_JIT=1`).
"""
