"""PPO with late rollouts in JAX: many corrections, clips and seeds at once.

A round is a rollout of 8 environments x 64 steps. Rollouts wait in d + 1 places. Once all places
are full, one rollout arrives after every round: the oldest ("in order"), or any of them with equal
probability ("out of order", so that delays are geometric with mean d). "lost" is out of order, and
each arrival is lost with probability 0.2. Every arrival that is not lost makes one PPO update.

Seven corrections come from `belated.stale`. "waiting" updates only with rollouts of the very policy
that it still plays and drops the others. Two more take V-trace apart: "ratio alone" has its weight
with the advantages of the time of the rollout; "values alone" computes values and advantages anew
at the arrival, with lambda 1 as in V-trace, and has no ratio.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from runs import CORRECTIONS, ORDERS, PARTS_OF_VTRACE
from tasks import Task

from belated import stale

METHODS = (*CORRECTIONS, *PARTS_OF_VTRACE)
ENVIRONMENTS, STEPS = 8, 64
ROUND = ENVIRONMENTS * STEPS
WIDTH, EPOCHS, PARTS, RATE = 32, 4, 4, 1e-3
LAMBDA, VALUE_SHARE, LARGEST_GRADIENT, LOST = 0.95, 0.5, 0.5, 0.2
LONGEST = 78


class Rollout(NamedTuple):
    """A rollout that waits; the first two axes are (STEPS, ENVIRONMENTS)."""

    seen: Array
    action: Array
    logp: Array
    reward: Array
    discount: Array
    advantage: Array
    target: Array
    last: Array  # observations after the rollout (ENVIRONMENTS, sees)
    version: Array  # the number of updates before it was made


class Setting(NamedTuple):
    """One run.

    Attributes:
        correction: the place of its correction in METHODS.
        order: the place of its order in ORDERS.
        delay: d, in rounds, at most LONGEST.
        clip: epsilon of PPO.
        key: the source of all randomness.
    """

    correction: Array
    order: Array
    delay: Array
    clip: Array
    key: Array


def orthogonal(key: Array, rows: int, columns: int) -> Array:
    """A random matrix with orthonormal columns, or rows where there are fewer of them.

    It is `jax.nn.initializers.orthogonal` by Gram-Schmidt, applied twice, instead of LAPACK's QR.
    The latter waits inside XLA's thread pool for more work of the same pool: on two processors,
    two of them at once wait for ever.
    """
    tall = jax.random.normal(key, (max(rows, columns), min(rows, columns)))
    places = jnp.arange(tall.shape[1])

    def step(i: Array, found: Array) -> Array:
        vector = tall[:, i]
        for _ in range(2):
            vector = vector - found @ (found.T @ vector)
        vector = vector / jnp.sqrt((vector**2).sum())
        return jnp.where(places == i, vector[:, None], found)

    found = jax.lax.fori_loop(0, tall.shape[1], step, jnp.zeros_like(tall))
    return found if rows >= columns else found.T


def initial(task: Task, key: Array) -> dict[str, list[Array] | Array]:
    """Two networks of WIDTH x WIDTH with orthogonal weights, and the logarithm of the spread."""

    def network(key: Array, out: int, gain: float) -> list[Array]:
        sizes = (task.sees, WIDTH, WIDTH, out)
        layers = []
        for i, k in enumerate(jax.random.split(key, 3)):
            scale = gain if i == 2 else jnp.sqrt(2.0)
            layers += [scale * orthogonal(k, *sizes[i : i + 2]), jnp.zeros(sizes[i + 1])]
        return layers

    first, second = jax.random.split(key)
    return {
        "actor": network(first, task.choices or task.moves, 0.01),
        "critic": network(second, 1, 1.0),
        "spread": jnp.zeros(task.moves),
    }


def run(layers: list[Array], x: Array) -> Array:
    for i in (0, 2):
        x = jnp.tanh(x @ layers[i] + layers[i + 1])
    return x @ layers[4] + layers[5]


def value(params, seen: Array) -> Array:
    return run(params["critic"], seen)[..., 0]


def log_probability(task: Task, params, seen: Array, action: Array) -> Array:
    out = run(params["actor"], seen)
    if task.choices:
        logs = jax.nn.log_softmax(out)
        chosen = jax.nn.one_hot(action, task.choices)  # faster than a gather on a processor
        return (logs * chosen).sum(-1)
    spread = params["spread"]
    z = (action - out) * jnp.exp(-spread)
    return (-0.5 * z**2 - spread - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


def draw(task: Task, params, seen: Array, key: Array) -> Array:
    out = run(params["actor"], seen)
    if task.choices:
        return jax.random.categorical(key, out)
    return out + jnp.exp(params["spread"]) * jax.random.normal(key, out.shape)


def play(task: Task, params, places, key: Array):
    """One round from where the environments are.

    places: states (N, ...), ages (N,), returns so far (N,).
    Returns the places after it, the rollout, and the sum of returns and number of ended episodes.
    """

    def step(places, key):
        state, age, total = places
        first, second = jax.random.split(key)
        seen = jax.vmap(task.observe)(state)
        action = draw(task, params, seen, first)
        after, reward, terminated = jax.vmap(task.step)(state, action)
        age, total = age + 1, total + reward
        cut = (age >= task.limit) & ~terminated
        ended = cut | terminated
        # As in Stable-Baselines3, the value after a time limit is added to the last reward.
        scaled = reward / task.unit
        beyond = value(params, jax.vmap(task.observe)(after))
        scaled = scaled + jnp.where(cut, task.discount * beyond, 0.0)
        fresh = jax.vmap(task.reset)(jax.random.split(second, ENVIRONMENTS))
        done = (jnp.where(ended, total, 0.0).sum(), ended.sum())
        state = jnp.where(ended[:, None], fresh, after)
        places = (state, jnp.where(ended, 0, age), jnp.where(ended, 0.0, total))
        discount = task.discount * (1.0 - ended)
        return places, (seen, action, scaled, discount, done)

    places, (seen, action, reward, discount, done) = jax.lax.scan(
        step, places, jax.random.split(key, STEPS)
    )
    last = jax.vmap(task.observe)(places[0])
    values, after = value(params, seen), value(params, last)
    logp = log_probability(task, params, seen, action)
    following = jnp.concatenate([values[1:], after[None]])
    same = jnp.zeros_like(logp)
    # On policy, V-trace with a trace of lambda is the generalised advantage: targets minus values.
    target = stale.vtrace(
        same, same, reward, values, discount, next_values=following, trace=LAMBDA
    ).target
    rollout = Rollout(
        seen, action, logp, reward, discount, target - values, target, last, jnp.int32(0)
    )
    return places, rollout, (done[0].sum(), done[1].sum())


def corrected(task: Task, params, rollout: Rollout, setting: Setting):
    """Anchor, weight, advantage and target of the setting's correction, and the staleness."""
    now = log_probability(task, params, rollout.seen, rollout.action)
    values, after = value(params, rollout.seen), value(params, rollout.last)
    traced = stale.vtrace(
        rollout.logp, now, rollout.reward, values, rollout.discount,
        next_values=jnp.concatenate([values[1:], after[None]]),
    )  # fmt: skip
    plain = stale.vtrace(
        now, now, rollout.reward, values, rollout.discount,
        next_values=jnp.concatenate([values[1:], after[None]]),
    )  # fmt: skip
    fixes = [stale.correct(rollout.logp, now, kind) for kind in stale.KINDS]
    ones = jnp.ones_like(now)
    anchors = [fix.anchor for fix in fixes] + [now] * 4
    weights = [fix.weight for fix in fixes] + [traced.weight, ones, traced.weight, ones]
    advantage, target = rollout.advantage, rollout.target
    for name, made in (("vtrace", traced), ("values alone", plain)):
        here = setting.correction == METHODS.index(name)
        advantage = jnp.where(here, made.advantage, advantage)
        target = jnp.where(here, made.target, target)
    chosen = jax.nn.one_hot(setting.correction, len(METHODS))

    def pick(options):
        return jnp.tensordot(chosen, jnp.stack(options), 1)

    measured = stale.staleness(rollout.logp, now, advantage=rollout.advantage)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return pick(anchors), pick(weights) * advantage, target, measured


