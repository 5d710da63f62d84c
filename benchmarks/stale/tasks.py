"""Control tasks in JAX: three that are reported, and two on which clips are selected.

CartPole, Pendulum and Acrobot are Gymnasium's CartPole-v1, Pendulum-v1 and Acrobot-v1, step by
step (tests/stale/test_tasks.py compares them). Swing-up and Docking are our own: they serve to
select settings, so that no setting is selected on a task that is reported.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Task(NamedTuple):
    """A task whose state is one vector.

    Attributes:
        sees: the number of observations.
        choices: the number of discrete actions; 0 where actions are real numbers.
        moves: the number of real actions; 0 where they are discrete.
        limit: the number of steps after which an episode is cut off.
        discount: gamma.
        unit: rewards are divided by this for learning.
        reset: key to state.
        observe: state to observations.
        step: state, action to state, reward, terminated.
    """

    name: str
    sees: int
    choices: int
    moves: int
    limit: int
    discount: float
    unit: float
    reset: Callable[[Array], Array]
    observe: Callable[[Array], Array]
    step: Callable[[Array, Array], tuple[Array, Array, Array]]


def cart(state: Array, force: Array) -> Array:
    """One Euler step of 0.02 s of Gymnasium's cart and pole."""
    _, speed, angle, spin = state
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    moment = 0.1 * 0.5
    push = (force + moment * spin**2 * sin) / 1.1
    turn = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    speeding = push - moment * turn * cos / 1.1
    rate = jnp.stack([speed, speeding, spin, turn])
    return state + 0.02 * rate


def balance(state: Array, action: Array) -> tuple[Array, Array, Array]:
    """CartPole: a reward of 1 for every step until the pole falls or the cart leaves."""
    state = cart(state, jnp.where(action == 1, 10.0, -10.0))
    fallen = (jnp.abs(state[0]) > 2.4) | (jnp.abs(state[2]) > 12 * 2 * jnp.pi / 360)
    return state, jnp.float32(1.0), fallen


def pendulum(state: Array, action: Array) -> tuple[Array, Array, Array]:
    """Pendulum: torque in [-2, 2], here two times the action."""
    angle, spin = state
    torque = jnp.clip(2.0 * action[0], -2.0, 2.0)
    wrapped = jnp.mod(angle + jnp.pi, 2 * jnp.pi) - jnp.pi
    cost = wrapped**2 + 0.1 * spin**2 + 0.001 * torque**2
    spin = jnp.clip(spin + (15.0 * jnp.sin(angle) + 3.0 * torque) * 0.05, -8.0, 8.0)
    return jnp.stack([angle + 0.05 * spin, spin]), -cost, jnp.bool_(False)


def links(state: Array, torque: Array) -> Array:
    """The derivative of Acrobot's state, with the dynamics of Sutton and Barto's book."""
    first, second, spin1, spin2 = state
    d1 = 0.25 + (1.0 + 0.25 + jnp.cos(second)) + 2.0
    d2 = 0.25 + 0.5 * jnp.cos(second) + 1.0
    phi2 = 0.5 * 9.8 * jnp.cos(first + second - jnp.pi / 2)
    phi1 = (
        -0.5 * spin2**2 * jnp.sin(second)
        - spin2 * spin1 * jnp.sin(second)
        + 1.5 * 9.8 * jnp.cos(first - jnp.pi / 2)
        + phi2
    )
    turn2 = (torque + d2 / d1 * phi1 - 0.5 * spin1**2 * jnp.sin(second) - phi2) / (
        0.25 + 1.0 - d2**2 / d1
    )
    turn1 = -(d2 * turn2 + phi1) / d1
    return jnp.stack([spin1, spin2, turn1, turn2])


def acrobot(state: Array, action: Array) -> tuple[Array, Array, Array]:
    """Acrobot: a reward of -1 for every step until the tip is high enough."""
    torque, dt = action - 1.0, 0.2
    k1 = links(state, torque)
    k2 = links(state + dt / 2 * k1, torque)
    k3 = links(state + dt / 2 * k2, torque)
    k4 = links(state + dt * k3, torque)
    state = state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    angles = jnp.mod(state[:2] + jnp.pi, 2 * jnp.pi) - jnp.pi
    spins = jnp.clip(state[2:], -jnp.array([4.0, 9.0]) * jnp.pi, jnp.array([4.0, 9.0]) * jnp.pi)
    up = -jnp.cos(angles[0]) - jnp.cos(angles[1] + angles[0]) > 1.0
    return jnp.concatenate([angles, spins]), jnp.where(up, 0.0, -1.0), up


def swing(state: Array, action: Array) -> tuple[Array, Array, Array]:
    """Swing-up: the pole hangs at first; a reward of (1 + cos) / 2 for its height."""
    state = cart(state, jnp.where(action == 1, 10.0, -10.0))
    return state, (1.0 + jnp.cos(state[2])) / 2.0, jnp.abs(state[0]) > 2.4


def dock(state: Array, action: Array) -> tuple[Array, Array, Array]:
    """Docking: a mass in the plane is pushed to the origin and should rest there."""
    push = jnp.clip(action, -1.0, 1.0)
    speed = 0.98 * state[2:] + 0.1 * push
    place = jnp.clip(state[:2] + 0.1 * speed, -3.0, 3.0)
    cost = jnp.linalg.norm(place) + 0.1 * jnp.linalg.norm(speed) + 0.01 * (push**2).sum()
    return jnp.concatenate([place, speed]), -cost, jnp.bool_(False)


def hanging(key: Array) -> Array:
    return jnp.array([0.0, 0.0, jnp.pi, 0.0]) + jax.random.uniform(
        key, (4,), minval=-0.1, maxval=0.1
    )


def angles(state: Array) -> Array:
    first, second, spin1, spin2 = state
    return jnp.stack(
        [jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second), spin1, spin2]
    )


def swung(state: Array) -> Array:
    return jnp.stack([state[0], state[1], jnp.cos(state[2]), jnp.sin(state[2]), state[3]])


def uniform(*bounds: float) -> Callable[[Array], Array]:
    """A start that is uniform between minus and plus these bounds."""
    high = jnp.array(bounds)
    return lambda key: jax.random.uniform(key, high.shape, minval=-1.0, maxval=1.0) * high


def itself(state: Array) -> Array:
    return state


def seen_pendulum(state: Array) -> Array:
    return jnp.stack([jnp.cos(state[0]), jnp.sin(state[0]), state[1]])


TASKS = {
    task.name: task
    for task in (
        Task("CartPole", 4, 2, 0, 500, 0.99, 10.0, uniform(*[0.05] * 4), itself, balance),
        Task("Pendulum", 3, 0, 1, 200, 0.95, 8.0, uniform(jnp.pi, 1.0), seen_pendulum, pendulum),
        Task("Acrobot", 6, 3, 0, 500, 0.99, 10.0, uniform(*[0.1] * 4), angles, acrobot),
        Task("Swing-up", 5, 2, 0, 250, 0.98, 4.0, hanging, swung, swing),
        Task("Docking", 4, 0, 2, 100, 0.97, 8.0, uniform(2.0, 2.0, 0.5, 0.5), itself, dock),
    )
}
