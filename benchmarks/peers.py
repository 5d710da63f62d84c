"""How fast planning and delayed Hedge are beside other packages, in one run on one thread.

    pip install 'belated[lab,peers]'
    python benchmarks/peers.py     tables, to benchmarks/PEERS.md as well

Planning: the best policy of a finite horizon by backward induction, with the same sparse
transitions and costs, on grids that slip. Compared: `belated.tabular.kernels.planning.best`;
QuantEcon's `backward_induction` on state-action pairs with a sparse matrix; pymdptoolbox's
`FiniteHorizon` with one sparse matrix per action; a JAX `scan` over the steps, compiled, on the
padded rows that belated has too. All give the same values to 1e-9, which is checked. What can be
prepared once (matrices, compilation) is not timed.

Delayed Hedge: full information on arms, a fixed delay, one round of begin and observe. Compared:
`DelayedOPPO`, which is delayed Hedge there, and AdaHedgeD of `poold`, called directly. Their rules
for the step size differ. Processor time, medians.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import warnings
from collections.abc import Callable
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
import pages
from mdptoolbox.mdp import FiniteHorizon
from quantecon.markov import DiscreteDP, backward_induction
from rivals.poold import imported, linear
from scipy import sparse

import belated as bl
from belated.core.arrays import Floats, frozen
from belated.tabular.kernels import planning

PACKAGES = ("quantecon", "pymdptoolbox", "jax", "poold", "numba")
H = 50
SIZES = (10, 32, 100)
ARMS, DELAY, ROUNDS = (10, 100, 1000), 10, 300

jax.config.update("jax_enable_x64", True)


def planners(world: bl.World, costs: Floats) -> dict[str, Callable[[], Floats]]:
    """Functions that plan and give the values (S,) of the first step. costs: (S, A)."""
    t = world.mdp.transitions
    _, S, A, W = t.successors.shape
    row = np.repeat(np.arange(S * A), W)
    shape = (S * A, S)
    matrix = sparse.csr_matrix((t.probabilities.ravel(), (row, t.successors.ravel())), shape=shape)
    matrix.eliminate_zeros()
    own = frozen(costs[None].copy())
    pairs = np.divmod(np.arange(S * A), A)
    with warnings.catch_warnings():  # a discount factor of 1 is right for a finite horizon
        warnings.simplefilter("ignore")
        program = DiscreteDP(-costs.ravel(), matrix, 1.0, *pairs)
        by_action = [matrix[a::A] for a in range(A)]
        toolbox = FiniteHorizon(by_action, -costs, 1.0, H)
    successors, probabilities = jnp.array(t.successors[0]), jnp.array(t.probabilities[0])
    cost = jnp.array(costs)

    @jax.jit
    def scan(cost: jax.Array) -> tuple[jax.Array, jax.Array]:
        def back(v: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            q = cost + jnp.sum(probabilities * v[successors], axis=2)
            return q.min(axis=1), q.argmin(axis=1)

        return jax.lax.scan(back, jnp.zeros(S), None, length=H)

    def by_toolbox() -> Floats:
        toolbox.run()
        return -toolbox.V[:, 0]

    return {
        "belated": lambda: planning.best(t.rows, own, H)[1][0],
        "QuantEcon": lambda: -backward_induction(program, H)[0][0],
        "pymdptoolbox": by_toolbox,
        "JAX scan": lambda: np.asarray(jax.block_until_ready(scan(cost))[0]),
    }


def planning_rows() -> list[str]:
    """The rows of the table of planning."""
    rows = []
    for size in SIZES:
        world = bl.environments.gridworld(size, slip=0.1, horizon=H)
        costs = np.random.default_rng(0).random((world.problem.states, world.problem.actions))
        found, first = [], None
        for plan in planners(world, costs).values():
            values = plan()
            first = values if first is None else first
            assert np.max(np.abs(values - first)) < 1e-9
            found.append(pages.cpu_time(plan, 9))
        rows.append(f"| {size * size:,} | " + " | ".join(f"{ms:.2f}" for ms in found) + " |")
    return rows


def own_hedge(arms: int, costs: Floats) -> Callable[[], None]:
    """A round of `DelayedOPPO` on arms."""
    agent = bl.DelayedOPPO(
        bl.Problem(1, arms, 1), transitions=bl.Transitions.from_dense(np.ones((1, arms, 1)))
    )

    def one() -> None:
        number = agent.begin_episode().number
        if number >= DELAY:
            late = costs[(number - DELAY) % len(costs)]
            agent.observe([bl.Costs(number - DELAY, late[None, None])])

    return one


def peer_hedge(arms: int, costs: Floats) -> Callable[[], None]:
    """A round of AdaHedgeD."""
    learner = imported().create("adahedged", model_list=[str(arm) for arm in range(arms)])
    number = 0

    def one() -> None:
        nonlocal number
        late = number - 1 - DELAY
        losses = [(late, linear(costs[late % len(costs)]))] if late >= 0 else []
        with np.errstate(divide="ignore", invalid="ignore"):
            learner.update_and_play(losses, hint=None)
        number += 1

    return one


def hedge_rows() -> list[str]:
    """The rows of the table of delayed Hedge."""
    rows = []
    for arms in ARMS:
        costs = np.random.default_rng(0).random((100, arms))
        own, peer = (pages.cpu_time(made(arms, costs), ROUNDS) for made in (own_hedge, peer_hedge))
        rows.append(f"| {arms:,} | {own * 1e3:.0f} | {peer * 1e3:.0f} | {peer / own:.1f} |")
    return rows


def main() -> None:
    """Measure, print, write."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    lines = [
        "# Beside other packages",
        "",
        f"One run, one thread, processor time. {versions}.",
        "",
        f"Planning on grids that slip, 4 actions, H = {H}, ms:",
        "",
        "| states | belated | QuantEcon | pymdptoolbox | JAX scan |",
        "|---|---|---|---|---|",
        *planning_rows(),
        "",
        f"Delayed Hedge, a delay of {DELAY} rounds, us per round:",
        "",
        "| arms | belated | poold | times faster |",
        "|---|---|---|---|",
        *hedge_rows(),
        "",
    ]
    pages.write("PEERS.md", lines)


if __name__ == "__main__":
    main()
