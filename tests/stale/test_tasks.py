"""The tasks of the sweeps step as Gymnasium's do."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.long
jax = pytest.importorskip("jax", reason="needs JAX: pip install jax")
gymnasium = pytest.importorskip("gymnasium", reason="needs Gymnasium")

PLACE = Path(__file__).parents[2] / "benchmarks" / "stale"
spec = importlib.util.spec_from_file_location("stale_tasks", PLACE / "tasks.py")
tasks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tasks)


def compared(name, draw, start, action_of=lambda action: action):
    """Both step 300 times from the same states; a fresh start every 20 steps at least."""
    task = tasks.TASKS[name]
    env = gymnasium.make(f"{name}-v1").unwrapped
    rng = np.random.default_rng(0)
    step, observe = jax.jit(task.step), jax.jit(task.observe)
    env.reset(seed=0)
    terminated = True
    for i in range(300):
        if i % 20 == 0 or terminated:
            env.reset(seed=i)
            env.state = start(rng)
        state = np.array(env.state, dtype=np.float64)
        action = draw(rng)
        seen, reward, terminated, _, _ = env.step(action_of(action))
        after, ours, ended = step(jax.numpy.asarray(state), action)
        np.testing.assert_allclose(observe(after), seen, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ours, reward, rtol=1e-4, atol=1e-4)
        assert bool(ended) == bool(terminated)


@pytest.mark.filterwarnings("ignore")
def test_cartpole():
    compared(
        "CartPole",
        lambda rng: int(rng.integers(2)),
        lambda rng: rng.uniform(-0.2, 0.2, 4),
    )


@pytest.mark.filterwarnings("ignore")
def test_pendulum():
    compared(
        "Pendulum",
        lambda rng: rng.uniform(-1.5, 1.5, 1),
        lambda rng: rng.uniform([-3, -8], [3, 8]),
        lambda action: 2.0 * action,
    )


@pytest.mark.filterwarnings("ignore")
def test_acrobot():
    compared(
        "Acrobot",
        lambda rng: int(rng.integers(3)),
        lambda rng: rng.uniform(-1.5, 1.5, 4),
    )


def test_starts_are_where_gymnasium_starts():
    for name in ("CartPole", "Pendulum", "Acrobot"):
        task, env = tasks.TASKS[name], gymnasium.make(f"{name}-v1")
        keys = jax.random.split(jax.random.key(0), 4000)
        ours = np.asarray(jax.vmap(task.observe)(jax.vmap(task.reset)(keys)))
        seen = np.array([env.reset(seed=i)[0] for i in range(1000)])
        np.testing.assert_allclose(ours.mean(0), seen.mean(0), atol=0.1)
        np.testing.assert_allclose(ours.std(0), seen.std(0), atol=0.05)
        assert env.spec.max_episode_steps == task.limit