def update(task: Task, params, moments, rollout: Rollout, setting: Setting, key: Array):
    """PPO on one rollout: EPOCHS passes in PARTS parts, with Adam."""
    anchor, advantage, target, measured = corrected(task, params, rollout, setting)
    flat = [
        x.reshape(ROUND, *x.shape[2:])
        for x in (rollout.seen, rollout.action, anchor, advantage, target)
    ]

    def loss(params, seen, action, anchor, advantage, target):
        ratio = jnp.exp(log_probability(task, params, seen, action) - anchor)
        clipped = jnp.clip(ratio, 1.0 - setting.clip, 1.0 + setting.clip)
        gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
        return VALUE_SHARE * ((value(params, seen) - target) ** 2).mean() - gain

    def step(carry, indices):
        params, (count, mean, square) = carry
        slope = jax.grad(loss)(params, *(x[indices] for x in flat))
        size = jnp.sqrt(sum((leaf**2).sum() for leaf in jax.tree.leaves(slope)))
        slope = jax.tree.map(
            lambda g: g * jnp.minimum(1.0, LARGEST_GRADIENT / (size + 1e-6)), slope
        )
        count = count + 1
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, square, slope)
        rate = RATE * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        params = jax.tree.map(
            lambda p, m, s: p - rate * m / (jnp.sqrt(s) + 1e-5), params, mean, square
        )
        return (params, (count, mean, square)), None

    orders = jax.vmap(lambda k: jax.random.permutation(k, ROUND))(jax.random.split(key, EPOCHS))
    parts = orders.reshape(EPOCHS * PARTS, ROUND // PARTS)
    (params, moments), _ = jax.lax.scan(step, (params, moments), parts)
    return params, moments, measured


def learn(task: Task, rounds: int, setting: Setting):
    """A whole run.

    Returns per round the sum of returns and the number of ended episodes, and the effective sample
    size and drift of what arrived, NaN before the first arrival; (rounds,) each.
    """
    first, second, third = jax.random.split(setting.key, 3)
    params = initial(task, first)
    zeros = jax.tree.map(jnp.zeros_like, params)
    moments = (jnp.float32(0.0), zeros, zeros)
    states = jax.vmap(task.reset)(jax.random.split(second, ENVIRONMENTS))
    started = (states, jnp.zeros(ENVIRONMENTS, jnp.int32), jnp.zeros(ENVIRONMENTS))
    keys = jax.random.split(third, rounds)
    shapes = jax.eval_shape(partial(play, task), params, started, keys[0])[1]
    waiting = jax.tree.map(lambda x: jnp.zeros((LONGEST + 1, *x.shape), x.dtype), shapes)

    def step(carry, given):
        params, moments, started, waiting, free, version = carry
        key, number = given
        playing, choosing, losing, updating = jax.random.split(key, 4)
        started, rollout, done = play(task, params, started, playing)
        rollout = rollout._replace(version=version)
        # Until all d + 1 places are full, round k writes to place k and nothing arrives.
        full = number >= setting.delay
        place = jnp.where(full, free, number)
        waiting = jax.tree.map(lambda all, one: all.at[place].set(one), waiting, rollout)
        in_order = setting.order == ORDERS.index("in order")
        oldest = (number - setting.delay) % (setting.delay + 1)
        any_place = jax.random.randint(choosing, (), 0, setting.delay + 1)
        chosen = jnp.where(full, jnp.where(in_order, oldest, any_place), setting.delay)
        arrived = jax.tree.map(lambda x: x[chosen], waiting)
        lossy = setting.order == ORDERS.index("lost")
        used = full & (~lossy | (jax.random.uniform(losing) >= LOST))
        waits = setting.correction == METHODS.index("waiting")
        used = used & (~waits | (arrived.version == version))
        new, moved, measured = update(task, params, moments, arrived, setting, updating)
        params, moments = jax.tree.map(
            lambda a, b: jnp.where(used, a, b), (new, moved), (params, moments)
        )
        size, drift = (
            jnp.where(full, x, jnp.nan) for x in (measured.effective_sample_size, measured.drift)
        )
        return (params, moments, started, waiting, chosen, version + used), (*done, size, drift)

    carry = (params, moments, started, waiting, setting.delay, jnp.int32(0))
    return jax.lax.scan(step, carry, (keys, jnp.arange(rounds)))[1]


@partial(jax.jit, static_argnums=(0, 1))
def many(task: Task, rounds: int, settings: Setting):
    """`learn` for many settings at once."""
    return jax.vmap(partial(learn, task, rounds))(settings)
